/* SPDX-License-Identifier: Apache-2.0 */
/* Which controller leads: etcd says so (registry.h). Also, what the leader writes there for the next one. */
#ifndef GW_FLEET_CONTROL_LEAD_H
#define GW_FLEET_CONTROL_LEAD_H

#include "src/fleet/control/control.h"
#include "src/fleet/registry/registry.h"

struct fleet_lead;

/* Campaigns for the controller, which workers and clients reach at `address`. `me` is copied. */
int fleet_lead_open(struct fleet_loop *loop, const struct fleet_registry_opts *opts,
                    const struct fleet_registry_leader *me, struct fleet_control *control,
                    void (*say)(void *ctx, const char *line), struct fleet_lead **out);
/* Gives leadership up. NULL is allowed. */
void fleet_lead_close(struct fleet_lead *l);

#endif
