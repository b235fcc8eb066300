/* SPDX-License-Identifier: Apache-2.0 */
/*
 * stream_impl.h: a connected stream: the rsocket protocol (rsocket.h) run by the threads of a kernel.
 * Included by socket.h; names that end in _ are private.
 *
 * Three owners. What arrives belongs to whoever holds the flow's lock: bytes, credits, table entries, and what
 * we tell the peer of our own buffer. Sending belongs to the sender whose turn it is, receiving to the
 * receiver. Each counts up in words that the others only read.
 *
 * The receive queue has entries for all data writes that the peer has credit for, and GW_STREAM_SPARE_ more;
 * should the peer's other writes ever be more, its NIC is told to try again.
 */
#ifndef GPUWIRE_STREAM_IMPL_H
#define GPUWIRE_STREAM_IMPL_H

enum { GW_STREAM_SPARE_ = 16, GW_STREAM_OWED_ = 8, GW_STREAM_CHUNK_ = 65536 };

/* How far our buffer's bytes have been sent when a request is complete. */
struct gw_stream_mark_ {
    uint64_t ticket, pos;
};

/* Direct access, entry by entry. */
struct gw_stream_map_ {
    struct gw_rs_map theirs; /* as the peer has announced it; under the flow's lock */
    struct gw_rs_map ours;   /* as we have: the sender's; length 0: free */
    uint64_t ticket;         /* of the last announcement */
};

struct gw_stream_ {
    struct gw_flow_ flow;
    struct gw_sock_ *sock;
    struct gw_cq_handle *send_cq;
    uint8_t *rbuf, *wbuf;
    const struct gw_rs_sge *table;     /* which the peer writes */
    struct gw_rs_sge *own;             /* [2]: our halves, as entries for the peer's table */
    struct gw_stream_mark_ *mark;      /* [writes] */
    const struct gw_rs_map *map_table; /* [maps]: direct access, which the peer writes */
    struct gw_rs_map *map_own;         /* [maps]: our entries for the peer's table */
    struct gw_stream_map_ *map;        /* [maps] */
    uint64_t rbuf_addr, wbuf_addr, own_addr, map_own_addr;
    uint32_t lkey, rkey, maps;
    uint32_t rbuf_size, wbuf_size, writes;

    /* Under the flow's lock. */
    struct gw_rs_sge peer_table;
    struct gw_rs_sge target[GW_RS_TABLE]; /* where the peer can be written to; length 0: not now */
    uint64_t arrived;                     /* bytes */
    uint64_t offered;                     /* of our buffer, to the peer */
    uint32_t msgs, told;                  /* data writes that came, and for how many the peer knows */
    uint32_t credit;                      /* data writes that the peer allows, mod 2^16 */
    uint32_t entry, half, peer_entry;     /* next: of our table, our half, of the peer's table */
    uint32_t ended, closed;               /* the peer sends no more; nor receives */
    uint32_t peer_maps, swap;             /* entries for direct access that it offers; its byte order */

    /* The sender's. */
    uint64_t wpos, wdone; /* bytes put into our buffer, and free again */
    uint32_t seq, at;
    uint64_t said;         /* bytes put there up to the last write that says when it is complete */
    uint32_t unsaid;       /* writes since then */
    uint32_t marked, done; /* marks made and passed */
    uint64_t last;         /* ticket of what was posted last */
    uint32_t shut_wr;
    /* The receiver's. */
    uint32_t shut_rd;
    uint64_t taken; /* bytes */
} __attribute__((aligned(64)));

/* ---- what arrives ------------------------------------------------------------------------------------- */

/* The peer has written the next entry of our table. */
GW_FN int gw_stream_entry_(struct gw_stream_ *st)
{
    struct gw_rs_sge *t = &st->target[st->entry];
    uint64_t addr, rest;

    /* Acquire: the sender is done with what stood there. */
    if (gw_ld_acquire_u32_gpu(&t->length)) return -EPROTO;
    /* Complete: the write's completion has been seen, and the entry's next one cannot come before we have
     * filled this half. A peer that does not keep to that harms its own stream. */
    gw_ld_relaxed_2u64(&st->table[st->entry], &addr, &rest);
    t->addr = addr;
    t->key = (uint32_t)rest;
    if (!(rest >> 32) || rest >> 32 > GW_RS_NUMBER_MAX) return -EPROTO;
    gw_st_release_u32_gpu(&t->length, (uint32_t)(rest >> 32)); /* release: address and key first */
    st->entry ^= 1;
    return 0;
}

/* The peer has written this entry for direct access. As above it is complete. It took a credit. */
GW_FN int gw_stream_map_entry_(struct gw_stream_ *st, uint32_t i)
{
    struct gw_rs_map *m;

    if (i >= st->maps || st->msgs - st->told >= st->writes) return -EPROTO;
    st->msgs++;
    m = &st->map[i].theirs;
    m->offset = gw_ld_relaxed_u64(&st->map_table[i].offset);
    m->at.addr = gw_ld_relaxed_u64(&st->map_table[i].at.addr);
    m->at.key = gw_ld_relaxed_u32(&st->map_table[i].at.key);
    m->at.length = gw_ld_relaxed_u32(&st->map_table[i].at.length);
    return 0;
}

GW_FN int gw_stream_understand_(struct gw_stream_ *st, const struct gw_flow_msg_ *w)
{
    struct gw_rs_msg m;
    int err = gw_rs_parse(w->imm, w->bytes, &m);

    if (err) return err;
    switch (m.kind) {
    case GW_RS_BYTES:
        if (st->ended || m.number > st->offered - st->arrived || st->msgs - st->told >= st->writes)
            return -EPROTO;
        st->msgs++;
        gw_st_release_u64_gpu(&st->arrived, st->arrived + m.number); /* release: the bytes are there */
        break;
    case GW_RS_MAPPED: return gw_stream_map_entry_(st, m.number);
    case GW_RS_CREDITS_HALF: err = gw_stream_entry_(st); /* fall through */
    case GW_RS_CREDITS: gw_st_release_u32_gpu(&st->credit, m.number); break;
    case GW_RS_CLOSED: gw_st_release_u32_gpu(&st->closed, 1);    /* fall through */
    case GW_RS_END: gw_st_release_u32_gpu(&st->ended, 1); break; /* release: after the last bytes */
    default: break;
    }
    return err;
}

/* With `taken` bytes read, is there a half that the peer may fill again? Any thread; but who has not the lock may know an
 * older `offered`, and is told yes in vain. */
GW_FN uint32_t gw_stream_half_read_(const struct gw_stream_ *st, uint64_t taken)
{
    return taken + st->rbuf_size - gw_ld_relaxed_u64_gpu(&st->offered) >= st->rbuf_size / 2;
}

/* Is there anything to tell? Who has not the lock may be told yes in vain. */
GW_FN int gw_stream_due_(const struct gw_stream_ *st)
{
    if (gw_ld_relaxed_u32_gpu(&st->closed)) return 0;
    return gw_stream_half_read_(st, gw_ld_relaxed_u64_gpu(&st->taken)) ||
           gw_ld_relaxed_u32_gpu(&st->msgs) - gw_ld_relaxed_u32_gpu(&st->told) >= st->writes / 2;
}

/*
 * Tells the peer of a half that has been read, and of data writes that it may send. Like librdmacm's it
 * answers for each half, and else once half of the credits are gone. Not told for want of room in the send
 * queue: the next look tells. Something is due.
 */
GW_FN void gw_stream_tell_(struct gw_stream_ *st)
{
    /* Acquire: our reads of the half come before the peer overwrites it. */
    uint32_t half = gw_stream_half_read_(st, gw_ld_acquire_u64_gpu(&st->taken)),
             imm = gw_rs_imm(GW_RS_CREDIT, (st->msgs + st->writes) & 0xffff);
    uint64_t to = st->peer_table.addr + st->peer_entry * sizeof(struct gw_rs_sge);

    gw_flow_repost_(&st->flow);
    if (gw_flow_post_(&st->flow,
                      half ? gw_put_imm_op(st->own_addr + st->half * sizeof(struct gw_rs_sge), st->lkey, to,
                                           st->peer_table.key, sizeof(struct gw_rs_sge), imm)
                           : gw_put_imm_op(0, 0, 0, 0, 0, imm),
                      0, NULL))
        return;
    st->told = st->msgs;
    if (!half) return;
    gw_st_relaxed_u64_gpu(&st->offered, st->offered + st->rbuf_size / 2);
    st->half ^= 1;
    st->peer_entry ^= 1;
}

/*
 * Takes what has arrived, and tells. 0: there is nothing more. Receives are posted again when there is nothing else to do,
 * before the peer is told of any room, and when GW_STREAM_OWED_ have completed: with fewer missing there is still room
 * for all that the peer may send (tests/socket/stream_model.py).
 */
GW_SLOW_FN int gw_stream_look_(struct gw_stream_ *st)
{
    struct gw_flow_msg_ msg[GW_FLOW_TAKE_];
    struct gw_flow_seen_ seen;
    uint32_t n, i;
    int failed = 0, err = 0;

    if (!gw_flow_comes_(&st->flow, &seen) && !gw_ld_relaxed_u32_gpu(&st->flow.owed) && !gw_stream_due_(st))
        return 0;
    if (!gw_turn_try_(&st->flow.lock)) {
        gw_pause(64); /* another thread is at it, and may wait for this very core */
        return 1;
    }
    n = gw_flow_take_(&st->flow, &seen, msg, &failed);
    for (i = 0; i < n && !err; i++) err = gw_stream_understand_(st, &msg[i]);
    if (err || failed) gw_flow_fail_(&st->flow, err ? err : failed);
    if (!gw_flow_error_(&st->flow) && gw_stream_due_(st)) gw_stream_tell_(st);
    if (!n || st->flow.owed >= GW_STREAM_OWED_) gw_flow_repost_(&st->flow);
    gw_turn_leave_(&st->flow.lock);
    return n != 0 || failed;
}

/* ---- sending: the group's first thread ---------------------------------------------------------------- */

/* Frees what the peer's NIC has acknowledged. */
GW_FN void gw_stream_reap_(struct gw_stream_ *st)
{
    uint64_t ok;

    if (st->done == st->marked) return;
    gw_cq_retire_(st->send_cq);
    ok = gw_ld_acquire_u64_gpu(&st->flow.qp->sq_ok); /* acquire: the NIC has read before we overwrite */
    for (; st->done != st->marked && st->mark[st->done & (st->writes - 1)].ticket <= ok; st->done++)
        st->wdone = st->mark[st->done & (st->writes - 1)].pos;
}

GW_FN uint32_t gw_smaller_(uint64_t a, uint64_t b)
{
    return (uint32_t)(a < b ? a : b);
}

/* May anything be sent? 0; or why not. */
GW_FN int gw_stream_open_(struct gw_stream_ *st)
{
    int err = gw_flow_error_(&st->flow);

    if (gw_ld_relaxed_u32_gpu(&st->sock->closing)) return -EBADF;
    return st->shut_wr || gw_ld_relaxed_u32_gpu(&st->closed) ? -EPIPE : err;
}

GW_FN int gw_stream_has_credit_(const struct gw_stream_ *st)
{
    return (uint16_t)(gw_ld_relaxed_u32_gpu(&st->credit) - st->seq) != 0;
}

/* As much as one write takes at most. A CPU thread's bytes are still in its cache when they leave; on a GPU each message
 * costs both sides ten microseconds and more, so there are four to a buffer. */
GW_FN uint32_t gw_stream_chunk_(const struct gw_stream_ *st)
{
    uint32_t part = st->wbuf_size / 4;

    return GW_CPU_HOST_(st->flow.cq) || part < GW_STREAM_CHUNK_ ? GW_STREAM_CHUNK_ : part;
}

/* How many bytes in a row of our buffer can go in one write? */
GW_FN uint32_t gw_stream_own_room_(struct gw_stream_ *st)
{
    uint32_t at = (uint32_t)st->wpos & (st->wbuf_size - 1);
    uint64_t room = st->wbuf_size - (st->wpos - st->wdone);

    if (room < st->wbuf_size / 4 || st->marked - st->done == st->writes) gw_stream_reap_(st);
    if (st->marked - st->done == st->writes) return 0;
    room = gw_smaller_(st->wbuf_size - (st->wpos - st->wdone), st->wbuf_size - at);
    return gw_smaller_(room, gw_stream_chunk_(st));
}

/* How many bytes can go now, in one write? 0: none yet; or an error. */
GW_FN int64_t gw_stream_may_send_(struct gw_stream_ *st)
{
    /* At a time, as in gw_stream_may_recv_. */
    uint32_t at = st->at, shut = st->shut_wr, closed = gw_ld_relaxed_u32_gpu(&st->closed),
             error = gw_ld_relaxed_u32_gpu(&st->flow.error),
             closing = gw_ld_relaxed_u32_gpu(&st->sock->closing), credit = gw_stream_has_credit_(st), length;

    if (closing || shut || closed || error) return gw_stream_open_(st);
    length = gw_ld_acquire_u32_gpu(&st->target[at].length); /* acquire: address and key behind it */
    return length && credit ? gw_smaller_(gw_stream_own_room_(st), length) : 0;
}

GW_FN int64_t gw_stream_may_write_(struct gw_stream_ *st, uint64_t offset);

/* As above, but waits; or, with an offset, for gw_stream_may_write_. */
GW_SLOW_FN int64_t gw_stream_room_(struct gw_stream_ *st, const uint64_t *offset, uint64_t deadline_ns)
{
    struct gw_flow_wait_ w = gw_flow_wait_();
    int64_t may;

    for (;;) {
        may = offset ? gw_stream_may_write_(st, *offset) : gw_stream_may_send_(st);
        if (may) return may;
        if (gw_stream_look_(st)) continue;
        /* Room of our own comes with acknowledgements; credit and room of the peer's in a message. */
        may = gw_flow_pause_on_(&st->flow, &w, gw_stream_own_room_(st) ? st->flow.cq : st->send_cq,
                                deadline_ns);
        if (may) return may;
    }
}

/*
 * Is the write of the next n bytes to say when it is complete? To take note of that costs a GPU some microseconds, so as
 * few do as suffice: less than a quarter of our buffer is under way without a word, so that who waits for room waits for
 * one that says so.
 */
GW_FN uint32_t gw_stream_flags_(const struct gw_stream_ *st, uint32_t n)
{
    return st->wpos + n - st->said >= st->wbuf_size / 4 || st->unsaid + 1 >= st->writes / 2 ? GW_SIGNALED : 0;
}

/* A write of the next n bytes of our buffer has been posted, with these flags. */
GW_FN void gw_stream_posted_(struct gw_stream_ *st, uint32_t n, uint32_t flags, uint64_t ticket)
{
    struct gw_stream_mark_ *m = &st->mark[st->marked & (st->writes - 1)];

    st->wpos += n;
    st->last = ticket;
    st->unsaid++;
    if (!(flags & GW_SIGNALED)) return;
    st->said = m->pos = st->wpos;
    st->unsaid = 0;
    m->ticket = ticket;
    st->marked++;
}

/* Stores ahead of a post, which releases all that comes before it. On CPU threads the store does so itself: it is free
 * there, and ThreadSanitizer sees it. */
GW_FN void gw_stream_st_posted_(uint32_t *p, uint32_t v)
{
#ifdef __CUDACC__
    gw_st_relaxed_u32_gpu(p, v);
#else
    gw_st_release_u32_gpu(p, v);
#endif
}

/* Sends n bytes that lie in our buffer. -EAGAIN: the send queue is full. */
GW_FN int gw_stream_put_(struct gw_stream_ *st, uint32_t n)
{
    struct gw_rs_sge *t = &st->target[st->at], was = *t;
    uint32_t off = (uint32_t)st->wpos & (st->wbuf_size - 1), flags = gw_stream_flags_(st, n);
    uint64_t ticket;
    int err;

    /* Before it is posted: the peer may answer with a new entry before this thread goes on. */
    t->addr += n;
    gw_stream_st_posted_(&t->length, was.length - n);
    err = gw_flow_post_(
        &st->flow,
        gw_put_imm_op(st->wbuf_addr + off, st->lkey, was.addr, was.key, n, gw_rs_imm(GW_RS_DATA, n)), flags,
        &ticket);
    if (err) {
        t->addr = was.addr;
        gw_st_release_u32_gpu(&t->length, was.length);
        return err;
    }
    if (was.length == n) st->at ^= 1;
    st->seq++;
    gw_stream_posted_(st, n, flags, ticket);
    return 0;
}

/* As above, but waits for room in the send queue. */
GW_SLOW_FN int gw_stream_put_all_(struct gw_stream_ *st, uint32_t n, uint64_t deadline_ns)
{
    struct gw_flow_wait_ w = gw_flow_wait_();
    int err, late;

    while ((err = gw_stream_put_(st, n)) == -EAGAIN) {
        late = gw_flow_pause_(&st->flow, &w, deadline_ns);
        if (late) return late;
    }
    return err;
}

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

/* Says goodbye and waits until the peer's NIC has everything. A stream that has failed has nobody to tell. */
GW_FN int gw_stream_goodbye_(struct gw_stream_ *st, uint64_t deadline_ns)
{
    struct gw_tx tx;
    int err;

    if (gw_flow_error_(&st->flow) || gw_ld_relaxed_u32_gpu(&st->closed)) return 0;
    err = gw_stream_shutdown_(st, SHUT_RDWR, deadline_ns);
    if (!err && st->last && !gw_tx_open(&tx, st->flow.qp)) err = gw_tx_wait(&tx, st->last, deadline_ns);
    return err == -EAGAIN || err == -ETIMEDOUT ? -ETIMEDOUT : 0;
}

/* ---- receiving: the group's first thread -------------------------------------------------------------- */

/* How many bytes are there behind the first `skip`? 0: none yet. GW_STREAM_END_; or an error. */
#define GW_STREAM_END_ INT64_MAX

GW_FN int64_t gw_stream_may_recv_(const struct gw_stream_ *st, uint64_t skip)
{
    /* At a time: if there is nothing, as in most looks, that is all. */
    uint32_t ended = gw_ld_relaxed_u32_gpu(&st->ended), shut = gw_ld_relaxed_u32_gpu(&st->shut_rd),
             error = gw_ld_relaxed_u32_gpu(&st->flow.error),
             closing = gw_ld_relaxed_u32_gpu(&st->sock->closing), end;
    uint64_t have = gw_ld_relaxed_u64_gpu(&st->arrived) - st->taken - skip;
    int err;

    if (closing) return -EBADF;
    if (!have && !ended && !shut && !error) return 0;
    /* Errors and the end are read first and told last: bytes that came before them are received. */
    err = gw_flow_error_(&st->flow);
    end = gw_ld_acquire_u32_gpu(&st->ended) || shut;
    /* Acquire: the count before the bytes. */
    have = gw_ld_acquire_u64_gpu(&st->arrived) - st->taken - skip;
    return have ? (int64_t)have : end ? GW_STREAM_END_ : err;
}

/* As above, but waits for the first byte. What has come meanwhile is counted unless `want` bytes are there. */
GW_SLOW_FN int64_t gw_stream_bytes_(struct gw_stream_ *st, uint64_t skip, uint64_t want, uint64_t deadline_ns)
{
    struct gw_flow_wait_ w = gw_flow_wait_();
    int64_t may;

    for (;;) {
        may = gw_stream_may_recv_(st, skip);
        if (may > 0 && may != GW_STREAM_END_ && (uint64_t)may >= want) return may;
        if (gw_stream_look_(st)) continue; /* also behind an end: the last bytes may not be counted yet */
        if (may) return may;
        may = gw_flow_pause_(&st->flow, &w, deadline_ns);
        if (may) return may;
    }
}

/* n bytes have been read. -EINVAL: there are not so many. */
GW_SLOW_FN int gw_stream_take_(struct gw_stream_ *st, uint64_t n)
{
    if (n > gw_ld_relaxed_u64_gpu(&st->arrived) - st->taken) return -EINVAL;
    if (!n) return 0;
    /* Release: the group's reads come before the peer is told (gw_stream_tell_). */
    gw_st_release_u64_gpu(&st->taken, st->taken + n);
    /* Of writes whoever takes them tells: the receiver need only tell of a half. */
    if (!gw_stream_half_read_(st, st->taken)) return 0;
    /* Held for a short time only. It must not be skipped: nobody else might ever tell. */
    (void)gw_turn_take_(&st->flow.lock, UINT64_MAX);
    if (!gw_flow_error_(&st->flow) && gw_stream_due_(st)) gw_stream_tell_(st);
    gw_turn_leave_(&st->flow.lock);
    return 0;
}

/* What has failed, as an errno. */
GW_FN int gw_stream_failure_(struct gw_stream_ *st)
{
    while (!gw_ld_relaxed_u32_gpu(&st->sock->closing) && gw_stream_look_(st)) continue;
    return -gw_flow_error_(&st->flow);
}

/* What poll tells of it. */
GW_FN int gw_stream_events_(struct gw_stream_ *st)
{
    int events = 0, err, ended;

    while (!gw_ld_relaxed_u32_gpu(&st->sock->closing) && gw_stream_look_(st)) continue;
    err = gw_flow_error_(&st->flow);
    ended = gw_ld_relaxed_u32_gpu(&st->ended) || gw_ld_relaxed_u32_gpu(&st->shut_rd);
    if (gw_stream_may_recv_(st, 0))
        events |= POLLIN;                     /* bytes, the end or an error: receiving does not wait */
    if (gw_turn_try_(&st->sock->send_lock)) { /* else somebody sends, and there is no saying */
        if (gw_stream_may_send_(st)) events |= POLLOUT;
        if (ended && st->shut_wr) events |= POLLHUP;
        gw_turn_leave_(&st->sock->send_lock);
    }
    if (gw_ld_relaxed_u32_gpu(&st->closed)) return events | POLLHUP;
    return err ? events | POLLERR | POLLHUP : events;
}

/* ---- the beginning ------------------------------------------------------------------------------------ */

/* The queue pair is connected to a peer that offered this; of our buffers so many bytes are used. */
GW_FN void gw_stream_begin_(struct gw_stream_ *st, const struct gw_rs_conn *peer, uint32_t rbuf,
                            uint32_t wbuf)
{
    uint32_t i;

    st->rbuf_size = rbuf;
    st->wbuf_size = wbuf;
    for (i = 0; i < GW_RS_TABLE; i++) {
        st->own[i].addr = st->rbuf_addr + (uint64_t)i * (st->rbuf_size / 2);
        st->own[i].key = st->rkey;
        st->own[i].length = st->rbuf_size / 2;
        if (peer->swap) st->own[i] = gw_rs_swapped(&st->own[i]);
    }
    for (i = 0; i < st->maps; i++) {
        st->map[i].theirs.at.length = st->map[i].ours.at.length = 0;
        st->map[i].ticket = 0;
    }
    st->peer_maps = gw_smaller_(peer->maps, st->maps);
    st->swap = peer->swap;
    st->peer_table = peer->table;
    st->target[0] = peer->half;
    st->target[1].length = 0;
    st->credit = peer->credits;
    st->arrived = st->taken = 0;
    st->offered = st->rbuf_size / 2;
    st->msgs = st->told = 0;
    st->entry = st->half = st->peer_entry = 1;
    st->ended = st->closed = st->shut_wr = st->shut_rd = 0;
    st->wpos = st->wdone = st->said = st->last = 0;
    st->unsaid = st->seq = st->at = st->marked = st->done = 0;
    st->flow.error = st->flow.owed = 0;
    st->flow.asked = 0;
    gw_flow_record_(&st->flow);
}

#endif
