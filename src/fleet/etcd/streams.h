/* SPDX-License-Identifier: Apache-2.0 */
/* Calls of many messages, which come back with each connection. */
#ifndef GW_FLEET_ETCD_STREAMS_H
#define GW_FLEET_ETCD_STREAMS_H

#include "src/fleet/etcd/state.h"

/* The owner is set in *s; it hears `ready` soon. */
void fleet_etcd_stream_add(struct fleet_etcd *e, struct fleet_etcd_stream *s);
/* It hears no more. */
void fleet_etcd_stream_drop(struct fleet_etcd *e, struct fleet_etcd_stream *s);
/* Gives their owners what came. */
void fleet_etcd_streams_look(struct fleet_etcd *e);
/* The connection has gone: so have they. */
void fleet_etcd_streams_lose(struct fleet_etcd *e);
/* There is a connection: starts those that do not run. */
void fleet_etcd_streams_start(struct fleet_etcd *e);

#endif
