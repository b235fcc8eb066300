/* SPDX-License-Identifier: Apache-2.0 */
/* Whether etcd answers, and what to do when it does not. */
#ifndef GW_FLEET_ETCD_HEALTH_H
#define GW_FLEET_ETCD_HEALTH_H

#include "src/fleet/etcd/state.h"

/* Has the client look around soon: there is something to send. */
void fleet_etcd_kick(struct fleet_etcd *e);
/* etcd answered: it is there. */
void fleet_etcd_well(struct fleet_etcd *e);
/* This member is of no use now: goes on to the next one. A silent one is left even when it is the only one:
 * another connection may do better. */
void fleet_etcd_leave(struct fleet_etcd *e, bool is_silent, const char *why);
/* How long a member may be silent now: longer after failures, so that a slow one is not left each time. */
uint64_t fleet_etcd_patience(const struct fleet_etcd *e);
/* It may be gone: unless it answers within a second, we say so. */
void fleet_etcd_doubt(struct fleet_etcd *e);
/* etcd knows the token no more. */
void fleet_etcd_logout(struct fleet_etcd *e);

#endif
