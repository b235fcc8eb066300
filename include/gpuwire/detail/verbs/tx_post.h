/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tx_post.h: how the fast calls of verbs_tx.h post. Included by verbs_device.h; names that end in _ are
 * private.
 */
#include <gpuwire/verbs_device.h> /* which includes this file where it belongs */

#ifndef GPUWIRE_DETAIL_VERBS_TX_POST_H
#define GPUWIRE_DETAIL_VERBS_TX_POST_H

GW_FN int gw_tx_open(struct gw_tx *tx, struct gw_qp_handle *qp)
{
    tx->size = sizeof(*tx);
    tx->version = GW_VERBS_VERSION;
    tx->q = gw_sq_of_(qp);
    tx->cq = qp->send_cq;
    tx->mask = qp->interval - 1;
    tx->next = gw_ld_relaxed_u64_gpu(&qp->sq_resv);
    tx->done = gw_ld_acquire_u64_gpu(&qp->sq_ci); /* acquire: as in gw_sq_reserve_ */
    tx->ok = tx->last = tx->run = tx->rung = tx->marked = 0;
    if (qp->size != sizeof(*qp) || qp->version != GW_VERBS_VERSION) return -EINVAL;
    return gw_tx_usable_(qp);
}

/* With one owner: everything up to `end`. */
GW_HOT_FN void gw_tx_publish_alone_(struct gw_tx *tx, uint64_t end, uint32_t flags)
{
    tx->last = end;
    if (flags & GW_SIGNALED) tx->marked = end;
    if (!(flags & GW_DEFER)) {
        gw_sq_ring_alone_(&tx->q, end);
        tx->rung = end;
    }
    /* For gw_ring and the owner's next view; after the ring, so that no fence of this post waits for it. */
    gw_st_relaxed_u64_gpu(&tx->q.qp->sq_resv, end);
}

/* With several posters: n WQEBBs from first on, of which `bbs` are the first WQE's. */
GW_HOT_FN void gw_tx_publish_shared_(struct gw_tx *tx, uint64_t first, uint32_t bbs, uint32_t n,
                                     uint32_t flags)
{
    tx->last = first + n;
    if (flags & GW_SIGNALED) tx->marked = tx->last;
    if (gw_sq_locked_(tx->q.flags)) {
        gw_sq_publish_locked_(&tx->q, tx->last, flags);
        return;
    }
    /* If its slot will have to say that it is ready, the thread that retires it takes the ticket from there,
     * too. Whether it will is not known yet. */
    gw_st_relaxed_u64_gpu(&tx->q.slot[first & (tx->q.sq.wqebbs - 1)].wr_id, first + bbs);
    if (gw_sq_publish_run_(&tx->q, tx->run, first, bbs, n, flags, tx->rung)) tx->rung = tx->last;
    if (!(flags & GW_DEFER)) tx->run = tx->last;
}

GW_HOT_FN void gw_tx_publish_(struct gw_tx *tx, uint64_t first, uint32_t bbs, uint32_t n, uint32_t flags)
{
    if (tx->q.flags & GW_ONE_USER_)
        gw_tx_publish_alone_(tx, first + n, flags);
    else
        gw_tx_publish_shared_(tx, first, bbs, n, flags);
}

/*
 * What is rare works on a copy of the view, so that the view itself can stay in registers; and what it may
 * have changed goes back.
 */
GW_HOT_FN void gw_tx_copy_back_(struct gw_tx *tx, const struct gw_tx *copy)
{
    tx->next = copy->next;
    tx->done = copy->done;
    tx->last = copy->last;
    tx->run = copy->run;
    tx->rung = copy->rung;
    tx->marked = copy->marked;
}

GW_SLOW_FN void gw_tx_mark_copy_(struct gw_tx *tx, uint64_t ticket)
{
    uint64_t resv = gw_ld_relaxed_u64_gpu(&tx->q.qp->sq_resv), at;

    if (tx->marked >= ticket || resv >= ((ticket + tx->mask) & ~tx->mask)) {
        gw_tx_ring(tx); /* it may be deferred */
    } else if (!gw_tx_room_(tx, 1) && !gw_tx_take_(tx, 1, &at)) {
        gw_mlx5_put_nop(&tx->q.sq, (uint32_t)at, 1, GW_SIGNALED);
        gw_tx_publish_(tx, at, 1, 1, GW_SIGNALED);
    }
}

/* Makes sure that a signalled request after the ticket is on its way to the NIC, as far as there is room. */
GW_FN void gw_tx_mark_(struct gw_tx *tx, uint64_t ticket)
{
    struct gw_tx copy = *tx;

    gw_tx_mark_copy_(&copy, ticket);
    gw_tx_copy_back_(tx, &copy);
}

/* It may be for more than there are from one signalled request to the next. Then requests that are not
 * signalled may hold the room, and a signalled one goes after them. */
GW_SLOW_FN int gw_tx_make_room_copy_(struct gw_tx *tx, uint32_t n)
{
    int err = gw_tx_room_(tx, n);

    if (err == -EAGAIN && n > tx->mask + 1) gw_tx_mark_copy_(tx, gw_ld_relaxed_u64_gpu(&tx->q.qp->sq_resv));
    return err;
}

GW_HOT_FN int gw_tx_make_room_(struct gw_tx *tx, uint32_t n)
{
    struct gw_tx copy = *tx;
    int err = gw_tx_make_room_copy_(&copy, n);

    gw_tx_copy_back_(tx, &copy);
    return err;
}

/* Reserves for n requests like *op. */
GW_HOT_FN int gw_tx_reserve_(struct gw_tx *tx, const struct gw_op *op, uint32_t n, uint64_t *first)
{
    int err = 0;

    if (!gw_op_may_(tx->q.flags, op)) return -EOPNOTSUPP;
    if (gw_tx_full_(tx, tx->next + n)) {
        /* Mostly it only seems so; to find that out needs no copy of the view. */
        tx->done = gw_tx_look_(tx->q.qp, tx->cq, tx->next + n);
        if (gw_tx_full_(tx, tx->next + n)) err = gw_tx_make_room_(tx, n);
    }
    return err ? err : gw_tx_take_(tx, n, first);
}

GW_HOT_FN int gw_tx_post(struct gw_tx *tx, struct gw_op op, uint32_t flags, uint64_t *ticket)
{
    uint64_t at;
    int err = gw_tx_reserve_(tx, &op, op.bbs, &at);

    if (err) return err;
    /* Two paths, as in gw_tx_post_warp. */
    if (tx->q.flags & GW_ONE_USER_) {
        gw_tx_write_(tx, at, &op, flags);
        gw_tx_publish_alone_(tx, at + op.bbs, flags);
    } else {
        gw_tx_write_(tx, at, &op, flags);
        gw_tx_publish_shared_(tx, at, gw_op_first_(&op), op.bbs, flags);
    }
    if (ticket) *ticket = at + op.bbs;
    return 0;
}

/* The first lane reserves for n requests like *op, and all get the index, or with its highest bit set a
 * negative errno. (An index never has that.) */
GW_DEV uint64_t gw_tx_reserve_warp_(struct gw_tx *tx, const struct gw_op *op, uint32_t n)
{
    uint64_t at = 0;

    if (gw_lane() == 0) {
        int err = gw_tx_reserve_(tx, op, n, &at);

        if (err) at = (uint64_t)(int64_t)err;
    }
    return gw_shfl_u64(gw_warp_all(), at, 0);
}

/* The same with one owner. Every lane looks at its own view, of which only the first one's counts: so there
 * is no branch on the way of a post that has room. */
GW_DEV uint64_t gw_tx_reserve_warp_alone_(struct gw_tx *tx, const struct gw_op *op, uint32_t n)
{
    /* Asked of the first lane before n is known. */
    uint64_t at = gw_shfl_u64(gw_warp_all(), tx->next, 0);
    uint32_t room = gw_shfl_u32(gw_warp_all(), (uint32_t)(tx->done - tx->next) + tx->q.sq.wqebbs, 0);

    if (room < n || !gw_op_may_(tx->q.flags, op)) {
        at = gw_tx_reserve_warp_(tx, op, n);
        if ((int64_t)at < 0) return at;
    }
    tx->next = at + n;
    return at;
}

/*
 * The same with several posters. The first lane adds. All lanes work out alike what follows from the answer,
 * each for its own view. So there is no stretch of code for one lane alone in front of the WQEs.
 */
GW_DEV uint64_t gw_tx_reserve_warp_shared_(struct gw_tx *tx, const struct gw_op *op, uint32_t n)
{
    uint64_t at = ~(uint64_t)0, done;
    int err = 0;

    if (gw_sq_locked_(tx->q.flags)) return gw_tx_reserve_warp_(tx, op, n);
    if (gw_lane() == 0 && gw_op_may_(tx->q.flags, op) && n <= tx->q.sq.wqebbs &&
        !gw_tx_full_(tx, tx->next + n))
        at = gw_sq_take_(&tx->q, n);
    done = gw_shfl_u64(gw_warp_all(), tx->done, 0);
    at = gw_shfl_u64(gw_warp_all(), at, 0);
    if ((int64_t)at < 0) return gw_tx_reserve_warp_(tx, op, n);
    if (gw_sq_fits_(&tx->q, at, n, done)) {
        gw_tx_kept_(tx, at, n);
        return at;
    }
    if (gw_lane() == 0) err = gw_tx_keep_(tx, at, n);
    err = (int)gw_shfl_u32(gw_warp_all(), (uint32_t)err, 0);
    return err ? (uint64_t)(int64_t)err : at;
}

/* Seven arguments: it is inlined, into gw_tx_post_warp alone. */
GW_DEV int gw_tx_post_warp_alone_(struct gw_tx *tx, int on, const struct gw_op *op, uint32_t flags,
                                  uint32_t before, uint32_t n, uint64_t *ticket)
{
    uint64_t at = gw_tx_reserve_warp_alone_(tx, op, n);

    if ((int64_t)at < 0) return (int)(int64_t)at;
    if (on) gw_tx_write_(tx, at + before, op, flags);
    if (on && ticket) *ticket = at + before + op->bbs;
    /* All lanes' WQEs happen before lane 0 goes on; its fence in publishing then comes after them too. */
    gw_syncwarp(gw_warp_all());
    if (gw_lane() == 0) gw_tx_publish_alone_(tx, at + n, flags);
    return 0;
}

GW_DEV int gw_tx_post_warp(struct gw_tx *tx, int on, struct gw_op op, uint32_t flags, uint64_t *ticket)
{
    uint32_t mask = gw_warp_all(), posting = gw_ballot(mask, on), n = gw_popcount(posting) * op.bbs;
    uint32_t before = gw_popcount(posting & ((1u << gw_lane()) - 1)) * op.bbs;
    uint64_t at;

    if (!posting) return 0;
    /* Two paths: what they share is short, and to come back from one costs a branch. */
    if (tx->q.flags & GW_ONE_USER_) return gw_tx_post_warp_alone_(tx, on, &op, flags, before, n, ticket);
    at = gw_tx_reserve_warp_shared_(tx, &op, n);
    if ((int64_t)at < 0) return (int)(int64_t)at;
    if (on) gw_tx_write_(tx, at + before, &op, flags);
    if (on && ticket) *ticket = at + before + op.bbs;
    gw_syncwarp(mask); /* as above */
    if (gw_lane() == 0) gw_tx_publish_shared_(tx, at, gw_op_first_(&op), n, flags);
    return 0;
}

struct gw_tx_block_ {
    uint32_t posting[32]; /* threads of each warp that post */
    uint64_t at;          /* or a negative errno */
};

/* The block's threads that post before this one; *all: how many there are. */
GW_DEV uint32_t gw_tx_before_(const struct gw_tx_block_ *b, uint32_t posting, uint32_t *all)
{
    uint32_t warps = (gw_block_dim() + 31) / 32, before = gw_popcount(posting & ((1u << gw_lane()) - 1)), i;

    for (i = 0, *all = 0; i < warps; i++) {
        if (i == gw_warp_idx()) before += *all;
        *all += b->posting[i];
    }
    return before;
}

GW_DEV int gw_tx_post_block(struct gw_tx *tx, int on, struct gw_op op, uint32_t flags, uint64_t *ticket)
{
    GW_SHARED(struct gw_tx_block_, b);
    uint32_t posting = gw_ballot(gw_warp_all(), on), all, before;
    uint64_t at = 0;
    int err = 0;

    if (gw_lane() == 0) b->posting[gw_warp_idx()] = gw_popcount(posting);
    gw_syncthreads();
    before = gw_tx_before_(b, posting, &all);
    if (gw_thread_idx() == 0) {
        if (all) err = gw_tx_reserve_(tx, &op, all * op.bbs, &at);
        b->at = err ? (uint64_t)(int64_t)err : at;
    }
    gw_syncthreads();
    at = b->at;
    if ((int64_t)at >= 0 && on) {
        gw_tx_write_(tx, at + before * op.bbs, &op, flags);
        if (ticket) *ticket = at + (before + 1) * op.bbs;
    }
    /* All WQEs before thread 0 goes on, as in a warp; and no thread enters again while others still read *b.
     */
    gw_syncthreads();
    if ((int64_t)at < 0) return (int)(int64_t)at;
    if (gw_thread_idx() == 0 && all) gw_tx_publish_(tx, at, gw_op_first_(&op), all * op.bbs, flags);
    return 0;
}

#endif
