/* SPDX-License-Identifier: Apache-2.0 */
/* The kernel of send_recv.c: one thread plays both ends. */
#include "pair.h"

GW_KERNEL(send_recv, struct ends, e)
{
    uint64_t deadline = gw_clock_ns() + LIMIT;
    struct ibv_wc wc;
    int err;

    if (gw_global_idx()) return;
    e->a.word[0] = 42;
    /* The receiver says where the message goes; the sender does not know. */
    err = gw_recv(e->b.qp, e->b.addr, e->b.lkey, 64, 7);
    if (!err) err = gw_post_op(e->a.qp, gw_send_op(e->a.addr, e->a.lkey, 8), 0, 1);
    if (!err && gw_wait_cq(e->b.recv_cq, 1, &wc, deadline, NULL, -1) != 1) err = -ETIMEDOUT;
    if (!err && (wc.status != IBV_WC_SUCCESS || wc.wr_id != 7 || wc.byte_len != 8)) err = -EIO;
    if (!err && e->b.word[0] != 42) err = -EBADMSG;
    *e->result = err;
}
