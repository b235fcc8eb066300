/* SPDX-License-Identifier: Apache-2.0 */
/* Of test_verbs_loopback: errors, full queues, starting again, limits. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/verbs/loopback.h"

static void expect_fault(struct pair *p, uint32_t status, uint64_t wr_id)
{
    struct gw_fault fault;
    char text[256];

    assert_int_equal(gw_qp_fault(p->qp[0], &fault), 1);
    gw_fault_text(&fault, text, sizeof(text));
    if (fault.status != status) fail_msg("expected status %u, got: %s", status, text);
    assert_int_equal(fault.wr_id, wr_id);
    assert_int_equal(fault.recv, 0);
}

/* Keys that are wrong, here and there: the peer's memory stays as it is, everything after the error is
 * flushed, room returns. */
void test_wrong_keys(void **state)
{
    struct gw_device *dev = *state;
    const uint32_t status[] = {IBV_WC_REM_ACCESS_ERR, pair_local_key_status(dev, 0), IBV_WC_REM_ACCESS_ERR};

    for (uint32_t i = 0; i < 3; i++) {
        struct pair_opts o = {.send_wr = 8};
        struct pair p;
        uint8_t before[256], after[256];
        struct step *s;

        pair_make(&p, dev, &o);
        pair_fill(&p, 1, 11);
        pair_read(&p, 1, 0, before, sizeof(before));
        s = pair_step(&p, STEP_PUT, 0, 0, 256, 0, 55);
        if (i == 0) s->rkey ^= 0x5500;
        if (i == 1) s->sge[0].lkey ^= 0x5500;
        if (i == 2) s->raddr = p.base + 2 * p.half - 255; /* one byte beyond the region */
        s->flags = 0;                                     /* it completes although it is not signalled */
        pair_wait(&p, 0, 1);
        pair_step(&p, STEP_PUT, 0, 0, 256, 0, 56);
        s = pair_step(&p, STEP_IBV_SEND, 0, 0, 256, 0, 57);
        s->opcode = IBV_WR_RDMA_WRITE;
        pair_wait(&p, 0, 1);
        pair_run(&p);
        assert_int_equal(p.out.ret[1], 0);
        assert_int_equal(p.out.wc[0].status, status[i]);
        assert_int_equal(p.out.ret[2], -EIO);
        assert_int_equal(p.out.ret[3], 0);
        assert_int_equal(p.out.wcs, 2);
        assert_int_equal(p.out.wc[1].status, IBV_WC_WR_FLUSH_ERR);
        assert_int_equal(p.out.wc[1].wr_id, 57);
        expect_fault(&p, status[i], 55);
        pair_read(&p, 1, 0, after, sizeof(after));
        assert_memory_equal(before, after, sizeof(after));
        pair_free(&p);
    }
}

void test_peer_without_receive(void **state)
{
    struct gw_device *dev = *state;
    struct pair_opts o = {.connect = {.rnr_retry = 1, .min_rnr_timer = 1}};
    struct pair p;

    pair_make(&p, dev, &o);
    pair_step(&p, STEP_PUT_IMM, 0, 0, 64, 0, 5);
    pair_wait(&p, 0, 1);
    pair_run(&p);
    assert_int_equal(p.out.wc[0].status, IBV_WC_RNR_RETRY_EXC_ERR);
    expect_fault(&p, IBV_WC_RNR_RETRY_EXC_ERR, 5);
    pair_free(&p);
}

void test_peer_gone(void **state)
{
    struct gw_device *dev = *state;
    struct pair_opts o = {.connect = {.timeout = 10, .retry_cnt = 1}}; /* 4.2 ms */
    struct pair p;

    pair_make(&p, dev, &o);
    must(gw_qp_reset(p.qp[1], GW_RESET_QUIET, 0), "gw_qp_reset");
    pair_step(&p, STEP_PUT, 0, 0, 64, 0, 5);
    pair_wait(&p, 0, 1);
    pair_run(&p);
    assert_int_equal(p.out.ret[1], 0);
    assert_int_equal(p.out.wc[0].status, IBV_WC_RETRY_EXC_ERR);
    pair_free(&p);
}

/* Full: the call says so at once, and whatever was posted completes. */
void test_full_queue(void **state)
{
    struct gw_device *dev = *state;
    struct pair_opts o = {.send_wr = 8};
    struct pair p;
    uint32_t i, full = 0, room;

    pair_make(&p, dev, &o);
    for (i = 0; i < 80; i++) pair_step(&p, STEP_PUT, 0, 0, 64, 0, i);
    pair_run(&p);
    for (i = 0; i < 80; i++) full += p.out.ret[i] == -EAGAIN;
    room = 80 - full; /* there is no poll, so that it is the queue's length */
    for (i = 0; i < room; i++) assert_int_equal(p.out.ret[i], 0);
    assert_true(room >= 8 && room < 80);
    pair_wait(&p, 0, room);
    pair_step(&p, STEP_EXPECT_EMPTY, 0, 0, 0, 0, 0);
    pair_step(&p, STEP_PUT, 0, 0, 64, 0, 99);
    pair_wait(&p, 0, 1);
    pair_run_ok(&p);
    pair_free(&p);
}

/* Taken down with requests and receives outstanding and completions unpolled, then connected again; many
 * times. */
void test_reset(void **state)
{
    struct gw_device *dev = *state;
    struct pair_opts o = {.send_wr = 16};
    struct pair p;

    pair_make(&p, dev, &o);
    pair_fill(&p, 0, 12);
    for (uint32_t round = 0; round < 20; round++) {
        uint32_t leave = round % 5;

        for (uint32_t i = 0; i < 4; i++) {
            pair_step(&p, STEP_RECV, 1, 0, 0, 0, 1000 * round + i);
            pair_step(&p, STEP_PUT_IMM, 0, 0, 500, 40 * round, 100 * round + i)->imm = 10 * round + i;
        }
        if (leave < 4) pair_wait(&p, 0, 4 - leave);
        if (leave < 4) pair_wait(&p, 1, 4 - leave);
        pair_run_ok(&p);
        for (uint32_t i = 0; i < 4 - leave; i++) {
            assert_int_equal(p.out.wc[i].wr_id, 100 * round + i);
            assert_int_equal(p.out.wc[4 - leave + i].wr_id, 1000 * round + i);
            assert_int_equal(gw_wc_imm(&p.out.wc[4 - leave + i]), 10 * round + i);
        }
        for (int k = 0; k < 2; k++) must(gw_qp_reset(p.qp[k], GW_RESET_QUIET, 0), "gw_qp_reset");
        pair_step(&p, STEP_PUT, 0, 0, 8, 0, 0);
        pair_step(&p, STEP_EXPECT_EMPTY, 0, 0, 0, 0, 0);
        pair_step(&p, STEP_EXPECT_EMPTY, 1, 0, 0, 0, 0);
        pair_run(&p);
        assert_int_equal(p.out.ret[0], -ENOTCONN);
        assert_int_equal(p.out.ret[1], 0);
        assert_int_equal(p.out.ret[2], 0);
        pair_connect(&p, NULL);
    }
    pair_free(&p);
}

/* Requests of an earlier life that were said to be ready are not rung for in the next, in the same places. */
void test_reset_forgets_what_was_ready(void **state)
{
    struct gw_device *dev = *state;
    struct pair_opts o = {.send_wr = 16};
    struct pair p;

    pair_make(&p, dev, &o);
    for (uint32_t n = 4; n; n--) {
        for (uint32_t i = 0; i < n; i++)
            pair_step(&p, STEP_PUT, 0, 0, 64, 0, i)->flags = GW_DEFER | (i == n - 1 ? GW_SIGNALED : 0);
        pair_step(&p, STEP_RING, 0, 0, 0, 0, 0);
        pair_wait(&p, 0, 1);
        pair_run_ok(&p);
        assert_int_equal(gw_mlx5_dbrec_count(gw_ld_acquire_u32(&p.qp[0]->dbrec[GW_MLX5_DBREC_SEND])), n);
        for (int k = 0; k < 2; k++) must(gw_qp_reset(p.qp[k], GW_RESET_QUIET, 0), "gw_qp_reset");
        pair_connect(&p, NULL);
    }
    pair_free(&p);
}

void test_limits(void **state)
{
    struct gw_device *dev = *state;
    struct gw_cq_attr ca = {.cqe = 16, .qps = 1};
    struct gw_qp_attr qa = {.max_send_wr = 64, .max_recv_wr = 64};
    struct gw_qp_set *set;
    struct gw_pd *pd;
    struct gw_cq *cq;
    struct gw_qp *qp;

    must(gw_pd_create(dev, &pd), "gw_pd_create");
    must(gw_cq_create(dev, &ca, &cq), "gw_cq_create");
    qa.send_cq = qa.recv_cq = cq;
    assert_int_equal(gw_qp_create(pd, &qa, &qp), -ENOSPC);
    assert_non_null(strstr(gw_last_error(), "left"));
    qa.post_mode = 4;
    assert_int_equal(gw_qp_create(pd, &qa, &qp), -EINVAL);
    qa.post_mode = 0;
    qa.placement = GW_QUEUES_GPU;
    assert_int_equal(gw_qp_create(pd, &qa, &qp), -EOPNOTSUPP);
    assert_non_null(strstr(gw_last_error(), "GW_QUEUES_HOST"));
    qa.placement = GW_QUEUES_HOST;
    qa.max_send_wr = qa.max_recv_wr = 4;
    must(gw_qp_create(pd, &qa, &qp), "gw_qp_create");
    assert_int_equal(gw_qp_set_create(dev, &qp, 0, 1, &set), -EINVAL);
    assert_int_equal(gw_qp_set_create(dev, &qp, 1, 0, &set), -EINVAL);
    assert_int_equal(gw_qp_set_create(dev, &qp, 1u << 16, 1u << 16, &set), -EINVAL);
    assert_null(set);
    assert_int_equal(gw_pd_destroy(pd), -EBUSY);
    assert_int_equal(gw_cq_destroy(cq), -EBUSY);
    assert_int_equal(gw_device_close(dev), -EBUSY);
    must(gw_qp_destroy(qp), "gw_qp_destroy");
    must(gw_cq_destroy(cq), "gw_cq_destroy");
    must(gw_pd_destroy(pd), "gw_pd_destroy");
}
