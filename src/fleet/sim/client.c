/* SPDX-License-Identifier: Apache-2.0 */
/* client.c: clients that hold leases: each model has a few. A client sends to the less occupied of two of
 * its leases, and to others when it was refused and the deadline allows. */
#include <stdlib.h>

#include "src/fleet/plan/choose.h"
#include "src/fleet/sim/world.h"

#define CLIENT_AVOID_NS 100000000 /* the rest of a lease whose answer was missed */

enum { CLIENT_TRIES = 3 };

static uint32_t client_flying(const struct sim_world *w, uint32_t place, uint8_t client)
{
    return w->places[place].inflight[client];
}

static bool client_can(const struct sim_world *w, uint32_t place, uint8_t client)
{
    const struct sim_place *p = &w->places[place];
    uint32_t most = p->slots / SIM_CLIENTS;
    return client_flying(w, place, client) < (most ? most : 1);
}

static struct fleet_use client_use(const struct sim_world *w, uint32_t place, uint8_t client)
{
    const struct sim_place *p = &w->places[place];
    return (struct fleet_use){client_flying(w, place, client), p->slots, p->avoid_ns > w->now_ns};
}

/* One of these leases that is not `but` and has room, or FLEET_NONE. */
static uint32_t client_among(struct sim_world *w, const struct sim_leases *l, uint8_t client, uint32_t but)
{
    if (!l->n) return FLEET_NONE;
    uint32_t i = sim_below(&w->random, l->n),
             k = l->n > 1 ? fleet_choose_other(i, l->n, sim_below(&w->random, l->n - 1)) : i;
    uint32_t a = l->place[i] == but ? l->place[k] : l->place[i],
             b = l->place[k] == but ? l->place[i] : l->place[k];
    if (a == but) return FLEET_NONE;
    uint32_t first = fleet_choose_first(client_use(w, a, client), client_use(w, b, client)) ? a : b,
             other = first == a ? b : a;
    if (client_can(w, first, client)) return first;
    return client_can(w, other, client) ? other : FLEET_NONE;
}

/* A lease for a request, or for one that the place `but` refused: that goes where a lease is for it, if
 * one is. */
static uint32_t client_pick(struct sim_world *w, uint32_t request, uint32_t but)
{
    const struct sim_request *r = &w->requests[request];
    const struct sim_model *m = &w->models[r->model];
    int first = but != FLEET_NONE;
    uint32_t place = client_among(w, &m->leases[first], r->client, but);
    return place != FLEET_NONE ? place : client_among(w, &m->leases[!first], r->client, but);
}

static void client_post(struct sim_world *w, uint32_t request, uint32_t place, int64_t delay_ns)
{
    struct sim_request *r = &w->requests[request];
    const struct sim_model *m = &w->models[r->model];
    r->place = place;
    r->life = w->places[place].life;
    r->tries++;
    r->last = r->tries == CLIENT_TRIES || m->leases[0].n + m->leases[1].n == 1;
    w->places[place].inflight[r->client]++;
    sim_at(w, w->now_ns + delay_ns + sim_hop(w), EV_DELIVER, request, 0);
}

void sim_client_send(struct sim_world *w, uint32_t request)
{
    struct sim_request *r = &w->requests[request];
    struct sim_model *m = &w->models[r->model];
    for (int k = 0; k < 2; k++) {
        for (uint32_t i = m->leases[k].n; i-- > 0;) {
            uint32_t place = m->leases[k].place[i];
            if (w->places[place].until_ns <= w->now_ns) sim_client_unlease(w, place);
        }
    }
    if (!m->leases[0].n && !m->leases[1].n) {
        w->links[request].deadline_ns =
            r->deadline_ns - 2 * sim_way(w) - w->state->models[r->model].exec_ns[0];
        fleet_queue_add(&m->waiting, w->links, request);
        sim_ask(w);
        return;
    }
    uint32_t place = client_pick(w, request, FLEET_NONE);
    if (place == FLEET_NONE)
        sim_finish(w, request, SIM_REFUSED, w->now_ns);
    else
        client_post(w, request, place, 0);
}

void sim_client_request(struct sim_world *w, uint32_t model)
{
    uint32_t request = w->request_free;
    if (request == FLEET_NONE) {
        w->full = true;
        return;
    }
    w->request_free = w->links[request].next;
    struct sim_request *r = &w->requests[request];
    struct sim_model *m = &w->models[model];
    *r = (struct sim_request){.start_ns = w->now_ns, .model = model, .place = FLEET_NONE, .open = true};
    r->class = sim_unit(&w->load) < w->o.slack;
    r->deadline_ns = w->now_ns + m->deadline_ns * (r->class ? 4 : 1);
    r->client = (uint8_t)sim_below(&w->load, SIM_CLIENTS);
    m->count[r->class]++;
    w->open++;
    w->arrived++;
    if (w->central) {
        sim_at(w, w->now_ns + sim_hop(w), EV_DELIVER, request, 0);
        return;
    }
    if (m->admitted[r->class] != FLEET_ALL) {
        m->shed += 255U - m->admitted[r->class];
        if (m->shed >= 255) {
            m->shed -= 255;
            sim_finish(w, request, SIM_SHED, w->now_ns);
            return;
        }
    }
    sim_client_send(w, request);
}

void sim_client_left(struct sim_world *w, uint32_t request)
{
    const struct sim_request *r = &w->requests[request];
    struct sim_place *p = &w->places[r->place];
    if (r->life != p->life) return;
    GW_ASSERT(p->inflight[r->client] > 0);
    p->inflight[r->client]--;
}

void sim_client_refused(struct sim_world *w, uint32_t request)
{
    struct sim_request *r = &w->requests[request];
    uint32_t before = r->place;
    sim_client_left(w, request);
    int64_t back = sim_hop(w), need = back + 2 * sim_way(w) + w->state->models[r->model].exec_ns[0];
    uint32_t place = r->tries < CLIENT_TRIES && w->now_ns + need < r->deadline_ns
                         ? client_pick(w, request, before)
                         : FLEET_NONE;
    if (place == FLEET_NONE) {
        sim_finish(w, request, SIM_REFUSED, w->now_ns + back);
        return;
    }
    w->result->retried++;
    client_post(w, request, place, back);
}

void sim_client_unlease(struct sim_world *w, uint32_t place)
{
    struct sim_place *p = &w->places[place];
    if (p->leased_at == FLEET_NONE) return;
    struct sim_leases *l = &w->models[w->state->places[place].model].leases[p->spill];
    uint32_t last = l->place[--l->n];
    l->place[p->leased_at] = last;
    w->places[last].leased_at = p->leased_at;
    p->leased_at = FLEET_NONE;
}

void sim_client_lease(struct sim_world *w, uint32_t place, bool spill)
{
    struct sim_place *p = &w->places[place];
    struct sim_model *m = &w->models[w->state->places[place].model];
    struct sim_leases *l = &m->leases[spill];
    if (p->spill != spill) sim_client_unlease(w, place);
    p->spill = spill;
    if (p->leased_at == FLEET_NONE) {
        if (l->n == l->most) {
            l->most = l->most ? 2 * l->most : 4;
            l->place = realloc(l->place, l->most * sizeof *l->place);
            if (!l->place) abort(); /* the simulator is a program of tests */
        }
        p->leased_at = l->n;
        l->place[l->n++] = place;
    }
    while (m->waiting.n) {
        uint32_t request = fleet_queue_take(&m->waiting, w->links);
        sim_client_send(w, request);
    }
}

void sim_client_expire(struct sim_world *w, uint32_t model)
{
    struct sim_model *m = &w->models[model];
    while (m->waiting.n && w->links[m->waiting.head].deadline_ns < w->now_ns) {
        sim_finish(w, fleet_queue_take(&m->waiting, w->links), SIM_NOWHERE, w->now_ns);
    }
}

void sim_lose(struct sim_world *w, uint32_t request)
{
    const struct sim_request *r = &w->requests[request];
    sim_at(w, r->deadline_ns > w->now_ns ? r->deadline_ns : w->now_ns, EV_LOST, request, 0);
    if (r->place != FLEET_NONE) w->places[r->place].avoid_ns = r->deadline_ns + CLIENT_AVOID_NS;
}
