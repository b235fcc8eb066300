/* SPDX-License-Identifier: Apache-2.0 */
/* The common part of a connection to a gRPC server (link.c) and its calls (rpc.c). */
#ifndef GW_GRPC_RPC_H
#define GW_GRPC_RPC_H

#include "src/grpc/link.h"

/* Makes the link's session, with the callbacks of calls. 0 or -ENOMEM. */
int gw_rpc_session(struct gw_link *l);
/* The connection has gone, or did not come about: so has each of its calls. */
void gw_rpc_lost(struct gw_rpc *r, const char *why);
/* Its deadline has passed. */
void gw_rpc_late(struct gw_rpc *r);

#endif
