/* SPDX-License-Identifier: Apache-2.0 */
/* Calls over a connection to a gRPC server, from their start to their end. The link's thread alone. */
#ifndef GW_GRPC_CALL_H
#define GW_GRPC_CALL_H

#include "src/grpc/link.h"

/* Takes `message` (NULL: there was no memory for one). Until the deadline; GW_NEVER: there is none. 0 or
 * -ENOMEM. */
int gw_rpc_start(struct gw_link *l, struct gw_rpc *r, const char *method, struct gw_grpc_message *message,
                 uint64_t deadline_ns);
/* The same for a call of many messages in both directions. The caller takes those that came out of r->in,
 * where the oldest is first. */
int gw_rpc_start_stream(struct gw_link *l, struct gw_rpc *r, const char *method,
                        struct gw_grpc_message *message);
/* Sends one more, which it takes (NULL as above). 0; -ENOMEM; -ENOTCONN: the call has ended. */
int gw_rpc_send(struct gw_link *l, struct gw_rpc *r, struct gw_grpc_message *message);
/* The oldest message that came, which becomes the caller's; NULL: there is none. */
struct gw_grpc_message *gw_rpc_take(struct gw_rpc *r);
/* Cancels it when it is still under way, and frees all of it. */
void gw_rpc_end(struct gw_link *l, struct gw_rpc *r);

/* Why a call that has ended has no answer, as an errno of struct gw_client_reply; 0: it has one. -ECONNRESET:
 * there is no connection. The reason goes to `why`. */
int gw_rpc_error(const struct gw_link *l, const struct gw_rpc *r, char *why, size_t size);
/* What the server or the connection said about a call that has ended, without what could steer a terminal.
 * Returns `to`. */
const char *gw_rpc_said(const struct gw_rpc *r, char *to, size_t size);

#endif
