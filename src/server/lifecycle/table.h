/* SPDX-License-Identifier: Apache-2.0 */
/* The sessions that clients have opened over HTTP: who holds which, and for how long. A session ends
 * when its client says so, when the connection that opened it closes, when its queue pair fails, and when it
 * is not used. Any thread may call all of it, but gw_table_tend, which one thread calls. The lock is held for
 * a few instructions; nothing is waited for under it. */
#ifndef GW_SERVER_LIFECYCLE_TABLE_H
#define GW_SERVER_LIFECYCLE_TABLE_H

#include <pthread.h>
#include <stddef.h>

#include "src/door/access.h"
#include "src/door/limit.h"
#include "src/server/worker/session.h"
#include "src/door/who.h"
#include "src/server/worker/worker.h"

#define GW_SESSION_ID 33 /* bytes of an id, with the final zero */
#define GW_SERVER_ID  9  /* the same of a server's, which is random */

struct gw_table_session;

/* Something between clients and this server that must know of the sessions: a load balancer. `open` comes
 * before the client is told of its session, and may change `own`, the endpoint that the client gets. `open`
 * returns 1: it must be told of the session's end. 0: the session does not concern it. A negative errno, with
 * the reason in gw_last_error(): there is no session. Any thread. `open` may wait for seconds, `close` may
 * not. */
struct gw_table_route {
    void *ctx;
    int (*open)(void *ctx, const struct gw_session_wish *wish, struct gw_endpoint *own);
    void (*close)(void *ctx, const uint8_t client_gid[16], uint32_t qpn);
};

struct gw_table {
    pthread_mutex_t lock;
    const struct gw_table_route *route; /* NULL: there is none */
    char server[GW_SERVER_ID];          /* the end of each session's id; other servers have another one */
    struct gw_table_session *first;
    uint32_t max_each;        /* sessions of one model that one client may have */
    uint64_t unused_ns;       /* how long a session lives without a first request */
    uint64_t idle_ns;         /* and how long after the last one; 0: forever */
    int news_fd;              /* an eventfd: readable when gw_table_tend has something to do */
    struct gw_access *access; /* sessions that open and close are logged there; NULL: nowhere */
    struct gw_say_limit said;
};

/* 0 or a negative errno with the reason in gw_last_error(). */
int gw_table_init(struct gw_table *t, uint32_t max_each, uint64_t unused_ns, uint64_t idle_ns);
/* Forgets everything; the workers are the caller's. */
void gw_table_free(struct gw_table *t);

/* From now on it is told of sessions; NULL: no longer. It must stay until then. Sessions that are open
 * already are none of its business. */
void gw_table_set_route(struct gw_table *t, const struct gw_table_route *route);

struct gw_table_client {
    const void *connection; /* the one that asks */
    const char *who;        /* whose it is */
};

/* Opens a session of the worker's for the client; `id` is its name. As gw_session_open, and -EDQUOT: the
 * client has as many as one may have; -ENOMEM; and the route's errors. */
int gw_table_add(struct gw_table *t, struct gw_worker *w, const struct gw_session_wish *wish,
                 const struct gw_table_client *client, struct gw_session_grant *grant,
                 char id[GW_SESSION_ID]);
/* The client wants to keep the session, and its idle time begins again. -ENOENT: there is none, it has
 * ended. -ESTALE: another server has it, or had it. -EBADR: it has had no request yet, and only its first
 * request keeps it. */
int gw_table_renew(struct gw_table *t, const char *id);
/* -ENOENT, -ESTALE: there is none, as above. */
int gw_table_close(struct gw_table *t, const char *id);
void gw_table_close_all_of(struct gw_table *t, const void *connection);
void gw_table_close_model(struct gw_table *t, const struct gw_worker *w);
/* Does the connection hold a session? */
int gw_table_holds(struct gw_table *t, const void *connection);

/* Closes the sessions that have failed or that are not used, says why, and makes closed ones ready for
 * the next client. Returns how many are not ready yet. */
uint32_t gw_table_tend(struct gw_table *t, struct gw_worker *const *workers, size_t count);

#endif
