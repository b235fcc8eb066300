/* SPDX-License-Identifier: Apache-2.0 */
/* burst.h: a burst's way through a core. */
#ifndef GW_SRC_BALANCE_BURST_H
#define GW_SRC_BALANCE_BURST_H

#include "src/balance/balance.h"

/*
 * Takes n packets from parsing to forwarding. Each gets its verdict. now_ns: CLOCK_MONOTONIC, or a simulated
 * clock that does not go back.
 */
void gw_balance_burst(struct bal_core *core, struct bal_packet *packets, size_t n, uint64_t now_ns);

#endif
