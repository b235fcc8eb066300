/* SPDX-License-Identifier: Apache-2.0 */
/* Time: flows whose time is over, and the sweep that frees them. */
#include "src/flow/layout.h"

static size_t expire_sweep(struct gw_flow_table *t, size_t buckets)
{
    size_t freed = 0;
    for (; buckets; buckets--) {
        struct bucket *b = &t->bucket[t->at];
        for (unsigned w = 0; w < WAYS; w++)
            if (b->used >> w & 1 && flow_is_over(t, b->value[w])) {
                gw_flow_free_slot(t, t->at, w);
                freed++;
            }
        if (++t->at < t->buckets) continue;
        t->at = 0;
        t->safe_tick = t->round_tick;
        t->round_tick = t->tick;
    }
    return freed;
}

static void expire_sweep_all(struct gw_flow_table *t)
{
    t->at = 0;
    t->round_tick = t->tick;
    expire_sweep(t, t->buckets);
}

/*
 * A flow's epoch wraps around. A flow that the sweep has not visited for the epoch's whole range would look
 * young again. So the clock never runs ahead of the sweep by as much: it sweeps by itself where no caller
 * did. After two such sweeps no flow with a time-out is left, however far the clock jumps.
 */
void gw_flow_clock(struct gw_flow_table *t, uint64_t now_ns)
{
    if (now_ns <= t->now_ns) return;
    t->now_ns = now_ns;
    if (now_ns < t->next_tick_ns && t->flows) return; /* as nearly always */
    uint64_t tick = now_ns / t->tick_ns;
    t->next_tick_ns = (tick + 1) * t->tick_ns;
    if (!t->flows) { /* nothing to sweep */
        t->at = 0;
        t->safe_tick = t->round_tick = tick;
        t->swept_ns = now_ns;
    }
    for (int i = 0; tick - t->safe_tick > MAX_TICKS && i < 3; i++) {
        uint64_t step = t->safe_tick + MAX_TICKS;
        if (step > t->tick) t->tick = step;
        expire_sweep_all(t);
        t->safe_tick = t->tick;
    }
    if (tick - t->safe_tick > MAX_TICKS) t->safe_tick = t->round_tick = tick;
    t->tick = tick;
    GW_ASSERT(t->tick - t->safe_tick <= MAX_TICKS);
}

uint64_t gw_flow_tick_ns(const struct gw_flow_table *t)
{
    return t->tick_ns;
}

size_t gw_flow_expire(struct gw_flow_table *t, size_t buckets)
{
    uint64_t round_ns = t->round_ticks * t->tick_ns, since = t->now_ns - t->swept_ns;
    if (buckets) {
        t->swept_ns = t->now_ns;
    } else {
        if (since > round_ns) t->swept_ns = t->now_ns - (since = round_ns);
        buckets = (size_t)((double)since * t->buckets_per_ns);
        if (!buckets) return 0;
        t->swept_ns +=
            (uint64_t)((double)buckets * t->ns_per_bucket); /* what is left of a bucket's time is not lost */
    }
    size_t freed = expire_sweep(t, buckets < t->buckets ? buckets : t->buckets);
    __builtin_prefetch(&t->bucket[t->at], 1); /* for the next call: it comes from memory */
    return freed;
}

int gw_flow_scan(struct gw_flow_table *t, uint64_t *cursor, size_t buckets,
                 void (*visit)(void *ctx, const void *key, const struct gw_flow *flow), void *ctx)
{
    for (; buckets && *cursor < t->buckets; buckets--, ++*cursor) {
        const struct bucket *b = &t->bucket[*cursor];
        for (unsigned w = 0; w < WAYS; w++) {
            if (!(b->used >> w & 1) || flow_is_over(t, b->value[w])) continue;
            struct gw_flow flow = {flow_slot_of(*cursor, w), (uint16_t)flow_worker_of(b->value[w]),
                                   (uint8_t)flow_state_of(b->value[w]), 0};
            visit(ctx, key_at(t, *cursor, w), &flow);
        }
    }
    return *cursor < t->buckets;
}
