/* SPDX-License-Identifier: Apache-2.0 */
/*
 * straight.h: operations that only move data, between registered buffers, without copies. Included by
 * collective.h; names that end in _ are private.
 *
 * A rank tells each peer that the place for its data is free, and where it is. The peer then puts the data
 * there in one piece, and signals. Both are messages of the pipe. Peers are divided among the team's
 * blocks: for each there is one put, as large as it gets.
 */
#include <gpuwire/collective.h> /* which includes this file where it belongs */

#ifndef GPUWIRE_DETAIL_COLLECTIVE_STRAIGHT_H
#define GPUWIRE_DETAIL_COLLECTIVE_STRAIGHT_H

#define GW_PUT_MAX_ (UINT64_C(1) << 30)

/* What a message says of the place for the answer. */
struct gw_place_ {
    uint64_t offset, bytes;
    uint32_t buffer, pad;
};

/* The registered buffer that holds all of it; NULL: none. */
GW_FN const struct gw_coll_buffer_ *gw_buffer_of_(const struct gw_comm_handle *h, const void *at,
                                                  uint64_t bytes)
{
    const uint8_t *p = (const uint8_t *)at;
    uint32_t i;

    for (i = 0; i < GW_COMM_MAX_BUFFERS; i++) {
        const struct gw_coll_buffer_ *f = &h->buffer[i];

        if (f->base && p >= f->base && bytes <= f->length && (uint64_t)(p - f->base) <= f->length - bytes)
            return f;
    }
    return NULL;
}

/* Which block's pipe two ranks use: the same at both. It moves all of their data, not a share. */
GW_DEV int gw_is_mine_(const struct gw_steps_ *s, uint32_t peer)
{
    return peer != s->b.h->rank && (peer + s->b.h->rank) % s->b.blocks == s->b.block;
}

/* Elements that come from the peer, or go to it. */
GW_DEV struct gw_range_ gw_straight_part_(const struct gw_steps_ *s, uint32_t peer, int in)
{
    struct gw_range_ r;
    const struct gw_coll *c = s->c;

    r.at = 0;
    r.n = c->count;
    if (c->kind == GW_COLL_ALLTOALLV) {
        r.at = in ? c->recv_at[peer] : c->send_at[peer];
        r.n = in ? c->recv_count[peer] : c->send_count[peer];
    } else if (c->kind == GW_COLL_ALLTOALL || (c->kind == GW_COLL_ALLGATHER && in)) {
        r.at = peer * c->count;
    }
    if (in ? !gw_receives_(s, peer) : !gw_sends_(s)) r.n = 0;
    return r;
}

/* One thread: tells the peer where its data may go. */
GW_DEV int gw_straight_offer_(const struct gw_steps_ *s, uint32_t peer)
{
    struct gw_range_ r = gw_straight_part_(s, peer, 1);
    const struct gw_coll_buffer_ *f = gw_buffer_of_(s->b.h, s->recv + r.at * s->each, r.n * s->each);
    struct gw_place_ *place;
    int err;

    if (!r.n) return 0;
    err = gw_pipe_room_(&s->b, peer);
    if (err) return err;
    place = (struct gw_place_ *)(gw_pipe_out_(&s->b, peer, sizeof(*place)) + GW_COLL_HEAD_);
    place->offset = (uint64_t)(s->recv + r.at * s->each - f->base);
    place->bytes = r.n * s->each;
    place->buffer = (uint32_t)(f - s->b.h->buffer);
    return gw_pipe_send_(&s->b, peer, sizeof(*place));
}

/* One thread: puts n bytes, the last piece with its announcement. */
GW_DEV int gw_straight_put_(const struct gw_steps_ *s, uint32_t peer, const struct gw_place_ *place,
                            struct gw_range_ r)
{
    struct gw_comm_handle *h = s->b.h;
    const uint8_t *from = s->send + r.at * s->each;
    const struct gw_coll_buffer_ *mine = gw_buffer_of_(h, from, place->bytes),
                                 *theirs = &h->buffer[place->buffer];
    uint64_t laddr = mine->addr + (uint64_t)(from - mine->base), raddr = theirs->there[peer] + place->offset;
    uint64_t left = place->bytes;
    int err = gw_pipe_room_(&s->b, peer);

    while (left && !err) {
        uint32_t n = (uint32_t)(left < GW_PUT_MAX_ ? left : GW_PUT_MAX_);
        struct gw_op op = gw_put_op(laddr, mine->lkey, raddr, theirs->rkey[peer], n);

        left -= n;
        laddr += n;
        raddr += n;
        if (!left) op = gw_pipe_announced_(&s->b, peer, op);
        err = gw_pipe_post_(&s->b, peer, op);
    }
    gw_pipe_(&s->b, peer)->sent++;
    return err;
}

/* One thread: takes the peer's offer, and puts there. */
GW_DEV int gw_straight_answer_(const struct gw_steps_ *s, uint32_t peer)
{
    struct gw_range_ r = gw_straight_part_(s, peer, 0);
    const struct gw_place_ *offer;
    struct gw_place_ place;
    int err;

    if (!r.n) return 0;
    err = gw_pipe_come_(&s->b, peer, sizeof(place));
    if (err) return err;
    offer = (const struct gw_place_ *)(gw_pipe_in_(&s->b, peer, sizeof(place)) + GW_COLL_HEAD_);
    place = *offer;
    if (place.bytes != r.n * s->each || place.buffer >= GW_COMM_MAX_BUFFERS ||
        !s->b.h->buffer[place.buffer].base)
        return gw_coll_fail_(&s->b, -EPROTO, peer);
    err = gw_pipe_take_(&s->b, peer);
    return err ? err : gw_straight_put_(s, peer, &place, r);
}

/* One thread: the peer's data has come, and what went to it may be overwritten. */
GW_DEV int gw_straight_end_(const struct gw_steps_ *s, uint32_t peer)
{
    struct gw_pipe_ *p = gw_pipe_(&s->b, peer);
    struct gw_tx tx;
    int err = 0;

    if (gw_straight_part_(s, peer, 1).n) {
        err = gw_pipe_wait_(&s->b, peer, 0, p->taken + 1);
        if (!err) err = gw_pipe_take_(&s->b, peer);
    }
    if (err || !gw_straight_part_(s, peer, 0).n) return err;
    err = gw_tx_open(&tx, p->qp);
    if (!err) err = gw_tx_wait(&tx, p->ticket, s->b.deadline);
    if (!err) return 0;
    return gw_coll_fail_(&s->b, err == -ETIMEDOUT ? err : -EIO, peer);
}

/* All threads of the block. */
GW_SLOW_DEV int gw_straight_(const struct gw_steps_ *s)
{
    uint32_t n = s->b.h->ranks, phase, i;
    int err = 0;

    for (phase = 0; phase < 3; phase++) {
        if (gw_warp_idx() == 0)
            for (i = 1 + gw_lane(); i < n && !err; i += gw_warp_size()) {
                uint32_t peer = (s->b.h->rank + i) % n;

                if (!gw_is_mine_(s, peer)) continue;
                if (phase == 0) err = gw_straight_offer_(s, peer);
                if (phase == 1) err = gw_straight_answer_(s, peer);
                if (phase == 2) err = gw_straight_end_(s, peer);
            }
    }
    return gw_coll_agree_(err);
}

#endif
