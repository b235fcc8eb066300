/* SPDX-License-Identifier: Apache-2.0 */
/* A connection to a gRPC server, and calls over it. One thread at a time: it is the one that sends and
 * receives. */
#ifndef GW_GRPC_LINK_H
#define GW_GRPC_LINK_H

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

/* Connects when the first call is made. 0; -ENOMEM; -EACCES: the certificates' file cannot be read. */
int gw_link_open(const struct gw_link_opts *opts, struct gw_link *l);
/* When no call is left. */
void gw_link_close(struct gw_link *l);

/* Makes a connection if there is none, or none that takes calls. 0, or a negative errno when it cannot be had
 * now; l->error and l->why say more. */
int gw_link_connect(struct gw_link *l);
/* Is there a connection, with TLS where asked? */
bool gw_link_is_up(const struct gw_link *l);
/* Gives the connection up; its calls end without an answer. */
void gw_link_drop(struct gw_link *l, int err, const char *why);

/* Sends and receives, until a call ends or the deadline has passed. */
void gw_link_pump(struct gw_link *l, uint64_t deadline_ns);
/* The same without waiting, for those who have other things to wait for. Returns when to call it again at the
 * latest; GW_NEVER: only when its descriptor has news. */
uint64_t gw_link_step(struct gw_link *l);
/* The descriptor to wait for, and its poll(2) events; -1: there is none. */
int gw_link_fd(const struct gw_link *l, short *events);

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
