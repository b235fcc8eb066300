/* SPDX-License-Identifier: Apache-2.0 */
/*
 * op.h: how operations (verbs_op.h) are made and become WQEs, for every call that posts them. Included by
 * verbs_device.h, after ring.h; names that end in _ are private.
 */
#include <gpuwire/verbs_device.h> /* which includes this file where it belongs */

#ifndef GPUWIRE_DETAIL_VERBS_OP_H
#define GPUWIRE_DETAIL_VERBS_OP_H

/* In gw_op.opcode: a SEND that says where it goes. */
#define GW_OP_TO_ 0x100u

/* ---- making them --------------------------------------------------------------------------------------- */

GW_HOT_FN struct gw_op gw_op_(uint32_t opcode, uint64_t laddr, uint32_t lkey, uint64_t raddr, uint32_t rkey,
                              uint32_t len)
{
    struct gw_op op;

    op.opcode = opcode;
    op.bbs = 1;
    op.laddr = laddr;
    op.raddr = raddr;
    op.lkey = lkey;
    op.rkey = rkey;
    op.len = len;
    op.imm = op.signal_rkey = 0;
    op.a = op.b = op.swap_mask = op.compare_mask = 0;
    return op;
}

GW_HOT_FN struct gw_op gw_put_op(uint64_t laddr, uint32_t lkey, uint64_t raddr, uint32_t rkey, uint32_t len)
{
    return gw_op_(GW_MLX5_WRITE, laddr, lkey, raddr, rkey, len);
}

GW_HOT_FN struct gw_op gw_get_op(uint64_t laddr, uint32_t lkey, uint64_t raddr, uint32_t rkey, uint32_t len)
{
    return gw_op_(GW_MLX5_READ, laddr, lkey, raddr, rkey, len);
}

GW_HOT_FN struct gw_op gw_send_op(uint64_t laddr, uint32_t lkey, uint32_t len)
{
    return gw_op_(GW_MLX5_SEND, laddr, lkey, 0, 0, len);
}

/* WQEBBs of a datagram of one entry. */
GW_HOT_FN uint32_t gw_ud_bbs_(uint32_t len)
{
    return gw_mlx5_wqebbs(GW_MLX5_UD_HEAD + (len ? 1 : 0));
}

GW_HOT_FN struct gw_op gw_send_to_op(const struct gw_ah_handle *ah, uint32_t qpn, uint32_t qkey,
                                     uint64_t laddr, uint32_t lkey, uint32_t len)
{
    struct gw_op op = gw_op_(GW_MLX5_SEND | GW_OP_TO_, laddr, lkey, (uint64_t)(uintptr_t)ah, qpn, len);

    op.bbs = gw_ud_bbs_(len);
    op.a = qkey;
    return op;
}

GW_HOT_FN struct gw_op gw_fetch_add_op(uint64_t laddr, uint32_t lkey, uint64_t raddr, uint32_t rkey,
                                       uint64_t add)
{
    struct gw_op op = gw_op_(GW_MLX5_ATOMIC_FA, laddr, lkey, raddr, rkey, 8);

    op.a = add;
    return op;
}

GW_HOT_FN struct gw_op gw_cmp_swap_op(uint64_t laddr, uint32_t lkey, uint64_t raddr, uint32_t rkey,
                                      uint64_t compare, uint64_t swap)
{
    struct gw_op op = gw_op_(GW_MLX5_ATOMIC_CS, laddr, lkey, raddr, rkey, 8);

    op.a = swap;
    op.b = compare;
    return op;
}

GW_HOT_FN struct gw_op gw_masked_fetch_add_op(uint64_t laddr, uint32_t lkey, uint64_t raddr, uint32_t rkey,
                                              uint64_t add, uint64_t field_boundary)
{
    struct gw_op op = gw_op_(GW_MLX5_MASKED_FA, laddr, lkey, raddr, rkey, 8);

    op.a = add;
    op.b = field_boundary;
    return op;
}

GW_HOT_FN struct gw_op gw_with_imm(struct gw_op op, uint32_t imm)
{
    op.opcode =
        (op.opcode & GW_OP_TO_) | ((op.opcode & 0xff) == GW_MLX5_SEND ? GW_MLX5_SEND_IMM : GW_MLX5_WRITE_IMM);
    op.imm = gw_be32(imm);
    return op;
}

GW_HOT_FN struct gw_op gw_put_imm_op(uint64_t laddr, uint32_t lkey, uint64_t raddr, uint32_t rkey,
                                     uint32_t len, uint32_t imm)
{
    return gw_with_imm(gw_put_op(laddr, lkey, raddr, rkey, len), imm);
}

GW_HOT_FN struct gw_op gw_with_signal(struct gw_op put, uint64_t raddr, uint32_t rkey, uint64_t add)
{
    put.bbs = 2;
    put.a = raddr;
    put.b = add;
    put.signal_rkey = rkey;
    return put;
}

GW_HOT_FN struct gw_op gw_with_masks(struct gw_op cmp_swap, uint64_t compare_mask, uint64_t swap_mask)
{
    cmp_swap.opcode = GW_MLX5_MASKED_CS;
    cmp_swap.bbs = 2;
    cmp_swap.compare_mask = compare_mask;
    cmp_swap.swap_mask = swap_mask;
    return cmp_swap;
}

/* ---- what they are ------------------------------------------------------------------------------------- */

GW_HOT_FN int gw_op_is_send_(const struct gw_op *op)
{
    uint32_t opcode = op->opcode & 0xff;

    return opcode == GW_MLX5_SEND || opcode == GW_MLX5_SEND_IMM;
}

GW_HOT_FN int gw_op_is_datagram_(const struct gw_op *op)
{
    return (op->opcode & GW_OP_TO_) != 0;
}

/* The WQEBBs of the WQE at op's beginning. */
GW_HOT_FN uint32_t gw_op_first_(const struct gw_op *op)
{
    return op->opcode == GW_MLX5_MASKED_CS || gw_op_is_datagram_(op) ? op->bbs : 1;
}

/* Is there an atomic in it? */
GW_HOT_FN int gw_op_has_atomic_(const struct gw_op *op)
{
    return gw_mlx5_is_atomic(op->opcode) || op->bbs != gw_op_first_(op);
}

/* May a queue pair with these flags (gw_qp_handle.flags) take it? */
GW_HOT_FN int gw_op_may_(uint32_t qp_flags, const struct gw_op *op)
{
    uint32_t masked = (op->opcode & 0xfe) == GW_MLX5_MASKED_CS ? GW_NO_MASKED_ : 0; /* both of them */

    /* The NIC refuses all else that does not go with its queue pair. That we do not ask here makes the good
     * ones faster. */
    if (gw_op_is_send_(op)) return gw_op_is_datagram_(op) == ((qp_flags & GW_UD_) != 0);
    return !gw_op_has_atomic_(op) || !(qp_flags & (GW_NO_ATOMICS_ | masked));
}

/* ---- WQEs ---------------------------------------------------------------------------------------------- */

GW_HOT_FN uint32_t gw_ctrl_flags_(uint32_t qp_flags, uint32_t flags)
{
    flags &= GW_SIGNALED | GW_SOLICITED | GW_FENCED;
    return qp_flags & GW_SIGNAL_ALL_ ? flags | GW_SIGNALED : flags;
}

/* The address vector of the WQE at WQEBB idx. */
GW_HOT_FN void gw_ud_put_av_(const struct gw_sq_ *q, uint32_t idx, const struct gw_ah_handle *ah,
                             uint32_t qpn, uint32_t qkey)
{
    gw_mlx5_put_av(&q->sq, idx * GW_MLX5_UNITS_PER_BB + 1, ah->av, q->flags & GW_AH_NUMBER_ ? ah->number : 0,
                   qpn & 0xffffff, qkey);
}

GW_HOT_FN void gw_op_write_datagram_(const struct gw_sq_ *q, uint32_t idx, const struct gw_op *op,
                                     uint32_t flags)
{
    gw_mlx5_put_nth_(
        &q->sq, idx, 0,
        gw_mlx5_ctrl(op->opcode & 0xff, idx, q->sq.qpn, GW_MLX5_UD_HEAD + (op->len ? 1 : 0), flags, op->imm));
    gw_ud_put_av_(q, idx, (const struct gw_ah_handle *)(uintptr_t)op->raddr, op->rkey, (uint32_t)op->a);
    if (op->len) gw_mlx5_put_nth_(&q->sq, idx + 1, 0, gw_mlx5_data(op->laddr, op->len, op->lkey));
}

/* An atomic, because the responder executes it after all earlier WRITEs. Its answer goes into the sink. */
GW_HOT_FN void gw_op_write_signal_(const struct gw_sq_ *q, uint32_t idx, const struct gw_op *op,
                                   uint32_t flags)
{
    gw_mlx5_put_atomic(&q->sq, idx, GW_MLX5_ATOMIC_FA, flags, op->a, op->signal_rkey, op->b, 0, q->sink,
                       q->sink_lkey);
}

/* Writes op's WQEs from WQEBB idx on. flags: of its last WQE, as the control segment has them
 * (gw_ctrl_flags_); head: of the first, if there are two. */
GW_HOT_FN void gw_op_write_(const struct gw_sq_ *q, uint32_t idx, const struct gw_op *op, uint32_t head,
                            uint32_t flags)
{
    if (gw_op_is_datagram_(op)) {
        gw_op_write_datagram_(q, idx, op, flags);
        return;
    }
    if (op->opcode >= GW_MLX5_READ) gw_sq_fetches_(q);
    if (op->opcode == GW_MLX5_MASKED_CS) {
        gw_mlx5_put_masked_cs(&q->sq, idx, flags, op->raddr, op->rkey, op->a, op->b, op->swap_mask,
                              op->compare_mask, op->laddr, op->lkey);
        return;
    }
    if (op->bbs == 1) head = flags;
    if (gw_op_is_send_(op))
        gw_mlx5_put_send(&q->sq, idx, op->opcode, head, op->imm, op->laddr, op->len, op->lkey);
    else if (gw_mlx5_is_atomic(op->opcode))
        gw_mlx5_put_atomic(&q->sq, idx, op->opcode, head, op->raddr, op->rkey, op->a, op->b, op->laddr,
                           op->lkey);
    else
        gw_mlx5_put_rdma(&q->sq, idx, op->opcode, head, op->imm, op->raddr, op->rkey, op->laddr, op->len,
                         op->lkey);
    if (op->bbs == 2) gw_op_write_signal_(q, idx + 1, op, flags);
}

#endif
