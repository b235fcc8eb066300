/* SPDX-License-Identifier: Apache-2.0 */
/* answer.h: what is for the balancer itself, and what it answers. */
#ifndef GW_SRC_BALANCE_ANSWER_H
#define GW_SRC_BALANCE_ANSWER_H

#include "src/balance/step.h"

/* ARP, neighbour discovery, ping. Others' packets are dropped. */
void bal_for_us(struct bal_core *core, struct bal_work *w);

#endif
