/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tx_write.h: how an operation of the fast calls becomes WQEs. Included by verbs_device.h, after verbs_tx.h;
 * names that end in _ are private.
 */
#include <gpuwire/verbs_device.h> /* which includes this file where it belongs */

#ifndef GPUWIRE_DETAIL_VERBS_TX_WRITE_H
#define GPUWIRE_DETAIL_VERBS_TX_WRITE_H

/* Every interval-th WQE is signalled by its place, so that any thread knows which are. */
GW_HOT_FN uint32_t gw_tx_flags_(const struct gw_tx *tx, uint64_t at, uint32_t flags)
{
    uint32_t mask = (uint32_t)tx->mask;

    return gw_ctrl_flags_(tx->q.flags, flags | (((uint32_t)at & mask) == mask ? GW_SIGNALED : 0));
}

/* The interval of datagrams' queue pairs is 1, so that no wait has to post an empty request. A posting proxy
 * would need one that libibverbs has, and none of those goes without a destination. */
GW_HOT_FN void gw_tx_write_(const struct gw_tx *tx, uint64_t at, const struct gw_op *op, uint32_t flags)
{
    uint32_t head = gw_tx_flags_(tx, at, flags & GW_FENCED), tail = gw_tx_flags_(tx, at + op->bbs - 1, flags);

    if (op->opcode != GW_MLX5_MASKED_CS && !gw_op_is_datagram_(op)) {
        gw_op_write_(&tx->q, (uint32_t)at, op, head, tail);
        return;
    }
    /* One WQE, of one WQEBB or two: signalled as either one's place says, too. Its slot tells the ticket to
     * the thread that retires it. */
    gw_op_write_(&tx->q, (uint32_t)at, op, head, tail | gw_tx_flags_(tx, at, flags));
    gw_sq_slot_(&tx->q, at, op->bbs, at + op->bbs);
}

#endif
