/* SPDX-License-Identifier: Apache-2.0 */
/* What the registry says to its handler, and what it does later. */
#ifndef GW_FLEET_REGISTRY_SAY_H
#define GW_FLEET_REGISTRY_SAY_H

#include "src/fleet/registry/impl.h"

void fleet_registry_trouble(struct fleet_registry *r, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* Has fleet_registry_leader_settle and fleet_registry_worker_settle called soon: handlers must not close what
 * calls them. */
void fleet_registry_settle(struct fleet_registry *r);

#endif
