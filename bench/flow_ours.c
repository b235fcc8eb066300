/* SPDX-License-Identifier: Apache-2.0 */
#include <gpuwire/flow.h>

#include "bench/flow_bench.h"

static struct gw_flow_table *t;
static uint32_t next_worker;

static int open_table(uint64_t flows)
{
    const struct gw_flow_attr attr = {
        .flows = flows, .key_bytes = 8, .flags = GW_FLOW_HUGE_PAGES, .timeout_ns = {FLOW_IDLE_NS}};
    return gw_flow_create(&attr, &t);
}

static void close_table(void)
{
    gw_flow_destroy(t);
}

static size_t lookup(const uint64_t *keys, size_t n)
{
    struct gw_flow found[FLOW_BURST];
    return gw_flow_lookup_bulk(t, keys, n, found);
}

static uint64_t step(const uint64_t *keys, size_t n, uint64_t now_ns)
{
    struct gw_flow found[FLOW_BURST];
    uint64_t sum = 0;
    gw_flow_clock(t, now_ns);
    if (gw_flow_lookup_bulk(t, keys, n, found) < n)
        for (size_t i = 0; i < n; i++)
            if (found[i].slot == GW_FLOW_NONE)
                gw_flow_insert(t, &keys[i], next_worker++ % FLOW_WORKERS, 0, &found[i]);
    for (size_t i = 0; i < n; i++) sum += found[i].worker;
    gw_flow_expire(t, 0);
    return sum;
}

static uint64_t count(void)
{
    return gw_flow_count(t);
}
static uint64_t bytes(void)
{
    return gw_flow_bytes(t);
}

const struct flow_table flow_ours = {"gpuwire", open_table, close_table, lookup, step, count, bytes};
