/* SPDX-License-Identifier: Apache-2.0 */
/* A rank's own connection to rank 0's server, what came by it, and the thread that reads it. */
#ifndef SRC_RANKS_CLIENT_H
#define SRC_RANKS_CLIENT_H

#include <pthread.h>

#include "src/ranks/pmix.h"
#include "src/ranks/server.h"
#include "src/ranks/wire.h"

/* A lookup that waits, on its caller's stack. */
struct gw_ranks_ask {
    struct gw_ranks_ask *next;
    uint32_t id;
    void *to;
    size_t room;
    int64_t result;
    bool done;
};

/* A descriptor of gw_ranks_watch. */
struct gw_ranks_watcher {
    struct gw_ranks_watcher *next;
    int fd;
};

/* How often a name was counted: gw_ranks_count. */
struct gw_ranks_name {
    struct gw_ranks_name *next;
    uint32_t n;
    char name[GW_RANKS_KEY];
};

struct gw_ranks {
    uint32_t how, rank, size, local_rank, local_size;
    int fd;
    pthread_t thread;
    bool has_thread;
    struct gw_ranks_server *server; /* rank 0's */
    struct gw_ranks_pmix *pmix;

    pthread_mutex_t lock; /* guards all below; cond is signalled when any of it changes */
    pthread_cond_t cond;
    bool sending; /* a frame is on its way out */
    bool ready, lost, leaving;
    uint8_t *dead; /* of each rank */
    uint32_t *order, deaths;
    struct gw_ranks_watcher *watchers;
    char missing[GW_RANKS_TEXT]; /* whom the ranks wait for */
    int refused;                 /* why rank 0 has ended the connection */
    char refused_why[GW_RANKS_TEXT];
    struct gw_ranks_ask *asks;
    uint32_t next_id;
    struct gw_ranks_name *names;
    /* gather */
    bool in_gather, gather_sent, gather_done;
    int gather_err;
    uint8_t *gathered;
    size_t gathered_size;
    char gather_why[GW_RANKS_TEXT];
};

/* A rank that is not connected. */
struct gw_ranks *gw_ranks_client_new(uint32_t rank, uint32_t size);

/* Says hello on r->fd and takes the answer. -EAGAIN: the connection ended before it; dial again. Else an
 * error with a line. */
int gw_ranks_client_hello(struct gw_ranks *r, const char *secret, uint64_t deadline_ns);

/* Starts the thread that reads r->fd, and waits until all ranks are there. */
int gw_ranks_client_start(struct gw_ranks *r, uint64_t deadline_ns);

/* Sends one frame. */
int gw_ranks_client_send(struct gw_ranks *r, const struct gw_ranks_head *head, const void *body,
                         uint64_t deadline_ns);

/* Waits for r->cond, with r->lock held. False: the deadline has passed. */
bool gw_ranks_client_wait(struct gw_ranks *r, uint64_t deadline_ns);

/* -ECONNRESET with a line that says why the server is gone. With r->lock held. */
int gw_ranks_client_lost(struct gw_ranks *r);

/* Ends the thread and the connection, and frees all. */
void gw_ranks_client_free(struct gw_ranks *r, uint64_t deadline_ns);

#endif
