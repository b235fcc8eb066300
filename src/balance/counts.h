/* SPDX-License-Identifier: Apache-2.0 */
/* counts.h: sums of what the cores count. Any thread. */
#ifndef GW_SRC_BALANCE_COUNTS_H
#define GW_SRC_BALANCE_COUNTS_H

#include <stdint.h>

#include "src/balance/drop.h"

struct bal;

struct bal_counts {
    uint64_t packets, bytes; /* forwarded, both directions */
    uint64_t opened;         /* connections that it was given, or that this balancer was told of */
    uint64_t live;           /* of these; as of the core's last housekeeping, 100 ms ago at most */
    uint64_t held;           /* beside these: requests of CM, and packets in fragments, that are under way */
    uint64_t clients;        /* that stick to it, persist_ns; of about a second ago */
};
struct bal_totals {
    uint64_t received, received_bytes;
    uint64_t packets, bytes; /* forwarded */
    uint64_t answered;       /* ARP, ND, ICMP that the balancer itself answered */
    uint64_t opened, expired, evicted;
    uint64_t moved;     /* flows that left a dead worker */
    uint64_t stateless; /* packets forwarded by Maglev alone: the table was full, or the state was lost */
    uint64_t live;
    uint64_t neighbours; /* clients on the link whose MAC is known */
    uint64_t displaced;  /* entries for MACs that made room before their time: the table is too small */
    uint64_t drop[BAL_DROPS];
};

/* Sums over all cores (core < 0), or of one. Each number is right by itself; together they are of about now.
 */
void bal_totals(const struct bal *bal, int core, struct bal_totals *out);
void bal_worker_counts(const struct bal *bal, uint32_t worker, struct bal_counts *out);
/* Live and held of bal_worker_counts: the worker still needs its connections. When a worker was set to
 * BAL_DRAINING or BAL_DOWN, wait for bal_generation_seen and 200 ms before believing in 0. */
uint64_t bal_worker_live(const struct bal *bal, uint32_t worker);

#endif
