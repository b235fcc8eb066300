/* SPDX-License-Identifier: Apache-2.0 */
/* rate.h: congestion control (softnic/transport/rate.c). */
#ifndef SOFTNIC_OBJECT_RATE_H
#define SOFTNIC_OBJECT_RATE_H

#include <stdbool.h>
#include <stdint.h>

/* Congestion control, both sides of it: transport/rate.c. Times are NIC times. */
struct sn_rate {
    uint64_t bytes_per_s; /* at which the queue pair may send; 0: no limit */
    uint64_t target;      /* the rate it goes back to */
    uint32_t alpha;       /* how congested its path was lately: 0 … 1 << 16 */
    uint32_t rounds;      /* half-way steps since the last cut */
    uint64_t cut_at, period_at;
    uint64_t ready_at;     /* its next packet may leave */
    uint64_t wake_at;      /* it waits for that; SN_NEVER: it does not */
    bool notified, notify; /* the peer was sent a notification, at notified_at; it is to be sent one */
    uint64_t notified_at;
};

#endif
