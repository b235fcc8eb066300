/* SPDX-License-Identifier: Apache-2.0 */
/* A worker's part of the registry. */
#ifndef GW_FLEET_REGISTRY_ENLIST_H
#define GW_FLEET_REGISTRY_ENLIST_H

#include "src/fleet/registry/impl.h"

/* Ends a registration that was given up. */
void fleet_registry_worker_settle(struct fleet_registry *r);

#endif
