/* SPDX-License-Identifier: Apache-2.0 */
/* What the flow benchmark asks of a table. Each call takes a whole burst. */
#ifndef BENCH_FLOW_BENCH_H
#define BENCH_FLOW_BENCH_H

#include <stddef.h>
#include <stdint.h>

enum { FLOW_BURST = 64, FLOW_WORKERS = 64 };
#define FLOW_IDLE_NS UINT64_C(2000000000)

struct flow_table {
    const char *name;
    int (*open)(uint64_t flows);
    void (*close)(void);
    /* Lookups alone: how many of the keys are there. */
    size_t (*lookup)(const uint64_t *keys, size_t n);
    /* A packet of each key: finds its worker or chooses one and remembers it; frees flows whose time is
     * over. Returns the sum of the workers. */
    uint64_t (*step)(const uint64_t *keys, size_t n, uint64_t now_ns);
    uint64_t (*count)(void);
    uint64_t (*bytes)(void); /* 0: it cannot tell */
};

extern const struct flow_table flow_ours;
extern const struct flow_table *flow_peer(void); /* NULL: built without DPDK */

#endif
