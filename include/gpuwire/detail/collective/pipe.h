/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pipe.h: messages between two ranks: room, post, arrival. Included by collective.h; names that end in _ are
 * private.
 *
 * These functions act for one thread. Different threads of a block work on the pipes of different peers at
 * the same time.
 */
#include <gpuwire/collective.h> /* which includes this file where it belongs */

#ifndef GPUWIRE_DETAIL_COLLECTIVE_PIPE_H
#define GPUWIRE_DETAIL_COLLECTIVE_PIPE_H

/* A block during one operation. */
struct gw_coll_block_ {
    struct gw_comm_handle *h;
    uint32_t block, blocks;
    uint32_t tag; /* of the operation: the same at all ranks */
    uint64_t deadline;
};

GW_FN struct gw_pipe_ *gw_pipe_(const struct gw_coll_block_ *b, uint32_t peer)
{
    return &b->h->pipe[gw_pipe_index_(b->h, b->block, peer)];
}

/* ---- failing ------------------------------------------------------------------------------------------- */

/* Tells every peer. What cannot be posted is lost: those ranks' own deadlines end their calls. */
GW_SLOW_DEV void gw_coll_tell_(const struct gw_coll_block_ *b, uint64_t fault)
{
    struct gw_comm_handle *h = b->h;
    uint64_t from = h->front_addr + offsetof(struct gw_coll_front_, tell);
    uint32_t i;

    gw_st_relaxed_u64(&h->front->tell, fault | (uint64_t)1 << 63);
    for (i = 0; i < h->ranks; i++) {
        struct gw_pipe_ *p = gw_pipe_(b, i);
        struct gw_tx tx;

        if (!p->qp || gw_tx_open(&tx, p->qp)) continue;
        (void)gw_tx_post(&tx, gw_put_op(from, h->small_lkey, p->there_front, p->small_rkey, 8), 0, NULL);
    }
}

/* This rank fails: the first fault stays, and all ranks hear of it. Returns err. */
GW_SLOW_DEV int gw_coll_fail_(const struct gw_coll_block_ *b, int err, uint32_t blame)
{
    uint64_t fault = gw_coll_fault_(err, blame, 0);

    /* Not one step: two blocks that fail at once may both write. Either word is true. */
    if (gw_ld_relaxed_u64(&b->h->front->fault)) return err;
    gw_st_release_u64(&b->h->front->fault, fault);
    gw_coll_tell_(b, fault);
    return err;
}

/* What has been noted of a failure, as this call returns it. */
GW_DEV int gw_coll_noted_(const struct gw_comm_handle *h)
{
    uint64_t fault = gw_ld_acquire_u64(&h->front->fault);

    if (!fault) return 0;
    return fault >> 63 ? -ECONNABORTED : -(int)(uint32_t)(fault >> 32);
}

/* The same during a call that waits. What a peer has told is passed on: the way from the one that noticed
 * to the others may be what has failed. */
GW_SLOW_DEV int gw_coll_heard_(const struct gw_coll_block_ *b)
{
    int err = gw_coll_noted_(b->h);

    if (err == -ECONNABORTED) gw_coll_tell_(b, gw_ld_relaxed_u64(&b->h->front->fault));
    return err;
}

/* Has a queue pair of the block's failed? Looks at the completions first. */
GW_SLOW_DEV int gw_pipe_faults_(const struct gw_coll_block_ *b, uint32_t peer)
{
    struct gw_fault fault;
    uint32_t i;

    for (i = 0; i < b->h->ranks; i++) {
        struct gw_pipe_ *p = gw_pipe_(b, i);
        struct gw_tx tx;

        if (!p->qp) continue;
        /* One queue's look takes the completions of all: they share a completion queue. */
        if (i == peer && p->ticket && !gw_tx_open(&tx, p->qp)) (void)gw_tx_wait(&tx, p->ticket, 0);
        if (gw_fault_of(p->qp, &fault)) return gw_coll_fail_(b, -EIO, i);
    }
    return 0;
}

/* ---- completions instead of signals -------------------------------------------------------------------- */

/* An immediate: who sends, and how many messages it has taken; 0: it is a message itself. */
GW_FN uint32_t gw_pipe_imm_(const struct gw_comm_handle *h, uint32_t taken)
{
    return h->rank | taken << 16;
}

/* Takes what completions tell. Any thread of the block; threads that find another one at it go on. */
GW_SLOW_DEV void gw_pipe_drain_(const struct gw_coll_block_ *b)
{
    struct ibv_wc wc;

    while (gw_poll_cq(b->h->recv_cq[b->block], 1, &wc) == 1) {
        uint32_t imm = gw_wc_imm(&wc), taken = imm >> 16;
        struct gw_pipe_ *p = gw_pipe_(b, imm & 0xffff);

        if (wc.status != IBV_WC_SUCCESS || (imm & 0xffff) >= b->h->ranks) continue;
        (void)gw_recv_empty(p->qp, 1, 0);
        /* Release: the message is there before its number is. */
        gw_add_release_u64_gpu(taken ? &p->credit : &p->got, taken ? taken : 1);
    }
}

GW_DEV const uint64_t *gw_pipe_word_(const struct gw_coll_block_ *b, uint32_t peer, int credit)
{
    struct gw_coll_words_ *w = &b->h->words[gw_pipe_index_(b->h, b->block, peer)];

    if (b->h->immediate) return credit ? &gw_pipe_(b, peer)->credit : &gw_pipe_(b, peer)->got;
    return credit ? &w->credit : &w->arrived;
}

/* Waits until a word has reached `least`. Acquire: what came before the signal is visible after it. */
GW_SLOW_DEV int gw_pipe_wait_(const struct gw_coll_block_ *b, uint32_t peer, int credit, uint64_t least)
{
    const uint64_t *word = gw_pipe_word_(b, peer, credit);
    uint32_t round = 0;
    uint64_t now, look = 0;
    int err;

    for (;;) {
        if (b->h->immediate) gw_pipe_drain_(b);
        if ((int64_t)(gw_ld_acquire_u64(word) - least) >= 0) return 0;
        if (++round % 64 == 0) {
            err = gw_coll_heard_(b);
            if (err) return err;
            now = gw_clock_ns();
            if (now >= b->deadline) return gw_coll_fail_(b, -ETIMEDOUT, peer);
            if (now >= look) { /* a look at the queue pairs costs more: once in a millisecond */
                err = look ? gw_pipe_faults_(b, peer) : 0;
                if (err) return err;
                look = now + 1000000;
            }
        }
        gw_pause(round);
    }
}

/* ---- sending ------------------------------------------------------------------------------------------- */

/* Posts an operation to a peer, waiting for room in the queue. */
GW_SLOW_DEV int gw_pipe_post_(const struct gw_coll_block_ *b, uint32_t peer, struct gw_op op)
{
    struct gw_pipe_ *p = gw_pipe_(b, peer);
    struct gw_tx tx;
    uint32_t round = 0;
    int err = gw_tx_open(&tx, p->qp);

    while (!err && (err = gw_tx_post(&tx, op, 0, &p->ticket)) == -EAGAIN) {
        err = gw_coll_noted_(b->h);
        if (!err && gw_clock_ns() >= b->deadline) err = -ETIMEDOUT;
        gw_pause(round++);
    }
    if (!err) return 0;
    return gw_coll_fail_(b, err == -ETIMEDOUT ? err : -EIO, peer);
}

/* Waits until the next message to a peer has a slot. */
GW_DEV int gw_pipe_room_(const struct gw_coll_block_ *b, uint32_t peer)
{
    uint64_t sent = gw_pipe_(b, peer)->sent;

    return sent < GW_COLL_SLOTS_ ? 0 : gw_pipe_wait_(b, peer, 1, sent - GW_COLL_SLOTS_ + 1);
}

/* Where the next message to a peer is written before it is sent: its slot here. */
GW_DEV uint8_t *gw_pipe_out_(const struct gw_coll_block_ *b, uint32_t peer, uint64_t bytes)
{
    uint64_t pipe = gw_pipe_index_(b->h, b->block, peer), sent = b->h->pipe[pipe].sent;

    return bytes <= b->h->small ? b->h->send_small + gw_slot_at_(pipe, sent, b->h->small)
                                : b->h->send_large + gw_slot_at_(pipe, sent, b->h->large);
}

/* Announces an operation to the peer: by a signal after it, or by the completion that it causes. */
GW_DEV struct gw_op gw_pipe_announced_(const struct gw_coll_block_ *b, uint32_t peer, struct gw_op put)
{
    const struct gw_pipe_ *p = gw_pipe_(b, peer);

    if (b->h->immediate) return gw_with_imm(put, gw_pipe_imm_(b->h, 0));
    return gw_with_signal(put, p->there_words + offsetof(struct gw_coll_words_, arrived), p->small_rkey, 1);
}

/* Sends the next message, whose payload lies in its slot here. What other threads of the block have written
 * there happened before: a barrier lies between. */
GW_SLOW_DEV int gw_pipe_send_(const struct gw_coll_block_ *b, uint32_t peer, uint64_t bytes)
{
    struct gw_comm_handle *h = b->h;
    struct gw_pipe_ *p = gw_pipe_(b, peer);
    struct gw_coll_head_ *head = (struct gw_coll_head_ *)gw_pipe_out_(b, peer, bytes);
    int small = bytes <= h->small;
    uint64_t at = gw_slot_at_(gw_pipe_index_(h, b->block, peer), p->sent, small ? h->small : h->large);
    uint64_t there = gw_slot_at_(0, p->sent, small ? h->small : h->large);
    struct gw_op op;

    head->number = p->sent;
    head->bytes = (uint32_t)bytes;
    head->tag = b->tag;
    op = gw_put_op((small ? h->send_small_addr : h->send_large_addr) + at,
                   small ? h->small_lkey : h->large_lkey, (small ? p->there_small : p->there_large) + there,
                   small ? p->small_rkey : p->large_rkey, GW_COLL_HEAD_ + (uint32_t)bytes);
    p->sent++;
    return gw_pipe_post_(b, peer, gw_pipe_announced_(b, peer, op));
}

/* ---- receiving ----------------------------------------------------------------------------------------- */

/* The next message from a peer, where it lies. */
GW_DEV const uint8_t *gw_pipe_in_(const struct gw_coll_block_ *b, uint32_t peer, uint64_t bytes)
{
    uint64_t pipe = gw_pipe_index_(b->h, b->block, peer), taken = b->h->pipe[pipe].taken;

    return bytes <= b->h->small ? b->h->recv_small + gw_slot_at_(pipe, taken, b->h->small)
                                : b->h->recv_large + gw_slot_at_(pipe, taken, b->h->large);
}

/* Waits for the next message from a peer, which must be of this call and size. */
GW_SLOW_DEV int gw_pipe_come_(const struct gw_coll_block_ *b, uint32_t peer, uint64_t bytes)
{
    const struct gw_pipe_ *p = gw_pipe_(b, peer);
    const struct gw_coll_head_ *head;
    int err = gw_pipe_wait_(b, peer, 0, p->taken + 1);

    if (err) return err;
    head = (const struct gw_coll_head_ *)gw_pipe_in_(b, peer, bytes);
    if (head->number == p->taken && head->bytes == bytes && head->tag == b->tag) return 0;
    return gw_coll_fail_(b, -EPROTO, peer);
}

/* The next message from a peer is done with. All threads of the block have read it: a barrier lies
 * between. */
GW_SLOW_DEV int gw_pipe_take_(const struct gw_coll_block_ *b, uint32_t peer)
{
    struct gw_pipe_ *p = gw_pipe_(b, peer);
    uint64_t more = ++p->taken - p->told;

    if (more < GW_COLL_TELL_) return 0;
    p->told = p->taken;
    if (b->h->immediate)
        return gw_pipe_post_(b, peer,
                             gw_with_imm(gw_put_op(0, 0, 0, 0, 0), gw_pipe_imm_(b->h, (uint32_t)more)));
    return gw_pipe_post_(
        b, peer,
        gw_fetch_add_op(b->h->front_addr + offsetof(struct gw_coll_front_, sink), b->h->small_lkey,
                        p->there_words + offsetof(struct gw_coll_words_, credit), p->small_rkey, more));
}

#endif
