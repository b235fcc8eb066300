/* SPDX-License-Identifier: Apache-2.0 */
/* lease.c: the third step of a round: which places have a lease, and how much each may send. All leases of
 * a worker together have LEASE_SUM of its time. A lease that would change little stays as it is,
 * so that grants are rare. The sum is then at most LEASE_SUM * LEASE_BAND, which is one GPU. */
#include <math.h>

#include "gpuwire/detail/assert.h"
#include "src/fleet/plan/scratch.h"

#define LEASE_SUM        0.8f
#define LEASE_BAND       1.25f
#define LEASE_FLOOR      0.0005f /* what a lease of a cold model asks for */
#define LEASE_SPARE      1.3f    /* more than the expected use: requests do not come evenly */
#define LEASE_SPILL_PART 0.03f   /* what a lease for what others refuse asks for, of the same use */
#define LEASE_TIGHT_PART 0.25f   /* the same for a model whose requests are refused more often */
#define LEASE_FULL       1.0f    /* a worker above this load gets no lease for what others refuse */
#define LEASE_CROWDED    1.15f   /* and above this it loses those: they would make its batches smaller */
#define LEASE_BUDGET     1.5f    /* a rate over what its share makes: the device looks at deadlines */
/* A lease has LEASE_SLOTS, and its share of half of the worker's slots: FLEET_SLOTS_EACH a lease, or
 * fewer. */
enum { LEASE_SLOTS = FLEET_SLOTS_EACH / 2 };

enum lease_kind { LEASE_NONE, LEASE_FIRST, LEASE_SPILL };

static enum lease_kind lease_kind(const struct fleet_place *p)
{
    return !p->slots ? LEASE_NONE : p->spill ? LEASE_SPILL : LEASE_FIRST;
}

/* The place with such a lease on the busiest worker; on the least busy one if it shall get another. */
static uint32_t lease_pick(const struct fleet_round *r, uint32_t model, enum lease_kind kind)
{
    uint32_t best = FLEET_NONE;
    for (uint32_t i = r->s->models[model].first; i != FLEET_NONE; i = r->s->places[i].next_of_model) {
        const struct fleet_place *p = &r->s->places[i];
        const struct fleet_worker *w = &r->s->workers[p->worker];
        const struct fleet_room *o = &r->s->scratch->room[p->worker];
        if (p->where != FLEET_GPU || lease_kind(p) != kind || !fleet_stays(w)) continue;
        if (kind == LEASE_NONE && o->leases >= w->slots / FLEET_SLOTS_EACH) continue;
        float now = best == FLEET_NONE ? 0 : r->s->scratch->room[r->s->places[best].worker].load;
        if (best == FLEET_NONE || (kind == LEASE_FIRST ? o->load > now : o->load < now)) best = i;
    }
    return best;
}

/* Makes a lease one of the first, or one for what those refuse. lease_fit() tells the clients: no batch is
 * so large. */
static void lease_turn(struct fleet_round *r, uint32_t place, bool spill)
{
    struct fleet_place *p = &r->s->places[place];
    struct fleet_need *n = &r->s->scratch->need[p->model];
    struct fleet_room *o = &r->s->scratch->room[p->worker];
    if (!p->slots) {
        p->slots = LEASE_SLOTS;
        p->until_ns = 0; /* it is new: lease_fit() grants it */
        o->slots += p->slots;
        o->leases++;
    } else if (spill) {
        o->load -= n->use / (float)n->leased--;
    } else {
        n->spill--;
    }
    p->spill = spill;
    p->max_batch = UINT8_MAX;
    if (spill)
        n->spill++;
    else
        o->load += n->use / (float)++n->leased;
}

/* Leases for what the others refuse, on workers that have least to do. */
static void lease_spill(struct fleet_round *r, uint32_t model)
{
    struct fleet_need *n = &r->s->scratch->need[model];
    while (n->spill < n->spills) {
        uint32_t place = lease_pick(r, model, LEASE_NONE);
        if (place == FLEET_NONE || r->s->scratch->room[r->s->places[place].worker].load > LEASE_FULL) break;
        lease_turn(r, place, true);
    }
    for (uint32_t i = r->s->models[model].first; n->spill && i != FLEET_NONE;
         i = r->s->places[i].next_of_model) {
        const struct fleet_place *p = &r->s->places[i];
        bool crowded = r->s->scratch->room[p->worker].load > LEASE_CROWDED;
        if (p->slots && p->spill && (crowded || n->spill > n->spills)) fleet_revoke(r, i);
    }
}

/* A lease moves from a worker that has too much to do to one that has less. */
static void lease_relieve(struct fleet_round *r, uint32_t model)
{
    const struct fleet_need *n = &r->s->scratch->need[model];
    uint32_t busy = lease_pick(r, model, LEASE_FIRST), idle;
    float most = busy == FLEET_NONE ? 0 : r->s->scratch->room[r->s->places[busy].worker].load;
    if (most <= r->t->high) return;
    idle = lease_pick(r, model, LEASE_SPILL);
    if (idle == FLEET_NONE) idle = lease_pick(r, model, LEASE_NONE);
    if (idle == FLEET_NONE) return;
    float least = r->s->scratch->room[r->s->places[idle].worker].load;
    if (least + n->use / (float)n->leased >= most) return;
    lease_turn(r, idle, false);
    lease_turn(r, busy, true);
}

/* Which places of a model have a lease. A loaded model always has one: its next request needs no
 * controller. */
static void lease_model(struct fleet_round *r, uint32_t model)
{
    struct fleet_need *n = &r->s->scratch->need[model];
    uint32_t want = n->want ? n->want : 1, enough = (uint32_t)ceilf(n->use * 1.15f / r->t->fill);
    while (n->leased < want) {
        uint32_t place = lease_pick(r, model, LEASE_SPILL);
        if (place == FLEET_NONE) place = lease_pick(r, model, LEASE_NONE);
        if (place == FLEET_NONE) break;
        lease_turn(r, place, false);
    }
    while (n->leased > want && n->leased > enough) lease_turn(r, lease_pick(r, model, LEASE_FIRST), true);
    if (n->leased && n->have > n->leased) lease_relieve(r, model);
    lease_spill(r, model);
    bool elsewhere = n->leased >= want || n->rate <= 0.01f;
    for (uint32_t i = r->s->models[model].first; elsewhere && i != FLEET_NONE;
         i = r->s->places[i].next_of_model) {
        const struct fleet_place *p = &r->s->places[i];
        if (p->slots && !fleet_stays(&r->s->workers[p->worker])) fleet_revoke(r, i);
    }
}

static float lease_ask(const struct fleet_need *n, const struct fleet_place *p)
{
    float use = n->leased ? n->use / (float)n->leased *
                                (!p->spill  ? LEASE_SPARE
                                 : n->tight ? LEASE_TIGHT_PART
                                            : LEASE_SPILL_PART)
                          : 0;
    return use > LEASE_FLOOR ? use : LEASE_FLOOR;
}

/* The largest batch that lets every lease of the worker keep its deadline. */
static uint8_t lease_batch(const struct fleet_round *r, const struct fleet_place *p)
{
    uint32_t n = fleet_batch_within(&r->s->models[p->model], r->s->scratch->room[p->worker].block_ns);
    return (uint8_t)(n ? n : 1);
}

static uint32_t lease_slots(const struct fleet_round *r, const struct fleet_place *p, float share, float rate)
{
    float deadline = (float)r->s->scratch->need[p->model].deadline_ns * 1e-9f;
    uint32_t half = r->s->workers[p->worker].slots / 2;
    float need = ceilf(2 * rate * deadline), most = share * (float)half;
    return LEASE_SLOTS + (uint32_t)(need < most ? need : most);
}

/* A new lease that could not be told: the next round makes it again. */
static void lease_forget(struct fleet_round *r, struct fleet_place *p)
{
    struct fleet_room *o = &r->s->scratch->room[p->worker];
    o->slots -= p->slots;
    o->leases--;
    p->slots = 0;
    p->spill = false;
}

/* Gives one lease its share of the worker. `grow`: those that get more; else those that get less. */
static void lease_fit(struct fleet_round *r, uint32_t place, bool grow)
{
    struct fleet_place *p = &r->s->places[place];
    struct fleet_room *o = &r->s->scratch->room[p->worker];
    const struct fleet_need *n = &r->s->scratch->need[p->model];
    float share = lease_ask(n, p) * LEASE_SUM / o->asked;
    float cost = n->cost > 0 ? n->cost : (float)r->s->models[p->model].exec_ns[0] * 1e-9f;
    /* A lease whose end has passed is none: the controller was away. */
    bool fresh = p->until_ns <= r->now_ns, renew = p->until_ns - r->now_ns < r->t->valid_ns / 2;
    uint8_t batch = lease_batch(r, p);
    bool same = share < p->share * LEASE_BAND && share * LEASE_BAND > p->share && batch == p->max_batch;
    if ((share > p->share) != grow || (!fresh && !renew && same)) return;
    struct fleet_action *a = fleet_act(r, fresh ? FLEET_GRANT : FLEET_RESIZE, place);
    if (!a) {
        if (!fresh) return;
        lease_forget(r, p);
        return;
    }
    uint32_t slots = lease_slots(r, p, share, LEASE_BUDGET * share / cost);
    o->slots += slots - p->slots;
    o->granted += share - p->share;
    p->slots = slots;
    p->share = share;
    p->rate = LEASE_BUDGET * share / cost;
    p->max_batch = batch;
    p->until_ns = r->now_ns + r->t->valid_ns;
    a->slots = slots;
    a->share = share;
    a->rate = p->rate;
    a->max_batch = batch;
    a->spill = p->spill;
    a->earliest_ns = r->now_ns;
    a->latest_ns = p->until_ns;
    GW_ASSERT(p->where == FLEET_GPU && o->slots <= r->s->workers[p->worker].slots);
}

void fleet_lease(struct fleet_round *r)
{
    struct fleet_state *s = r->s;
    for (uint32_t i = 0; i < s->limits.models; i++) {
        if (s->models[i].first != FLEET_NONE) lease_model(r, i);
    }
    for (uint32_t w = 0; w < s->limits.workers; w++) {
        struct fleet_room *o = &s->scratch->room[w];
        o->asked = 0;
        for (uint32_t i = s->workers[w].first; i != FLEET_NONE; i = s->places[i].next_of_worker) {
            const struct fleet_place *p = &s->places[i];
            if (p->slots) o->asked += lease_ask(&s->scratch->need[p->model], p);
        }
        /* What shrinks goes first: at no moment do the leases of a worker exceed it. */
        for (int grow = 0; grow < 2; grow++) {
            for (uint32_t i = s->workers[w].first; i != FLEET_NONE; i = s->places[i].next_of_worker) {
                if (s->places[i].slots) lease_fit(r, i, grow);
            }
        }
    }
}
