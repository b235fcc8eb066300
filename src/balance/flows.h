/* SPDX-License-Identifier: Apache-2.0 */
/* flows.h: TCP and UDP: a packet moves its flow on, and goes where the flow goes. */
#ifndef GW_SRC_BALANCE_FLOWS_H
#define GW_SRC_BALANCE_FLOWS_H

#include "src/balance/step.h"

/* A client's packet, or an ICMP error about what its worker sent. It may open a flow. */
void bal_flow_of_client(struct bal_core *core, struct bal_work *w);
/* With NAT, a worker's. It opens none. */
void bal_flow_of_worker(struct bal_core *core, struct bal_work *w);

#endif
