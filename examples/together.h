/* SPDX-License-Identifier: Apache-2.0 */
/* The kernel of together.c: every thread of a warp or of a block posts a request of its own; one doorbell for
 * all. */
#include "pair.h"

GW_KERNEL(together, struct ends, e)
{
    uint64_t deadline = gw_clock_ns() + LIMIT, at = 8 * gw_thread_idx(), t = 0;
    int in_first_warp = gw_warp_idx() == 0, err;
    struct gw_tx tx; /* every thread has a view, thread 0's does the work */
    struct ibv_wc wc;

    e->a.word[gw_thread_idx()] = gw_thread_idx() + 1;
    err = gw_tx_open(&tx, e->a.qp); /* the same in all threads: they ask before anybody posts */
    gw_syncthreads();

    /* A block: every thread of it calls. Up to 128 requests with one reservation. */
    if (!err)
        err = gw_tx_post_block(&tx, 1, gw_put_op(e->a.addr + at, e->a.lkey, e->b.addr + at, e->b.rkey, 8), 0,
                               &t);
    if (!err) err = gw_tx_wait_block(&tx, t, deadline);

    /* A warp: every thread of it calls; here the odd lanes have nothing to post and still take part. */
    if (!err && in_first_warp) {
        int on = gw_lane() % 2 == 0;

        err = gw_tx_post_warp(
            &tx, on, gw_get_op(e->a.addr + 2048 + at, e->a.lkey, e->b.addr + at, e->b.rkey, 8), 0, &t);
        if (!err) err = gw_tx_wait_warp(&tx, t, deadline);
    }

    /* By name: gw_post_op_warp, on b's queue pair, whose CQ we poll (a's is the library's, since we use
     * tickets there). */
    if (in_first_warp && !err) {
        struct gw_op put = gw_put_op(e->b.addr, e->b.lkey, e->a.addr + 1024, e->a.rkey, 8);

        err = gw_post_op_warp(e->b.qp, gw_lane() == 0, put, GW_SIGNALED, 9);
        if (!err && gw_lane() == 0 && gw_wait_cq(e->b.send_cq, 1, &wc, deadline, NULL, -1) != 1)
            err = -ETIMEDOUT;
        if (!err && gw_lane() == 0 && (wc.status != IBV_WC_SUCCESS || wc.wr_id != 9)) err = -EIO;
    }
    if (gw_thread_idx() == 0) *e->result = err;
}
