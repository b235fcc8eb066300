/* SPDX-License-Identifier: Apache-2.0 */
/* Inside pool.c and session.c: what a pool of sessions consists of. */
#ifndef GW_GENERATE_WORKER_POOL_IMPL_H
#define GW_GENERATE_WORKER_POOL_IMPL_H

#include <pthread.h>

#include "src/generate/worker/pool.h"
#include "src/door/limit.h"

enum gen_life {
    GEN_LIFE_FREE,    /* empty, with new keys and its receives posted */
    GEN_LIFE_OPENING, /* a thread connects it */
    GEN_LIFE_OPEN,
    GEN_LIFE_CLOSING /* cut off; the loop may still be at work for it */
};

struct gen_pooled {
    struct gw_pd *pd;
    struct gw_qp *qp;
    struct gw_mr *in, *out;
    struct gw_endpoint at; /* as it was made: number and GID stay the same */
    enum gen_life life;    /* under the pool's lock; CLOSING to FREE is the housekeeper's step */
    uint32_t generation;   /* of its word, under the pool's lock */
    uint32_t asked;
    bool untold;  /* the list of changes had no room for its number */
    int32_t next; /* FREE: the next one of its kind, or -1 */
};

struct gen_pool {
    struct gen_pool_opts opts;
    pthread_mutex_t lock; /* held for a few instructions, never while anything is waited for */
    uint64_t in_stride;
    struct gw_cq *cq;
    struct gw_mem in, out; /* slots of all sessions; events that are under way */
    struct gen_pooled *session;
    int32_t free[2];     /* the first free one of clients, and of the server's own; -1: none */
    uint32_t closing[2]; /* sessions of each kind that are not ready yet */
    uint32_t open;       /* clients' */
    /* The host's side of the loop's records: gen_pool_attach. */
    struct gen_board *board;
    struct gen_notice *notice;
    uint32_t *change, change_mask;
    uint32_t broken; /* what the board said when it was last looked at */
    int news_fd;     /* an eventfd: the housekeeper has something to do */
    int look_fd;     /* an eventfd: the loop has something to look at. CPU only, else -1 */
    int wake_fd;     /* an epoll: readable when the loop's wake_fd or look_fd is */
    struct gw_say_limit said;
};

/* The word that a session's notice gets next. */
static inline uint32_t gen_pooled_word(const struct gen_pooled *s, enum gen_session_state state)
{
    return (s->generation + 1) << 2 | state;
}

/* Posts the receives for the client that opens the session next. */
int gen_pooled_receive(struct gen_pool *p, uint32_t i);

#endif
