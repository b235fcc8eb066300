/* SPDX-License-Identifier: Apache-2.0 */
/* The kernel of fault.c: a write with a key that the peer has never given out. */
#include "pair.h"

GW_KERNEL(fault, struct ends, e)
{
    uint64_t deadline = gw_clock_ns() + LIMIT;
    struct gw_fault f;
    struct ibv_wc wc;
    int err;

    if (gw_global_idx()) return;
    /* Not signalled: an error completes all the same. */
    err = gw_post_op(e->a.qp, gw_put_op(e->a.addr, e->a.lkey, e->b.addr, ~e->b.rkey, 8), 0, 1);
    if (!err && gw_wait_cq(e->a.send_cq, 1, &wc, deadline, NULL, -1) != 1) err = -ETIMEDOUT;
    if (!err && wc.status != IBV_WC_REM_ACCESS_ERR) err = -EBADMSG;

    /* The first error is kept, whichever thread has polled it; and nothing more is posted. */
    if (!err && (!gw_fault_of(e->a.qp, &f) || f.status != IBV_WC_REM_ACCESS_ERR || f.wr_id != 1))
        err = -EBADMSG;
    if (!err && gw_post_op(e->a.qp, gw_put_op(e->a.addr, e->a.lkey, e->b.addr, e->b.rkey, 8), 0, 2) != -EIO)
        err = -EBADMSG;
    *e->result = err;
}
