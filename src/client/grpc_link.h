/* SPDX-License-Identifier: Apache-2.0 */
/* A connection to a gRPC server, and unary calls over it. One thread at a time: it is the one that sends and
 * receives. */
#ifndef GW_CLIENT_GRPC_LINK_H
#define GW_CLIENT_GRPC_LINK_H

#include "src/client/grpc_dial.h"
#include "src/client/impl.h"
#include "src/server/grpc/wire/h2.h"
#include "src/server/grpc/wire/message.h"
#include "src/server/grpc/wire/status.h"

#define GW_RPC_WHY 256

struct gw_link {
    const struct gw_client *client; /* whose server and token it has; NULL: it is closed */
    uint64_t most;                  /* bytes of an answer */
    SSL_CTX *tls;                   /* NULL: in the clear */
    struct gw_dial dial;            /* while it connects */
    struct gw_h2 h2;                /* fd -1: there is no connection */
    int is_going;                   /* the server takes no more calls on it */
    uint64_t since;                 /* it has been connecting since then */
    uint64_t again, pause;          /* not before; how long that was after the last attempt */
    struct gw_rpc *calls;           /* under way */
    uint8_t *room;
    int error; /* why there is no connection: a negative errno */
    char why[GW_RPC_WHY];
};

/* A call, from gw_rpc_start to gw_rpc_end. */
struct gw_rpc {
    struct gw_link *link; /* NULL: there is no call */
    struct gw_rpc *next, **place;
    int32_t stream;
    struct gw_grpc_message *out, *in; /* in: the answer, NULL when there is none */
    struct gw_grpc_inbox inbox;
    uint64_t deadline;
    unsigned http, status; /* what the server says; http 0: nothing yet */
    int has_status, is_gone;
    char why[GW_RPC_WHY];
    uint64_t seen; /* when it had ended; 0: it has not */
};

/* Connects when the first call is made. No answer may have more than `most` bytes. 0; -ENOMEM; -EACCES: the
 * certificates' file cannot be read. */
int gw_link_open(const struct gw_client *c, uint64_t most, struct gw_link *l);
/* When no call is left. */
void gw_link_close(struct gw_link *l);
/* Sends and receives, until a call ends or the deadline has passed. */
void gw_link_pump(struct gw_link *l, uint64_t deadline_ns);

/* Takes `message` (NULL: there was no memory for one). Until the deadline; GW_NEVER: there is none. 0 or
 * -ENOMEM. */
int gw_rpc_start(struct gw_link *l, struct gw_rpc *r, const char *method, struct gw_grpc_message *message,
                 uint64_t deadline_ns);
/* Cancels it when it is still under way, and frees all of it. */
void gw_rpc_end(struct gw_link *l, struct gw_rpc *r);

/* Why a call that has ended has no answer, as an errno of struct gw_client_reply; 0: it has one. -ECONNRESET:
 * there is no connection. The reason goes to `why`. */
int gw_rpc_error(const struct gw_link *l, const struct gw_rpc *r, char *why, size_t size);
/* After -ECONNRESET: what gw_client_open says of a server that was not reached. */
int gw_rpc_not_reached(const struct gw_link *l, const struct gw_rpc *r);

#endif
