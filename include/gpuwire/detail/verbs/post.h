/* SPDX-License-Identifier: Apache-2.0 */
/*
 * post.h: how gw_post_op and gw_post_op_warp post, under names of the caller's. Included by verbs_device.h,
 * after op.h; names that end in _ are private.
 */
#include <gpuwire/verbs_device.h> /* which includes this file where it belongs */

#ifndef GPUWIRE_DETAIL_VERBS_POST_H
#define GPUWIRE_DETAIL_VERBS_POST_H

GW_HOT_FN int gw_qp_usable_(const struct gw_qp_handle *qp)
{
    uint32_t state = gw_ld_relaxed_u32_gpu(&qp->state);

    if (state == GW_QP_READY) return 0;
    return state == GW_QP_FAULTED ? -EIO : state == GW_QP_READY_UD ? -EOPNOTSUPP : -ENOTCONN;
}

GW_HOT_FN int gw_ud_usable_(const struct gw_qp_handle *qp)
{
    uint32_t state = gw_ld_relaxed_u32_gpu(&qp->state);

    if (state == GW_QP_READY_UD) return 0;
    return state == GW_QP_FAULTED ? -EIO : state == GW_QP_READY ? -EOPNOTSUPP : -ENOTCONN;
}

/* For views: either kind. */
GW_HOT_FN int gw_tx_usable_(const struct gw_qp_handle *qp)
{
    uint32_t state = gw_ld_relaxed_u32_gpu(&qp->state);

    if (state == GW_QP_READY || state == GW_QP_READY_UD) return 0;
    return state == GW_QP_FAULTED ? -EIO : -ENOTCONN;
}

/* May op be posted to the queue pair now? 0, or why not. */
GW_HOT_FN int gw_op_usable_(const struct gw_qp_handle *qp, uint32_t qp_flags, const struct gw_op *op)
{
    int err = gw_op_is_datagram_(op) ? gw_ud_usable_(qp) : gw_qp_usable_(qp);

    return err ? err : gw_op_may_(qp_flags, op) ? 0 : -EOPNOTSUPP;
}

/* Writes op from `at` on, and its names. */
GW_HOT_FN void gw_op_put_(const struct gw_sq_ *q, uint64_t at, const struct gw_op *op, uint32_t flags,
                          uint64_t wr_id)
{
    uint32_t first = gw_op_first_(op);

    gw_op_write_(q, (uint32_t)at, op, gw_ctrl_flags_(q->flags, flags & GW_FENCED),
                 gw_ctrl_flags_(q->flags, flags));
    gw_sq_slot_(q, at, first, wr_id);
    if (op->bbs != first) gw_sq_slot_(q, at + first, op->bbs - first, wr_id);
}

GW_HOT_FN int gw_post_op(struct gw_qp_handle *qp, struct gw_op op, uint32_t flags, uint64_t wr_id)
{
    struct gw_sq_ q = gw_sq_of_(qp);
    uint64_t at;
    int err = gw_op_usable_(qp, q.flags, &op);

    if (!err) err = gw_sq_room_(&q, op.bbs, &at);
    if (err) return err;
    gw_op_put_(&q, at, &op, flags, wr_id);
    gw_sq_publish_(&q, at, gw_op_first_(&op), op.bbs, flags);
    return 0;
}

GW_HOT_FN int gw_send(struct gw_qp_handle *qp, uint64_t laddr, uint32_t lkey, uint32_t len, uint32_t flags,
                      uint64_t wr_id)
{
    return gw_post_op(qp, gw_send_op(laddr, lkey, len), flags, wr_id);
}

/* ---- by a warp ----------------------------------------------------------------------------------------- */

/* A post by the lanes of a warp together: each its own request, with one reservation and one doorbell. */
struct gw_warp_post_ {
    struct gw_sq_ q;
    uint64_t first, mine; /* the indices of the first request and of this lane's */
    uint32_t n, bbs;      /* WQEBBs of all, and of the first WQE */
};

/*
 * Reserves for the lanes that are on. A bit of `longer` stands for a lane whose request takes two WQEBBs and
 * not one. The first lane's look at the queue pair is `usable`. Returns 1 if the lanes that are on write
 * theirs, and 0 if no lane is on. With a negative errno nothing is posted.
 */
GW_DEV int gw_warp_begin_(struct gw_warp_post_ *w, struct gw_qp_handle *qp, int on, uint32_t longer,
                          int usable)
{
    uint32_t mask = gw_warp_all(), posting = gw_ballot(mask, on), below = (1u << gw_lane()) - 1;
    int err = 0;

    w->q = gw_sq_of_(qp);
    w->n = gw_popcount(posting) + gw_popcount(longer);
    w->first = w->mine = 0;
    w->bbs = 1;
    if (!w->n) return 0;
    if (gw_lane() == 0) {
        err = w->n > w->q.sq.wqebbs ? -EMSGSIZE : usable;
        if (!err) err = gw_sq_room_(&w->q, w->n, &w->first);
    }
    err = (int)gw_shfl_u32(mask, (uint32_t)err, 0);
    w->first = gw_shfl_u64(mask, w->first, 0);
    if (err) return err;
    w->mine = w->first + gw_popcount(posting & below) + gw_popcount(longer & below);
    /* The lowest bit of `posting` is the first request's lane. */
    if (longer & posting & (~posting + 1)) w->bbs = 2;
    return 1;
}

GW_DEV int gw_post_op_warp(struct gw_qp_handle *qp, int on, struct gw_op op, uint32_t flags, uint64_t wr_id)
{
    struct gw_warp_post_ w;
    uint32_t longer = 0, ends;
    int begun;

    /* Lanes' datagrams differ in length, all else in no way that counts here. */
    if (gw_op_is_datagram_(&op) || op.bbs > 1) longer = gw_ballot(gw_warp_all(), on && op.bbs > 1);
    begun = gw_warp_begin_(&w, qp, on, longer, gw_op_usable_(qp, qp->flags, &op));
    if (begun <= 0) return begun;
    if (on) gw_op_put_(&w.q, w.mine, &op, flags, wr_id);
    ends =
        op.bbs > 1 && gw_op_first_(&op) == 1 ? 1 : w.bbs; /* two WQEs of one WQEBB each: a put with signal */
    /* All lanes' WQEs happen before lane 0 goes on; its fence in publishing then comes after them too. */
    gw_syncwarp(gw_warp_all());
    if (gw_lane() == 0) gw_sq_publish_(&w.q, w.first, ends, w.n, flags);
    return 0;
}

#endif
