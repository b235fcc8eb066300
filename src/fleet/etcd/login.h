/* SPDX-License-Identifier: Apache-2.0 */
/* A user's password becomes a token. */
#ifndef GW_FLEET_ETCD_LOGIN_H
#define GW_FLEET_ETCD_LOGIN_H

#include "src/fleet/etcd/state.h"

/* Asks for a token, where there is a user. 0: there is one, or none is needed. -EAGAIN: later. */
int fleet_etcd_login(struct fleet_etcd *e);

#endif
