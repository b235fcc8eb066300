/* SPDX-License-Identifier: Apache-2.0 */
/* choose.h: which worker gets a new flow. A core's own thread. */
#ifndef GW_SRC_BALANCE_CHOOSE_H
#define GW_SRC_BALANCE_CHOOSE_H

#include "src/balance/balance.h"

/* The row of a client in Maglev's tables. */
uint32_t bal_row(const struct bal_snapshot *s, uint32_t service, const uint8_t *addr, bool ipv6,
                 uint16_t port);
/* The worker of a new flow, or BAL_NO_WORKER. */
uint16_t bal_choose(struct bal_core *core, uint32_t service, uint32_t row);
/* Below n, from what no stranger knows. */
uint32_t bal_random_below(struct bal_choice *c, uint32_t n);
/* Tells the choice that a flow was opened. */
static inline void bal_chosen(struct bal_core *core, uint16_t worker)
{
    core->choice.since[worker]++;
}

#endif
