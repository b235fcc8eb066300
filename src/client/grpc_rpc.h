/* SPDX-License-Identifier: Apache-2.0 */
/* The common part of a connection to a gRPC server (grpc_link.c) and its calls (grpc_rpc.c). */
#ifndef GW_CLIENT_GRPC_RPC_H
#define GW_CLIENT_GRPC_RPC_H

#include "src/client/grpc_link.h"

/* Makes the link's session, with the callbacks of calls. 0 or -ENOMEM. */
int gw_rpc_session(struct gw_link *l);
/* The connection has gone, or did not come about: so has each of its calls. */
void gw_rpc_lost(struct gw_rpc *r, const char *why);
/* Its deadline has passed. */
void gw_rpc_late(struct gw_rpc *r);
/* Makes a connection if there is none, or none that takes calls. 0, or a negative errno when it cannot be had
 * now; l->error and l->why say more. */
int gw_link_connect(struct gw_link *l);

#endif
