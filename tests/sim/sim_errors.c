/* SPDX-License-Identifier: Apache-2.0 */
/* Errors between a program and its NIC, or between peers: each side that is concerned learns of them, and no
 * other is harmed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include <cmocka.h>

#include "tests/apart.h"
#include "tests/sim/duo.h"

static void set_flags(struct rig_link *l)
{
    l->access = IBV_ACCESS_LOCAL_WRITE;
}

/* One good WRITE, the request in question, two more after it. */
static void refused(uint32_t opcode, uint64_t raddr, uint32_t rkey, uint32_t len, uint8_t syndrome)
{
    uint16_t index;

    duo_rdma(0, GW_MLX5_WRITE, duo_addr(1, 64), duo_key(1), duo_addr(0, 0), 0, duo_key(0));
    if (opcode == GW_MLX5_ATOMIC_FA)
        index = duo_atomic(0, raddr, rkey, 1, duo_addr(0, 0), duo_key(0));
    else
        index = duo_rdma(0, opcode, raddr, rkey, duo_addr(0, 0), len, duo_key(0));
    duo_rdma(0, GW_MLX5_WRITE, duo_addr(1, 0), duo_key(1), duo_addr(0, 0), 100, duo_key(0));
    duo_rdma(0, GW_MLX5_WRITE, duo_addr(1, 0), duo_key(1), duo_addr(0, 0), 100, duo_key(0));
    duo_run(DUO_MS);
    duo_expect_sent(0, 0, 0);
    duo_expect_failure(0, index, syndrome, 2);
    duo_expect_untouched(1);
    duo_expect_untouched(0);
    duo_expect_state(1, IBV_QPS_ERR);
    assert_int_equal(duo.rig.node[1].async, 1);
    assert_true(duo.rig.node[1].reports >= 1);
}

static void wrong_rkey(void **state)
{
    (void)state;
    static const uint32_t opcodes[] = {GW_MLX5_WRITE, GW_MLX5_READ, GW_MLX5_ATOMIC_FA, GW_MLX5_WRITE_IMM};

    for (int i = 0; i < 4; i++) {
        duo_start(NULL);
        if (opcodes[i] == GW_MLX5_WRITE_IMM) duo_recv(1, duo_addr(1, 0), 16, duo_key(1));
        refused(opcodes[i], duo_addr(1, 64), duo_key(1) ^ 1, 5000, GW_MLX5_SYND_REM_ACCESS);
        assert_int_equal(duo.rig.node[1].last_async, IBV_EVENT_QP_ACCESS_ERR);
        if (opcodes[i] == GW_MLX5_WRITE_IMM) { /* the receive was not used for it */
            struct gw_mlx5_wc wc;
            uint8_t data[64];

            assert_true(rig_poll(&duo.cq[1], &wc, data));
            assert_int_equal(wc.opcode, GW_MLX5_CQE_RESP_ERR);
            assert_int_equal(wc.wqe_counter, 0);
        }
        duo_expect_nothing(1);
        duo_stop();
    }
}

static void out_of_bounds(void **state)
{
    (void)state;
    static const uint32_t opcodes[] = {GW_MLX5_WRITE, GW_MLX5_READ};

    for (int i = 0; i < 2; i++) {
        duo_start(NULL);
        refused(opcodes[i], duo_addr(1, RIG_ARENA - 999), duo_key(1), 1000, GW_MLX5_SYND_REM_ACCESS);
        duo_stop();
        duo_start(NULL);
        refused(opcodes[i], duo_addr(1, 0) - 1, duo_key(1), 1000, GW_MLX5_SYND_REM_ACCESS);
        duo_stop();
        duo_start(NULL); /* the sum wraps */
        refused(opcodes[i], UINT64_MAX - 10, duo_key(1), 1000, GW_MLX5_SYND_REM_ACCESS);
        duo_stop();
    }
    duo_start(NULL);
    refused(GW_MLX5_ATOMIC_FA, duo_addr(1, RIG_ARENA), duo_key(1), 8, GW_MLX5_SYND_REM_ACCESS);
    duo_stop();
}

static void last_byte_is_inside(void **state)
{
    (void)state;
    duo_start(NULL);
    duo_rdma(0, GW_MLX5_WRITE, duo_addr(1, RIG_ARENA - 1000), duo_key(1), duo_addr(0, 0), 1000, duo_key(0));
    duo_run(DUO_MS);
    duo_expect_sent(0, 0, 0);
    assert_int_equal(*duo_mem(1, RIG_ARENA - 1), 0x11);
    assert_int_equal(*duo_mem(1, RIG_ARENA - 1001), 0x22);
    duo_stop();
}

static void no_access_right(void **state)
{
    (void)state;
    static const uint32_t opcodes[] = {GW_MLX5_WRITE, GW_MLX5_READ, GW_MLX5_ATOMIC_FA};

    for (int i = 0; i < 3; i++) {
        duo_start(NULL); /* the region grants local access alone */
        refused(opcodes[i], duo.rig.node[1].local_iova + 64, sn_mr_key(duo.rig.node[1].local), 8,
                opcodes[i] == GW_MLX5_ATOMIC_FA && duo.rig.node[1].local_iova % 8 ? GW_MLX5_SYND_REM_INV_REQ
                                                                                  : GW_MLX5_SYND_REM_ACCESS);
        duo_stop();
    }
}

/* A request that the queue pair itself does not allow is invalid, no matter what the region grants. */
static void queue_pair_denies(void **state)
{
    (void)state;
    static const uint32_t opcodes[] = {GW_MLX5_WRITE, GW_MLX5_READ, GW_MLX5_ATOMIC_FA};

    for (int i = 0; i < 3; i++) {
        struct gw_mlx5_wc wc;
        uint8_t data[64];

        duo_start(set_flags);
        if (opcodes[i] == GW_MLX5_ATOMIC_FA)
            duo_atomic(0, duo_addr(1, 64), duo_key(1), 1, duo_addr(0, 0), duo_key(0));
        else
            duo_rdma(0, opcodes[i], duo_addr(1, 64), duo_key(1), duo_addr(0, 0), 64, duo_key(0));
        duo_run(DUO_MS);
        assert_true(rig_poll(&duo.cq[0], &wc, data));
        assert_true(wc.syndrome == GW_MLX5_SYND_REM_INV_REQ || wc.syndrome == GW_MLX5_SYND_REM_ACCESS);
        duo_expect_untouched(1);
        duo_stop();
    }
}

static void wrong_pd(void **state)
{
    (void)state;
    struct sn_mr_init init = {.length = 4096,
                              .iova = 4096,
                              .access =
                                  IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ};
    struct sn_pd *pd;
    struct sn_mr *mr;

    for (int local = 0; local < 2; local++) {
        duo_start(NULL);
        init.addr = (uintptr_t)duo_mem(local ? 0 : 1, 0);
        assert_int_equal(sn_pd_create(duo.rig.node[local ? 0 : 1].nic, &pd), 0);
        assert_int_equal(sn_mr_create(pd, &init, &mr), 0);
        if (!local) {
            refused(GW_MLX5_WRITE, 4096, sn_mr_key(mr), 100, GW_MLX5_SYND_REM_ACCESS);
        } else {
            duo_rdma(0, GW_MLX5_WRITE, duo_addr(1, 0), duo_key(1), 4096, 10, sn_mr_key(mr));
            duo_run(DUO_MS);
            duo_expect_failure(0, 0, GW_MLX5_SYND_LOCAL_PROT, 0);
            duo_expect_untouched(1);
        }
        assert_int_equal(sn_pd_destroy(pd), -EBUSY);
        assert_int_equal(sn_mr_destroy(mr), 0);
        assert_int_equal(sn_pd_destroy(pd), 0);
        duo_stop();
    }
}

static void wrong_local_key(void **state)
{
    (void)state;
    for (int i = 0; i < 4; i++) {
        uint16_t index = 0;

        duo_start(NULL);
        duo_recv(1, duo_addr(1, 0), 4096, duo_key(1));
        duo_rdma(0, GW_MLX5_WRITE, duo_addr(1, 0), duo_key(1), duo_addr(0, 0), 0, duo_key(0));
        if (i == 0) index = duo_send(0, duo_addr(0, 0), 100, duo_key(0) ^ 4);
        if (i == 1) index = duo_send(0, duo_addr(0, RIG_ARENA - 99), 100, duo_key(0));
        if (i == 2)
            index =
                duo_rdma(0, GW_MLX5_READ, duo_addr(1, 0), duo_key(1), duo_addr(0, 0), 100, duo_key(0) ^ 4);
        if (i == 3)
            index =
                duo_rdma(0, GW_MLX5_WRITE, duo_addr(1, 0), duo_key(1), duo_addr(0, 0) - 1, 100, duo_key(0));
        /* After a READ it may reach the peer before the READ's answer fails here. */
        if (i != 2) duo_send(0, duo_addr(0, 0), 100, duo_key(0));
        duo_run(DUO_MS);
        duo_expect_sent(0, 0, 0);
        duo_expect_failure(0, index, GW_MLX5_SYND_LOCAL_PROT, i != 2);
        duo_expect_nothing(1);
        duo_expect_untouched(0);
        duo_expect_untouched(1);
        assert_true(duo.rig.node[0].reports >= 1);
        duo_stop();
    }
}

static void dead_peer(void **state)
{
    (void)state;
    uint64_t timeout = UINT64_C(4096) << 9, start;
    struct sn_counters c;

    duo_start(NULL);
    duo_rdma(0, GW_MLX5_WRITE, duo_addr(1, 0), duo_key(1), duo_addr(0, 0), 0, duo_key(0));
    duo_run(DUO_MS);
    duo_expect_sent(0, 0, 0);
    duo.rig.net.port[1].dead = true;
    start = duo.rig.now;
    duo_rdma(0, GW_MLX5_WRITE, duo_addr(1, 0), duo_key(1), duo_addr(0, 0), 3000, duo_key(0));
    duo_send(0, duo_addr(0, 0), 3000, duo_key(0));
    duo_rdma(0, GW_MLX5_READ, duo_addr(1, 0), duo_key(1), duo_addr(0, 0), 3000, duo_key(0));
    duo_run(4 * timeout - DUO_MS);
    duo_expect_nothing(0); /* three repeats, not fewer */
    duo_run(12 * timeout);
    duo_expect_failure(0, 1, GW_MLX5_SYND_RETRY_EXC, 2);
    sn_nic_counters(duo.rig.node[0].nic, &c);
    assert_int_equal(c.timeouts, 4);
    assert_true(duo.rig.now - start <= 16 * timeout);
    duo_expect_state(1, IBV_QPS_RTS); /* it noticed nothing */
    duo_stop();
}

static void seven_retries(struct rig_link *link)
{
    link->retry_cnt = 7;
}

/*
 * A network that harms whatever it may, and each request posted while the one before it is being repeated:
 * all get through with seven retries. Simulations that end in "retry counter exceeded" are thus the engine's
 * fault.
 */
static void worst_network(void **state)
{
    (void)state;
    enum { REQUESTS = 6 };
    uint64_t timeout = UINT64_C(4096) << 9;
    struct sn_counters c;

    duo_start(seven_retries);
    duo.rig.net.params.loss = 10000;
    for (uint32_t i = 0; i < REQUESTS; i++) {
        duo_rdma(0, GW_MLX5_WRITE, duo_addr(1, i), duo_key(1), duo_addr(0, 0), 1, duo_key(0));
        duo_run(timeout);
    }
    duo_run(8 * REQUESTS * timeout);
    for (uint16_t i = 0; i < REQUESTS; i++) duo_expect_sent(0, i, 0);
    duo_expect_nothing(0);
    sn_nic_counters(duo.rig.node[0].nic, &c);
    assert_true(c.timeouts >= 2 * NET_HARM);
    duo_stop();
}

static void receiver_never_ready(void **state)
{
    (void)state;
    struct sn_counters c;

    duo_start(NULL);
    duo_send(0, duo_addr(0, 0), 100, duo_key(0));
    duo_send(0, duo_addr(0, 0), 100, duo_key(0));
    duo_run(20 * DUO_MS);
    duo_expect_failure(0, 0, GW_MLX5_SYND_RNR_EXC, 1);
    sn_nic_counters(duo.rig.node[0].nic, &c);
    assert_int_equal(c.rnr_received, 3); /* rnr_retry is 2 */
    duo_expect_state(1, IBV_QPS_RTS);
    duo_stop();
}

static void receive_too_short(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++) {
        uint32_t room = i ? 2000 : 10, len = i ? 5000 : 11; /* found in a later packet; found at once */

        duo_start(NULL);
        duo_recv(1, duo_addr(1, 0), room, duo_key(1));
        duo_recv(1, duo_addr(1, 100), 10000, duo_key(1));
        duo_send(0, duo_addr(0, 0), len, duo_key(0));
        duo_send(0, duo_addr(0, 0), 3, duo_key(0));
        duo_run(DUO_MS);
        duo_expect_received(1, 0, GW_MLX5_SYND_LOCAL_LENGTH, 0);
        duo_expect_received(1, 1, GW_MLX5_SYND_FLUSHED, 0);
        duo_expect_failure(0, 0, GW_MLX5_SYND_REM_INV_REQ, 1);
        for (uint32_t k = room; k < 4096; k++) assert_int_equal(*duo_mem(1, k), 0x22);
        duo_stop();
    }
}

/* A receive whose own memory or key is wrong: its owner learns what, the sender that the peer failed. */
static void receive_wrong_key(void **state)
{
    (void)state;
    duo_start(NULL);
    duo_recv(1, duo_addr(1, 0), 100, duo_key(1) ^ 8);
    duo_send(0, duo_addr(0, 0), 50, duo_key(0));
    duo_run(DUO_MS);
    duo_expect_received(1, 0, GW_MLX5_SYND_LOCAL_PROT, 0);
    duo_expect_failure(0, 0, GW_MLX5_SYND_REM_OP, 0);
    duo_expect_untouched(1);
    duo_stop();
}

/* ---- memory that goes away ----------------------------------------------------------------------------- */

static uint8_t *pages(void)
{
    uint8_t *p = map_apart(65536);

    assert_non_null(p);
    memset(p, 0x77, 65536);
    return p;
}

static struct sn_mr *region_of(int n, uint8_t *p)
{
    struct sn_mr_init init = {.addr = (uintptr_t)p,
                              .length = 65536,
                              .iova = (uintptr_t)p,
                              .access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
                                        IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC};
    struct sn_mr *mr;

    assert_int_equal(sn_mr_create(duo.rig.node[n].pd, &init, &mr), 0);
    return mr;
}

enum { TARGET, SOURCE, FETCHED, ATOMIC, RECEIVE, SENT, INTO, WAYS };

/* Unmapped without the NIC's knowledge: errors, and the process lives. */
static void unmapped_region(void **state)
{
    (void)state;
    for (int way = 0; way < WAYS; way++) {
        bool at_peer = way == TARGET || way == FETCHED || way == ATOMIC || way == RECEIVE;
        struct gw_mlx5_wc wc;
        struct sn_mr *mr;
        uint8_t *p = pages(), data[64];
        uint64_t va = (uintptr_t)p + 4000;

        duo_start(NULL);
        mr = region_of(at_peer ? 1 : 0, p);
        assert_int_equal(munmap(p, 65536), 0);
        switch (way) {
        case TARGET: duo_rdma(0, GW_MLX5_WRITE, va, sn_mr_key(mr), duo_addr(0, 0), 5000, duo_key(0)); break;
        case FETCHED: duo_rdma(0, GW_MLX5_READ, va, sn_mr_key(mr), duo_addr(0, 0), 5000, duo_key(0)); break;
        case ATOMIC: duo_atomic(0, va, sn_mr_key(mr), 1, duo_addr(0, 0), duo_key(0)); break;
        case RECEIVE:
            duo_recv(1, va, 100, sn_mr_key(mr));
            duo_send(0, duo_addr(0, 0), 50, duo_key(0));
            break;
        case SOURCE: duo_rdma(0, GW_MLX5_WRITE, duo_addr(1, 0), duo_key(1), va, 5000, sn_mr_key(mr)); break;
        case SENT: duo_send(0, va, 100, sn_mr_key(mr)); break;
        case INTO: duo_rdma(0, GW_MLX5_READ, duo_addr(1, 0), duo_key(1), va, 100, sn_mr_key(mr)); break;
        }
        duo_run(20 * DUO_MS);
        if (!rig_poll(&duo.cq[0], &wc, data)) fail_msg("way %d: no completion", way);
        assert_int_equal(wc.opcode, GW_MLX5_CQE_REQ_ERR);
        if (at_peer)
            assert_true(wc.syndrome == GW_MLX5_SYND_REM_OP || wc.syndrome == GW_MLX5_SYND_REM_ACCESS);
        else
            assert_int_equal(wc.syndrome, GW_MLX5_SYND_LOCAL_PROT);
        if (way == RECEIVE) duo_expect_received(1, 0, GW_MLX5_SYND_LOCAL_PROT, 0);
        assert_int_equal(sn_mr_destroy(mr), 0);
        duo_stop();
    }
}

/* Deregistered with traffic in flight: after the call returns the memory is the program's, whatever arrives.
 */
static void deregistered_in_flight(void **state)
{
    (void)state;
    uint8_t *copy = malloc(65536);

    assert_non_null(copy);
    for (int way = 0; way < 2; way++)
        for (uint64_t when = 1000; when < 60000; when += 3000) {
            struct gw_mlx5_wc wc;
            uint8_t *p = pages(), data[64];
            struct sn_mr *mr;

            duo_start(NULL);
            mr = region_of(way ? 0 : 1, p);
            if (way)
                duo_rdma(0, GW_MLX5_READ, duo_addr(1, 0), duo_key(1), (uintptr_t)p, 65536, sn_mr_key(mr));
            else
                duo_rdma(0, GW_MLX5_WRITE, (uintptr_t)p, sn_mr_key(mr), duo_addr(0, 0), 65536, duo_key(0));
            duo_run(when);
            assert_int_equal(sn_mr_destroy(mr), 0);
            memcpy(copy, p, 65536);
            duo_run(20 * DUO_MS);
            assert_memory_equal(copy, p, 65536);
            assert_true(rig_poll(&duo.cq[0], &wc, data));
            if (wc.opcode == GW_MLX5_CQE_REQ_ERR)
                assert_int_equal(wc.syndrome, way ? GW_MLX5_SYND_LOCAL_PROT : GW_MLX5_SYND_REM_ACCESS);
            munmap(p, 65536);
            duo_stop();
        }
    free(copy);
}

/* A READ whose source is deregistered while the answer is on its way. */
static void deregistered_while_read(void **state)
{
    (void)state;
    uint32_t errors = 0;

    for (uint64_t when = 0; when < 20000; when += 1000) {
        uint8_t *p = pages(), data[64];
        struct gw_mlx5_wc wc;
        struct sn_mr *mr;

        duo_start(NULL);
        mr = region_of(1, p);
        duo_rdma(0, GW_MLX5_READ, (uintptr_t)p, sn_mr_key(mr), duo_addr(0, 0), 65536, duo_key(0));
        duo_run(when);
        assert_int_equal(sn_mr_destroy(mr), 0);
        munmap(p, 65536);
        duo_run(20 * DUO_MS);
        assert_true(rig_poll(&duo.cq[0], &wc, data));
        errors += wc.opcode == GW_MLX5_CQE_REQ_ERR;
        if (wc.opcode == GW_MLX5_CQE_REQ_ERR) assert_int_equal(wc.syndrome, GW_MLX5_SYND_REM_ACCESS);
        duo_stop();
    }
    assert_true(errors > 0);
}

static void unmapped_queue(void **state)
{
    (void)state;
    uint8_t *p = pages();
    struct rig_qp_params params = {.sq_wqebbs = 16, .rq_wqes = 16, .rq_stride = 64};
    struct rig_qp q;

    duo_start(NULL);
    assert_true(rig_qp_open(&q, &duo.rig.node[0], &duo.cq[0], &duo.cq[0], &params, p, p + 4096));
    assert_true(rig_qp_up(&q, 1, duo.qp[1].qpn, &duo.link));
    gw_mlx5_put_nop(&q.sq, 0, 1, GW_MLX5_SIGNALED);
    q.sq_pi = 1;
    rig_record(&q);
    rig_ring(&q, 1, 1);
    munmap(p, 65536);
    rig_kick(q.node, 0);
    duo_run(DUO_MS);
    duo_expect_nothing(0);
    assert_true(duo.rig.node[0].reports >= 1);
    duo_rdma(0, GW_MLX5_WRITE, duo_addr(1, 0), duo_key(1), duo_addr(0, 0), 10,
             duo_key(0)); /* the others live */
    duo_run(DUO_MS);
    duo_expect_sent(0, 0, 0);
    rig_qp_close(&q);
    duo_stop();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(wrong_rkey),
        cmocka_unit_test(out_of_bounds),
        cmocka_unit_test(last_byte_is_inside),
        cmocka_unit_test(no_access_right),
        cmocka_unit_test(queue_pair_denies),
        cmocka_unit_test(wrong_pd),
        cmocka_unit_test(wrong_local_key),
        cmocka_unit_test(dead_peer),
        cmocka_unit_test(worst_network),
        cmocka_unit_test(receiver_never_ready),
        cmocka_unit_test(receive_too_short),
        cmocka_unit_test(receive_wrong_key),
        cmocka_unit_test(unmapped_region),
        cmocka_unit_test(deregistered_in_flight),
        cmocka_unit_test(deregistered_while_read),
        cmocka_unit_test(unmapped_queue),
    };

    return cmocka_run_group_tests_name("sim_errors", tests, NULL, NULL);
}
