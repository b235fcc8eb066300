/* SPDX-License-Identifier: Apache-2.0 */
/* A rig with two queue pairs that are connected to each other, for tests of one-sided requests: an error of
 * the one does not flush the other's work. */
#ifndef TESTS_UVERBS_PAIR_H
#define TESTS_UVERBS_PAIR_H

#include "tests/uverbs/rig.h"

static struct rig r;
static struct ibv_qp *qp, *peer;

static void connect_both(void)
{
    rig_connect(&r, qp, peer->qp_num);
    rig_connect(&r, peer, qp->qp_num);
}

static int up(void **state)
{
    (void)state;
    rig_up(&r);
    qp = rig_qp(&r, r.cq);
    peer = rig_qp(&r, r.cq);
    connect_both();
    return 0;
}

static int down(void **state)
{
    (void)state;
    assert_int_equal(ibv_destroy_qp(qp), 0);
    assert_int_equal(ibv_destroy_qp(peer), 0);
    rig_down(&r);
    return 0;
}

static enum ibv_wc_status rdma(enum ibv_wr_opcode opcode, uint64_t local, uint32_t lkey, uint64_t remote,
                               uint32_t rkey, uint32_t bytes)
{
    struct ibv_sge sge = {.addr = local, .length = bytes, .lkey = lkey};
    struct ibv_send_wr wr = {.opcode = opcode,
                             .send_flags = IBV_SEND_SIGNALED,
                             .sg_list = &sge,
                             .num_sge = 1,
                             .wr.rdma = {.remote_addr = remote, .rkey = rkey}},
                       *bad;
    assert_int_equal(ibv_post_send(qp, &wr, &bad), 0);
    return rig_poll(r.cq).status;
}

static enum ibv_wc_status write_to(uint64_t remote, uint32_t rkey, uint32_t bytes)
{
    return rdma(IBV_WR_RDMA_WRITE, (uintptr_t)r.buf, r.mr->lkey, remote, rkey, bytes);
}

#endif
