/* SPDX-License-Identifier: Apache-2.0 */
/*
 * connection.h: what a block does with one of its connections. No step waits for the client for longer than
 * MM_PATIENCE_NS. So a client that is silent, or does not read its answer, delays no others. Each state has a
 * limit. So such a client keeps a buffer for a limited time.
 *
 * Every thread of the block has a copy of the connection, and all do the same with it. The first thread
 * writes it back.
 */
#ifndef MATMUL_CONNECTION_H
#define MATMUL_CONNECTION_H

#include <stdbool.h>

#include "work.h"

/* How long a step waits for more bytes, when some have come: less often round the loop, fewer calls. */
#define MM_PATIENCE_NS 200000u
#define MM_LAST_NS     1000000000u /* how long a client may go on after the last answer */
#define MM_CLOSE_NS    1000000u

/* A block and its connections, of which each thread has a copy. */
struct mm_block {
    const struct mm_server_args *a;
    struct gw_net *net;
    struct mm_conn *conns; /* count of them */
    struct pollfd *fds;
    uint32_t count, which; /* which: its set */
    uint64_t busy;         /* how long it has computed. Its clock stands still then: clients need not wait */
};

/* What came of a step. */
enum { MM_WAIT = 0, MM_GO_ON = 1, MM_END = -1 };

/* The block's clock. A barrier. */
GW_DEV uint64_t mm_now(const struct mm_block *b)
{
    return gw_group_first(GW_BLOCK, gw_clock_ns()) - b->busy;
}

GW_DEV void mm_count(uint64_t *counter)
{
    if (gw_thread_idx() == 0) gw_add_relaxed_u64_gpu(counter, 1);
}

GW_DEV void mm_enter(const struct mm_block *b, struct mm_conn *c, enum mm_state state)
{
    uint64_t now = mm_now(b);

    if (gw_thread_idx() == 0) gw_add_relaxed_u64_gpu(&b->a->counts->ns[c->state], now - c->since);
    c->state = state;
    c->done = 0;
    c->since = now;
}

/* The answer's header goes where it is sent from: before C, or into the connection. */
GW_DEV void mm_answer_begin(const struct mm_block *b, struct mm_conn *c, struct mm_conn *home,
                            enum mm_status status)
{
    struct mm_answer answer = mm_answer_to(&c->head, status);

    if (gw_thread_idx() == 0) {
        if (c->job == MM_NONE)
            home->answer = answer;
        else
            *((struct mm_answer *)b->a->jobs[c->job].product.c - 1) = answer;
    }
    c->answer = answer;
    mm_enter(b, c, MM_ANSWER); /* a barrier: the header is there before it is sent */
}

/* An answer after which the connection ends. Its buffer is no longer needed. */
GW_DEV int mm_refuse(const struct mm_block *b, struct mm_conn *c, struct mm_conn *home, enum mm_status status)
{
    if (c->job != MM_NONE && gw_thread_idx() == 0) mm_job_give(b->a, c->job);
    c->job = MM_NONE;
    c->last = 1;
    mm_count(&b->a->counts->refused);
    mm_answer_begin(b, c, home, status);
    return MM_GO_ON;
}

/* ---- the states --------------------------------------------------------------------------------------- */

/* After a call that moved n bytes, or an error: is there more to do, at once? */
GW_DEV int mm_moved(struct mm_conn *c, int64_t n, uint64_t all)
{
    if (n == -EAGAIN || n == -ETIMEDOUT) return MM_WAIT;
    if (n <= 0) return MM_END;
    c->done += (uint64_t)n;
    return c->done == all ? MM_GO_ON : MM_WAIT;
}

GW_DEV int mm_head(const struct mm_block *b, struct mm_conn *c, struct mm_conn *home)
{
    int64_t n = gw_sock_recv(b->net, c->s, (uint8_t *)&home->head + c->done, sizeof(c->head) - c->done,
                             MSG_DONTWAIT, 0);
    uint64_t before = c->done;
    int got = mm_moved(c, n, sizeof(c->head));
    enum mm_status status;

    if (!before && c->done) c->since = mm_now(b); /* the limit counts from its first byte on */
    if (got != MM_GO_ON) return got;
    c->head = home->head; /* what the call received, all threads see */
    status = mm_check(&c->head, b->a->largest);
    if (status != MM_OK) return mm_refuse(b, c, home, status);
    mm_enter(b, c, MM_ROOM);
    return MM_GO_ON;
}

GW_DEV int mm_room(const struct mm_block *b, struct mm_conn *c)
{
    uint64_t job = MM_NONE;

    if (gw_thread_idx() == 0) {
        job = mm_job_take(b->a, c->head.n);
        if (job != MM_NONE) mm_job_begin(b->a, (uint32_t)job, &c->head);
    }
    c->job = (uint32_t)gw_group_first(GW_BLOCK, job);
    if (c->job != MM_NONE) {
        mm_enter(b, c, MM_BODY);
        return MM_GO_ON;
    }
    if (mm_now(b) - c->since < b->a->room_ns) return MM_WAIT;
    mm_enter(b, c, MM_DROP);
    return MM_GO_ON;
}

/* The last byte of A and B is there. */
GW_DEV int mm_body_complete(struct mm_block *b, struct mm_conn *c, struct mm_conn *home)
{
    uint64_t began = mm_now(b), took;

    if (b->a->io_blocks != gw_grid_dim()) {
        if (gw_thread_idx() == 0) mm_job_submit(b->a, c->job);
        mm_enter(b, c, MM_COMPUTE);
        return MM_WAIT;
    }
    if (mm_compute_alone(b->a, c->job)) return MM_END;
    took = mm_now(b) - began;
    if (gw_thread_idx() == 0) gw_add_relaxed_u64_gpu(&b->a->counts->ns[MM_COMPUTE], took);
    b->busy += took;
    mm_answer_begin(b, c, home, MM_OK);
    return MM_GO_ON;
}

GW_DEV int mm_body(struct mm_block *b, struct mm_conn *c, struct mm_conn *home)
{
    uint8_t *to = (uint8_t *)b->a->jobs[c->job].product.a;
    int64_t n = gw_sock_recv(b->net, c->s, to + c->done, c->head.length - c->done, MSG_WAITALL,
                             gw_clock_ns() + MM_PATIENCE_NS);
    int got = mm_moved(c, n, c->head.length);

    return got == MM_GO_ON ? mm_body_complete(b, c, home) : got;
}

GW_DEV int mm_computed(const struct mm_block *b, struct mm_conn *c, struct mm_conn *home)
{
    /* Acquire: C comes after. */
    uint32_t finished = gw_thread_idx() == 0 ? gw_ld_acquire_u32_gpu(&b->a->jobs[c->job].finished) : 0;

    if (!gw_group_first(GW_BLOCK, finished)) return MM_WAIT;
    mm_answer_begin(b, c, home, MM_OK);
    return MM_GO_ON;
}

/* Takes bytes that are not looked at, up to n: how many, or an error; 0: the end. */
GW_DEV int64_t mm_drop_some(const struct mm_block *b, struct mm_conn *c, uint64_t n)
{
    const void *bytes;
    int64_t there = gw_sock_borrow(b->net, c->s, &bytes, 0);

    if (there <= 0) return there;
    if (n > (uint64_t)there) n = (uint64_t)there;
    gw_sock_give_back(b->net, c->s, n);
    return (int64_t)n;
}

GW_DEV int mm_drop(const struct mm_block *b, struct mm_conn *c, struct mm_conn *home)
{
    int got = mm_moved(c, mm_drop_some(b, c, c->head.length - c->done), c->head.length);

    if (got != MM_GO_ON) return got;
    mm_count(&b->a->counts->busy);
    mm_answer_begin(b, c, home, MM_BUSY);
    return MM_GO_ON;
}

GW_DEV int mm_send_answer(const struct mm_block *b, struct mm_conn *c, struct mm_conn *home)
{
    uint64_t all = sizeof(c->answer) + c->answer.length;
    const uint8_t *from = c->job == MM_NONE ? (uint8_t *)&home->answer
                                            : (uint8_t *)b->a->jobs[c->job].product.c - sizeof(c->answer);
    int64_t n = gw_sock_send(b->net, c->s, from + c->done, all - c->done, MSG_NOSIGNAL,
                             gw_clock_ns() + MM_PATIENCE_NS);
    int got = mm_moved(c, n, all);

    if (got != MM_GO_ON) return got;
    if (c->job != MM_NONE && gw_thread_idx() == 0) mm_job_give(b->a, c->job);
    if (c->job != MM_NONE) mm_count(&b->a->counts->answered);
    c->job = MM_NONE;
    if (c->last) gw_sock_shutdown(b->net, c->s, SHUT_WR, gw_clock_ns() + MM_CLOSE_NS);
    mm_enter(b, c, c->last ? MM_LAST : MM_HEAD);
    return MM_GO_ON;
}

/* ---- all ---------------------------------------------------------------------------------------------- */

GW_DEV int mm_step(struct mm_block *b, struct mm_conn *c, struct mm_conn *home)
{
    switch (c->state) {
    case MM_HEAD: return mm_head(b, c, home);
    case MM_ROOM: return mm_room(b, c);
    case MM_BODY: return mm_body(b, c, home);
    case MM_COMPUTE: return mm_computed(b, c, home);
    case MM_DROP: return mm_drop(b, c, home);
    case MM_ANSWER: return mm_send_answer(b, c, home);
    default: {
        int64_t n = mm_drop_some(b, c, UINT64_MAX);

        return n > 0 || n == -EAGAIN ? MM_WAIT : MM_END;
    }
    }
}

/* A connection that makes no progress: what is its limit? */
GW_DEV uint64_t mm_limit(const struct mm_block *b, const struct mm_conn *c)
{
    switch (c->state) {
    case MM_HEAD: return c->done ? b->a->body_ns : b->a->idle_ns;
    case MM_BODY:
    case MM_DROP: return b->a->body_ns + c->head.length * 100; /* and 10 MB/s */
    case MM_ANSWER: return b->a->body_ns + c->answer.length * 100;
    case MM_LAST: return MM_LAST_NS;
    default: return UINT64_MAX; /* it waits for us */
    }
}

/* Its time is up. */
GW_DEV int mm_late(const struct mm_block *b, struct mm_conn *c, struct mm_conn *home)
{
    if (c->state == MM_BODY || (c->state == MM_HEAD && c->done)) return mm_refuse(b, c, home, MM_TOO_SLOW);
    return MM_END;
}

GW_DEV void mm_end(const struct mm_block *b, struct mm_conn *c)
{
    int wrong = c->state != MM_LAST && (c->state != MM_HEAD || c->done);

    if (c->job != MM_NONE && gw_thread_idx() == 0) mm_job_give(b->a, c->job);
    gw_sock_close(b->net, c->s, gw_clock_ns() + MM_CLOSE_NS);
    mm_count(&b->a->counts->closed);
    if (wrong) mm_count(&b->a->counts->dropped);
    if (gw_thread_idx() == 0) gw_add_relaxed_u32_gpu(&b->a->active[b->which], UINT32_MAX); /* one less */
}

/* Everything that can be done with a connection now. No: it has ended. */
GW_DEV bool mm_attend(struct mm_block *b, struct mm_conn *home)
{
    struct mm_conn c = *home;
    int got;

    gw_syncthreads(); /* all have their copy before the first thread writes it back */
    while ((got = mm_step(b, &c, home)) == MM_GO_ON && c.state != MM_HEAD)
        ;
    if (got == MM_WAIT && mm_now(b) - c.since > mm_limit(b, &c)) got = mm_late(b, &c, home);
    if (got == MM_END) mm_end(b, &c);
    if (gw_thread_idx() == 0) {
        c.head = home->head; /* of which a part may have come */
        *home = c;
    }
    gw_syncthreads();
    return got != MM_END;
}

#endif
