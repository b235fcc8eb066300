/* SPDX-License-Identifier: Apache-2.0 */
/* The kernel of defer.c. */
#include "pair.h"

GW_KERNEL(defer, struct ends, e)
{
    uint64_t deadline = gw_clock_ns() + LIMIT;
    struct ibv_wc wc;
    struct gw_tx tx;
    uint32_t i;
    int err = 0;

    if (gw_global_idx()) return;
    /* Typed calls, from b to a: gw_ring ends the batch. The last request is the one that completes. */
    for (i = 0; i < 16 && !err; i++) {
        uint32_t flags = i == 15 ? GW_DEFER | GW_SIGNALED : GW_DEFER;

        e->b.word[i] = i + 1;
        err = gw_post_op(e->b.qp, gw_put_op(e->b.addr + 8 * i, e->b.lkey, e->a.addr + 8 * i, e->a.rkey, 8),
                         flags, i);
    }
    gw_ring(e->b.qp);
    if (!err && gw_wait_cq(e->b.send_cq, 1, &wc, deadline, NULL, -1) != 1) err = -ETIMEDOUT;
    if (!err && (wc.status != IBV_WC_SUCCESS || wc.wr_id != 15)) err = -EIO;

    /* Fast calls, from a to b: gw_tx_ring does, and so does a wait. */
    if (!err) err = gw_tx_open(&tx, e->a.qp);
    for (i = 0; i < 16 && !err; i++)
        err = gw_tx_post(&tx, gw_put_op(e->a.addr + 8 * i, e->a.lkey, e->b.addr + 2048 + 8 * i, e->b.rkey, 8),
                         GW_DEFER, NULL);
    if (!err) {
        gw_tx_ring(&tx); /* they go while this thread does something else */
        err = gw_tx_flush(&tx, deadline);
    }
    *e->result = err;
}
