/* SPDX-License-Identifier: Apache-2.0 */
/* A connection of the gRPC door: HTTP/2, its calls, and what they may use.
 *
 * Its lock is taken for anything that is done to it. Any thread may: the one that reads its socket, and those
 * that answer its calls, which send their answers themselves. */
#ifndef GW_SERVER_GRPC_CONN_H
#define GW_SERVER_GRPC_CONN_H

#include <openssl/ssl.h>
#include <stdint.h>

#include "src/server/grpc/account.h"
#include "src/server/grpc/pool.h"
#include "src/server/grpc/request.h"
#include "src/door/limit.h"

struct gw_grpc_conn;

/* The state that all connections share. */
struct gw_grpc_env {
    struct gw_grpc_accounts accounts;
    struct gw_grpc_rules rules;
    struct gw_grpc_pool *pool;
    void *ctx;            /* of the methods */
    uint64_t max_body;    /* bytes of one */
    uint64_t patience_ns; /* for a client to send its message, or to take the answer */
    uint64_t idle_ns;     /* how long a stream may be silent */
    SSL_CTX *tls;         /* NULL: no encryption */
    struct gw_say_limit said;
    uint32_t turns; /* that are worked on, or whose answer has not left; atomic */
};

/* Tells that the socket is to be watched for `out` (and not for what comes in), or the other way round. It is
 * called with the connection's lock held. */
typedef void gw_grpc_watch(void *ctx, int out);

/* A connection on `fd`, which stays the caller's. NULL: no memory. The environment's client is joined. */
struct gw_grpc_conn *gw_grpc_conn_open(struct gw_grpc_env *env, int fd, const char *who, gw_grpc_watch *watch,
                                       void *ctx);
/* The socket is readable, or writable; `room` is for what is read. *due: when to look at it at the latest.
 * 0, or -ECONNRESET: gw_grpc_conn_end follows. */
int gw_grpc_conn_work(struct gw_grpc_conn *n, uint8_t *room, size_t size, uint64_t *due);
/* Ends calls that are late. *due and result as above. */
int gw_grpc_conn_look(struct gw_grpc_conn *n, uint64_t now, uint64_t *due);
/* No new calls; those that do not work on a message end. -ECONNRESET: all is over. */
int gw_grpc_conn_finish(struct gw_grpc_conn *n);
/* Ends it: whatever it has is cancelled. Calls that threads work on keep their memory until they are done. */
void gw_grpc_conn_end(struct gw_grpc_conn *n);

/* Has it calls under way, or was the last one over less than that ago? */
int gw_grpc_conn_is_used(struct gw_grpc_conn *n, uint64_t idle_ns);

#endif
