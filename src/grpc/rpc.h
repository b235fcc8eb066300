/* SPDX-License-Identifier: Apache-2.0 */
/* What a connection (link.c) and the calls over it (call.c) need of their streams in HTTP/2. */
#ifndef GW_GRPC_RPC_H
#define GW_GRPC_RPC_H

#include "src/grpc/state.h"

/* Makes the link's session, with the callbacks of calls. 0 or -ENOMEM. */
int gw_rpc_session(struct gw_link *l);
/* Begins a call's stream on a connection that is there. 0 or -ENOMEM. */
int gw_rpc_submit(struct gw_link *l, struct gw_rpc *r, const char *method);
/* The server learns that the client no longer waits. */
void gw_rpc_forget(struct gw_rpc *r);
/* The connection has gone, or did not come about: so has each of its calls. */
void gw_rpc_lost(struct gw_rpc *r, const char *why);
/* Its deadline has passed. */
void gw_rpc_late(struct gw_rpc *r);
/* Adds a message to the end of a list. */
void gw_rpc_append(struct gw_grpc_message **list, struct gw_grpc_message *m);

#endif
