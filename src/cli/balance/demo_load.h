/* SPDX-License-Identifier: Apache-2.0 */
/* The demo's workers and clients: connections that ask again and again, and note who answers. */
#ifndef GW_CLI_BALANCE_DEMO_LOAD_H
#define GW_CLI_BALANCE_DEMO_LOAD_H

#include <stdatomic.h>
#include <stdint.h>

#include "src/cli/balance/demo_net.h"

/* Of a worker that drains, and one that dies: DYING until the balancer has noticed. */
enum {
    GW_DEMO_WARM,
    GW_DEMO_DRAINED,
    GW_DEMO_DYING,
    GW_DEMO_KILLED,
    GW_DEMO_PHASES,
    GW_DEMO_END = GW_DEMO_PHASES
};

/* In memory that the demo and the clients share. A connection counts in the phase in which it began. */
struct gw_demo_tally {
    _Atomic int phase; /* the demo sets it; GW_DEMO_END ends the clients */
    struct {
        _Atomic uint64_t opened[GW_DEMO_PHASES], answers, broken, moved;
        _Atomic uint64_t staying; /* connections that stay, now */
    } of[GW_DEMO_WORKERS];
    /* no worker ever answered; DYING: one may have been the dead one's */
    _Atomic uint64_t unanswered[GW_DEMO_PHASES];
};

#define GW_DEMO_STAYING 200 /* connections that stay open, and ask ten times a second each */

/* Neither returns. */
_Noreturn void gw_demo_worker(unsigned number);
_Noreturn void gw_demo_clients(struct gw_demo_tally *t);

#endif
