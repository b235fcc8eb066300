/* SPDX-License-Identifier: Apache-2.0 */
/* Inside session.c and session_pool.c: what a pool of sessions consists of. */
#ifndef GW_SERVER_WORKER_SESSION_POOL_H
#define GW_SERVER_WORKER_SESSION_POOL_H

#include <pthread.h>

#include "src/server/worker/session.h"
#include "src/server/wire/wire.h"

enum life {
    FREE,    /* empty, with new keys and its receives posted */
    OPENING, /* a thread is connecting it */
    OPEN,
    CLOSING /* cut off; the loop may still be at work for it */
};

struct session {
    struct gw_pd *pd;
    struct gw_qp *qp;
    struct gw_mr *in, *out;
    enum life life; /* under the pool's lock; CLOSING to FREE is the housekeeper's step */
    uint32_t own;   /* of the server's own; until it is free again */
    uint32_t generation;
};

/* The parts of the kernels' own memory, one after the other: offsets, and bytes in all. */
struct gw_session_places {
    uint64_t io, work, session, arrival, heap, item, variant, shape, model, ahead, lease, bytes;
};

/* The parts of the memory that host and kernels share, likewise. */
struct gw_session_boards {
    uint64_t board, notice, variant, model, order, bytes;
    uint32_t orders; /* places for orders: a power of two */
};

/* The kernel's reports, as far as the host has acted on them. */
struct heard {
    uint32_t broken;
    uint64_t failed;
};

struct gw_session_pool {
    struct gw_session_pool_opts opts;
    pthread_mutex_t lock; /* held for a few instructions, never while anything is waited for */
    uint64_t in_stride, out_stride;
    struct gw_session_places at;
    struct gw_session_boards boards;
    struct gw_cq *cq;
    struct gw_mem in, out; /* slots of all sessions */
    struct gw_mem notices; /* host memory, as `gw_session_boards` says */
    struct gw_mem kernel;  /* as `gw_session_places` says */
    struct gw_mem batch;   /* where requests are put together: the inputs, then the outputs */
    struct session *session;
    struct heard heard;
    int news_fd; /* an eventfd: readable while the loop has a session to let go of. CPU only, else -1 */
    int wake_fd; /* an epoll: readable when the loop's wake_fd or news_fd is */
};

/* Whose memory the slots are. */
static inline struct gw_exec *slot_exec(const struct gw_session_pool *p)
{
    return p->opts.memory ? p->opts.memory : p->opts.exec;
}

static inline struct gw_serve_board *board(const struct gw_session_pool *p)
{
    return p->notices.host;
}

/* What lies there in the memory that host and kernels share. */
static inline void *board_place(const struct gw_session_pool *p, uint64_t at)
{
    return (uint8_t *)p->notices.host + at;
}

static inline struct gw_serve_notice *notice(const struct gw_session_pool *p, uint32_t i)
{
    return (struct gw_serve_notice *)board_place(p, p->boards.notice) + i;
}

/* An address of the kernels' own memory, for the executor. */
static inline void *kernel_place(const struct gw_session_pool *p, uint64_t at)
{
    return (uint8_t *)p->kernel.dev + at;
}

/* That a request has at most. */
static inline uint32_t rows_of(const struct gw_session_pool_opts *o)
{
    return o->tables.models ? o->tables.rows : o->variant[o->variants - 1].rows;
}

/* The word that a session's notice gets next. */
static inline uint32_t next_word(const struct session *s, enum gw_serve_state state)
{
    return (s->generation + 1) << 2 | state;
}

/* Where a batch size puts requests together: all share the room, since they run one at a time. */
void gw_session_place_batch(const struct gw_session_pool *p, const struct gw_layout *in,
                            const struct gw_layout *out, struct gw_serve_variant *v);
/* The loop has something to look at; it may sleep again, if it has. */
void gw_session_wake(struct gw_session_pool *p);
void gw_session_rest(struct gw_session_pool *p);

/* For the client that opens the session next. */
int gw_session_post_receives(const struct gw_session_pool *p, uint32_t i);

#endif
