/* SPDX-License-Identifier: Apache-2.0 */
/* Flows go from an active balancer to its standby, over TLS with a key that both have. There are tables,
 * which say what the numbers of services and workers mean, and batches of records. Each frame has a number,
 * which the standby answers. Each side notices within seconds that the other is silent. Both balancers run
 * the same version of gpuwire. */
#ifndef GW_BALANCE_CONTROL_SYNC_H
#define GW_BALANCE_CONTROL_SYNC_H

#include <stdint.h>

#include "src/balance/control/agent.h"
#include "src/balance/control/sync_counts.h"

/* Sends, receives, or both, as the file says; *out is NULL when it says neither. 0 or a negative errno with
 * the reason in gw_last_error(). */
int gw_bal_sync_start(struct bal *bal, const struct gw_bal_global *g, struct gw_bal_agent *agent,
                      struct gw_bal_sync **out);
void gw_bal_sync_stop(struct gw_bal_sync *s);

#endif
