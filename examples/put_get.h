/* SPDX-License-Identifier: Apache-2.0 */
/* The kernel of put_get.c: writes to the peer's memory and reads it back, without the peer's doing
 * anything. */
#include "pair.h"

GW_KERNEL(put_get, struct ends, e)
{
    struct gw_op put = gw_put_op(e->a.addr, e->a.lkey, e->b.addr, e->b.rkey, 8);
    struct gw_op get = gw_get_op(e->a.addr + 8, e->a.lkey, e->b.addr, e->b.rkey, 8);
    uint64_t deadline = gw_clock_ns() + LIMIT;
    struct ibv_wc wc;
    int err;

    if (gw_global_idx()) return;
    e->a.word[0] = 42;
    /* Requests of a queue pair are executed in order: the READ sees what the WRITE wrote. One completion, of
     * the last one, is enough to know that both are done. */
    err = gw_post_op(e->a.qp, put, 0, 1);
    if (!err) err = gw_post_op(e->a.qp, get, GW_SIGNALED, 2);
    if (!err && gw_wait_cq(e->a.send_cq, 1, &wc, deadline, NULL, -1) != 1) err = -ETIMEDOUT;
    if (!err && (wc.status != IBV_WC_SUCCESS || wc.wr_id != 2)) err = -EIO;
    *e->result = err;
}
