/* SPDX-License-Identifier: Apache-2.0 */
/*
 * stream.h: a connected stream: the rsocket protocol (rsocket.h) run by the threads of a kernel. Here: what
 * it is made of, and what arrives; stream_send.h: sending, and ends; stream_recv.h: receiving;
 * stream_group.h: how a group does either. Included by socket.h; names that end in _ are private.
 *
 * Three owners. The holder of the flow's lock owns all that arrives: bytes, credits and table entries. It
 * also tells the peer of our own buffer. Sending belongs to the sender whose turn it is, receiving to the
 * receiver. Each counts up in words that the others only read. Some work needs no turn, and other threads of
 * a group do it after the group's turn: they show prepared requests to the NIC, give room back and look. A
 * thread that has begun a turn asks for all that it needs at a time, before it looks at any of it. On a GPU a
 * load that waits for another takes another quarter of a microsecond.
 *
 * The receive queue has entries for all data writes that the peer has credit for, and GW_STREAM_SPARE_ more.
 * Should the peer's other writes ever be more, our NIC tells its NIC to try again.
 */
#include <gpuwire/socket.h> /* which includes this file where it belongs */

#ifndef GPUWIRE_DETAIL_SOCKET_STREAM_H
#define GPUWIRE_DETAIL_SOCKET_STREAM_H

enum { GW_STREAM_SPARE_ = 16, GW_STREAM_UNPOSTED_ = 8, GW_STREAM_CHUNK_ = 65536 };

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
    uint32_t msgs, granted;               /* data writes that came, and for how many the peer knows */
    uint32_t credit;                      /* data writes that the peer allows, mod 2^16 */
    uint32_t entry, half, peer_entry;     /* next: of our table, our half, of the peer's table */
    uint32_t ended, closed;               /* the peer sends no more; nor receives */
    uint32_t peer_maps, swap;             /* entries for direct access that it offers; its byte order */

    /* The sender's. */
    uint64_t wpos, wdone; /* bytes put into our buffer, and free again */
    uint32_t seq, at;
    uint64_t signaled;     /* bytes put there up to the last write that says when it is complete */
    uint32_t unsignaled;   /* writes since then */
    uint32_t marked, done; /* marks made and passed */
    uint64_t last;         /* ticket of what was posted last */
    uint32_t shut_wr;
    struct gw_tx tx; /* its view of the queue pair, from one turn to the next */
    /* The receiver's. */
    uint32_t shut_rd;
    uint64_t taken; /* bytes */
    /* Anybody's. */
    uint64_t freed;    /* bytes that everybody has read: the peer may be told */
    uint32_t deferred; /* threads that still work on what their group's turn has left */
} __attribute__((aligned(64)));

GW_FN uint32_t gw_smaller_(uint64_t a, uint64_t b)
{
    return (uint32_t)(a < b ? a : b);
}

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

    if (i >= st->maps || st->msgs - st->granted >= st->writes) return -EPROTO;
    gw_st_relaxed_u32_gpu(&st->msgs, st->msgs + 1);
    m = &st->map[i].theirs;
    m->offset = gw_ld_relaxed_u64(&st->map_table[i].offset);
    m->at.addr = gw_ld_relaxed_u64(&st->map_table[i].at.addr);
    m->at.key = gw_ld_relaxed_u32(&st->map_table[i].at.key);
    m->at.length = gw_ld_relaxed_u32(&st->map_table[i].at.length);
    return 0;
}

/* The state under the flow's lock. A thread without the lock may know older values. */
struct gw_stream_now_ {
    uint64_t arrived, offered, freed;
    uint32_t msgs, granted, writes, half, ended, closed, error, unposted;
};

GW_FN void gw_stream_now_(const struct gw_stream_ *st, struct gw_stream_now_ *now)
{
    now->arrived = gw_ld_relaxed_u64_gpu(&st->arrived);
    now->offered = gw_ld_relaxed_u64_gpu(&st->offered);
    now->freed = gw_ld_relaxed_u64_gpu(&st->freed);
    now->msgs = gw_ld_relaxed_u32_gpu(&st->msgs);
    now->granted = gw_ld_relaxed_u32_gpu(&st->granted);
    now->ended = gw_ld_relaxed_u32_gpu(&st->ended);
    now->closed = gw_ld_relaxed_u32_gpu(&st->closed);
    now->error = gw_ld_relaxed_u32_gpu(&st->flow.error);
    now->unposted = gw_ld_relaxed_u32_gpu(&st->flow.unposted);
    now->writes = st->writes;
    now->half = st->rbuf_size / 2;
}

/* A data write of n bytes. */
GW_FN int gw_stream_count_(struct gw_stream_ *st, struct gw_stream_now_ *now, uint32_t n)
{
    if (now->ended || n > now->offered - now->arrived || now->msgs - now->granted >= now->writes)
        return -EPROTO;
    gw_st_relaxed_u32_gpu(&st->msgs, ++now->msgs);
    now->arrived += n;
    gw_st_release_u64_gpu(&st->arrived, now->arrived); /* release: the bytes are there */
    return 0;
}

/* All other messages are rare. */
GW_SLOW_FN int gw_stream_hear_(struct gw_stream_ *st, const struct gw_rs_msg *m)
{
    int err = 0;

    switch (m->kind) {
    case GW_RS_MAPPED: return gw_stream_map_entry_(st, m->number);
    case GW_RS_CREDITS_HALF: err = gw_stream_entry_(st); __attribute__((fallthrough));
    case GW_RS_CREDITS: gw_st_release_u32_gpu(&st->credit, m->number); break;
    case GW_RS_CLOSED: gw_st_release_u32_gpu(&st->closed, 1); __attribute__((fallthrough));
    case GW_RS_END: gw_st_release_u32_gpu(&st->ended, 1); break; /* release: after the last bytes */
    default: break;
    }
    return err;
}

GW_FN int gw_stream_understand_(struct gw_stream_ *st, struct gw_stream_now_ *now,
                                const struct gw_flow_msg_ *w)
{
    struct gw_rs_msg m;
    int err = gw_rs_parse(w->imm, w->bytes, &m);

    if (err) return err;
    if (m.kind == GW_RS_BYTES) return gw_stream_count_(st, now, m.number);
    err = gw_stream_hear_(st, &m);
    gw_stream_now_(st, now);
    return err;
}

/* With `freed` bytes read, is there a half that the peer may fill again? */
GW_FN int gw_stream_half_read_(const struct gw_stream_now_ *now, uint64_t freed)
{
    return freed + now->half >= now->offered;
}

/* Is there anything to tell? */
GW_FN int gw_stream_due_(const struct gw_stream_now_ *now)
{
    return !now->closed &&
           (gw_stream_half_read_(now, now->freed) || now->msgs - now->granted >= now->writes / 2);
}

/*
 * Tells the peer of a half that has been read, and of data writes that it may send. Like librdmacm's it
 * answers for each half, and else once half of the credits are gone. Not told for want of room in the send
 * queue: the next look tells. Something is due.
 */
GW_SLOW_FN void gw_stream_tell_(struct gw_stream_ *st)
{
    struct gw_stream_now_ now;
    uint32_t half, imm;
    uint64_t to = st->peer_table.addr + st->peer_entry * sizeof(struct gw_rs_sge);

    gw_stream_now_(st, &now);
    /* Acquire: our reads of the half come before the peer overwrites it. */
    half = (uint32_t)gw_stream_half_read_(&now, gw_ld_acquire_u64_gpu(&st->freed));
    imm = gw_rs_imm(GW_RS_CREDIT, (now.msgs + now.writes) & 0xffff);
    gw_flow_repost_(&st->flow);
    if (gw_flow_post_(&st->flow,
                      half ? gw_put_imm_op(st->own_addr + st->half * sizeof(struct gw_rs_sge), st->lkey, to,
                                           st->peer_table.key, sizeof(struct gw_rs_sge), imm)
                           : gw_put_imm_op(0, 0, 0, 0, 0, imm),
                      0, NULL))
        return;
    gw_st_relaxed_u32_gpu(&st->granted, now.msgs);
    if (!half) return;
    gw_st_relaxed_u64_gpu(&st->offered, now.offered + now.half);
    st->half ^= 1;
    st->peer_entry ^= 1;
}

/* Takes what has arrived; under the flow's lock, with what stood there. 0: there was nothing. */
GW_FN int gw_stream_take_in_(struct gw_stream_ *st, struct gw_flow_seen_ *seen, struct gw_stream_now_ *now)
{
    struct gw_flow_msg_ msg[GW_FLOW_TAKE_];
    int failed = 0, err = 0;
    uint32_t unposted = now->unposted, n = gw_flow_take_(&st->flow, seen, &unposted, msg, &failed), i;

    gw_st_relaxed_u32_gpu(&st->flow.unposted, unposted);
    for (i = 0; i < n && !err; i++) err = gw_stream_understand_(st, now, &msg[i]);
    now->unposted = unposted;
    if (!err) err = failed;
    if (err) gw_flow_fail_(&st->flow, err);
    if (err) now->error = (uint32_t)-err;
    return n || failed;
}

/* Without the lock: is there nothing to take, and nothing to do? */
GW_FN int gw_stream_idle_(const struct gw_stream_ *st, struct gw_flow_seen_ *seen)
{
#ifdef __CUDACC__
    struct gw_stream_now_ now;

    gw_flow_at_(&st->flow, seen);
    gw_stream_now_(st, &now);
    return !gw_flow_there_(seen) && !now.unposted && !gw_stream_due_(&now);
#else
    (void)st;
    (void)seen;
    return 0; /* gw_poll_cq has to look */
#endif
}

/*
 * Takes what has arrived, and tells. 0: there is nothing more. Receives are posted again when there is
 * nothing else to do, before the peer is told of any room, and when GW_STREAM_UNPOSTED_ have completed. With
 * fewer missing there is still room for all that the peer may send (tests/socket/stream_model.py).
 */
GW_SLOW_FN int gw_stream_look_(struct gw_stream_ *st)
{
    struct gw_flow_seen_ seen;
    struct gw_stream_now_ now;
    uint32_t busy = gw_ld_relaxed_u32_gpu(&st->flow.lock);
    int came;

    if (gw_stream_idle_(st, &seen)) return 0;
    /* Acquire: what the last owner did comes before what we do. */
    if (busy || gw_cas_acquire_u32_gpu(&st->flow.lock, 0, 1)) {
        gw_pause(64); /* another thread is at it, and may wait for this very core */
        return 1;
    }
    gw_stream_now_(st, &now);
    came = gw_stream_take_in_(st, &seen, &now);
    if (!now.error && gw_stream_due_(&now)) gw_stream_tell_(st);
    if (!came || now.unposted >= GW_STREAM_UNPOSTED_) gw_flow_repost_(&st->flow);
    gw_turn_leave_(&st->flow.lock);
    return came;
}

/* ---- after a turn ------------------------------------------------------------------------------------- */

/* Another thread of the group goes on with the stream when the group's turn is over. The thread with the turn
 * says so before the turn ends. */
GW_FN void gw_stream_deferred_(struct gw_stream_ *st)
{
    (void)gw_add_relaxed_u32_gpu(&st->deferred, 1); /* the turn's end releases it */
}

/* That thread is done. Release: with the queues, too, which soon may be another stream's. */
GW_FN void gw_stream_caught_up_(struct gw_stream_ *st)
{
    (void)gw_add_release_u32_gpu(&st->deferred, ~(uint32_t)0);
}

/* No thread has a turn, or gets one: waits for all of these. None of them waits for a peer. */
GW_FN void gw_stream_quiesce_(const struct gw_stream_ *st)
{
    uint32_t round = 0;

    while (gw_ld_acquire_u32_gpu(&st->deferred)) gw_pause(round++); /* acquire: as above */
}

/* Looks for what has come, and for what is complete. A thread that was counted. */
GW_SLOW_FN void gw_stream_look_deferred_(struct gw_stream_ *st, int come, int complete)
{
    if (come) (void)gw_stream_look_(st);
    if (complete) gw_cq_retire_(st->send_cq);
    gw_stream_caught_up_(st);
}

/* ---- the beginning ------------------------------------------------------------------------------------ */

/* The queue pair is connected to a peer that offered this; the sizes say how many bytes of our buffers are
 * used. */
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
    st->arrived = st->taken = st->freed = 0;
    st->offered = st->rbuf_size / 2;
    st->msgs = st->granted = 0;
    st->entry = st->half = st->peer_entry = 1;
    st->ended = st->closed = st->shut_wr = st->shut_rd = 0;
    st->wpos = st->wdone = st->signaled = st->last = 0;
    st->unsignaled = st->seq = st->at = st->marked = st->done = 0;
    st->deferred = 0;
    st->flow.error = st->flow.unposted = 0;
    st->flow.asked = 0;
    gw_flow_record_(&st->flow);
    /* A view that cannot be opened any more still posts, and its posts fail. */
    (void)gw_tx_open(&st->tx, st->flow.qp);
}

#endif
