/* SPDX-License-Identifier: Apache-2.0 */
/* Shares the planner's lease of each place among the clients that want its model: each has a part by what it
 * offers, and a quarter is shared evenly, so that a client's first requests find some. What shrinks is sent
 * first: at no moment do the leases of a worker exceed it. */
#include <errno.h>
#include <string.h>

#include "src/fleet/control/impl.h"

#define SPLIT_EVEN 0.25f
#define SPLIT_BAND 1.25f /* smaller changes are not worth a message */
enum {
    SPLIT_ALL = 4096, /* leases of a model up to which each client has one of each place */
    SPLIT_LEAST = 3,  /* of one client, so that it can choose between two when one is gone */
};

static bool split_usable(const struct fleet_control *c, uint32_t place)
{
    const struct fleet_place *p = &c->state->places[place];
    const struct ctl_worker *k = c->workers[p->worker];
    return p->slots && p->where == FLEET_GPU && k && k->ready && p->until_ns > ctl_now(c);
}

/* ---- which client has a lease of which place */

static uint32_t split_places(const struct fleet_control *c, uint32_t model)
{
    uint32_t n = 0;
    for (uint32_t i = c->state->models[model].first; i != FLEET_NONE; i = c->state->places[i].next_of_model)
        n += split_usable(c, i);
    return n;
}

static bool split_has(const struct fleet_control *c, const struct ctl_want *w, uint32_t place)
{
    const struct ctl_link *shorter = &c->places[place].leases, *head = shorter;
    if (c->places[place].nleases <= w->nleases) {
        for (shorter = head->next; shorter != head; shorter = shorter->next)
            if (CTL_OF(struct ctl_lease, of_place, shorter)->want == w) return true;
        return false;
    }
    head = &w->client->leases;
    for (shorter = head->next; shorter != head; shorter = shorter->next) {
        const struct ctl_lease *l = CTL_OF(struct ctl_lease, of_client, shorter);
        if (l->want == w && l->place == place) return true;
    }
    return false;
}

/* How many places the client should have: all if they are few, else by its part of the demand. */
static uint32_t split_wants(const struct fleet_control *c, const struct ctl_want *w, uint32_t places)
{
    const struct ctl_model *m = &c->models[w->model];
    if ((uint64_t)m->nwants * places <= SPLIT_ALL) return places;
    double all = 0;
    for (int i = 0; i < FLEET_CLASSES; i++) all += m->offered[i];
    double part = all > 0 ? w->offered / all * places : 0;
    uint32_t n = SPLIT_LEAST + (part > 0 ? (uint32_t)part : 0);
    return n < places ? n : places;
}

/* Makes leases until the client has enough. It begins at a place of its own, so that clients spread. */
static void split_choose(struct fleet_control *c, struct ctl_want *w, uint32_t places)
{
    uint32_t want = split_wants(c, w, places), at, first;
    if (w->nleases >= want) return;
    first = (uint32_t)(fleet_table_hash(c->seed, w->client->id, FLEET_ID) % places);
    for (int turn = 0; turn < 2; turn++) {
        at = 0;
        for (uint32_t i = c->state->models[w->model].first; i != FLEET_NONE && w->nleases < want;
             i = c->state->places[i].next_of_model) {
            if (!split_usable(c, i)) continue;
            if ((at++ < first) != (turn == 1)) continue;
            if (c->places[i].retry_at > ctl_now(c) || split_has(c, w, i)) continue;
            if (c->workers[c->state->places[i].worker]->leaves) continue;
            if (!ctl_lease_make(c, w, i)) continue;
        }
    }
}

/* ---- how much each lease has */

struct split_share {
    uint32_t n;
    float weights;
};

static float split_weight(const struct ctl_want *w)
{
    return (float)(w->weight / (w->nleases ? w->nleases : 1));
}

static struct split_share split_sum(const struct fleet_control *c, uint32_t place)
{
    struct split_share s = {0};
    const struct ctl_link *head = &c->places[place].leases;
    for (const struct ctl_link *l = head->next; l != head; l = l->next) {
        const struct ctl_want *w = CTL_OF(struct ctl_lease, of_place, l)->want;
        if (!w) continue;
        s.n++;
        s.weights += split_weight(w);
    }
    return s;
}

static bool split_same(float a, float b)
{
    return a <= b * SPLIT_BAND && b <= a * SPLIT_BAND;
}

/* Sets one lease, if it is one that shrinks, or grows. False: the worker has no slot left for it. */
static bool split_fit(struct fleet_control *c, struct ctl_lease *l, const struct split_share *s, bool grows)
{
    const struct fleet_place *p = &c->state->places[l->place];
    struct ctl_worker *k = l->worker;
    float part = SPLIT_EVEN / (float)s->n;
    part += (1 - SPLIT_EVEN) * (s->weights > 0 ? split_weight(l->want) / s->weights : 1 / (float)s->n);
    uint32_t slots = (uint32_t)((float)p->slots * part), room = k->facts.slots - k->slots + l->slots;
    float rate = p->rate * part;
    if (!slots) slots = 1;
    if ((slots > l->slots) != grows) return true;
    if (slots > room) slots = room;
    if (!slots) return false;
    bool fresh = !l->slots;
    bool same = split_same((float)slots, (float)l->slots) && split_same(rate, l->rate) &&
                p->max_batch == l->max_batch && p->spill == l->spill;
    if (!fresh && same && !c->places[l->place].renews && l->until > ctl_now(c)) return true;
    k->slots += slots - l->slots;
    l->slots = slots;
    l->rate = rate;
    l->max_batch = p->max_batch;
    l->spill = p->spill;
    l->until = p->until_ns;
    ctl_lease_send(c, l);
    return true;
}

static void split_place(struct fleet_control *c, uint32_t place)
{
    struct split_share s = split_sum(c, place);
    struct ctl_link *head = &c->places[place].leases;
    for (int grows = 0; grows < 2; grows++) {
        for (struct ctl_link *l = head->next, *next; l != head; l = next) {
            struct ctl_lease *lease = CTL_OF(struct ctl_lease, of_place, l);
            next = l->next;
            if (lease->want && !split_fit(c, lease, &s, grows)) ctl_lease_end(c, lease, false);
        }
    }
    c->places[place].renews = false;
}

/* ---- a model */

static void split_nothing(struct fleet_control *c, struct ctl_want *w)
{
    struct fleet_nothing n = {.error = -EAGAIN, .retry_ns = 200 * CTL_MS};
    const char *why = c->frozen ? "etcd is away: nothing new is granted"
                      : c->state->models[w->model].first == FLEET_NONE ? "the model is not loaded yet"
                                                                       : "all leases are taken";
    if (w->nleases || !w->client->conn || ctl_now(c) - w->nothing_at < 500 * CTL_MS) return;
    w->nothing_at = ctl_now(c);
    memcpy(n.model, c->models[w->model].name, sizeof(n.model));
    strcpy(n.why, why);
    fleet_send(w->client->conn, FLEET_NOTHING, w->seq, &n, sizeof(n), NULL, 0, NULL);
}

static void split_model(struct fleet_control *c, uint32_t model)
{
    struct ctl_model *m = &c->models[model];
    uint32_t all = split_places(c, model);
    for (struct ctl_link *l = m->wants.next; l != &m->wants; l = l->next) {
        struct ctl_want *w = CTL_OF(struct ctl_want, of_model, l);
        w->weight = w->offered + 10 * (double)w->waiting + 0.1;
        if (all && !c->frozen) split_choose(c, w, all);
    }
    for (uint32_t i = c->state->models[model].first; i != FLEET_NONE; i = c->state->places[i].next_of_model)
        if (split_usable(c, i)) split_place(c, i);
    for (struct ctl_link *l = m->wants.next; l != &m->wants; l = l->next)
        split_nothing(c, CTL_OF(struct ctl_want, of_model, l));
    m->shared_at = ctl_now(c);
}

void ctl_split(struct fleet_control *c)
{
    while (!ctl_link_alone(&c->dirty)) {
        struct ctl_model *m = CTL_OF(struct ctl_model, dirty, c->dirty.next);
        ctl_link_remove(&m->dirty);
        split_model(c, m->number);
    }
}
