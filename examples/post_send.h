/* SPDX-License-Identifier: Apache-2.0 */
/* The kernel of post_send.c: what one would write with ibv_post_recv, ibv_post_send and ibv_poll_cq. */
#include "pair.h"

/* Polls until there is a completion; a kernel decides itself how long. */
GW_DEV int poll_one(struct gw_cq_handle *cq, struct ibv_wc *wc, uint64_t deadline)
{
    uint32_t round = 0;

    while (!gw_poll_cq(cq, 1, wc)) {
        if (gw_clock_ns() >= deadline) return -ETIMEDOUT;
        gw_pause(round++);
    }
    return wc->status == IBV_WC_SUCCESS ? 0 : -EIO;
}

GW_KERNEL(post_send, struct ends, e)
{
    uint64_t deadline = gw_clock_ns() + LIMIT;
    struct ibv_sge from, to;
    struct ibv_send_wr write, send, *bad;
    struct ibv_recv_wr recv, *bad_recv;
    struct ibv_wc wc;
    int err;

    if (gw_global_idx()) return;
    e->a.word[0] = 42;
    from.addr = e->a.addr;
    from.length = 8;
    from.lkey = e->a.lkey;
    to.addr = e->b.addr + 8;
    to.length = 64;
    to.lkey = e->b.lkey;

    memset(&recv, 0, sizeof(recv));
    recv.wr_id = 7;
    recv.sg_list = &to;
    recv.num_sge = 1;
    err = -gw_post_recv(e->b.qp, &recv, &bad_recv); /* positive errno values, as libibverbs returns */

    /* A list of two: a write, and a message after it. */
    memset(&write, 0, sizeof(write));
    write.next = &send;
    write.sg_list = &from;
    write.num_sge = 1;
    write.opcode = IBV_WR_RDMA_WRITE;
    write.wr.rdma.remote_addr = e->b.addr;
    write.wr.rdma.rkey = e->b.rkey;
    memset(&send, 0, sizeof(send));
    send.wr_id = 1;
    send.sg_list = &from;
    send.num_sge = 1;
    send.opcode = IBV_WR_SEND;
    send.send_flags = IBV_SEND_SIGNALED;
    if (!err) err = -gw_post_send(e->a.qp, &write, &bad);

    if (!err) err = poll_one(e->b.recv_cq, &wc, deadline);
    if (!err && (wc.wr_id != 7 || wc.opcode != IBV_WC_RECV || wc.byte_len != 8)) err = -EBADMSG;
    if (!err) err = poll_one(e->a.send_cq, &wc, deadline);
    if (!err && (wc.wr_id != 1 || wc.opcode != IBV_WC_SEND)) err = -EBADMSG;
    *e->result = err;
}
