/* SPDX-License-Identifier: Apache-2.0 */
/*
 * stream_send.h: sending over a stream, by the group's first thread whose turn it is; and saying goodbye.
 * Included by socket.h, after stream.h; names that end in _ are private.
 */
#include <gpuwire/socket.h> /* which includes this file where it belongs */

#ifndef GPUWIRE_DETAIL_SOCKET_STREAM_SEND_H
#define GPUWIRE_DETAIL_SOCKET_STREAM_SEND_H

/* A sender's turn: what it knows of the stream, in registers. What it changes it stores besides, for the next
 * one. */
struct gw_stream_out_ {
    struct gw_stream_ *st;
    const struct gw_sock_ *sock;
    uint8_t *wbuf;
    uint64_t wpos, wdone, signaled;
    uint32_t seq, at, unsignaled, marked, done, shut, wbuf_size, writes;
    /* how much fits into the half that is written to; into the other; writes */
    uint32_t length, other, credit;
};

/* All is loaded before the first is stored: a GPU's thread waits for what it stores. */
GW_FN void gw_stream_out_(struct gw_stream_ *st, const struct gw_sock_ *sock, struct gw_stream_out_ *o)
{
    uint8_t *wbuf = st->wbuf;
    uint64_t wpos = st->wpos, wdone = st->wdone, signaled = st->signaled;
    uint32_t seq = st->seq, at = st->at, unsignaled = st->unsignaled, marked = st->marked, done = st->done,
             shut = st->shut_wr, wbuf_size = st->wbuf_size, writes = st->writes;

    o->st = st;
    o->sock = sock;
    o->wbuf = wbuf;
    o->wpos = wpos;
    o->wdone = wdone;
    o->signaled = signaled;
    o->seq = seq;
    o->at = at;
    o->unsignaled = unsignaled;
    o->marked = marked;
    o->done = done;
    o->shut = shut;
    o->wbuf_size = wbuf_size;
    o->writes = writes;
}

/* ---- room ---------------------------------------------------------------------------------------------- */

/* Frees what the peer's NIC has acknowledged. */
GW_FN void gw_stream_reap_(struct gw_stream_out_ *o)
{
    struct gw_stream_ *st = o->st;
    const struct gw_stream_mark_ *m;
    uint64_t ok;

    if (o->done == o->marked) return;
    gw_cq_retire_(st->send_cq);
    ok = gw_ld_acquire_u64_gpu(&st->flow.qp->sq_ok); /* acquire: the NIC has read before we overwrite */
    for (; o->done != o->marked; o->done++) {
        m = &st->mark[o->done & (o->writes - 1)];
        if (m->ticket > ok) break;
        o->wdone = m->pos;
    }
    st->done = o->done;
    st->wdone = o->wdone;
}

/* May anything be sent? 0; or why not. */
GW_FN int gw_stream_open_(const struct gw_stream_out_ *o)
{
    int err = gw_flow_error_(&o->st->flow);

    if (gw_ld_relaxed_u32_gpu(&o->sock->closing)) return -EBADF;
    return o->shut || gw_ld_relaxed_u32_gpu(&o->st->closed) ? -EPIPE : err;
}

/* As much as one write takes at most. A CPU thread's bytes are still in its cache when they leave. On a GPU
 * each message costs both sides ten microseconds and more, so there are four to a buffer. */
GW_FN uint32_t gw_stream_chunk_(const struct gw_stream_out_ *o)
{
    uint32_t part = o->wbuf_size / 4;

    return GW_CPU_HOST_(o->st->flow.cq) || part < GW_STREAM_CHUNK_ ? (uint32_t)GW_STREAM_CHUNK_ : part;
}

/* How many bytes in a row of our buffer can go in one write? */
GW_FN uint32_t gw_stream_own_room_(struct gw_stream_out_ *o)
{
    uint32_t at = (uint32_t)o->wpos & (o->wbuf_size - 1);
    uint64_t room = o->wbuf_size - (o->wpos - o->wdone);

    if (room < o->wbuf_size / 4 || o->marked - o->done == o->writes) gw_stream_reap_(o);
    if (o->marked - o->done == o->writes) return 0;
    room = gw_smaller_(o->wbuf_size - (o->wpos - o->wdone), o->wbuf_size - at);
    return gw_smaller_(room, gw_stream_chunk_(o));
}

/* How many bytes can go now, in one write? 0: none yet; or an error. */
GW_FN int64_t gw_stream_may_send_(struct gw_stream_out_ *o)
{
    struct gw_stream_ *st = o->st;
    uint32_t closed = gw_ld_relaxed_u32_gpu(&st->closed), error = gw_ld_relaxed_u32_gpu(&st->flow.error),
             closing = gw_ld_relaxed_u32_gpu(&o->sock->closing), credit = gw_ld_relaxed_u32_gpu(&st->credit),
             length = gw_ld_ahead_u32_(&st->target[0].length),
             other = gw_ld_ahead_u32_(&st->target[1].length);

    if (closing || o->shut || closed || error) return gw_stream_open_(o);
    o->length = o->at ? other : length;
    o->other = o->at ? length : other;
    o->credit = (uint16_t)(credit - o->seq);
    if (!o->length || !o->credit) return 0;
    gw_acquired_(); /* the length before the address and the key */
    return gw_smaller_(gw_stream_own_room_(o), o->length);
}

GW_FN int64_t gw_stream_may_write_(struct gw_stream_out_ *o, uint64_t offset);

/* As above, but waits; or, with an offset, for gw_stream_may_write_. */
GW_SLOW_FN int64_t gw_stream_await_room_(struct gw_stream_out_ *o, const uint64_t *offset,
                                         uint64_t deadline_ns)
{
    struct gw_flow_wait_ w = gw_flow_wait_();
    struct gw_stream_ *st = o->st;
    int64_t may;

    for (;;) {
        may = offset ? gw_stream_may_write_(o, *offset) : gw_stream_may_send_(o);
        if (may) return may;
        if (gw_stream_look_(st)) continue;
        /* Room of our own comes with acknowledgements; credit and room of the peer's in a message. */
        may =
            gw_flow_pause_on_(&st->flow, &w, gw_stream_own_room_(o) ? st->flow.cq : st->send_cq, deadline_ns);
        if (may) return may;
    }
}

GW_FN int64_t gw_stream_room_(struct gw_stream_out_ *o, uint64_t deadline_ns)
{
    int64_t may = gw_stream_may_send_(o);

    return may ? may : gw_stream_await_room_(o, NULL, deadline_ns);
}

/* The next sends will need a look at what has come, and at what is complete. */
#define GW_STREAM_LOOK_ ((int64_t)1 << 40)
#define GW_STREAM_REAP_ ((int64_t)1 << 41)

/* If n bytes are about to be sent, and more such. */
GW_FN int64_t gw_stream_short_(const struct gw_stream_out_ *o, uint32_t n)
{
    uint64_t soon = 4 * (uint64_t)n;

    return (o->length + (uint64_t)o->other < soon || o->credit < o->writes / 2 ? GW_STREAM_LOOK_ : 0) |
           (o->wbuf_size - (o->wpos - o->wdone) < soon ? GW_STREAM_REAP_ : 0);
}

/* ---- writes -------------------------------------------------------------------------------------------- */

/*
 * Is the write of the next n bytes to say when it is complete? Taking note of that costs a GPU some
 * microseconds, so as few say so as suffice. Less than a quarter of our buffer is under way without such a
 * write. So a sender that needs room always has one to wait for.
 */
GW_FN uint32_t gw_stream_flags_(const struct gw_stream_out_ *o, uint32_t n)
{
    return o->wpos + n - o->signaled >= o->wbuf_size / 4 || o->unsignaled + 1 >= o->writes / 2 ? GW_SIGNALED
                                                                                               : 0;
}

/* Posts by the sender's view, `tx` as st->tx is. As gw_flow_post_. */
GW_FN int gw_stream_post_(struct gw_stream_ *st, struct gw_tx tx, struct gw_op op, uint32_t flags,
                          uint64_t *ticket)
{
    /* Asked for now, and looked at when the post is under way: one to a queue pair that has failed does no
     * harm. */
    int broken = gw_tx_usable_(tx.q.qp), err = gw_tx_post(&tx, op, flags, ticket);

    gw_tx_copy_back_(&st->tx, &tx);
    if (broken) err = broken;
    return gw_flow_posted_(&st->flow, err);
}

/* A write of the next n bytes of our buffer has been posted, with these flags. */
GW_FN void gw_stream_posted_(struct gw_stream_out_ *o, uint32_t n, uint32_t flags, uint64_t ticket)
{
    struct gw_stream_ *st = o->st;
    struct gw_stream_mark_ *m = &st->mark[o->marked & (o->writes - 1)];

    st->wpos = o->wpos += n;
    st->last = ticket;
    o->unsignaled++;
    if (flags & GW_SIGNALED) {
        st->signaled = o->signaled = m->pos = o->wpos;
        o->unsignaled = 0;
        m->ticket = ticket;
        st->marked = ++o->marked;
    }
    st->unsignaled = o->unsignaled;
}

/* Of the peer's half n bytes more are used, and a credit. */
GW_FN void gw_stream_used_(struct gw_stream_out_ *o, uint32_t n)
{
    struct gw_stream_ *st = o->st;

    o->length -= n;
    if (!o->length) {
        st->at = o->at ^= 1;
        o->length = o->other;
        o->other = 0;
    }
    st->seq = ++o->seq;
}

/* Stores ahead of a post, which releases all that comes before it. On CPU threads the store does so itself:
 * it is free there, and ThreadSanitizer sees it. */
GW_FN void gw_stream_st_posted_(uint32_t *p, uint32_t v)
{
#ifdef __CUDACC__
    gw_st_relaxed_u32_gpu(p, v);
#else
    gw_st_release_u32_gpu(p, v);
#endif
}

/* Sends n bytes that lie in our buffer, after gw_stream_may_send_. -EAGAIN: the send queue is full. */
GW_SLOW_FN int gw_stream_put_(struct gw_stream_out_ *o, uint32_t n)
{
    struct gw_stream_ *st = o->st;
    struct gw_rs_sge *t = &st->target[o->at];
    struct gw_tx tx = st->tx; /* at a time with what follows */
    uint64_t addr = t->addr, laddr = st->wbuf_addr + (o->wpos & (o->wbuf_size - 1)), ticket = 0;
    uint32_t key = t->key, lkey = st->lkey, flags = gw_stream_flags_(o, n);
    int err;

    /* Before it is posted: the peer may answer with a new entry before this thread goes on. */
    t->addr = addr + n;
    gw_stream_st_posted_(&t->length, o->length - n);
    err = gw_stream_post_(st, tx, gw_put_imm_op(laddr, lkey, addr, key, n, gw_rs_imm(GW_RS_DATA, n)), flags,
                          &ticket);
    if (err) {
        t->addr = addr;
        gw_st_release_u32_gpu(&t->length, o->length);
        return err;
    }
    gw_stream_used_(o, n);
    gw_stream_posted_(o, n, flags, ticket);
    return 0;
}

/*
 * Prepares the send of the next n bytes of our buffer, which may still be on their way there. It takes one
 * WQE, or two where the half that is written to ends within them. A call of gw_stream_show_ shows them to the
 * NIC. Other threads' posts in that time, credits among them, wait no longer than a copy takes. Returns how
 * many, the first at *at. Returns -EAGAIN if the send queue is full, -ECONNRESET or -ENOTCONN.
 */
GW_FN int gw_stream_prepare_(struct gw_stream_out_ *o, uint32_t n, uint64_t *at)
{
    struct gw_stream_ *st = o->st;
    struct gw_tx tx = st->tx;
    uint32_t part = gw_smaller_(n, o->length), parts = 1 + (part < n), flags, i;
    struct gw_op op = gw_put_imm_op(0, st->lkey, 0, 0, 0, 0);
    int err = gw_tx_usable_(tx.q.qp); /* asked before: what is reserved has to be shown */

    if (!err) err = gw_tx_reserve_(&tx, &op, parts, at);
    for (i = 0; i < parts && !err; i++, part = n - part) {
        struct gw_rs_sge *t = &st->target[o->at];
        uint64_t addr = t->addr, laddr = st->wbuf_addr + (o->wpos & (o->wbuf_size - 1));

        op = gw_put_imm_op(laddr, st->lkey, addr, t->key, part, gw_rs_imm(GW_RS_DATA, part));
        flags = gw_stream_flags_(o, part);
        gw_tx_write_(&tx, *at + i, &op, flags);
        tx.last = *at + i + 1;
        if (flags & GW_SIGNALED) tx.marked = tx.last;
        t->addr = addr + part;
        gw_stream_st_posted_(&t->length, o->length - part);
        gw_stream_used_(o, part);
        gw_stream_posted_(o, part, flags, tx.last);
    }
    if (!err) {
        gw_st_relaxed_u64_gpu(&tx.q.slot[*at & (tx.q.sq.wqebbs - 1)].wr_id,
                              *at + 1); /* as gw_tx_publish_shared_ */
        tx.run = tx.last;
        gw_stream_deferred_(st);
    }
    gw_tx_copy_back_(&st->tx, &tx); /* also what it has learnt of a full queue */
    err = gw_flow_posted_(&st->flow, err);
    return err ? err : (int)parts;
}

/* As above, but waits for room in the send queue. */
GW_SLOW_FN int gw_stream_prepare_all_(struct gw_stream_out_ *o, uint32_t n, uint64_t *at,
                                      uint64_t deadline_ns)
{
    struct gw_flow_wait_ w = gw_flow_wait_();
    int err, late;

    while ((err = gw_stream_prepare_(o, n, at)) == -EAGAIN) {
        late = gw_flow_pause_(&o->st->flow, &w, deadline_ns);
        if (late) return late;
    }
    return err;
}

/* Shows the NIC what was prepared, when the group has met after its bytes. The fence in it releases those
 * and the WQEs, as it does its own thread's. By a thread that gw_stream_deferred_ has counted. */
GW_SLOW_FN void gw_stream_show_(struct gw_stream_ *st, uint64_t at, uint32_t parts)
{
    struct gw_sq_ q = gw_sq_of_(st->flow.qp);

    gw_sq_publish_(&q, at, 1, parts, 0);
    gw_stream_caught_up_(st);
}

/* As gw_stream_put_, but waits for room in the send queue. */
GW_SLOW_FN int gw_stream_put_again_(struct gw_stream_out_ *o, uint32_t n, uint64_t deadline_ns)
{
    struct gw_flow_wait_ w = gw_flow_wait_();
    int err, late;

    while ((err = gw_stream_put_(o, n)) == -EAGAIN) {
        late = gw_flow_pause_(&o->st->flow, &w, deadline_ns);
        if (late) return late;
    }
    return err;
}

GW_FN int gw_stream_put_all_(struct gw_stream_out_ *o, uint32_t n, uint64_t deadline_ns)
{
    int err = gw_stream_put_(o, n);

    return err == -EAGAIN ? gw_stream_put_again_(o, n, deadline_ns) : err;
}

/* ---- the end ------------------------------------------------------------------------------------------- */

/* Says that this side sends no more, or is closed altogether. */
GW_FN int gw_stream_say_(struct gw_stream_ *st, enum gw_rs_control what, uint64_t deadline_ns)
{
    struct gw_flow_wait_ w = gw_flow_wait_();
    int err;

    for (;;) {
        err = gw_flow_post_(&st->flow, gw_put_imm_op(0, 0, 0, 0, 0, gw_rs_imm(GW_RS_CONTROL, what)),
                            GW_SIGNALED, &st->last);
        if (err != -EAGAIN) return err;
        err = gw_flow_pause_(&st->flow, &w, deadline_ns);
        if (err) return err;
    }
}

/* As shutdown(2), and as librdmacm does it. Whose turn it is to send. */
GW_SLOW_FN int gw_stream_shutdown_(struct gw_stream_ *st, int how, uint64_t deadline_ns)
{
    uint32_t before = st->shut_wr && gw_ld_relaxed_u32_gpu(&st->shut_rd);
    uint32_t wr = how != SHUT_RD && !st->shut_wr, after;

    if (wr) st->shut_wr = 1;
    if (how != SHUT_WR) gw_st_release_u32_gpu(&st->shut_rd, 1);
    after = st->shut_wr && gw_ld_relaxed_u32_gpu(&st->shut_rd);
    if (gw_ld_relaxed_u32_gpu(&st->closed)) return 0;
    /* That this side does not read any more is news to the peer only when it does not send either. */
    if (after && !before) return gw_stream_say_(st, GW_RS_DISCONNECT, deadline_ns);
    return wr ? gw_stream_say_(st, GW_RS_SHUTDOWN, deadline_ns) : 0;
}

/* Says goodbye and waits until the peer's NIC has everything. A stream that has failed has no peer to tell.
 */
GW_FN int gw_stream_goodbye_(struct gw_stream_ *st, uint64_t deadline_ns)
{
    struct gw_tx tx;
    int err;

    if (gw_flow_error_(&st->flow) || gw_ld_relaxed_u32_gpu(&st->closed)) return 0;
    err = gw_stream_shutdown_(st, SHUT_RDWR, deadline_ns);
    if (!err && st->last && !gw_tx_open(&tx, st->flow.qp)) err = gw_tx_wait(&tx, st->last, deadline_ns);
    return err == -EAGAIN || err == -ETIMEDOUT ? -ETIMEDOUT : 0;
}

#endif
