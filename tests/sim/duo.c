/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/sim/duo.h"

struct duo duo;

static uint8_t cq_mem[2][DUO_CQ * 64] __attribute__((aligned(64)));
static uint8_t sq_mem[2][DUO_SQ * 64] __attribute__((aligned(64)));
static uint8_t rq_mem[2][DUO_RQ * 64] __attribute__((aligned(64)));

static void good(bool ok)
{
    if (!ok || duo.rig.failed) fail_msg("%s", duo.rig.failed ? duo.rig.why : "a call was refused");
}

void duo_connect(void)
{
    struct rig_link back = duo.link;

    back.sq_psn = duo.link.rq_psn;
    back.rq_psn = duo.link.sq_psn;
    good(rig_qp_up(&duo.qp[0], 1, duo.qp[1].qpn, &duo.link));
    good(rig_qp_up(&duo.qp[1], 0, duo.qp[0].qpn, &back));
}

void duo_start(void (*change)(struct rig_link *link))
{
    struct rig_params p = {
        .nodes = 3, .hostile = true, .net = {.latency = 2000, .jitter = 1000, .has_ip_id = true}};
    struct rig_cq_params cp = {.count = DUO_CQ, .size = 64};
    struct rig_qp_params qp = {.sq_wqebbs = DUO_SQ, .rq_wqes = DUO_RQ, .rq_stride = 64};

    good(rig_start(&duo.rig, &p, 7));
    duo.link = (struct rig_link){.mtu = IBV_MTU_1024,
                                 .sq_psn = 0xfffffe,
                                 .rq_psn = 5,
                                 .timeout = 9,
                                 .retry_cnt = 3,
                                 .rnr_retry = 2,
                                 .min_rnr_timer = 1,
                                 .max_rd_atomic = 4,
                                 .max_dest_rd_atomic = 4,
                                 .access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
                                           IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC};
    if (change) change(&duo.link);
    for (int n = 0; n < 2; n++) {
        memset(duo_mem(n, 0), 0x11 * (n + 1), RIG_ARENA);
        qp.uidx = (uint32_t)n + 100;
        good(rig_cq_open(&duo.cq[n], &duo.rig.node[n], &cp, cq_mem[n]));
        good(rig_qp_open(&duo.qp[n], &duo.rig.node[n], &duo.cq[n], &duo.cq[n], &qp, sq_mem[n], rq_mem[n]));
    }
    duo_connect();
}

void duo_stop(void)
{
    for (int n = 0; n < 2; n++) {
        rig_qp_close(&duo.qp[n]);
        rig_cq_close(&duo.cq[n]);
    }
    rig_stop(&duo.rig);
    good(true);
}

void duo_run(uint64_t ns)
{
    rig_run(&duo.rig, duo.rig.now + ns);
    good(true);
}

uint64_t duo_addr(int n, uint32_t off)
{
    return duo.rig.node[n].iova + off;
}

uint32_t duo_key(int n)
{
    return sn_mr_key(duo.rig.node[n].mr);
}

uint8_t *duo_mem(int n, uint32_t off)
{
    return duo.rig.node[n].mem + off;
}

void duo_posted(int n, uint32_t wqebbs)
{
    struct rig_qp *q = &duo.qp[n];

    q->last_wqe = q->sq_pi;
    q->sq_pi = (uint16_t)(q->sq_pi + wqebbs);
    rig_record(q);
    rig_ring(q, 0, wqebbs);
    rig_kick(q->node, 0);
}

static uint16_t posted(int n)
{
    uint16_t index = duo.qp[n].sq_pi;

    duo_posted(n, 1);
    return index;
}

uint16_t duo_rdma(int n, uint32_t opcode, uint64_t raddr, uint32_t rkey, uint64_t addr, uint32_t len,
                  uint32_t lkey)
{
    struct rig_qp *q = &duo.qp[n];

    gw_mlx5_put_rdma(&q->sq, q->sq_pi, opcode, GW_MLX5_SIGNALED, gw_be32(7), raddr, rkey, addr, len, lkey);
    return posted(n);
}

uint16_t duo_send(int n, uint64_t addr, uint32_t len, uint32_t lkey)
{
    struct rig_qp *q = &duo.qp[n];

    gw_mlx5_put_send(&q->sq, q->sq_pi, GW_MLX5_SEND, GW_MLX5_SIGNALED, 0, addr, len, lkey);
    return posted(n);
}

uint16_t duo_atomic(int n, uint64_t raddr, uint32_t rkey, uint64_t add, uint64_t addr, uint32_t lkey)
{
    struct rig_qp *q = &duo.qp[n];

    gw_mlx5_put_atomic(&q->sq, q->sq_pi, GW_MLX5_ATOMIC_FA, GW_MLX5_SIGNALED, raddr, rkey, add, 0, addr,
                       lkey);
    return posted(n);
}

void duo_recv(int n, uint64_t addr, uint32_t len, uint32_t lkey)
{
    struct rig_qp *q = &duo.qp[n];
    struct gw_mlx5_sge sge = {addr, len, lkey};

    assert_int_equal(gw_mlx5_put_recv(&q->rq, q->rq_pi, &sge, 1, q->rq.stride / 16), 0);
    q->rq_pi++;
    rig_recv_record(q);
}

/* ---- expectations -------------------------------------------------------------------------------------- */

static struct gw_mlx5_wc next(int n)
{
    struct gw_mlx5_wc wc = {0};
    uint8_t data[64];

    if (!rig_poll(&duo.cq[n], &wc, data)) fail_msg("side %d: a completion is missing", n);
    assert_int_equal(wc.qpn, duo.qp[n].qpn);
    assert_int_equal(wc.uidx, duo.qp[n].uidx);
    return wc;
}

void duo_expect_sent(int n, uint16_t index, uint8_t syndrome)
{
    struct gw_mlx5_wc wc = next(n);

    assert_int_equal(wc.opcode, syndrome ? GW_MLX5_CQE_REQ_ERR : GW_MLX5_CQE_REQ);
    assert_int_equal(wc.syndrome, syndrome);
    assert_int_equal(wc.wqe_counter, index);
}

void duo_expect_received(int n, uint16_t number, uint8_t syndrome, uint32_t bytes)
{
    struct gw_mlx5_wc wc = next(n);

    assert_int_equal(wc.syndrome, syndrome);
    if (syndrome)
        assert_int_equal(wc.opcode, GW_MLX5_CQE_RESP_ERR);
    else
        assert_int_equal(wc.byte_cnt, bytes);
    assert_true(wc.opcode != GW_MLX5_CQE_REQ && wc.opcode != GW_MLX5_CQE_REQ_ERR);
    assert_int_equal(wc.wqe_counter, number);
}

void duo_expect_nothing(int n)
{
    struct gw_mlx5_wc wc;
    uint8_t data[64];

    if (rig_poll(&duo.cq[n], &wc, data))
        fail_msg("side %d: a completion more: opcode %u, WQE %u, syndrome %02x, %u bytes", n, wc.opcode,
                 wc.wqe_counter, wc.syndrome, wc.byte_cnt);
}

void duo_expect_state(int n, int state)
{
    struct ibv_qp_attr attr;

    assert_int_equal(sn_qp_query(duo.qp[n].qp, &attr), 0);
    assert_int_equal(attr.qp_state, state);
}

void duo_expect_failure(int side, uint16_t index, uint8_t syndrome, uint32_t n)
{
    duo_expect_sent(side, index, syndrome);
    for (uint32_t i = 1; i <= n; i++) duo_expect_sent(side, (uint16_t)(index + i), GW_MLX5_SYND_FLUSHED);
    duo_expect_nothing(side);
    duo_expect_state(side, IBV_QPS_ERR);
}

void duo_expect_untouched(int n)
{
    for (uint32_t i = 0; i < RIG_ARENA; i++)
        if (*duo_mem(n, i) != 0x11 * (n + 1)) fail_msg("node %d: byte %u was written", n, i);
}
