/* SPDX-License-Identifier: Apache-2.0 */
/* A controller's part of the registry. */
#ifndef GW_FLEET_REGISTRY_LEADER_H
#define GW_FLEET_REGISTRY_LEADER_H

#include "src/fleet/registry/impl.h"

/* Ends a campaign that was given up, and begins one that was asked for since. */
void fleet_registry_leader_settle(struct fleet_registry *r);

#endif
