/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tx_wait.h: how the fast calls of verbs_tx.h wait. Included by verbs_device.h; names that end in _ are
 * private.
 */
#include <gpuwire/verbs_device.h> /* which includes this file where it belongs */

#ifndef GPUWIRE_DETAIL_VERBS_TX_WAIT_H
#define GPUWIRE_DETAIL_VERBS_TX_WAIT_H

GW_FN int gw_tx_good_(struct gw_tx *tx, uint64_t ticket)
{
    if (ticket > tx->ok) tx->ok = gw_ld_acquire_u64_gpu(&tx->q.qp->sq_ok); /* acquire: what it has fetched */
    return ticket <= tx->ok;
}

GW_FN int gw_tx_wait(struct gw_tx *tx, uint64_t ticket, uint64_t deadline_ns)
{
    uint32_t round = 0;

    if (ticket > tx->next && ticket > gw_ld_relaxed_u64_gpu(&tx->q.qp->sq_resv)) return -EINVAL;
    if (gw_tx_good_(tx, ticket)) return 0;
    gw_tx_mark_(tx, ticket);
    for (;;) {
        /* Failed: but perhaps after the ticket, so it is looked at once more. */
        int failed = gw_ld_acquire_u32_gpu(&tx->q.qp->state) == GW_QP_FAULTED;

        if (gw_tx_good_(tx, ticket)) return 0;
        if (failed) return -EIO;
        if (gw_cq_retire_(tx->cq)) continue;
        if (gw_clock_ns() >= deadline_ns) return gw_tx_good_(tx, ticket) ? 0 : gw_expired_(deadline_ns);
        gw_pause(round++);
        /* The request that was to carry the signal may have been taken back, or there was no room for one. */
        if (round % 64 == 0) gw_tx_mark_(tx, ticket);
    }
}

GW_FN int gw_tx_flush(struct gw_tx *tx, uint64_t deadline_ns)
{
    return gw_tx_wait(tx, tx->last, deadline_ns);
}

GW_DEV int gw_tx_wait_warp(struct gw_tx *tx, uint64_t ticket, uint64_t deadline_ns)
{
    uint32_t mask = gw_warp_all(), i;
    uint64_t most = 0, one;
    int err = 0;

    for (i = 0; i < gw_warp_size(); i++) {
        one = gw_shfl_u64(mask, ticket, i);
        if (one > most) most = one;
    }
    if (gw_lane() == 0) err = gw_tx_wait(tx, most, deadline_ns);
    /* Shuffle for the value, syncwarp for the memory: what lane 0 has acquired is visible to all. */
    err = (int)gw_shfl_u32(mask, (uint32_t)err, 0);
    gw_syncwarp(mask);
    return err;
}

struct gw_tx_wait_block_ {
    uint64_t most[32];
    int err;
};

GW_DEV int gw_tx_wait_block(struct gw_tx *tx, uint64_t ticket, uint64_t deadline_ns)
{
    GW_SHARED(struct gw_tx_wait_block_, b);
    uint32_t mask = gw_warp_all(), warps = (gw_block_dim() + 31) / 32, i;
    uint64_t most = 0, one;
    int err;

    for (i = 0; i < gw_warp_size(); i++) {
        one = gw_shfl_u64(mask, ticket, i);
        if (one > most) most = one;
    }
    if (gw_lane() == 0) b->most[gw_warp_idx()] = most;
    gw_syncthreads();
    if (gw_thread_idx() == 0) {
        for (i = 0; i < warps; i++)
            if (b->most[i] > most) most = b->most[i];
        b->err = gw_tx_wait(tx, most, deadline_ns);
    }
    gw_syncthreads();
    err = b->err;
    gw_syncthreads(); /* no thread enters again while others still read *b */
    return err;
}

#endif
