/* SPDX-License-Identifier: Apache-2.0 */
/* forward.h: sending a packet on: the next hop, its MAC, and whether the packet fits. */
#ifndef GW_SRC_BALANCE_FORWARD_H
#define GW_SRC_BALANCE_FORWARD_H

#include "src/balance/step.h"

/* Sends the packet to a worker as the service says. */
void bal_to_worker(struct bal_core *core, struct bal_work *w, uint16_t worker);
/* Sends a worker's packet to its client, as if it came from the VIP. */
void bal_to_client(struct bal_core *core, struct bal_work *w, uint16_t worker);

#endif
