/* SPDX-License-Identifier: Apache-2.0 */
/* Which worker gets a new flow. Each core chooses from what it knows by itself; the clients are spread over
 * the cores evenly enough for that. */
#include "src/balance/choose.h"

#include <string.h>

#include <gpuwire/detail/assert.h>

uint32_t bal_random_below(struct bal_choice *c, uint32_t n)
{
    c->random ^= c->random << 13;
    c->random ^= c->random >> 7;
    c->random ^= c->random << 17;
    return (uint32_t)((c->random >> 32) * n >> 32);
}

uint32_t bal_row(const struct bal_snapshot *s, uint32_t service, const uint8_t *addr, bool ipv6,
                 uint16_t port)
{
    const uint64_t seed = s->config.maglev_seed ^ 0x9e3779b97f4a7c15u;
    uint64_t a[2] = {0}, h;
    memcpy(a, addr, ipv6 ? 16 : 4);
    /* sh goes by the address alone; so does RoCE, whose source port says nothing about the connection */
    const struct bal_service *v = &s->config.service[service];
    if (v->scheduler != BAL_SH && v->proto != BAL_ROCE) a[1] ^= (uint64_t)port << 48;
    h = bal_mix(a[0] ^ seed, seed * 0xd6e8feb86659fd93u | 1);
    h = bal_mix(h ^ a[1], seed | 1);
    return (uint32_t)((h >> 32) * BAL_MAGLEV >> 32);
}

static inline uint64_t connections(const struct bal_core *core, uint16_t w)
{
    return (uint64_t)core->count[0][w] + core->count[1][w] + core->count[1][bal_beside(w)];
}

/* Telemetry that is new enough to believe; what this core did since it came is counted beside it. */
static bool is_fresh(struct bal_core *core, uint16_t w)
{
    struct bal_choice *c = &core->choice;
    uint64_t when = atomic_load_explicit(&core->bal->load[w].when_ns, memory_order_relaxed);
    if (!when || (core->now_ns > when && core->now_ns - when > BAL_LOAD_OLD_NS)) return false;
    if (c->seen_ns[w] != when) {
        c->seen_ns[w] = when;
        c->since[w] = 0;
        c->bytes[w] = 0;
    }
    return true;
}

static uint64_t choose_queue(struct bal_core *core, uint16_t w)
{
    return atomic_load_explicit(&core->bal->load[w].queue_depth, memory_order_relaxed) +
           core->choice.since[w];
}

static uint64_t choose_bytes(struct bal_core *core, uint16_t w)
{
    uint64_t waiting =
        is_fresh(core, w) ? atomic_load_explicit(&core->bal->load[w].bytes, memory_order_relaxed) : 0;
    return waiting + core->choice.bytes[w];
}

/* ---- the schedulers ---- */

struct field { /* the workers among which one is chosen */
    const uint16_t *member;
    uint32_t count, service;
    const struct bal_up *up; /* of these, the ones that are up */
    uint32_t ups;
};

static uint16_t rr(struct bal_core *core, const struct field *f)
{
    uint32_t *next = &core->choice.next[f->service];
    for (uint32_t i = 0; i < f->count; i++) {
        uint16_t w = f->member[(*next)++ % f->count];
        if (bal_is_up(core->snap, w)) return w;
    }
    return BAL_NO_WORKER;
}

/* Each worker earns its weight in every turn. The richest is chosen, and pays what all have earned. */
static uint16_t wrr(struct bal_core *core, const struct field *f)
{
    int64_t *credit = core->choice.credit, all = 0;
    uint16_t best = BAL_NO_WORKER;
    for (uint32_t i = 0; i < f->count; i++) {
        uint16_t w = f->member[i];
        if (!bal_is_up(core->snap, w)) {
            credit[w] = 0;
            continue;
        }
        credit[w] += core->snap->config.worker[w].weight;
        all += core->snap->config.worker[w].weight;
        if (best == BAL_NO_WORKER || credit[w] > credit[best]) best = w;
    }
    if (best != BAL_NO_WORKER) credit[best] -= all;
    return best;
}

/* The smallest load for its weight. Among equals each has its turn. */
static inline __attribute__((always_inline)) uint16_t
least(struct bal_core *core, const struct field *f, uint64_t (*load)(struct bal_core *core, uint16_t w))
{
    uint16_t best = BAL_NO_WORKER;
    uint64_t best_load = 0, best_weight = 1;
    if (!f->ups) return best;
    uint32_t at = core->choice.next[f->service]++ % f->ups;
    for (uint32_t i = 0; i < f->ups; i++) {
        uint16_t w = f->up[at].worker;
        uint64_t l = load(core, w), weight = f->up[at].weight;
        at = at + 1 < f->ups ? at + 1 : 0;
        /* no load at all: the heavier one first */
        if (best != BAL_NO_WORKER && (l + 1) * best_weight >= (best_load + 1) * weight) continue;
        best = w;
        best_load = l;
        best_weight = weight;
    }
    return best;
}

/* The same where the weights are equal or do not count. It takes minima: the processor would foretell jumps
 * wrongly. */
static uint16_t fewest(struct bal_core *core, const struct field *f)
{
    const bool narrow = !gw_flow_count(core->wide); /* then a third as many counts are read */
    if (!f->ups) return BAL_NO_WORKER;
    uint32_t at = core->choice.next[f->service]++ % f->ups, from = at;
    uint64_t best = UINT64_MAX;
    for (uint32_t i = 0; i < f->ups; i++) {
        uint16_t w = f->up[at].worker;
        uint64_t load = (narrow ? core->count[0][w] : connections(core, w)) << 16 | i;
        best = load < best ? load : best;
        at = at + 1 < f->ups ? at + 1 : 0;
    }
    return f->up[(from + (best & 0xffff)) % f->ups].worker;
}

static uint64_t connections_of(struct bal_core *core, uint16_t w)
{
    return connections(core, w);
}

/* Maglev's rows are shared out by weight, so two random rows are two random workers by weight. */
static uint16_t p2c(struct bal_core *core, const struct field *f)
{
    const struct bal_table *t = core->snap->table[f->service];
    uint16_t a = *bal_table_at(t, bal_random_below(&core->choice, BAL_MAGLEV)), b = a;
    for (int i = 0; i < 4 && b == a; i++) b = *bal_table_at(t, bal_random_below(&core->choice, BAL_MAGLEV));
    if (a == b || a == BAL_NO_WORKER) return a;
    bool told = is_fresh(core, a) && is_fresh(core, b);
    uint64_t x = told ? choose_queue(core, a) : connections(core, a);
    uint64_t y = told ? choose_queue(core, b) : connections(core, b);
    const struct bal_worker *worker = core->snap->config.worker;
    return (x + 1) * worker[b].weight <= (y + 1) * worker[a].weight ? a : b;
}

static uint16_t choose_by_scheduler(struct bal_core *core, uint32_t service, uint32_t row)
{
    const struct bal_snapshot *s = core->snap;
    struct field f = {&s->member[s->members[service].first], s->members[service].count, service,
                      &s->up[s->ups[service].first], s->ups[service].count};
    if (!f.count) return BAL_NO_WORKER;
    switch (s->config.service[service].scheduler) {
    case BAL_RR: return rr(core, &f);
    case BAL_WRR: return wrr(core, &f);
    case BAL_LC: return fewest(core, &f);
    case BAL_WLC: return s->ups[service].equal ? fewest(core, &f) : least(core, &f, connections_of);
    case BAL_P2C: return p2c(core, &f);
    case BAL_LEAST_BYTES: return least(core, &f, choose_bytes);
    default: return *bal_table_at(s->table[service], row);
    }
}

uint16_t bal_choose(struct bal_core *core, uint32_t service, uint32_t row)
{
    uint16_t worker = choose_by_scheduler(core, service, row);
    GW_ASSERT(worker == BAL_NO_WORKER ||
              (bal_is_up(core->snap, worker) && bal_keeps(core->snap, worker, service)));
    return worker;
}
