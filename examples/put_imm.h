/* SPDX-License-Identifier: Apache-2.0 */
/* The kernel of put_imm.c: one thread plays both ends. */
#include "pair.h"

GW_KERNEL(put_imm, struct ends, e)
{
    uint64_t deadline = gw_clock_ns() + LIMIT, t = 0;
    struct gw_op put = gw_put_imm_op(e->a.addr, e->a.lkey, e->b.addr + 8, e->b.rkey, 8, 4711);
    struct ibv_wc wc;
    struct gw_tx tx;
    int err;

    if (gw_global_idx()) return;
    e->a.word[0] = 42;
    err = gw_recv_empty(e->b.qp, 1, 7); /* the data has its place; only the announcement takes a receive */
    if (!err) err = gw_post_op(e->a.qp, put, 0, 1);
    if (!err && gw_wait_cq(e->b.recv_cq, 1, &wc, deadline, NULL, -1) != 1) err = -ETIMEDOUT;
    if (!err && (wc.status != IBV_WC_SUCCESS || wc.wr_id != 7 || gw_wc_imm(&wc) != 4711)) err = -EIO;
    if (!err && e->b.word[1] != 42) err = -EBADMSG; /* the data lies there before the completion does */

    /* The same through a view; the peer notices no difference. */
    if (!err) err = gw_recv_empty(e->b.qp, 1, 8);
    if (!err) err = gw_tx_open(&tx, e->a.qp);
    if (!err)
        err = gw_tx_post(&tx, gw_put_imm_op(e->a.addr, e->a.lkey, e->b.addr + 16, e->b.rkey, 8, 4712), 0, &t);
    if (!err) err = gw_tx_wait(&tx, t, deadline);
    if (!err && gw_wait_cq(e->b.recv_cq, 1, &wc, deadline, NULL, -1) != 1) err = -ETIMEDOUT;
    if (!err && (wc.status != IBV_WC_SUCCESS || wc.wr_id != 8 || gw_wc_imm(&wc) != 4712)) err = -EIO;
    *e->result = err;
}
