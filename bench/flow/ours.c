/* SPDX-License-Identifier: Apache-2.0 */
#include <gpuwire/flow.h>

#include <stdlib.h>

#include "bench/flow/table.h"
#include "bench/measure.h"
#include "src/flow/layout.h"

struct ours {
    struct gw_flow_table *t;
    uint32_t next_worker;
    struct flow_cost cost;
};

static void *open_table(const struct flow_kind *kind, const struct flow_how *how)
{
    (void)kind;
    struct ours *o = calloc(1, sizeof(*o));
    struct gw_flow_attr attr = {.flows = how->flows, .key_bytes = 8, .flags = GW_FLOW_HUGE_PAGES};
    if (how->deletion == FLOW_EPOCHS) attr.timeout_ns[0] = FLOW_IDLE_NS;
    if (o && !gw_flow_create(&attr, &o->t)) return o;
    free(o);
    return NULL;
}

static void close_table(void *table)
{
    struct ours *o = table;
    if (o) gw_flow_destroy(o->t);
    free(o);
}

static void *join(void *table)
{
    return table;
}
static void leave(void *part)
{
    (void)part;
}

static size_t lookup(void *part, const uint64_t *keys, size_t n)
{
    struct ours *o = part;
    struct gw_flow found[FLOW_MAX_KEYS];
    return gw_flow_lookup_bulk(o->t, keys, n, found);
}

static uint64_t step(void *part, const uint64_t *keys, size_t n, uint64_t now_ns)
{
    struct ours *o = part;
    struct gw_flow found[FLOW_BURST];
    uint64_t sum = 0;
    gw_flow_clock(o->t, now_ns);
    if (gw_flow_lookup_bulk(o->t, keys, n, found) < n) {
        uint64_t start = bench_ticks();
        for (size_t i = 0; i < n; i++) {
            if (found[i].slot != GW_FLOW_NONE) continue;
            gw_flow_insert(o->t, &keys[i], o->next_worker++ % FLOW_WORKERS, 0, &found[i]);
            o->cost.opened++;
        }
        o->cost.ticks += bench_ticks() - start;
    }
    for (size_t i = 0; i < n; i++) sum += found[i].worker;
    gw_flow_expire(o->t, 0);
    return sum;
}

static struct flow_cost cost(const void *part)
{
    const struct ours *o = part;
    return o->cost;
}
static uint64_t count(const void *table)
{
    const struct ours *o = table;
    return gw_flow_count(o->t);
}
static uint64_t bytes(const void *table)
{
    const struct ours *o = table;
    return gw_flow_bytes(o->t);
}

/* One for the first bucket, and one more where the flow lies in its second one. */
double flow_ours_lines(const void *table)
{
    const struct ours *o = table;
    uint64_t second = 0;
    for (uint64_t b = 0; b < o->t->buckets; b++)
        for (unsigned w = 0; w < WAYS; w++)
            if (o->t->bucket[b].used >> w & 1)
                second += first_bucket(o->t, flow_place_of(o->t, key_at(o->t, b, w)).hash) != b;
    return 1 + (double)second / (double)gw_flow_count(o->t);
}

const struct flow_kind flow_ours = {.name = "gpuwire",
                                    .sharings = 1u << FLOW_PER_CORE,
                                    .deletions = 1u << FLOW_NEVER | 1u << FLOW_EPOCHS,
                                    .open = open_table,
                                    .close = close_table,
                                    .join = join,
                                    .leave = leave,
                                    .lookup = lookup,
                                    .step = step,
                                    .cost = cost,
                                    .count = count,
                                    .bytes = bytes};
