/* SPDX-License-Identifier: Apache-2.0 */
/* A connection to a gRPC server, and unary calls over it. One thread at a time: it is the one that sends and
 * receives. */
#ifndef GW_CLIENT_GRPC_LINK_H
#define GW_CLIENT_GRPC_LINK_H

#include <grpc/grpc.h>

#include "src/client/impl.h"

struct gw_link {
    const struct gw_client *client; /* whose server and token it has */
    grpc_channel *channel;
    grpc_completion_queue *cq;
};

/* A call, from gw_rpc_start to gw_rpc_end. */
struct gw_rpc {
    grpc_call *call; /* NULL: there is none */
    grpc_metadata_array first, last;
    grpc_byte_buffer *out, *in; /* in: the answer, NULL when there is none */
    grpc_status_code status;
    grpc_slice details;
    uint64_t seen; /* when it had ended; 0: it has not */
};

/* Connects when the first call is made. No answer may have more than `most` bytes. 0; -ENOMEM; -EACCES: the
 * certificates' file cannot be read. */
int gw_link_open(const struct gw_client *c, uint64_t most, struct gw_link *l);
/* When no call is left. */
void gw_link_close(struct gw_link *l);
/* Sends and receives, until a call ends or the deadline has passed. */
void gw_link_pump(struct gw_link *l, uint64_t deadline_ns);

/* Takes `message`. Until the deadline; GW_NEVER: there is none. 0 or -EIO. */
int gw_rpc_start(struct gw_link *l, struct gw_rpc *r, const char *method, grpc_byte_buffer *message,
                 uint64_t deadline_ns);
/* Cancels it when it is still under way, and frees all of it. */
void gw_rpc_end(struct gw_link *l, struct gw_rpc *r);

/* Why a call that has ended has no answer, as an errno of struct gw_client_reply; 0: it has one. -ECONNRESET:
 * there is no connection. The reason goes to `why`. */
int gw_rpc_error(const struct gw_link *l, const struct gw_rpc *r, char *why, size_t size);
/* After -ECONNRESET: what gw_client_open says of a server that was not reached. */
int gw_rpc_not_reached(const struct gw_link *l, const struct gw_rpc *r);

#endif
