/* SPDX-License-Identifier: Apache-2.0 */
/* The check of a worker by RDMA: a session of `gpuwire serve`, and one request through it, on a thread. */
#ifndef GW_BALANCE_CONTROL_PROBE_RDMA_H
#define GW_BALANCE_CONTROL_PROBE_RDMA_H

#include <stdbool.h>

#include "src/balance/control/model.h"

#define GW_BAL_RDMA_CHECKS 64u /* at once: each has a thread */

/* May another check begin? A thread whose check took too long counts until it has ended. */
bool gw_bal_rdma_room(void);

/* A descriptor from which "ok", or why it went wrong, can be read; it does not block. -1: no thread, no
 * memory. */
int gw_bal_rdma_begin(const struct gw_bal_addr *addr, uint16_t port, const struct gw_bal_ask *ask);

#endif
