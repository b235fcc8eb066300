/* SPDX-License-Identifier: Apache-2.0 */
/* Life and misuse: states, strangers and nonsense on the wire, malformed work requests, doorbells, completion
 * queues. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include <cmocka.h>

#include "src/roce/hdr.h"
#include "src/roce/segment.h"
#include "tests/sim/duo.h"

static void no_reads(struct rig_link *l)
{
    l->max_rd_atomic = 0;
}
static void patient(struct rig_link *l)
{
    l->rnr_retry = l->retry_cnt = 7;
}

/* ---- life of a queue pair ------------------------------------------------------------------------------ */

static void to_error_flushes(void **state)
{
    (void)state;
    duo_start(patient);
    for (int i = 0; i < 5; i++) duo_recv(0, duo_addr(0, 0), 64, duo_key(0));
    for (int i = 0; i < 4; i++) duo_send(0, duo_addr(0, 0), 100, duo_key(0)); /* the peer posts no receive */
    duo_run(DUO_MS);
    duo_expect_nothing(0);
    duo_send(0, duo_addr(0, 0), 100, duo_key(0)); /* rung, and perhaps not yet seen */
    assert_true(rig_qp_state(&duo.qp[0], IBV_QPS_ERR));
    rig_kick(duo.qp[0].node, 0);
    duo_run(DUO_MS);
    uint16_t sent = 0, received = 0;
    struct gw_mlx5_wc wc;
    uint8_t data[64];

    while (rig_poll(&duo.cq[0], &wc, data)) {
        assert_int_equal(wc.syndrome, GW_MLX5_SYND_FLUSHED);
        if (wc.opcode == GW_MLX5_CQE_REQ_ERR)
            assert_int_equal(wc.wqe_counter, sent++);
        else
            assert_int_equal(wc.wqe_counter, received++);
    }
    assert_int_equal(sent, 5);
    assert_int_equal(received, 5);
    duo_send(0, duo_addr(0, 0), 100, duo_key(0)); /* what is posted now comes back, too */
    duo_recv(0, duo_addr(0, 0), 64, duo_key(0));
    rig_kick(duo.qp[0].node, 0);
    duo_run(DUO_MS);
    for (int i = 0; i < 2; i++) {
        assert_true(rig_poll(&duo.cq[0], &wc, data));
        assert_int_equal(wc.syndrome, GW_MLX5_SYND_FLUSHED);
        assert_int_equal(wc.wqe_counter, 5);
    }
    duo_expect_nothing(0);
    duo_stop();
}

static void reset_and_again(void **state)
{
    (void)state;
    duo_start(NULL);
    for (int round = 0; round < 5; round++) {
        duo_recv(1, duo_addr(1, 0), 64, duo_key(1));
        duo_send(0, duo_addr(0, 0), 50, duo_key(0));
        duo_rdma(0, GW_MLX5_READ, duo_addr(1, 0), duo_key(1), duo_addr(0, 100), 3000, duo_key(0));
        duo_run(DUO_MS);
        duo_expect_received(1, 0, 0, 50);
        duo_expect_sent(0, 0, 0);
        duo_expect_sent(0, 1, 0);
        /* The end of a life, each time in another way; frames of it may still be on their way. */
        duo_rdma(0, GW_MLX5_WRITE, duo_addr(1, 0), duo_key(1), duo_addr(0, 0), 20000, duo_key(0));
        if (round & 1) duo_rdma(0, GW_MLX5_WRITE, duo_addr(1, 0), 1, duo_addr(0, 0), 20, duo_key(0));
        duo_run(round * 3000u);
        for (int n = 0; n < 2; n++) {
            if (round & 2) assert_true(rig_qp_state(&duo.qp[n], IBV_QPS_ERR));
            assert_true(rig_qp_state(&duo.qp[n], IBV_QPS_RESET));
        }
        duo_run(DUO_MS);
        for (int n = 0; n < 2; n++) {
            struct gw_mlx5_wc wc;
            uint8_t data[64];

            while (rig_poll(&duo.cq[n], &wc, data)) {
            }
        }
        duo.link.sq_psn = 0x1000u * (uint32_t)round;
        duo_connect();
    }
    duo_stop();
}

static void wrong_transitions(void **state)
{
    (void)state;
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RTS, .port_num = 1};
    struct rig_qp_params params = {.sq_wqebbs = 16, .rq_wqes = 4, .rq_stride = 64};
    static uint8_t mem[8192] __attribute__((aligned(64)));
    struct rig_qp q;

    duo_start(NULL);
    assert_true(rig_qp_open(&q, &duo.rig.node[0], &duo.cq[0], &duo.cq[0], &params, mem, mem + 4096));
    assert_int_equal(sn_qp_modify(q.qp, &attr, IBV_QP_STATE), -EINVAL);
    attr.qp_state = IBV_QPS_INIT;
    assert_int_equal(sn_qp_modify(q.qp, &attr, IBV_QP_STATE | IBV_QP_PORT), -EINVAL);
    attr.port_num = 2;
    assert_int_equal(
        sn_qp_modify(q.qp, &attr, IBV_QP_STATE | IBV_QP_PORT | IBV_QP_PKEY_INDEX | IBV_QP_ACCESS_FLAGS),
        -EINVAL);
    attr.port_num = 1;
    assert_int_equal(
        sn_qp_modify(q.qp, &attr,
                     IBV_QP_STATE | IBV_QP_PORT | IBV_QP_PKEY_INDEX | IBV_QP_ACCESS_FLAGS | IBV_QP_SQ_PSN),
        -EINVAL);
    assert_int_equal(sn_qp_query(q.qp, &attr), 0);
    assert_int_equal(attr.qp_state, IBV_QPS_RESET);
    assert_true(rig_qp_up(&q, 1, duo.qp[1].qpn, &duo.link));
    attr.qp_state = IBV_QPS_INIT;
    assert_int_equal(
        sn_qp_modify(q.qp, &attr, IBV_QP_STATE | IBV_QP_PORT | IBV_QP_PKEY_INDEX | IBV_QP_ACCESS_FLAGS),
        -EINVAL);
    rig_qp_close(&q);
    duo_stop();
}

/* ---- strangers and nonsense ---------------------------------------------------------------------------- */

/* A packet as a stranger would make it: right in all but its sender, or its receiver. */
static uint32_t make_packet(uint8_t *p, uint8_t opcode, uint32_t qpn, uint32_t psn, uint32_t payload)
{
    struct roce_hdr h = {.opcode = opcode,
                         .dqpn = qpn,
                         .psn = psn,
                         .pkey = ROCE_DEFAULT_PKEY,
                         .migreq = true,
                         .ackreq = true,
                         .va = duo_addr(1, 0),
                         .rkey = duo_key(1),
                         .dlen = payload,
                         .swap_or_add = 9,
                         .syndrome = ROCE_AETH_ACK_NO_CREDITS};
    uint32_t n = roce_pack(p, &h);

    memset(p + n, 0xee, payload);
    return n + payload + ROCE_ICRC_LEN;
}

static void strangers(void **state)
{
    (void)state;
    uint8_t frame[2048], stranger[16];
    struct sn_counters c;

    duo_start(NULL);
    duo_recv(1, duo_addr(1, 4096), 64, duo_key(1));
    memcpy(stranger, duo.rig.net.gid[2], 16);
    for (uint32_t round = 0; round < 200; round++) {
        static const uint8_t opcodes[] = {ROCE_WRITE_ONLY, ROCE_SEND_ONLY, ROCE_READ_REQ,
                                          ROCE_FETCH_ADD,  ROCE_ACK,       ROCE_READ_RESP_ONLY,
                                          ROCE_ATOMIC_ACK, ROCE_SEND_LAST, ROCE_UD_SEND_ONLY};
        uint8_t opcode = opcodes[round % sizeof(opcodes)];
        uint32_t flags = roce_flags(opcode), payload = flags & ROCE_F_PAYLOAD ? 64 : 0, n = round % 2, len;
        uint32_t psn = n ? 0xfffffe : 5;

        if (flags & ROCE_F_RESPONSE) psn = n ? 5 : 0xfffffe;
        /* From an address that is not the peer's, to each queue pair, with the number it waits for. */
        len = make_packet(frame, opcode, duo.qp[n].qpn, psn, payload);
        net_inject(&duo.rig.net, n, stranger, frame, len, true);
        /* To queue pairs that do not exist, and to one of another service. */
        len = make_packet(frame, opcode, duo.qp[n].qpn ^ (1u << round % 24), psn, payload);
        net_inject(&duo.rig.net, n, duo.rig.net.gid[!n], frame, len, true);
        /* With a wrong ICRC, from the right address. */
        len = make_packet(frame, opcode, duo.qp[n].qpn, psn, payload);
        net_inject(&duo.rig.net, n, duo.rig.net.gid[!n], frame, len, false);
        /* Noise. */
        rnd_bytes(&duo.rig.rnd, frame, 256);
        net_inject(&duo.rig.net, n, stranger, frame, 4 * (round % 64), false);
        duo_run(10000);
    }
    duo_expect_untouched(1);
    duo_expect_nothing(0);
    duo_expect_nothing(1);
    duo_expect_state(0, IBV_QPS_RTS);
    duo_expect_state(1, IBV_QPS_RTS);
    sn_nic_counters(duo.rig.node[1].nic, &c);
    if (c.drop_address < 80 || c.drop_icrc < 80 || c.drop_no_qp < 80)
        fail_msg("dropped for its address %u, its ICRC %u, its QP %u", (unsigned)c.drop_address,
                 (unsigned)c.drop_icrc, (unsigned)c.drop_no_qp);
    assert_int_equal(c.tx_packets, 0); /* there was no answer */
    duo_send(0, duo_addr(0, 0), 50, duo_key(0));
    duo_run(DUO_MS);
    duo_expect_sent(0, 0, 0);
    duo_expect_received(1, 0, 0, 50);
    duo_stop();
}

/* Broken in one way each. */
static uint32_t make_wrong_wqe(int way)
{
    struct rig_qp *q = &duo.qp[0];
    uint32_t u = q->sq_pi * 4u;

    gw_mlx5_put_rdma(&q->sq, q->sq_pi, GW_MLX5_WRITE, 0, 0, duo_addr(1, 0), duo_key(1), duo_addr(0, 0), 8,
                     duo_key(0));
    switch (way) {
    case 0: gw_mlx5_put(&q->sq, u, gw_mlx5_ctrl(0x77, q->sq_pi, q->qpn, 3, 0, 0)); break; /* opcode */
    case 1:
        gw_mlx5_put(&q->sq, u, gw_mlx5_ctrl(GW_MLX5_WRITE, q->sq_pi, q->qpn, 0, 0, 0));
        break; /* no length */
    case 2:
        gw_mlx5_put(&q->sq, u, gw_mlx5_ctrl(GW_MLX5_WRITE, q->sq_pi, q->qpn, 60, 0, 0));
        break; /* too long */
    case 3: gw_mlx5_put(&q->sq, u, gw_mlx5_ctrl(GW_MLX5_WRITE, q->sq_pi + 1u, q->qpn, 3, 0, 0)); break;
    case 4: gw_mlx5_put(&q->sq, u, gw_mlx5_ctrl(GW_MLX5_WRITE, q->sq_pi, q->qpn ^ 1, 3, 0, 0)); break;
    case 5: gw_mlx5_put(&q->sq, u + 2, gw_mlx5_inline12(500, 0, 0, 0)); break; /* inline past its end */
    case 6: gw_mlx5_put(&q->sq, u + 2, gw_mlx5_data(duo_addr(0, 0), 0, duo_key(0))); break; /* 2^31 bytes */
    case 7:
        gw_mlx5_put_atomic(&q->sq, q->sq_pi, GW_MLX5_ATOMIC_FA, 0, duo_addr(1, 0), duo_key(1), 1, 0,
                           duo_addr(0, 0), duo_key(0));
        gw_mlx5_put(&q->sq, u + 3, gw_mlx5_data(duo_addr(0, 0), 4, duo_key(0))); /* not 8 bytes */
        break;
    default: return 0;
    }
    return 1;
}

static void malformed_wqes(void **state)
{
    (void)state;
    for (int way = 0;; way++) {
        duo_start(NULL);
        duo_rdma(0, GW_MLX5_WRITE, duo_addr(1, 64), duo_key(1), duo_addr(0, 0), 0, duo_key(0));
        if (!make_wrong_wqe(way)) {
            duo_stop();
            break;
        }
        duo_posted(0, 1);
        duo_run(DUO_MS);
        duo_expect_sent(0, 0, 0);
        duo_expect_failure(0, 1, GW_MLX5_SYND_LOCAL_QP_OP, 0);
        duo_expect_state(1, IBV_QPS_RTS);
        duo_expect_untouched(1);
        assert_true(duo.rig.node[0].reports >= 1);
        duo_stop();
    }
}

static void read_without_credit(void **state)
{
    (void)state;
    duo_start(no_reads);
    duo_rdma(0, GW_MLX5_READ, duo_addr(1, 0), duo_key(1), duo_addr(0, 0), 8, duo_key(0));
    duo_run(DUO_MS);
    duo_expect_failure(0, 0, GW_MLX5_SYND_LOCAL_QP_OP, 0);
    duo_stop();
}

/* A record that says more than the queue holds cannot be believed. */
static void impossible_record(void **state)
{
    (void)state;
    duo_start(NULL);
    duo.qp[0].dbrec[1] = gw_mlx5_dbrec_be(DUO_SQ + 1);
    rig_ring(&duo.qp[0], 1, 1);
    rig_kick(duo.qp[0].node, 0);
    duo_run(DUO_MS);
    assert_true(duo.rig.node[0].reports >= 1);
    duo_expect_untouched(1);
    duo_stop();
}

/* ---- doorbells ----------------------------------------------------------------------------------------- */

static void never_rung(void **state)
{
    (void)state;
    struct rig_qp *q = &duo.qp[0];

    duo_start(NULL);
    gw_mlx5_put_rdma(&q->sq, 0, GW_MLX5_WRITE, GW_MLX5_SIGNALED, 0, duo_addr(1, 0), duo_key(1),
                     duo_addr(0, 0), 8, duo_key(0));
    q->sq_pi = 1;
    rig_record(q);
    for (int i = 0; i < 400; i++) { /* four seconds, in which the NIC runs often */
        rig_kick(q->node, 0);
        duo_run(10 * DUO_MS);
    }
    duo_expect_nothing(0);
    duo_expect_untouched(1);
    rig_qp_close(q); /* at the latest now its owner is told why nothing happened */
    assert_true(duo.rig.node[0].reports >= 1);
    assert_non_null(strstr(duo.rig.node[0].report, "rung"));
    duo_stop();
}

/* The 16-bit indices of WQEs, records and completions go round. */
static void indices_wrap(void **state)
{
    (void)state;
    duo_start(patient);
    for (uint32_t i = 0; i < 70000; i++) {
        duo_recv(1, duo_addr(1, 0), 8, duo_key(1));
        duo_send(0, duo_addr(0, 0), 8, duo_key(0));
        while (!rig_has_completion(&duo.cq[0], false) || !rig_has_completion(&duo.cq[1], false)) {
            duo_run(2000);
            if (duo.rig.now > UINT64_C(60000000000)) fail_msg("stuck at %u", i);
        }
        duo_expect_sent(0, (uint16_t)i, 0);
        duo_expect_received(1, (uint16_t)i, 0, 8);
    }
    assert_true(duo.rig.now >= 70000 * UINT64_C(4000)); /* a round trip each */
    duo_stop();
}

static void overrun(void **state)
{
    (void)state;
    struct rig_qp_params params = {.sq_wqebbs = 16, .rq_wqes = 4, .rq_stride = 64};
    struct rig_cq_params cp = {.count = 4, .size = 64};
    static uint8_t mem[8192] __attribute__((aligned(64))), ring[5 * 64] __attribute__((aligned(64)));
    struct rig_cq cq;
    struct rig_qp q;

    duo_start(NULL);
    memset(ring + 256, 0x3c, 64);
    assert_true(rig_cq_open(&cq, &duo.rig.node[0], &cp, ring));
    assert_true(rig_qp_open(&q, &duo.rig.node[0], &cq, &cq, &params, mem, mem + 4096));
    assert_true(rig_qp_up(&q, 1, duo.qp[1].qpn, &duo.link));
    for (uint32_t i = 0; i < 10; i++) gw_mlx5_put_nop(&q.sq, i, 1, GW_MLX5_SIGNALED);
    q.sq_pi = 10;
    rig_record(&q);
    rig_ring(&q, 1, 1);
    rig_kick(q.node, 0);
    duo_run(DUO_MS);
    assert_true(duo.rig.node[0].reports >= 1 && duo.rig.node[0].async >= 1);
    for (uint32_t i = 0; i < 4; i++) { /* those that had room are intact */
        struct gw_mlx5_wc wc;
        uint8_t data[64];

        assert_true(rig_poll(&cq, &wc, data));
        assert_int_equal(wc.wqe_counter, i);
    }
    assert_false(rig_has_completion(&cq, false));
    for (uint32_t i = 256; i < 320; i++) assert_int_equal(ring[i], 0x3c);
    assert_int_equal(sn_cq_destroy(cq.cq), -EBUSY);
    assert_int_equal(sn_uar_destroy(duo.rig.node[0].uar[0]), -EBUSY);
    assert_int_equal(sn_pd_destroy(duo.rig.node[0].pd), -EBUSY);
    assert_int_equal(sn_nic_destroy(duo.rig.node[0].nic), -EBUSY);
    rig_qp_close(&q);
    rig_cq_close(&cq);
    duo_stop();
}

/* One arm, one event; none without an arm; and a completion that came before the arm was seen counts. */
static void arms(void **state)
{
    (void)state;
    duo_start(NULL);
    for (int solicited = 0; solicited < 2; solicited++) {
        uint32_t sn = duo.cq[1].sn;

        duo_recv(1, duo_addr(1, 0), 64, duo_key(1));
        duo_recv(1, duo_addr(1, 0), 64, duo_key(1));
        duo_recv(1, duo_addr(1, 0), 64, duo_key(1));
        rig_arm(&duo.cq[1], solicited);
        rig_kick(&duo.rig.node[1], 0);
        duo_run(DUO_MS);
        assert_int_equal(duo.cq[1].events, 0);
        for (int i = 0; i < 3; i++) {
            struct rig_qp *q = &duo.qp[0];

            gw_mlx5_put_send(&q->sq, q->sq_pi, GW_MLX5_SEND, i ? GW_MLX5_SOLICITED : 0, 0, 0, 0, 0);
            duo_posted(0, 1);
            duo_run(DUO_MS);
            assert_int_equal(duo.cq[1].events, i || !solicited);
        }
        duo.cq[1].events = 0;
        duo.cq[1].sn = sn + 1;
        for (uint16_t i = 0; i < 3; i++) duo_expect_received(1, (uint16_t)(3 * solicited + i), 0, 0);
    }
    /* Completed first, armed for it afterwards. */
    duo_recv(1, duo_addr(1, 0), 64, duo_key(1));
    duo_send(0, 0, 0, 0);
    duo_run(DUO_MS);
    assert_int_equal(duo.cq[1].events, 0);
    rig_arm(&duo.cq[1], false);
    rig_kick(&duo.rig.node[1], 0);
    duo_run(DUO_MS);
    assert_int_equal(duo.cq[1].events, 1);
    duo_stop();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(to_error_flushes),
        cmocka_unit_test(reset_and_again),
        cmocka_unit_test(wrong_transitions),
        cmocka_unit_test(strangers),
        cmocka_unit_test(malformed_wqes),
        cmocka_unit_test(read_without_credit),
        cmocka_unit_test(impossible_record),
        cmocka_unit_test(never_rung),
        cmocka_unit_test(indices_wrap),
        cmocka_unit_test(overrun),
        cmocka_unit_test(arms),
    };

    return cmocka_run_group_tests_name("sim_misuse", tests, NULL, NULL);
}
