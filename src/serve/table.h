/* SPDX-License-Identifier: Apache-2.0 */
/* The sessions that clients have opened over HTTP: who holds which, and for how long. A session ends
 * when its client says so, when the connection that opened it closes, when its queue pair fails, and
 * when nobody uses it. Any thread may call all of it, but gw_table_tend, which one thread calls. The
 * lock is held for a few instructions; nothing is waited for under it. */
#ifndef GW_SERVE_TABLE_H
#define GW_SERVE_TABLE_H

#include <pthread.h>
#include <stddef.h>

#include "src/serve/access.h"
#include "src/serve/limit.h"
#include "src/serve/session.h"
#include "src/serve/who.h"
#include "src/serve/worker.h"

#define GW_SESSION_ID 33 /* bytes of an id, with the final zero */

struct gw_table_session;

struct gw_table {
    pthread_mutex_t lock;
    struct gw_table_session *first;
    uint32_t most_each;       /* sessions of one model that one client may have */
    uint64_t unused_ns;       /* a session without a request ends so long after it was opened */
    uint64_t idle_ns;         /* one with requests, so long after the last; 0: never */
    int news_fd;              /* an eventfd: readable when gw_table_tend has something to do */
    struct gw_access *access; /* sessions that open and close are logged there; NULL: nowhere */
    struct gw_say_limit said;
};

/* 0 or a negative errno with the reason in gw_last_error(). */
int gw_table_init(struct gw_table *t, uint32_t most_each, uint64_t unused_ns, uint64_t idle_ns);
/* Forgets everything; the workers are the caller's. */
void gw_table_free(struct gw_table *t);

/* Opens a session of the worker's for a connection of the client `who`; `id` is its name. As
 * gw_session_open, and -EDQUOT: the client has as many as one may have; -ENOMEM. */
int gw_table_add(struct gw_table *t, struct gw_worker *w, const struct gw_session_wish *wish,
                 const void *connection, const char *who, struct gw_session_grant *grant,
                 char id[GW_SESSION_ID]);
/* The client wants to keep the session, and its idle time begins anew. -ENOENT: there is none, it has
 * ended. -EBADR: it has had no request yet, and only its first request keeps it. */
int gw_table_renew(struct gw_table *t, const char *id);
/* -ENOENT: there is none. */
int gw_table_close(struct gw_table *t, const char *id);
void gw_table_close_all_of(struct gw_table *t, const void *connection);
void gw_table_close_model(struct gw_table *t, const struct gw_worker *w);
/* Does the connection hold a session? */
int gw_table_holds(struct gw_table *t, const void *connection);

/* Closes the sessions that have failed or that nobody uses, says why, and makes closed ones ready for
 * the next client. Returns how many are not ready yet. */
uint32_t gw_table_tend(struct gw_table *t, struct gw_worker *const *workers, size_t count);

#endif
