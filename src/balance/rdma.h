/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rdma.h: RoCEv2: which worker has a queue pair. All packets of one client come to one core.
 */
#ifndef GW_SRC_BALANCE_RDMA_H
#define GW_SRC_BALANCE_RDMA_H

#include "src/balance/step.h"

/* Takes a packet of a RoCE service, which has been looked up, on its way. */
void bal_roce(struct bal_core *core, struct bal_work *w);

#endif
