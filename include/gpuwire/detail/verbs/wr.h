/* SPDX-License-Identifier: Apache-2.0 */
/*
 * wr.h: how the compatible calls post libibverbs' structs. Included by verbs_device.h, after ring.h;
 * names that end in _ are private.
 */
#include <gpuwire/verbs_device.h> /* which includes this file where it belongs */

#ifndef GPUWIRE_DETAIL_VERBS_WR_H
#define GPUWIRE_DETAIL_VERBS_WR_H

/* ---- one request --------------------------------------------------------------------------------------- */

/* What is known of a request before it is written. */
struct gw_ibv_ {
    uint8_t opcode; /* enum gw_mlx5_opcode; NOP: it is none that is posted */
    uint8_t head;   /* 16-byte units in front of the payload */
    uint16_t units; /* all */
    uint32_t bytes; /* inline: of payload */
};

/* Opcode and head for enum ibv_wr_opcode. Out of constants, a byte and four bits for each: a switch is a
 * jump, which the processor has to guess. */
GW_HOT_FN struct gw_ibv_ gw_ibv_(uint32_t op)
{
    const uint64_t opcodes = (uint64_t)GW_MLX5_WRITE << 8 * IBV_WR_RDMA_WRITE |
                             (uint64_t)GW_MLX5_WRITE_IMM << 8 * IBV_WR_RDMA_WRITE_WITH_IMM |
                             (uint64_t)GW_MLX5_SEND << 8 * IBV_WR_SEND |
                             (uint64_t)GW_MLX5_SEND_IMM << 8 * IBV_WR_SEND_WITH_IMM |
                             (uint64_t)GW_MLX5_READ << 8 * IBV_WR_RDMA_READ |
                             (uint64_t)GW_MLX5_ATOMIC_CS << 8 * IBV_WR_ATOMIC_CMP_AND_SWP |
                             (uint64_t)GW_MLX5_ATOMIC_FA << 8 * IBV_WR_ATOMIC_FETCH_AND_ADD;
    const uint32_t heads = 2u << 4 * IBV_WR_RDMA_WRITE | 2u << 4 * IBV_WR_RDMA_WRITE_WITH_IMM |
                           1u << 4 * IBV_WR_SEND | 1u << 4 * IBV_WR_SEND_WITH_IMM |
                           2u << 4 * IBV_WR_RDMA_READ | 3u << 4 * IBV_WR_ATOMIC_CMP_AND_SWP |
                           3u << 4 * IBV_WR_ATOMIC_FETCH_AND_ADD;
    struct gw_ibv_ r = {GW_MLX5_NOP, 1, 0, 0};

    if (op < 8) {
        r.opcode = (uint8_t)(opcodes >> 8 * op);
        r.head = (uint8_t)(heads >> 4 * op & 0xf);
    } else if (op == IBV_WR_SEND_WITH_INV) {
        r.opcode = GW_MLX5_SEND_INVAL;
    }
    return r;
}

/* The control segment's flags for enum ibv_send_flags: bits that move. */
GW_FN uint32_t gw_ibv_flags_(uint32_t send_flags, uint32_t qp_flags)
{
    uint32_t signaled = send_flags & IBV_SEND_SIGNALED || qp_flags & GW_SIGNAL_ALL_;

    return (signaled ? GW_MLX5_SIGNALED : 0) | (send_flags & IBV_SEND_SOLICITED ? GW_MLX5_SOLICITED : 0) |
           (send_flags & IBV_SEND_FENCE ? GW_MLX5_FENCE : 0);
}

/* Why a request is not posted, as ibv_post_send would say it: a negative errno. (Its entries are
 * gw_mlx5_sge's: the same layout, mlx5.h.) */
GW_SLOW_FN int gw_ibv_why_(const struct gw_qp_handle *qp, const struct ibv_send_wr *wr)
{
    uint32_t opcode = gw_ibv_(wr->opcode).opcode, ud = qp->flags & GW_UD_;
    struct gw_mlx5_wr w;
    uint64_t bytes = 0;
    int i;

    if (opcode == GW_MLX5_NOP) return wr->opcode > IBV_WR_DRIVER1 ? -EINVAL : -EOPNOTSUPP;
    if (gw_mlx5_is_atomic(opcode) && !ud && qp->flags & GW_NO_ATOMICS_) return -EOPNOTSUPP;
    if (wr->num_sge < 0 || (ud && !wr->wr.ud.ah)) return -EINVAL;
    if ((uint32_t)wr->num_sge > qp->max_send_sge) return -ENOMEM;
    w.opcode = (uint8_t)(ud ? (uint32_t)GW_MLX5_SEND : opcode); /* what it says else is the NIC's to refuse */
    w.inl = (wr->send_flags & IBV_SEND_INLINE) != 0;
    w.num_sge = (uint32_t)wr->num_sge;
    w.sge = (const struct gw_mlx5_sge *)wr->sg_list;
    for (i = 0; i < wr->num_sge; i++) bytes += wr->sg_list[i].length;
    if (w.inl && bytes > qp->max_inline) return -ENOMEM;
    return ud ? gw_mlx5_ud_units(&w) : gw_mlx5_wr_units(&w);
}

/* Looks at a request: 0, or a negative errno. */
GW_HOT_FN int gw_ibv_look_(const struct gw_qp_handle *qp, const struct ibv_send_wr *wr, struct gw_ibv_ *r)
{
    uint32_t num = (uint32_t)wr->num_sge, inl = wr->send_flags & IBV_SEND_INLINE, units, n = 0, i;
    uint64_t bytes = 0;

    *r = gw_ibv_(wr->opcode);
    /* All that may be wrong is asked in as few questions as possible, and gw_ibv_why_ sorts it out. */
    if (r->opcode == GW_MLX5_NOP || num > qp->max_send_sge) return gw_ibv_why_(qp, wr);
    for (i = 0; i < num; i++) {
        n += wr->sg_list[i].length != 0;
        bytes += wr->sg_list[i].length;
    }
    if (qp->flags & GW_UD_) r->head = GW_MLX5_UD_HEAD;
    r->bytes = (uint32_t)bytes;
    units = r->head + (inl && bytes ? (uint32_t)(bytes + 4 + GW_MLX5_UNIT - 1) / GW_MLX5_UNIT : n);
    r->units = (uint16_t)units;
    if (bytes > (inl ? qp->max_inline : (uint32_t)GW_MLX5_MAX_MSG) || units > GW_MLX5_MAX_DS ||
        (r->head == GW_MLX5_UD_HEAD && !wr->wr.ud.ah) ||
        (r->opcode >= GW_MLX5_READ && r->head != GW_MLX5_UD_HEAD &&
         (inl || (r->opcode > GW_MLX5_READ && (n != 1 || bytes < 8 || qp->flags & GW_NO_ATOMICS_)))))
        return gw_ibv_why_(qp, wr);
    return 0;
}

/* The part after the control segment. Atomics move 8 bytes whatever their entry says. */
GW_HOT_FN void gw_ibv_put_rest_(const struct gw_sq_ *q, uint32_t idx, const struct ibv_send_wr *wr,
                                const struct gw_ibv_ *r)
{
    const struct gw_mlx5_sge *sge = (const struct gw_mlx5_sge *)wr->sg_list;
    uint32_t u = idx * GW_MLX5_UNITS_PER_BB + r->head, i;

    if (r->head == 2) {
        gw_mlx5_put_nth_(&q->sq, idx, 1, gw_mlx5_raddr(wr->wr.rdma.remote_addr, wr->wr.rdma.rkey));
    } else if (r->head == 3) {
        uint64_t first = wr->wr.atomic.compare_add, swap = wr->wr.atomic.swap;
        int add = r->opcode == GW_MLX5_ATOMIC_FA;

        gw_mlx5_put_nth_(&q->sq, idx, 1, gw_mlx5_raddr(wr->wr.atomic.remote_addr, wr->wr.atomic.rkey));
        gw_mlx5_put_nth_(&q->sq, idx, 2, gw_mlx5_atomic(add ? first : swap, add ? 0 : first));
    } else if (r->head == GW_MLX5_UD_HEAD) {
        gw_ud_put_av_(q, idx, (const struct gw_ah_handle *)wr->wr.ud.ah, wr->wr.ud.remote_qpn,
                      wr->wr.ud.remote_qkey);
    }
    if (wr->send_flags & IBV_SEND_INLINE) {
        if (r->bytes) gw_mlx5_put_inline(&q->sq, u, sge, (uint32_t)wr->num_sge, r->bytes);
        return;
    }
    for (i = 0; i < (uint32_t)wr->num_sge; i++)
        if (sge[i].length)
            gw_mlx5_put(&q->sq, u++,
                        gw_mlx5_data(sge[i].addr, r->head == 3 ? 8 : sge[i].length, sge[i].lkey));
}

/* Writes the WQE, and what it leaves for its completion. Returns the WQEBBs it takes. */
GW_HOT_FN uint32_t gw_ibv_put_(const struct gw_sq_ *q, uint64_t at, const struct ibv_send_wr *wr,
                               const struct gw_ibv_ *r)
{
    uint32_t idx = (uint32_t)at, imm_be = 0, bbs = gw_mlx5_wqebbs(r->units);

    if (r->opcode >= GW_MLX5_READ) gw_sq_fetches_(q);
    if (r->opcode == GW_MLX5_SEND_IMM || r->opcode == GW_MLX5_WRITE_IMM) imm_be = wr->imm_data;
    if (r->opcode == GW_MLX5_SEND_INVAL) imm_be = gw_be32(wr->invalidate_rkey);
    gw_mlx5_put_nth_(
        &q->sq, idx, 0,
        gw_mlx5_ctrl(r->opcode, idx, q->sq.qpn, r->units, gw_ibv_flags_(wr->send_flags, q->flags), imm_be));
    gw_ibv_put_rest_(q, idx, wr, r);
    gw_sq_slot_(q, at, bbs, wr->wr_id);
    return bbs;
}

/* ---- lists --------------------------------------------------------------------------------------------- */

/*
 * Is a request like the one before it in everything that gw_ibv_look_ looks at? Most lists are of one kind,
 * and to ask this takes half of what looking does.
 */
GW_HOT_FN int gw_ibv_like_(const struct gw_qp_handle *qp, const struct ibv_send_wr *w,
                           const struct ibv_send_wr *before)
{
    uint32_t differs = (uint32_t)(w->opcode ^ before->opcode) | (uint32_t)(w->num_sge ^ before->num_sge) |
                       ((w->send_flags ^ before->send_flags) & IBV_SEND_INLINE);

    return !(differs | (uint32_t)(w->num_sge ^ 1)) && w->sg_list->length == before->sg_list->length &&
           !(qp->flags & GW_UD_ && !w->wr.ud.ah);
}

/* With one owner, or under the lock, each request is looked at once, written, and all are rung for together.
 * Returns 0 or a positive errno, and *wr becomes the first that was not posted. */
GW_HOT_FN int gw_post_list_alone_(struct gw_qp_handle *qp, struct ibv_send_wr **wr)
{
    struct gw_sq_ q = gw_sq_of_(qp);
    struct ibv_send_wr *w = *wr, *before = NULL;
    uint64_t first, at, room;
    struct gw_ibv_ r;
    int err = 0;

    if (gw_sq_locked_(q.flags) && gw_sq_lock_(qp)) return ENOMEM;
    first = at = gw_ld_relaxed_u64_gpu(&qp->sq_resv);
    room = gw_ld_acquire_u64_gpu(&qp->sq_ci) + q.sq.wqebbs; /* acquire: as in gw_sq_reserve_ */
    for (; w; before = w, w = w->next) {
        if (!before || !gw_ibv_like_(qp, w, before)) err = -gw_ibv_look_(qp, w, &r);
        if (!err && at + gw_mlx5_wqebbs(r.units) > room) err = ENOMEM;
        if (err) break;
        at += gw_ibv_put_(&q, at, w, &r);
    }
    *wr = w;
    if (at != first) gw_st_relaxed_u64_gpu(&qp->sq_resv, at);
    if (gw_sq_locked_(q.flags))
        gw_sq_publish_locked_(&q, at, at == first ? GW_DEFER : 0);
    else if (at != first)
        gw_sq_ring_alone_(&q, at);
    return err;
}

/* The usual list, of one request. 0, or a positive errno. */
GW_HOT_FN int gw_post_single_(struct gw_qp_handle *qp, const struct ibv_send_wr *wr)
{
    struct gw_sq_ q = gw_sq_of_(qp);
    struct gw_ibv_ r;
    uint64_t at;
    uint32_t bbs;
    int err = gw_ibv_look_(qp, wr, &r);

    if (err) return -err;
    if (gw_sq_room_(&q, gw_mlx5_wqebbs(r.units), &at)) return ENOMEM;
    bbs = gw_ibv_put_(&q, at, wr, &r);
    gw_sq_publish_(&q, at, bbs, bbs, 0);
    return 0;
}

/* With several at once, what is posted with one reservation and one ring must be known before: at most this
 * number.
 */
#define GW_RUN_ 32

/* Posts the n requests from *wr on, which take bbs WQEBBs, and moves *wr past them: or none, and -EAGAIN.
 */
GW_HOT_FN int gw_post_run_(struct gw_qp_handle *qp, struct ibv_send_wr **wr, const struct gw_ibv_ *run,
                           uint32_t n, uint32_t bbs)
{
    struct gw_sq_ q = gw_sq_of_(qp);
    struct ibv_send_wr *w = *wr;
    uint64_t first, at;
    uint32_t i;
    int err = gw_sq_room_(&q, bbs, &first);

    if (err) return err;
    for (i = 0, at = first; i < n; i++, w = w->next) at += gw_ibv_put_(&q, at, w, &run[i]);
    *wr = w;
    gw_sq_publish_(&q, first, gw_mlx5_wqebbs(run[0].units), bbs, 0);
    return 0;
}

/* The longest valid run is taken; then it is posted, in pieces of one request when there is no room for all.
 * As gw_post_list_alone_. */
GW_FN int gw_post_list_(struct gw_qp_handle *qp, struct ibv_send_wr **wr)
{
    uint32_t most = GW_RUN_, n, bbs;
    struct gw_ibv_ run[GW_RUN_];
    struct ibv_send_wr *end, *before;
    int err = 0;

    while (*wr && !err) {
        for (end = *wr, before = NULL, n = bbs = 0; end && n < most; before = end, end = end->next, n++) {
            if (before && gw_ibv_like_(qp, end, before))
                run[n] = run[n - 1];
            else
                err = -gw_ibv_look_(qp, end, &run[n]);
            if (err || bbs + gw_mlx5_wqebbs(run[n].units) > qp->sq.wqebbs) break;
            bbs += gw_mlx5_wqebbs(run[n].units);
        }
        if (!n) return err ? err : ENOMEM; /* one request larger than the queue */
        if (!gw_post_run_(qp, wr, run, n, bbs)) continue;
        if (n == 1) return ENOMEM;
        err = 0; /* a request after the run may be bad: it is found again when its turn comes */
        most = 1;
    }
    return err;
}

GW_FN int gw_post_send(struct gw_qp_handle *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad_wr)
{
    int err;

    if (!wr) return 0;
    if (gw_ld_relaxed_u32_gpu(&qp->state) == GW_QP_NOT_CONNECTED)
        err = EINVAL;
    else if (!wr->next)
        err = gw_post_single_(qp, wr);
    else if (qp->flags & GW_ONE_USER_ || gw_sq_locked_(qp->flags))
        err = gw_post_list_alone_(qp, &wr);
    else
        err = gw_post_list_(qp, &wr);
    if (err) *bad_wr = wr;
    return err;
}

#endif
