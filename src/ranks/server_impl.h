/* SPDX-License-Identifier: Apache-2.0 */
/* What the parts of rank 0's server share. All of it belongs to the server's thread. */
#ifndef SRC_RANKS_SERVER_IMPL_H
#define SRC_RANKS_SERVER_IMPL_H

#include <pthread.h>

#include "src/ranks/conn.h"
#include "src/ranks/server.h"

#define GW_RANKS_STRANGERS 64u /* connections that have not said who they are */

enum gw_ranks_state { GW_RANKS_ABSENT, GW_RANKS_HERE, GW_RANKS_GONE, GW_RANKS_LOST };

struct gw_ranks_wait;

struct gw_ranks_server {
    pthread_t thread;
    int wake; /* an eventfd: stop_ns is set */
    uint64_t stop_ns;
    int listener;       /* -1: closed */
    uint64_t listen_ns; /* not before this time */
    uint32_t size, come;
    char secret[GW_RANKS_SECRET];
    struct gw_ranks_conn *stranger[GW_RANKS_STRANGERS];
    struct {
        struct gw_ranks_conn *conn; /* while it is here */
        enum gw_ranks_state state;
        uint64_t host;
    } * peer;
    struct gw_ranks_store *store;
    struct gw_ranks_wait *waits; /* lookups of what is not published yet */
    bool out_of_step;            /* the ranks' gathers do not fit together */
    uint64_t told_ns;            /* since when ranks wait, or were told whom they wait for; 0: none waits */
    char missing[GW_RANKS_TEXT]; /* as they were last told */
};

/* Does what a whole frame asks. True: a stranger has become a rank, and left the list of strangers. */
bool gw_ranks_serve(struct gw_ranks_server *s, struct gw_ranks_conn *c);

/* The rank's connection has ended. */
void gw_ranks_serve_end(struct gw_ranks_server *s, uint32_t rank, enum gw_ranks_state how);

/* Tells the ranks that wait whom they wait for, when that has changed. True: some do wait. */
bool gw_ranks_serve_missing(struct gw_ranks_server *s);

void gw_ranks_serve_free(struct gw_ranks_server *s);

#endif
