/* SPDX-License-Identifier: Apache-2.0 */
/*
 * steps.h: a block's share of an operation as a row of steps. Included by collective.h; names that end in
 * _ are private.
 *
 * In step j a block takes the messages that its peers sent in step j - `ahead`, and sends its own of step
 * j. All ranks take the same steps. A message of step j has a slot when the receiver has taken those up to
 * step j - slots / 2 - 1. The receiver does that before its own step j. So no two ranks wait for each other.
 *
 * Threads of the first warp wait, post and count, each for peers of its own. All threads move data.
 */
#include <gpuwire/collective.h> /* which includes this file where it belongs */

#ifndef GPUWIRE_DETAIL_COLLECTIVE_STEPS_H
#define GPUWIRE_DETAIL_COLLECTIVE_STEPS_H

/* How a vector is divided among ranks. */
enum {
    GW_LAYOUT_WHOLE_ = 0, /* not at all */
    GW_LAYOUT_PARTS_ = 1, /* `count` elements for each rank, and of each part the block's share */
    GW_LAYOUT_SPLIT_ = 2, /* the block's share of `count` elements, in a part for each rank */
    GW_LAYOUT_LISTS_ = 3, /* as two lists say: all-to-all(v) */
};

struct gw_range_ {
    uint64_t at, n; /* elements */
};

struct gw_steps_ {
    struct gw_coll_block_ b;
    const struct gw_coll *c;
    const uint8_t *send;
    uint8_t *recv;
    uint32_t layout;
    uint32_t each;        /* bytes of an element */
    uint32_t chunk;       /* elements of a message at most */
    uint32_t ahead;       /* steps */
    uint32_t scale;       /* as struct gw_reduce_ */
    uint32_t reduce;      /* what comes is reduced; else copied */
    uint32_t by_peer;     /* each peer is sent its own part; else all are sent this rank's */
    struct gw_range_ own; /* what this rank sends to all, or what it keeps of what it reduces */
    uint64_t into;        /* where in recv the reduction of it goes */
};

/* Part i of n of `count` elements, in whole lines as far as possible: parts are aligned as the vector is. */
GW_FN struct gw_range_ gw_share_(uint64_t count, uint32_t each, uint32_t i, uint32_t n)
{
    uint64_t line = GW_COLL_HEAD_ / each, part = (count + n - 1) / n;
    struct gw_range_ r;

    part = (part + line - 1) / line * line;
    r.at = part * i < count ? part * i : count;
    r.n = count - r.at < part ? count - r.at : part;
    return r;
}

/* The block's share of what goes to a rank (in 0) or comes from it (in 1), in elements from the vector's
 * start. */
GW_SLOW_DEV struct gw_range_ gw_part_(const struct gw_steps_ *s, uint32_t rank, int in)
{
    const struct gw_coll *c = s->c;
    struct gw_range_ r, sub;

    if (s->layout == GW_LAYOUT_LISTS_) {
        r = gw_share_(in ? c->recv_count[rank] : c->send_count[rank], s->each, s->b.block, s->b.blocks);
        r.at += in ? c->recv_at[rank] : c->send_at[rank];
        return r;
    }
    r = gw_share_(c->count, s->each, s->b.block, s->b.blocks);
    if (s->layout == GW_LAYOUT_PARTS_) r.at += rank * c->count;
    if (s->layout != GW_LAYOUT_SPLIT_) return r;
    sub = gw_share_(r.n, s->each, rank, s->b.h->ranks);
    sub.at += r.at;
    return sub;
}

/* Chunk i of a range. */
GW_FN struct gw_range_ gw_chunk_(struct gw_range_ r, uint64_t i, uint32_t chunk)
{
    uint64_t from = i * chunk < r.n ? i * chunk : r.n;

    r.at += from;
    r.n = r.n - from < chunk ? r.n - from : chunk;
    return r;
}

/* The same error in all threads: that of a thread of the first warp, others pass 0. It is a barrier. */
GW_SLOW_DEV int gw_coll_agree_(int err)
{
    if (gw_warp_idx() == 0) {
        uint32_t failed = gw_ballot(gw_warp_all(), err != 0), lane = 0;

        while (failed && !(failed >> lane & 1)) lane++;
        err = (int)gw_shfl_u32(gw_warp_all(), (uint32_t)err, lane);
    }
    return (int)(int64_t)gw_group_first(GW_BLOCK, (uint64_t)(int64_t)err);
}

GW_SLOW_DEV void gw_coll_copy_(void *to, const void *from, uint64_t bytes)
{
    if (to != from && bytes) gw_copy_share(to, from, bytes, gw_thread_idx(), gw_block_dim());
}

/* ---- every rank with every other
 * ------------------------------------------------------------------------ */

/* Does this rank send to others, or receive from that one? In a broadcast only the root sends. */
GW_DEV int gw_sends_(const struct gw_steps_ *s)
{
    return s->c->kind != GW_COLL_BROADCAST || s->c->root == s->b.h->rank;
}
GW_DEV int gw_receives_(const struct gw_steps_ *s, uint32_t peer)
{
    return s->c->kind != GW_COLL_BROADCAST || (s->c->root == peer && peer != s->b.h->rank);
}

/* What goes to the peer in a step, and what comes from it. */
GW_DEV struct gw_range_ gw_going_(const struct gw_steps_ *s, uint32_t peer, uint64_t step)
{
    return gw_chunk_(s->by_peer ? gw_part_(s, peer, 0) : s->own, gw_sends_(s) ? step : UINT64_MAX / s->chunk,
                     s->chunk);
}
GW_DEV struct gw_range_ gw_coming_(const struct gw_steps_ *s, uint32_t peer, uint64_t step)
{
    return gw_chunk_(s->reduce ? s->own : gw_part_(s, peer, 1),
                     gw_receives_(s, peer) && step < UINT64_MAX / s->chunk ? step : UINT64_MAX / s->chunk,
                     s->chunk);
}

/* How many steps this rank has something to send or to take in. */
GW_DEV uint64_t gw_exchange_steps_(const struct gw_steps_ *s)
{
    uint64_t most = s->own.n, n;
    uint32_t i;

    for (i = 0; i < s->b.h->ranks; i++) {
        if (i == s->b.h->rank) continue;
        n = s->by_peer ? gw_part_(s, i, 0).n : 0;
        if (n > most) most = n;
        n = s->reduce ? 0 : gw_part_(s, i, 1).n;
        if (n > most) most = n;
    }
    return (most + s->chunk - 1) / s->chunk;
}

/* The first warp: waits for what comes, and for room for what goes. */
GW_DEV int gw_exchange_wait_(const struct gw_steps_ *s, uint64_t step)
{
    uint32_t n = s->b.h->ranks, i;
    int err = 0;

    if (gw_warp_idx()) return 0;
    for (i = 1 + gw_lane(); i < n && !err; i += gw_warp_size()) {
        uint32_t to = (s->b.h->rank + i) % n, from = (s->b.h->rank + n - i) % n;
        uint64_t come = gw_coming_(s, from, step - s->ahead).n * s->each;

        if (come) err = gw_pipe_come_(&s->b, from, come);
        if (!err && gw_going_(s, to, step).n) err = gw_pipe_room_(&s->b, to);
    }
    return err;
}

/* All threads: what goes into slots. */
GW_DEV void gw_exchange_fill_(const struct gw_steps_ *s, uint64_t step)
{
    uint32_t n = s->b.h->ranks, i;

    for (i = 1; i < n; i++) {
        uint32_t to = (s->b.h->rank + i) % n;
        struct gw_range_ r = gw_going_(s, to, step);

        if (r.n)
            gw_coll_copy_(gw_pipe_out_(&s->b, to, r.n * s->each) + GW_COLL_HEAD_, s->send + r.at * s->each,
                          r.n * s->each);
    }
}

/* All threads: what came, out of its slots. */
GW_DEV void gw_exchange_empty_(const struct gw_steps_ *s, uint64_t step)
{
    uint32_t n = s->b.h->ranks, i;

    for (i = 1; i < n; i++) {
        uint32_t from = (s->b.h->rank + n - i) % n;
        struct gw_range_ r = gw_coming_(s, from, step);

        if (r.n)
            gw_coll_copy_(s->recv + r.at * s->each, gw_pipe_in_(&s->b, from, r.n * s->each) + GW_COLL_HEAD_,
                          r.n * s->each);
    }
}

/* A step's inputs, in the order of ranks. */
struct gw_inputs_ {
    const uint8_t *at[GW_COMM_MAX_RANKS];
};

/* All threads: what came, and this rank's own. */
GW_SLOW_DEV void gw_exchange_reduce_(const struct gw_steps_ *s, uint64_t step)
{
    GW_SHARED(struct gw_inputs_, in);
    struct gw_range_ r = gw_chunk_(s->own, step, s->chunk);
    struct gw_reduce_ red;
    uint32_t i;

    for (i = gw_thread_idx(); i < s->b.h->ranks; i += gw_block_dim())
        in->at[i] = i == s->b.h->rank ? s->send + r.at * s->each
                                      : gw_pipe_in_(&s->b, i, r.n * s->each) + GW_COLL_HEAD_;
    gw_syncthreads();
    red.to = s->recv + (s->into + r.at - s->own.at) * s->each;
    red.in = in->at;
    red.count = r.n;
    red.inputs = s->b.h->ranks;
    red.dtype = s->c->dtype;
    red.op = s->c->op;
    red.scale = s->scale;
    if (r.n) gw_reduce_run_(&red, gw_thread_idx(), gw_block_dim());
}

/* The first warp: sends what goes, and tells of what was taken. */
GW_DEV int gw_exchange_post_(const struct gw_steps_ *s, uint64_t step)
{
    uint32_t n = s->b.h->ranks, i;
    int err = 0;

    if (gw_warp_idx()) return 0;
    for (i = 1 + gw_lane(); i < n && !err; i += gw_warp_size()) {
        uint32_t to = (s->b.h->rank + i) % n, from = (s->b.h->rank + n - i) % n;
        uint64_t go = gw_going_(s, to, step).n * s->each;

        if (go) err = gw_pipe_send_(&s->b, to, go);
        if (!err && gw_coming_(s, from, step - s->ahead).n) err = gw_pipe_take_(&s->b, from);
    }
    return err;
}

/* All threads of the block. After it, what came is visible to all of them. */
GW_SLOW_DEV int gw_exchange_(const struct gw_steps_ *s)
{
    uint64_t steps = gw_exchange_steps_(s), j;
    int err = 0;

    for (j = 0; j < steps + s->ahead; j++) {
        err = gw_coll_agree_(err ? err : gw_exchange_wait_(s, j));
        if (err) return err;
        if (j < steps) gw_exchange_fill_(s, j);
        if (j >= s->ahead && s->reduce) gw_exchange_reduce_(s, j - s->ahead);
        if (j >= s->ahead && !s->reduce) gw_exchange_empty_(s, j - s->ahead);
        gw_syncthreads();
        err = gw_exchange_post_(s, j);
    }
    return gw_coll_agree_(err);
}

/* ---- round the ring
 * ------------------------------------------------------------------------------------- */

/* Place x in a ring's row of steps: chunk `chunk` of a part is on its way to the `hop`-th next rank. */
struct gw_ring_at_ {
    uint32_t hop;
    uint64_t chunk;
};

GW_FN struct gw_ring_at_ gw_ring_at_(uint64_t x, uint32_t ahead, uint32_t hops)
{
    struct gw_ring_at_ at;

    at.hop = (uint32_t)(x / ahead % hops);
    at.chunk = x / ((uint64_t)ahead * hops) * ahead + x % ahead;
    return at;
}

/* What goes to the next rank at place x (in 0), or comes from the one before (in 1). A part that is reduced
 * begins after its owner and ends there; one that is gathered begins at its owner. */
GW_DEV struct gw_range_ gw_ring_piece_(const struct gw_steps_ *s, uint64_t x, int in)
{
    uint32_t n = s->b.h->ranks;
    struct gw_ring_at_ at = gw_ring_at_(x, s->ahead, n - 1);

    return gw_chunk_(gw_part_(s, (s->b.h->rank + 2 * n - at.hop - s->reduce - (uint32_t)in) % n, in),
                     at.chunk, s->chunk);
}

/* One thread: waits for what comes at place in, and for room for what goes at place out. */
GW_DEV int gw_ring_wait_(const struct gw_steps_ *s, uint64_t come, uint64_t go)
{
    uint32_t n = s->b.h->ranks, next = (s->b.h->rank + 1) % n, before = (s->b.h->rank + n - 1) % n;
    int err = 0;

    if (gw_thread_idx()) return 0;
    if (come) err = gw_pipe_come_(&s->b, before, come * s->each);
    if (!err && go) err = gw_pipe_room_(&s->b, next);
    return err;
}

/* All threads: what came at a place goes on into `on` (NULL: it has arrived), or where it belongs. */
GW_SLOW_DEV void gw_ring_move_(const struct gw_steps_ *s, struct gw_range_ r, const uint8_t *came,
                               uint8_t *on)
{
    const uint8_t *in[2];
    struct gw_reduce_ red;

    if (!s->reduce) {
        gw_coll_copy_(s->recv + r.at * s->each, came, r.n * s->each);
        if (on) gw_coll_copy_(on, came, r.n * s->each);
        return;
    }
    in[0] = came;
    in[1] = s->send + r.at * s->each;
    red.to = on ? on : s->recv + (s->into + r.at - s->own.at) * s->each;
    red.in = in;
    red.count = r.n;
    red.inputs = 2;
    red.dtype = s->c->dtype;
    red.op = s->c->op;
    red.scale = on ? 1 : s->scale;
    gw_reduce_run_(&red, gw_thread_idx(), gw_block_dim());
}

/* All threads: one step. Places and pieces are those of gw_ring_. */
GW_DEV void gw_ring_step_(const struct gw_steps_ *s, uint64_t x, struct gw_range_ come, struct gw_range_ go)
{
    uint32_t n = s->b.h->ranks, next = (s->b.h->rank + 1) % n, before = (s->b.h->rank + n - 1) % n;
    int first = gw_ring_at_(x, s->ahead, n - 1).hop == 0;
    uint8_t *out = go.n ? gw_pipe_out_(&s->b, next, go.n * s->each) + GW_COLL_HEAD_ : NULL;

    if (come.n)
        gw_ring_move_(s, come, gw_pipe_in_(&s->b, before, come.n * s->each) + GW_COLL_HEAD_,
                      first ? NULL : out);
    if (go.n && first) gw_coll_copy_(out, (s->reduce ? s->send : s->recv) + go.at * s->each, go.n * s->each);
}

/* All threads of the block: reduce-scatter (s->reduce) or all-gather. What is gathered lies in recv
 * already. */
GW_SLOW_DEV int gw_ring_(const struct gw_steps_ *s)
{
    uint32_t n = s->b.h->ranks, next = (s->b.h->rank + 1) % n, before = (s->b.h->rank + n - 1) % n;
    uint64_t most = gw_part_(s, 0, 0).n, chunks = (most + s->chunk - 1) / s->chunk; /* no part is longer */
    uint64_t places = (chunks + s->ahead - 1) / s->ahead * s->ahead * (n - 1), x;
    int err = 0;

    for (x = 0; x < places + s->ahead; x++) {
        struct gw_range_ come, go;

        come.at = come.n = go.at = go.n = 0;
        if (x >= s->ahead) come = gw_ring_piece_(s, x - s->ahead, 1);
        if (x < places) go = gw_ring_piece_(s, x, 0);
        err = gw_coll_agree_(err ? err : gw_ring_wait_(s, come.n, go.n));
        if (err) return err;
        gw_ring_step_(s, x, come, go);
        gw_syncthreads();
        if (gw_thread_idx()) continue;
        if (go.n) err = gw_pipe_send_(&s->b, next, go.n * s->each);
        if (!err && come.n) err = gw_pipe_take_(&s->b, before);
    }
    return gw_coll_agree_(err);
}

/* All threads of the block: a broadcast from each rank to the next one, beginning at the root. */
GW_SLOW_DEV int gw_chain_(const struct gw_steps_ *s)
{
    uint32_t n = s->b.h->ranks, rank = s->b.h->rank, next = (rank + 1) % n, before = (rank + n - 1) % n;
    uint64_t chunks = (s->own.n + s->chunk - 1) / s->chunk, j;
    int first = rank == s->c->root, last = next == s->c->root, err = 0;

    for (j = 0; j < chunks; j++) {
        struct gw_range_ r = gw_chunk_(s->own, j, s->chunk);
        uint64_t bytes = r.n * s->each;
        const uint8_t *from;

        err = gw_coll_agree_(err ? err : gw_ring_wait_(s, first ? 0 : r.n, last ? 0 : r.n));
        if (err) return err;
        from = first ? s->send + r.at * s->each : gw_pipe_in_(&s->b, before, bytes) + GW_COLL_HEAD_;
        if (!first) gw_coll_copy_(s->recv + r.at * s->each, from, bytes);
        if (!last) gw_coll_copy_(gw_pipe_out_(&s->b, next, bytes) + GW_COLL_HEAD_, from, bytes);
        gw_syncthreads();
        if (gw_thread_idx()) continue;
        if (!last) err = gw_pipe_send_(&s->b, next, bytes);
        if (!err && !first) err = gw_pipe_take_(&s->b, before);
    }
    return gw_coll_agree_(err);
}

#endif
