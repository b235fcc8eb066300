/* SPDX-License-Identifier: Apache-2.0 */
/* What goes wrong between a program and its NIC, or between peers: who is told what, and that nobody else is
 * harmed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include <cmocka.h>

#include "tests/sim/duo.h"

static void set_flags(struct rig_link *l)
{
    l->access = IBV_ACCESS_LOCAL_WRITE;
}
static void no_reads(struct rig_link *l)
{
    l->max_rd_atomic = 0;
}
static void patient(struct rig_link *l)
{
    l->rnr_retry = l->retry_cnt = 7;
}

/* After `index` failed with `syndrome`, the n work requests behind it come back as flushed. */
static void expect_failure(int side, uint16_t index, uint8_t syndrome, uint32_t n)
{
    duo_expect_sent(side, index, syndrome);
    for (uint32_t i = 1; i <= n; i++) duo_expect_sent(side, (uint16_t)(index + i), GW_MLX5_SYND_FLUSHED);
    duo_expect_nothing(side);
    duo_expect_state(side, IBV_QPS_ERR);
}

static void expect_untouched(int n)
{
    for (uint32_t i = 0; i < RIG_ARENA; i++)
        if (*duo_mem(n, i) != 0x11 * (n + 1)) fail_msg("node %d: byte %u was written", n, i);
}

/* One good WRITE, the request in question, two more behind it. */
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
    expect_failure(0, index, syndrome, 2);
    expect_untouched(1);
    expect_untouched(0);
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

/* What the queue pair itself does not allow is an invalid request, whatever the region grants. */
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
        expect_untouched(1);
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
            expect_failure(0, 0, GW_MLX5_SYND_LOCAL_PROT, 0);
            expect_untouched(1);
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
        uint16_t index;

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
        /* Behind a READ it may reach the peer before the READ's answer fails here. */
        if (i != 2) duo_send(0, duo_addr(0, 0), 100, duo_key(0));
        duo_run(DUO_MS);
        duo_expect_sent(0, 0, 0);
        expect_failure(0, index, GW_MLX5_SYND_LOCAL_PROT, i != 2);
        duo_expect_nothing(1);
        expect_untouched(0);
        expect_untouched(1);
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
    expect_failure(0, 1, GW_MLX5_SYND_RETRY_EXC, 2);
    sn_nic_counters(duo.rig.node[0].nic, &c);
    assert_int_equal(c.timeouts, 4);
    assert_true(duo.rig.now - start <= 16 * timeout);
    duo_expect_state(1, IBV_QPS_RTS); /* it noticed nothing */
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
    expect_failure(0, 0, GW_MLX5_SYND_RNR_EXC, 1);
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
        expect_failure(0, 0, GW_MLX5_SYND_REM_INV_REQ, 1);
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
    expect_failure(0, 0, GW_MLX5_SYND_REM_OP, 0);
    expect_untouched(1);
    duo_stop();
}

/* ---- memory that goes away
 * ---------------------------------------------------------------------------------- */

static uint8_t *pages(void)
{
    uint8_t *p = mmap(NULL, 65536, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    assert_true(p != MAP_FAILED);
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

/* Unmapped behind the NIC's back: errors, and the process lives. */
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

/* ---- life of a queue pair
 * ------------------------------------------------------------------------------------ */

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

/* ---- strangers and nonsense
 * ---------------------------------------------------------------------------------- */

#include "src/roce/hdr.h"
#include "src/roce/segment.h"

/* A packet as a stranger would make it: right in all but who it comes from, or whom it is for. */
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
    expect_untouched(1);
    duo_expect_nothing(0);
    duo_expect_nothing(1);
    duo_expect_state(0, IBV_QPS_RTS);
    duo_expect_state(1, IBV_QPS_RTS);
    sn_nic_counters(duo.rig.node[1].nic, &c);
    if (c.drop_address < 80 || c.drop_icrc < 80 || c.drop_no_qp < 80)
        fail_msg("dropped for its address %u, its ICRC %u, its QP %u", (unsigned)c.drop_address,
                 (unsigned)c.drop_icrc, (unsigned)c.drop_no_qp);
    assert_int_equal(c.tx_packets, 0); /* nobody got an answer */
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
        gw_mlx5_put_atomic(&q->sq, q->sq_pi, GW_MLX5_ATOMIC_FA, 0, duo_addr(1, 4), duo_key(1), 1, 0,
                           duo_addr(0, 0), duo_key(0)); /* no multiple of 8 */
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
        expect_failure(0, 1, GW_MLX5_SYND_LOCAL_QP_OP, 0);
        duo_expect_state(1, IBV_QPS_RTS);
        expect_untouched(1);
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
    expect_failure(0, 0, GW_MLX5_SYND_LOCAL_QP_OP, 0);
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
    expect_untouched(1);
    duo_stop();
}

/* ---- doorbells
 * ------------------------------------------------------------------------------------------------ */

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
    expect_untouched(1);
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
        cmocka_unit_test(wrong_rkey),
        cmocka_unit_test(out_of_bounds),
        cmocka_unit_test(last_byte_is_inside),
        cmocka_unit_test(no_access_right),
        cmocka_unit_test(queue_pair_denies),
        cmocka_unit_test(wrong_pd),
        cmocka_unit_test(wrong_local_key),
        cmocka_unit_test(dead_peer),
        cmocka_unit_test(receiver_never_ready),
        cmocka_unit_test(receive_too_short),
        cmocka_unit_test(receive_wrong_key),
        cmocka_unit_test(unmapped_region),
        cmocka_unit_test(deregistered_in_flight),
        cmocka_unit_test(deregistered_while_read),
        cmocka_unit_test(unmapped_queue),
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

    return cmocka_run_group_tests_name("sim_errors", tests, NULL, NULL);
}
