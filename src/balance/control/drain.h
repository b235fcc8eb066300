/* SPDX-License-Identifier: Apache-2.0 */
/* How long a worker may drain. A client that never pauses, as UDP allows, would keep it forever. When the
 * limit has passed, the worker's connections go to others, as if it were down. */
#ifndef GW_BALANCE_CONTROL_DRAIN_H
#define GW_BALANCE_CONTROL_DRAIN_H

#include <stdbool.h>

#include "src/balance/control/model.h"

#define GW_BAL_DRAIN_ALWAYS UINT64_MAX /* a limit: there is none. 0: the default of what stands above it */
#define GW_BAL_DRAIN_UDP                                                                                     \
    (300 * 1000000000ull) /* of a UDP service. TCP's and RoCE's clients end by themselves */
#define GW_BAL_DRAIN_MAX (86400 * 1000000000ull)

/* Of the protocol, of the service, and of this worker in it. GW_BAL_DRAIN_ALWAYS: none. */
uint64_t gw_bal_drain_default(uint8_t protocol);
uint64_t gw_bal_drain_limit_of(const struct gw_bal_service *s);
uint64_t gw_bal_drain_limit(const struct gw_bal_worker *w);
/* How long this drain, which has begun, may last from now on; 0: as the service says. */
void gw_bal_limit_drain(struct gw_bal_model *m, struct gw_bal_worker *w, uint64_t limit_ns, uint64_t now_ns);
/* Begins and ends the time of a drain. Returns true when it has passed just now, or does not count any
 * more. */
bool gw_bal_tend_drain(struct gw_bal_model *m, struct gw_bal_worker *w, uint64_t now_ns);

#endif
