/* SPDX-License-Identifier: Apache-2.0 */
/* Leases of clients. A lease goes to the worker first; when the worker has it, the client is told. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "src/fleet/control/impl.h"

static void grants_expire(void *ctx)
{
    struct ctl_lease *l = ctx;
    struct fleet_control *c = l->worker->control;
    uint32_t model = l->model;
    ctl_lease_end(c, l, true);
    ctl_model_dirty(c, model);
}

/* Enters a lease into all lists. */
static struct ctl_lease *grants_enter(struct ctl_worker *k, struct ctl_client *client, uint32_t place,
                                      uint32_t number)
{
    struct fleet_control *c = k->control;
    struct ctl_lease *l = calloc(1, sizeof(*l));
    if (!l) return NULL;
    l->worker = k;
    l->client = client;
    l->want = ctl_want_find(c, client, c->state->places[place].model);
    l->number = number;
    l->place = place;
    l->model = c->state->places[place].model;
    k->lease[number] = l;
    ctl_link_add(&c->places[place].leases, &l->of_place);
    ctl_link_add(&client->leases, &l->of_client);
    c->places[place].nleases++;
    c->nleases++;
    if (l->want) l->want->nleases++;
    return l;
}

struct ctl_lease *ctl_lease_make(struct fleet_control *c, struct ctl_want *w, uint32_t place)
{
    struct ctl_worker *k = c->workers[c->state->places[place].worker];
    uint64_t key = 0;
    if (!k->nfree || k->slots >= k->facts.slots) return NULL;
    if (getrandom(&key, sizeof(key), 0) != sizeof(key) || !key) return NULL;
    struct ctl_lease *l = grants_enter(k, w->client, place, k->free_number[k->nfree - 1]);
    if (!l) return NULL;
    k->nfree--;
    l->key = key;
    return l;
}

/* Where the number lies among the free ones is known by looking: leases are adopted once in a leader's life.
 */
static bool grants_take_number(struct ctl_worker *k, uint32_t number)
{
    for (uint32_t i = k->nfree; i-- > 0;) {
        if (k->free_number[i] != number) continue;
        k->free_number[i] = k->free_number[--k->nfree];
        return true;
    }
    return false;
}

struct ctl_lease *ctl_lease_adopt(struct ctl_worker *k, const struct fleet_held *h, const char **why)
{
    struct fleet_control *c = k->control;
    *why = "it holds a lease that makes no sense";
    bool odd = h->lease >= k->facts.leases || h->model >= k->facts.models || !h->key || !h->slots ||
               h->slots > k->facts.slots - k->slots || !isfinite(h->rate) || h->rate < 0 || h->left_ns <= 0 ||
               h->left_ns > 3600 * CTL_SECOND || h->spill > 1;
    if (odd || k->lease[h->lease] || k->model_of[h->model] == FLEET_NONE) return NULL;
    uint32_t place = ctl_worker_place(k, h->model);
    if (place == FLEET_NONE || c->state->places[place].where != FLEET_GPU) return NULL;
    *why = "no memory";
    struct ctl_client *client = ctl_client_take(c, h->client);
    if (!client || !grants_take_number(k, h->lease)) return NULL;
    struct ctl_lease *l = grants_enter(k, client, place, h->lease);
    if (!l) return NULL;
    l->key = h->key;
    l->slots = h->slots;
    l->rate = h->rate;
    l->max_batch = h->max_batch > FLEET_MAX_BATCH || !h->max_batch ? FLEET_MAX_BATCH : (uint8_t)h->max_batch;
    l->spill = h->spill;
    l->until = ctl_now(c) + h->left_ns;
    k->slots += l->slots;
    fleet_timer_set(c->o.loop, &l->timer, l->until, grants_expire, l);
    return l;
}

/* ---- to the worker */

static void grants_put(struct fleet_control *c, struct ctl_lease *l, int64_t left)
{
    struct ctl_worker *k = l->worker;
    struct fleet_lease m = {.term = c->term,
                            .lease = l->number,
                            .model = ctl_worker_number(k, l->model),
                            .key = l->key,
                            .slots = l->slots,
                            .rate = l->rate,
                            .left_ns = left,
                            .max_batch = l->max_batch,
                            .spill = l->spill};
    struct ctl_pending p = {.key = l->key, .lease = l->number, .model = l->model, .place = l->place};
    memcpy(m.client, l->client->id, FLEET_ID);
    if (!k->conn || fleet_send(k->conn, FLEET_LEASE, 0, &m, sizeof(m), NULL, 0, &p.seq)) return;
    if (!left) return; /* how it ended is of no interest: the number is free either way */
    l->seq = p.seq;
    if (ctl_pending_add(k, &p)) ctl_worker_cut(k, "no memory");
}

void ctl_lease_send(struct fleet_control *c, struct ctl_lease *l)
{
    int64_t left = l->until - ctl_now(c);
    if (left <= 0) return;
    if (fleet_timer_set(c->o.loop, &l->timer, l->until, grants_expire, l)) return;
    grants_put(c, l, left);
}

/* ---- to the client */

static void grants_tell(struct fleet_control *c, struct ctl_lease *l)
{
    const struct ctl_model *m = &c->models[l->model];
    const struct ctl_worker *k = l->worker;
    struct fleet_granted g = {.lease = l->number,
                              .version = m->version,
                              .key = l->key,
                              .slots = l->slots,
                              .rate = l->rate,
                              .left_ns = l->until - ctl_now(c),
                              .spill = l->spill,
                              .max_batch = l->max_batch,
                              .request_bytes = m->request_bytes,
                              .answer_bytes = m->answer_bytes,
                              .reply_bytes = k->facts.reply_bytes,
                              .exec_ns = c->state->models[l->model].exec_ns[0]};
    memcpy(g.model, m->name, sizeof(g.model));
    memcpy(g.worker, k->name, sizeof(g.worker));
    memcpy(g.address, k->facts.address, sizeof(g.address));
    memcpy(g.worker_id, k->id, sizeof(g.worker_id));
    if (!l->client->conn || g.left_ns <= 0) return;
    fleet_send(l->client->conn, FLEET_GRANTED, l->want ? l->want->seq : 0, &g, sizeof(g), NULL, 0, NULL);
}

void ctl_lease_result(struct ctl_worker *k, const struct ctl_pending *p, const struct fleet_result *r)
{
    struct fleet_control *c = k->control;
    struct ctl_lease *l = k->lease[p->lease];
    if (!l || l->key != p->key || l->seq != p->seq) return; /* it has ended, or another answer will come */
    l->seq = 0;
    if (r->outcome == FLEET_DONE) {
        grants_tell(c, l);
        return;
    }
    c->failures++;
    ctl_audit(c, "LEASE failed", k->number, l->model, json_pack("{s:i}", "outcome", (int)r->outcome));
    c->places[l->place].retry_at = ctl_now(c) + 100 * CTL_MS;
    ctl_model_dirty(c, l->model);
    ctl_lease_end(c, l, true);
}

/* ---- the end */

void ctl_lease_end(struct fleet_control *c, struct ctl_lease *l, bool tells)
{
    struct ctl_worker *k = l->worker;
    struct fleet_revoked r = {.lease = l->number};
    memcpy(r.worker_id, k->id, sizeof(r.worker_id));
    if (tells) grants_put(c, l, 0);
    if (tells && l->client->conn) fleet_send(l->client->conn, FLEET_REVOKED, 0, &r, sizeof(r), NULL, 0, NULL);
    fleet_timer_clear(c->o.loop, &l->timer);
    ctl_link_remove(&l->of_place);
    ctl_link_remove(&l->of_client);
    c->places[l->place].nleases--;
    c->nleases--;
    if (l->want) l->want->nleases--;
    k->lease[l->number] = NULL;
    k->free_number[k->nfree++] = l->number;
    k->slots -= l->slots;
    free(l);
}

void ctl_place_end_leases(struct fleet_control *c, uint32_t place, bool tells)
{
    struct ctl_link *head = &c->places[place].leases;
    while (!ctl_link_alone(head)) ctl_lease_end(c, CTL_OF(struct ctl_lease, of_place, head->next), tells);
}
