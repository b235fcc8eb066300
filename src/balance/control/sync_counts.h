/* SPDX-License-Identifier: Apache-2.0 */
/* sync_counts.h: how telling a standby of flows goes. Any thread. */
#ifndef GW_BALANCE_CONTROL_SYNC_COUNTS_H
#define GW_BALANCE_CONTROL_SYNC_COUNTS_H

#include <stdint.h>

struct gw_bal_sync;

struct gw_bal_sync_counts {
    uint64_t sent, received;  /* records */
    uint64_t unknown;         /* that named a service or worker which is not here */
    uint64_t lost;            /* that the cores did not take in time */
    uint64_t sends, receives; /* 1: there is a standby to tell; it is a standby itself */
    uint64_t heard_ns;        /* when another balancer spoke last; 0: none has */
    uint64_t connected;       /* 1: every balancer that the file names has spoken within seconds */
};

void gw_bal_sync_counts(const struct gw_bal_sync *s, struct gw_bal_sync_counts *out);

#endif
