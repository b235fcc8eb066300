/* SPDX-License-Identifier: Apache-2.0 */
/* A connection to a gRPC server, and its calls: what link.h, rpc.h and call.h work on. */
#ifndef GW_GRPC_STATE_H
#define GW_GRPC_STATE_H

#include "src/grpc/dial.h"
#include "src/server/grpc/wire/h2.h"
#include "src/server/grpc/wire/message.h"
#include "src/server/grpc/wire/status.h"

#define GW_RPC_WHY      256
#define GW_LINK_HEADERS 2

/* Whom a link speaks to. The strings stay the caller's, and there, while the link is open. */
struct gw_link_opts {
    const char *authority; /* "host:port": what the server is asked for, and proves by TLS */
    const char *address;   /* where it is, as "address:port"; NULL: where the authority's name says */
    const char *base;      /* the server in messages */
    const char *ca_file;   /* what vouches for it; NULL: the system's certificates */
    const char *token;     /* what it wants to see, a bearer token; NULL: none */
    const char *header[GW_LINK_HEADERS][2]; /* names and values that each call has, too, and no table keeps */
    int encrypted;
    uint64_t timeout_ns; /* of connecting */
    uint64_t most;       /* bytes of an answer */
};

struct gw_link {
    struct gw_link_opts opts;
    SSL_CTX *tls;          /* NULL: in the clear */
    struct gw_dial dial;   /* while it connects */
    struct gw_h2 h2;       /* fd -1: there is no connection */
    int is_going;          /* the server takes no more calls on it */
    uint64_t since;        /* it has been connecting since then */
    uint64_t again, pause; /* not before; how long that was after the last attempt */
    uint64_t heard;        /* when something came last; 0: nothing has */
    struct gw_rpc *calls;  /* under way */
    uint8_t *room;         /* NULL: it is closed */
    int error;             /* why there is no connection: a negative errno */
    char why[GW_RPC_WHY];
};

/* A call, from gw_rpc_start to gw_rpc_end. */
struct gw_rpc {
    struct gw_link *link; /* NULL: there is no call */
    struct gw_rpc *next, **place;
    int32_t stream;
    struct gw_grpc_message *out, *in; /* lists. in: the answer, NULL when there is none */
    int is_stream;                    /* either side may send more messages */
    int is_deferred;                  /* HTTP/2 waits for more to send */
    struct gw_grpc_inbox inbox;
    uint64_t deadline;
    unsigned http, status; /* what the server says; http 0: nothing yet */
    int has_status, is_gone;
    char why[GW_RPC_WHY];
    uint64_t seen; /* when it had ended; 0: it has not */
};

#endif
