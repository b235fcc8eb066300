/* SPDX-License-Identifier: Apache-2.0 */
/*
 * verbs_post.h: how the calls of verbs_device.h that name their requests post. Included by it, behind verbs_ring.h; names
 * that end in _ are private.
 */
#ifndef GPUWIRE_VERBS_POST_H
#define GPUWIRE_VERBS_POST_H

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

/* For the fast calls: either kind. */
GW_HOT_FN int gw_tx_usable_(const struct gw_qp_handle *qp)
{
    uint32_t state = gw_ld_relaxed_u32_gpu(&qp->state);

    if (state == GW_QP_READY || state == GW_QP_READY_UD) return 0;
    return state == GW_QP_FAULTED ? -EIO : -ENOTCONN;
}

GW_HOT_FN uint32_t gw_ctrl_flags_(uint32_t qp_flags, uint32_t flags)
{
    flags &= GW_SIGNALED | GW_SOLICITED | GW_FENCED;
    return qp_flags & GW_SIGNAL_ALL_ ? flags | GW_SIGNALED : flags;
}

GW_HOT_FN int gw_post_rdma_(struct gw_qp_handle *qp, uint32_t opcode, uint64_t laddr, uint32_t lkey,
                            uint64_t raddr, uint32_t rkey, uint32_t len, uint32_t imm_be, uint32_t flags,
                            uint64_t wr_id)
{
    struct gw_sq_ q = gw_sq_of_(qp);
    uint64_t at;
    int err = gw_qp_usable_(qp);

    if (!err) err = gw_sq_room_(&q, 1, &at);
    if (err) return err;
    gw_mlx5_put_rdma(&q.sq, (uint32_t)at, opcode, gw_ctrl_flags_(q.flags, flags), imm_be, raddr, rkey, laddr,
                     len, lkey);
    gw_sq_slot_(&q, at, 1, wr_id);
    gw_sq_publish_(&q, at, 1, 1, flags);
    return 0;
}

GW_FN int gw_put(struct gw_qp_handle *qp, uint64_t laddr, uint32_t lkey, uint64_t raddr, uint32_t rkey,
                 uint32_t len, uint32_t flags, uint64_t wr_id)
{
    return gw_post_rdma_(qp, GW_MLX5_WRITE, laddr, lkey, raddr, rkey, len, 0, flags, wr_id);
}

GW_FN int gw_put_imm(struct gw_qp_handle *qp, uint64_t laddr, uint32_t lkey, uint64_t raddr, uint32_t rkey,
                     uint32_t len, uint32_t imm, uint32_t flags, uint64_t wr_id)
{
    return gw_post_rdma_(qp, GW_MLX5_WRITE_IMM, laddr, lkey, raddr, rkey, len, gw_be32(imm), flags, wr_id);
}

GW_FN int gw_get(struct gw_qp_handle *qp, uint64_t laddr, uint32_t lkey, uint64_t raddr, uint32_t rkey,
                 uint32_t len, uint32_t flags, uint64_t wr_id)
{
    return gw_post_rdma_(qp, GW_MLX5_READ, laddr, lkey, raddr, rkey, len, 0, flags, wr_id);
}

GW_FN int gw_send(struct gw_qp_handle *qp, uint64_t laddr, uint32_t lkey, uint32_t len, uint32_t flags,
                  uint64_t wr_id)
{
    struct gw_sq_ q = gw_sq_of_(qp);
    uint64_t at;
    int err = gw_qp_usable_(qp);

    if (!err) err = gw_sq_room_(&q, 1, &at);
    if (err) return err;
    gw_mlx5_put_send(&q.sq, (uint32_t)at, GW_MLX5_SEND, gw_ctrl_flags_(q.flags, flags), 0, laddr, len, lkey);
    gw_sq_slot_(&q, at, 1, wr_id);
    gw_sq_publish_(&q, at, 1, 1, flags);
    return 0;
}

/* ---- by a warp ----------------------------------------------------------------------------------------- */

/* What the lanes of a warp post together: each its own request, with one reservation and one doorbell. */
struct gw_warp_post_ {
    struct gw_sq_ q;
    uint64_t first, mine; /* the indices of the first request and of this lane's */
    uint32_t n, bbs;      /* WQEBBs of all, and of the first request */
};

/*
 * Reserves for the lanes that are on; a bit of `longer` stands for a lane whose request takes two WQEBBs and not one.
 * usable: what the first lane was told of the queue pair. 1: the lanes that are on write theirs, then all call
 * gw_warp_end_; 0: nobody is on; or a negative errno, and nothing is posted.
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

GW_DEV void gw_warp_end_(const struct gw_warp_post_ *w, uint32_t flags)
{
    /* All lanes' WQEs happen before lane 0 goes on; its fence in publishing then stands behind them too. */
    gw_syncwarp(gw_warp_all());
    if (gw_lane() == 0) gw_sq_publish_(&w->q, w->first, w->bbs, w->n, flags);
}

GW_DEV int gw_put_warp(struct gw_qp_handle *qp, int on, uint64_t laddr, uint32_t lkey, uint64_t raddr,
                       uint32_t rkey, uint32_t len, int with_imm, uint32_t imm, uint32_t flags,
                       uint64_t wr_id)
{
    struct gw_warp_post_ w;
    int begun = gw_warp_begin_(&w, qp, on, 0, gw_qp_usable_(qp));

    if (begun <= 0) return begun;
    if (on) {
        gw_mlx5_put_rdma(&w.q.sq, (uint32_t)w.mine, with_imm ? GW_MLX5_WRITE_IMM : GW_MLX5_WRITE,
                         gw_ctrl_flags_(w.q.flags, flags), with_imm ? gw_be32(imm) : 0, raddr, rkey, laddr,
                         len, lkey);
        gw_sq_slot_(&w.q, w.mine, 1, wr_id);
    }
    gw_warp_end_(&w, flags);
    return 0;
}

#endif
