/* SPDX-License-Identifier: Apache-2.0 */
/* Calls of one question and one answer. */
#ifndef GW_FLEET_ETCD_CALLS_H
#define GW_FLEET_ETCD_CALLS_H

#include <protobuf-c/protobuf-c.h>

#include "src/fleet/etcd/state.h"

struct fleet_etcd_ask {
    const char *method;
    fleet_etcd_read *read;
    const ProtobufCMessage *message;
};
/* Makes a call of any kind; it waits until the client is ready. 0, -ENOMEM or -EINVAL (it is too large). */
int fleet_etcd_ask(struct fleet_etcd *e, const struct fleet_etcd_ask *ask, const struct fleet_etcd_how *how,
                   struct fleet_etcd_call **call);
/* Sends what waits. */
void fleet_etcd_calls_start(struct fleet_etcd *e);
/* Deals with those that have ended. */
void fleet_etcd_calls_look(struct fleet_etcd *e);
/* When the oldest answer is overdue; GW_NEVER: none is expected. */
uint64_t fleet_etcd_calls_overdue(const struct fleet_etcd *e);
/* Frees all, without a word. */
void fleet_etcd_calls_close(struct fleet_etcd *e);

#endif
