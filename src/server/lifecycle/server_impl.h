/* SPDX-License-Identifier: Apache-2.0 */
/* A server, as its files share it. */
#ifndef GW_SERVER_LIFECYCLE_SERVER_IMPL_H
#define GW_SERVER_LIFECYCLE_SERVER_IMPL_H

#include "src/server/worker/repository.h"
#include "src/server/lifecycle/server.h"
#include "src/server/worker/worker.h"

struct gw_server {
    struct gw_exec *exec;
    struct gw_device *dev;
    struct gw_exec *own_exec; /* the doors' side of their sessions: CPU threads */
    struct gw_device *own_dev;
    struct gw_repository models;
    struct gw_worker_opts each;  /* how every model is served, but for its batch sizes */
    struct gw_worker_opts first; /* the same with the batch sizes of models that were there at the start */
    pthread_rwlock_t lock;       /* of the next three, for threads other than the one that changes them */
    struct gw_worker *worker[GW_SERVER_MODELS];
    size_t workers;
    struct gw_missing missing;                   /* what the repository has beside them */
    struct gw_worker *leaving[GW_SERVER_MODELS]; /* that could not be freed when they were removed */
    size_t leavings;
    int paused;                /* no model's loop runs: a GPU's memory is being allocated or freed */
    struct gw_table sessions;  /* that clients have open */
    char clock[GW_CLOCK_TEXT]; /* that workers stamp answers with; "" when it is no process's (a GPU's) */
    struct gw_server_door door[GW_SERVER_DOORS];
    uint32_t doors;
    char *text;
};

/* One round of what gw_server_run does between its naps. `pause` is what the last round returned; returns how
 * many nanoseconds the next one may wait. */
#define GW_SERVER_HOUSEKEEPING_NS 200000000u
uint64_t gw_server_keep_house(struct gw_server *s, uint64_t pause);

/* A thread that does the housekeeping while the server's own thread changes the models. The list of models is
 * read-locked while it looks at their sessions, so it sees no model that has left the list. */
struct gw_house {
    struct gw_server *server;
    pthread_t thread;
    pthread_mutex_t lock; /* of the rest */
    pthread_cond_t news;
    int over, runs;
};
#define GW_HOUSE_NAP_NS 20000000u /* this thread is not told that a session was closed */
void gw_house_begin(struct gw_house *h, struct gw_server *s);
void gw_house_end(struct gw_house *h);

/* Requests of w that doors have under way; that wait for it, by RDMA or a door. */
uint32_t gw_server_taken(const struct gw_worker *w);
uint64_t gw_server_waiting(const struct gw_worker *w);

#endif
