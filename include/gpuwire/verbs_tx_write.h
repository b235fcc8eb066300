/* SPDX-License-Identifier: Apache-2.0 */
/*
 * verbs_tx_write.h: how an operation of the fast calls becomes WQEs. Included by verbs_device.h, behind verbs_tx.h; names
 * that end in _ are private.
 */
#ifndef GPUWIRE_VERBS_TX_WRITE_H
#define GPUWIRE_VERBS_TX_WRITE_H

/* Every interval-th WQE is signalled by its place, so that any thread knows which are. */
GW_HOT_FN uint32_t gw_tx_flags_(const struct gw_tx *tx, uint64_t at, uint32_t flags)
{
    uint32_t mask = (uint32_t)tx->mask;

    return gw_ctrl_flags_(tx->q.flags, flags | (((uint32_t)at & mask) == mask ? GW_SIGNALED : 0));
}

GW_HOT_FN void gw_tx_signal_(const struct gw_tx *tx, uint64_t at, const struct gw_op *op, uint32_t flags)
{
    uint32_t u = (uint32_t)at * GW_MLX5_UNITS_PER_BB;

    gw_mlx5_put(&tx->q.sq, u, gw_mlx5_ctrl(GW_MLX5_WRITE, (uint32_t)at, tx->q.sq.qpn, 3, flags, 0));
    gw_mlx5_put(&tx->q.sq, u + 1, gw_mlx5_raddr(op->a, op->signal_rkey));
    gw_mlx5_put(&tx->q.sq, u + 2, gw_mlx5_inline12(8, (uint32_t)op->b, (uint32_t)(op->b >> 32), 0));
}

/* One WQE of two WQEBBs. The slot says so, and its ticket, to whoever retires it. */
GW_HOT_FN void gw_tx_masked_cs_(const struct gw_tx *tx, uint64_t at, const struct gw_op *op, uint32_t flags)
{
    /* Signalled as the second one's place says, too. */
    flags = gw_tx_flags_(tx, at, flags) | gw_tx_flags_(tx, at + 1, flags);
    gw_mlx5_put_masked_cs(&tx->q.sq, (uint32_t)at, flags, op->raddr, op->rkey, op->a, op->b, op->swap_mask,
                          op->compare_mask, op->laddr, op->lkey);
    gw_sq_slot_(&tx->q, at, op->bbs, at + op->bbs);
}

GW_HOT_FN int gw_tx_is_datagram_(const struct gw_op *op)
{
    return op->opcode == GW_MLX5_SEND || op->opcode == GW_MLX5_SEND_IMM;
}

/* The same with a datagram, of one WQEBB or two. (The interval of their queue pairs is 1, so that no wait has to post an
 * empty request: of those that libibverbs has, which a posting proxy would need, none goes without a destination.) */
GW_HOT_FN void gw_tx_datagram_(const struct gw_tx *tx, uint64_t at, const struct gw_op *op, uint32_t flags)
{
    gw_ud_write_(&tx->q, at, op->opcode, (const struct gw_ah_handle *)(uintptr_t)op->raddr, op->rkey,
                 (uint32_t)op->a, op->laddr, op->lkey, op->len, op->imm,
                 gw_tx_flags_(tx, at, flags) | gw_tx_flags_(tx, at + op->bbs - 1, flags), at + op->bbs);
}

GW_HOT_FN void gw_tx_write_(const struct gw_tx *tx, uint64_t at, const struct gw_op *op, uint32_t flags)
{
    uint32_t first = gw_tx_flags_(tx, at, op->bbs == 1 ? flags : flags & GW_FENCED);

    if (op->opcode == GW_MLX5_MASKED_CS) {
        gw_tx_masked_cs_(tx, at, op, flags);
        return;
    }
    if (gw_tx_is_datagram_(op)) {
        gw_tx_datagram_(tx, at, op, flags);
        return;
    }
    if (gw_mlx5_is_atomic(op->opcode))
        gw_mlx5_put_atomic(&tx->q.sq, (uint32_t)at, op->opcode, first, op->raddr, op->rkey, op->a, op->b,
                           op->laddr, op->lkey);
    else
        gw_mlx5_put_rdma(&tx->q.sq, (uint32_t)at, op->opcode, first, op->imm, op->raddr, op->rkey, op->laddr,
                         op->len, op->lkey);
    if (op->bbs == 1) return;
    gw_tx_signal_(tx, at + 1, op, gw_tx_flags_(tx, at + 1, flags));
}

GW_HOT_FN int gw_tx_may_(const struct gw_tx *tx, const struct gw_op *op)
{
    uint32_t masked = (op->opcode & 0xfe) == GW_MLX5_MASKED_CS ? GW_NO_MASKED_ : 0; /* both of them */

    /* The other way round the NIC refuses: not to ask for it is part of how fast the others are. */
    if (gw_tx_is_datagram_(op)) return (tx->q.flags & GW_UD_) != 0;
    return !gw_mlx5_is_atomic(op->opcode) || !(tx->q.flags & (GW_NO_ATOMICS_ | masked));
}

/* The WQEBBs of the WQE at op's beginning. */
GW_HOT_FN uint32_t gw_tx_first_(const struct gw_op *op)
{
    return op->opcode == GW_MLX5_MASKED_CS || gw_tx_is_datagram_(op) ? op->bbs : 1;
}

#endif
