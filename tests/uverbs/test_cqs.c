/* SPDX-License-Identifier: Apache-2.0 */
/* Completion queues: resizing, overrun, solicited events, time stamps; and the asynchronous events. */
#include "tests/uverbs/fixture.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <unistd.h>

static struct ibv_qp *new_qp(struct ibv_cq *send_cq, struct ibv_cq *recv_cq)
{
    struct ibv_qp_init_attr a = {
        .send_cq = send_cq,
        .recv_cq = recv_cq,
        .qp_type = IBV_QPT_RC,
        .cap = {.max_send_wr = 64, .max_recv_wr = 64, .max_send_sge = 1, .max_recv_sge = 1}};
    struct ibv_qp *qp = ibv_create_qp(r.pd, &a);
    assert_non_null(qp);
    return qp;
}

static void send_one(struct ibv_qp *qp, unsigned flags)
{
    struct ibv_sge sge = {.addr = (uintptr_t)r.buf, .length = 16, .lkey = r.mr->lkey};
    struct ibv_send_wr wr = {.opcode = IBV_WR_SEND, .send_flags = flags, .sg_list = &sge, .num_sge = 1}, *bad;
    assert_int_equal(ibv_post_send(qp, &wr, &bad), 0);
}

static void receive(struct ibv_qp *qp, int n)
{
    struct ibv_sge sge = {.addr = (uintptr_t)r.buf + 4096, .length = 64, .lkey = r.mr->lkey};
    struct ibv_recv_wr wr = {.sg_list = &sge, .num_sge = 1}, *bad;
    while (n--) assert_int_equal(ibv_post_recv(qp, &wr, &bad), 0);
}

static bool readable(int fd, int ms)
{
    struct pollfd p = {.fd = fd, .events = POLLIN};
    return poll(&p, 1, ms) == 1;
}

/* ---- resizing ---- */

/* Does the NIC's work until n completions of cq must be there, and takes none of it. */
static void settle(struct ibv_qp *qp)
{
    struct ibv_cq *other = ibv_create_cq(r.ctx, 4, NULL, NULL, 0);
    struct ibv_qp *a = rig_qp(&r, other);
    (void)qp;
    rig_connect(&r, a, a->qp_num);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(rig_write(a, &r, 0, 4096, 8, 1), 0);
        assert_int_equal(rig_poll(other).status, IBV_WC_SUCCESS);
    }
    assert_int_equal(ibv_destroy_qp(a), 0);
    assert_int_equal(ibv_destroy_cq(other), 0);
}

static void check_resizing(struct ibv_cq *cq)
{
    static const int sizes[] = {120, 7, 63, 15, 255, 31, 1000, 3};
    struct ibv_qp *qp = new_qp(cq, cq);
    uint64_t posted = 0, done = 0;

    rig_connect(&r, qp, qp->qp_num);
    for (int round = 0; round < 64; round++) {
        int size = sizes[round % 8], n = 1 + round * 7 % 5;
        while (posted - done < (uint64_t)n && posted - done < 3)
            assert_int_equal(rig_write(qp, &r, 0, 4096, 32, posted++), 0);
        if (round % 3) settle(qp); /* completions are there and unpolled; else perhaps */
        assert_int_equal(ibv_resize_cq(cq, size), 0);
        assert_true(cq->cqe >= size);
        while (done < posted - (uint64_t)(round % 2)) {
            struct ibv_wc wc = rig_poll(cq);
            assert_int_equal(wc.status, IBV_WC_SUCCESS);
            assert_int_equal(wc.wr_id, done++);
        }
    }
    while (done < posted) assert_int_equal(rig_poll(cq).wr_id, done++);
    assert_int_equal(ibv_destroy_qp(qp), 0);
}

static void test_resize(void **state)
{
    (void)state;
    struct ibv_cq *cq = ibv_create_cq(r.ctx, 8, NULL, NULL, 0);
    check_resizing(cq);
    assert_int_equal(ibv_destroy_cq(cq), 0);
}

static void test_resize_large_entries(void **state)
{
    (void)state;
    struct ibv_cq_init_attr_ex a = {.cqe = 8};
    struct mlx5dv_cq_init_attr dv = {.comp_mask = MLX5DV_CQ_INIT_ATTR_MASK_CQE_SIZE, .cqe_size = 128};
    struct ibv_cq_ex *cq = mlx5dv_create_cq(r.ctx, &a, &dv);
    assert_non_null(cq);
    check_resizing(ibv_cq_ex_to_cq(cq));
    assert_int_equal(ibv_destroy_cq(ibv_cq_ex_to_cq(cq)), 0);
}

static void test_resize_too_small(void **state)
{
    (void)state;
    struct ibv_cq *cq = ibv_create_cq(r.ctx, 60, NULL, NULL, 0);
    struct ibv_qp *qp = new_qp(cq, cq);

    rig_connect(&r, qp, qp->qp_num);
    for (uint64_t i = 0; i < 40; i++) assert_int_equal(rig_write(qp, &r, 0, 4096, 32, i), 0);
    settle(qp);
    assert_int_equal(ibv_resize_cq(cq, 10), EINVAL);
    assert_int_equal(ibv_resize_cq(cq, 1 << 23), EINVAL);
    for (uint64_t i = 0; i < 40; i++) assert_int_equal(rig_poll(cq).wr_id, i);
    assert_int_equal(ibv_resize_cq(cq, 10), 0);
    assert_int_equal(ibv_destroy_qp(qp), 0);
    assert_int_equal(ibv_destroy_cq(cq), 0);
}

/* An arm from before the resizing counts. */
static void test_resize_armed(void **state)
{
    (void)state;
    struct ibv_comp_channel *channel = ibv_create_comp_channel(r.ctx);
    struct ibv_cq *cq = ibv_create_cq(r.ctx, 8, NULL, channel, 0), *which;
    struct ibv_qp *qp = new_qp(cq, cq);
    void *context;

    rig_connect(&r, qp, qp->qp_num);
    for (int i = 0; i < 6; i++) {
        assert_int_equal(ibv_req_notify_cq(cq, 0), 0);
        assert_int_equal(ibv_resize_cq(cq, i % 2 ? 8 : 40), 0);
        assert_false(readable(channel->fd, 0));
        assert_int_equal(rig_write(qp, &r, 0, 4096, 32, 5), 0);
        assert_true(readable(channel->fd, 5000));
        assert_int_equal(ibv_get_cq_event(channel, &which, &context), 0);
        assert_ptr_equal(which, cq);
        ibv_ack_cq_events(cq, 1);
        assert_int_equal(rig_poll(cq).status, IBV_WC_SUCCESS);
    }
    assert_int_equal(ibv_destroy_qp(qp), 0);
    assert_int_equal(ibv_destroy_cq(cq), 0);
    assert_int_equal(ibv_destroy_comp_channel(channel), 0);
}

static void test_moderation(void **state)
{
    (void)state;
    struct ibv_modify_cq_attr a = {.attr_mask = IBV_CQ_ATTR_MODERATE, .moderate = {10, 10}};
    struct ibv_device_attr_ex dev;

    assert_int_equal(ibv_modify_cq(r.cq, &a), EOPNOTSUPP);
    assert_int_equal(ibv_query_device_ex(r.ctx, NULL, &dev), 0);
    assert_int_equal(dev.cq_mod_caps.max_cq_count, 0);
}

/* ---- events ---- */

static void test_solicited_only(void **state)
{
    (void)state;
    struct ibv_comp_channel *channel = ibv_create_comp_channel(r.ctx);
    struct ibv_cq *cq = ibv_create_cq(r.ctx, 64, NULL, channel, 0), *which;
    struct ibv_qp *a = new_qp(r.cq, r.cq), *b = new_qp(cq, cq);
    void *context;

    rig_connect(&r, a, b->qp_num);
    rig_connect(&r, b, a->qp_num);
    receive(b, 20);
    for (int i = 0; i < 5; i++) {
        assert_int_equal(ibv_req_notify_cq(cq, 1), 0);
        send_one(a, IBV_SEND_SIGNALED);
        assert_int_equal(rig_poll(r.cq).status, IBV_WC_SUCCESS);
        assert_false(readable(channel->fd, 20));
        send_one(a, IBV_SEND_SIGNALED | IBV_SEND_SOLICITED);
        assert_int_equal(rig_poll(r.cq).status, IBV_WC_SUCCESS);
        assert_true(readable(channel->fd, 5000));
        assert_int_equal(ibv_get_cq_event(channel, &which, &context), 0);
        ibv_ack_cq_events(cq, 1);
        for (int k = 0; k < 2; k++) assert_int_equal(rig_poll(cq).status, IBV_WC_SUCCESS);
    }
    assert_int_equal(ibv_destroy_qp(a), 0);
    assert_int_equal(ibv_destroy_qp(b), 0);
    assert_int_equal(ibv_destroy_cq(cq), 0);
    assert_int_equal(ibv_destroy_comp_channel(channel), 0);
}

/* The next asynchronous event, acknowledged. */
static struct ibv_async_event next_event(void)
{
    struct ibv_async_event e = {0};
    assert_true(readable(r.ctx->async_fd, 5000));
    assert_int_equal(ibv_get_async_event(r.ctx, &e), 0);
    ibv_ack_async_event(&e);
    return e;
}

static void expect_event(enum ibv_event_type type, const void *element)
{
    struct ibv_async_event e = next_event();
    assert_int_equal(e.event_type, type);
    assert_ptr_equal(type == IBV_EVENT_CQ_ERR ? (void *)e.element.cq : (void *)e.element.qp, element);
}

static void test_overrun(void **state)
{
    (void)state;
    struct ibv_cq *cq = ibv_create_cq(r.ctx, 3, NULL, NULL, 0); /* room for 4 */
    struct ibv_qp *qp = new_qp(cq, r.cq);
    struct ibv_qp_attr a;
    struct ibv_qp_init_attr init;
    struct ibv_wc wc;

    rig_connect(&r, qp, qp->qp_num);
    for (uint64_t i = 0; i < 6; i++) assert_int_equal(rig_write(qp, &r, 0, 4096, 32, i), 0);
    expect_event(IBV_EVENT_CQ_ERR, cq);
    expect_event(IBV_EVENT_QP_FATAL, qp);
    assert_int_equal(ibv_query_qp(qp, &a, IBV_QP_STATE, &init), 0);
    assert_int_equal(a.qp_state, IBV_QPS_ERR);
    for (uint64_t i = 0; i < 4; i++) assert_int_equal(rig_poll(cq).wr_id, i); /* nothing was overwritten */
    assert_int_equal(ibv_poll_cq(cq, 1, &wc), 0);
    assert_int_not_equal(ibv_resize_cq(cq, 100), 0);
    assert_int_equal(ibv_destroy_qp(qp), 0);
    assert_int_equal(ibv_destroy_cq(cq), 0);
}

static void test_qp_events(void **state)
{
    (void)state;
    struct ibv_cq *cq = ibv_create_cq(r.ctx, 64, NULL, NULL, 0);
    struct ibv_qp *a = new_qp(r.cq, r.cq), *b = new_qp(cq, cq);
    struct ibv_sge sge = {.addr = (uintptr_t)r.buf, .length = 16, .lkey = r.mr->lkey};
    struct ibv_send_wr wr = {.opcode = IBV_WR_RDMA_WRITE,
                             .send_flags = IBV_SEND_SIGNALED,
                             .sg_list = &sge,
                             .num_sge = 1,
                             .wr.rdma = {.remote_addr = (uintptr_t)r.buf, .rkey = 0x100}},
                       *bad;
    struct ibv_qp_attr sqd = {.qp_state = IBV_QPS_SQD, .en_sqd_async_notify = 1};

    rig_connect(&r, a, b->qp_num);
    rig_connect(&r, b, a->qp_num);
    assert_int_equal(ibv_modify_qp(a, &sqd, IBV_QP_STATE | IBV_QP_EN_SQD_ASYNC_NOTIFY), 0);
    expect_event(IBV_EVENT_SQ_DRAINED, a);
    sqd.qp_state = IBV_QPS_RTS;
    assert_int_equal(ibv_modify_qp(a, &sqd, IBV_QP_STATE), 0);
    assert_int_equal(ibv_post_send(a, &wr, &bad), 0); /* a key that no region has */
    assert_int_equal(rig_poll(r.cq).status, IBV_WC_REM_ACCESS_ERR);
    expect_event(IBV_EVENT_QP_ACCESS_ERR, b);
    assert_int_equal(ibv_destroy_qp(a), 0);
    assert_int_equal(ibv_destroy_qp(b), 0);
    assert_int_equal(ibv_destroy_cq(cq), 0);
}

/* A message for a queue pair that is in RTR still: it is connected. Once. */
static void test_established(void **state)
{
    (void)state;
    struct ibv_qp *a = new_qp(r.cq, r.cq), *b = new_qp(r.cq, r.cq);
    struct ibv_qp_attr init = {
        .qp_state = IBV_QPS_INIT, .port_num = 1, .qp_access_flags = IBV_ACCESS_REMOTE_WRITE};
    struct ibv_qp_attr rtr = {
        .qp_state = IBV_QPS_RTR,
        .path_mtu = IBV_MTU_1024,
        .dest_qp_num = a->qp_num,
        .rq_psn = 77,
        .max_dest_rd_atomic = 1,
        .min_rnr_timer = 12,
        .ah_attr = {.is_global = 1, .port_num = 1, .grh = {.dgid = r.gid, .hop_limit = 64}}};

    rig_connect(&r, a, b->qp_num);
    assert_int_equal(
        ibv_modify_qp(b, &init, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS), 0);
    assert_int_equal(ibv_modify_qp(b, &rtr,
                                   IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
                                       IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER),
                     0);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(rig_write(a, &r, 0, 4096, 32, 1), 0);
        assert_int_equal(rig_poll(r.cq).status, IBV_WC_SUCCESS);
    }
    expect_event(IBV_EVENT_COMM_EST, b);
    assert_false(readable(r.ctx->async_fd, 0));
    assert_int_equal(ibv_destroy_qp(a), 0);
    assert_int_equal(ibv_destroy_qp(b), 0);
}

/* ---- time ---- */

static uint64_t clock_now(void)
{
    struct ibv_values_ex v = {.comp_mask = IBV_VALUES_MASK_RAW_CLOCK};
    assert_int_equal(ibv_query_rt_values_ex(r.ctx, &v), 0);
    assert_int_equal(v.comp_mask, IBV_VALUES_MASK_RAW_CLOCK);
    assert_int_equal(v.raw_clock.tv_sec, 0);
    return (uint64_t)v.raw_clock.tv_nsec;
}

static void test_time_stamps(void **state)
{
    (void)state;
    enum {
        SLACK = 1000000000
    }; /* the thread that drives the NIC may have looked at the clock and then lost its CPU */
    struct ibv_cq_init_attr_ex a = {.cqe = 8, .wc_flags = IBV_WC_EX_WITH_COMPLETION_TIMESTAMP};
    struct ibv_device_attr_ex dev;
    struct ibv_cq_ex *cq = ibv_create_cq_ex(r.ctx, &a);
    struct ibv_poll_cq_attr none = {0};

    assert_non_null(cq);
    assert_int_equal(ibv_query_device_ex(r.ctx, NULL, &dev), 0);
    assert_true(dev.completion_timestamp_mask == UINT64_MAX && dev.hca_core_clock == 1000000);
    struct ibv_qp *qp = new_qp(ibv_cq_ex_to_cq(cq), r.cq);
    rig_connect(&r, qp, qp->qp_num);
    for (int i = 0; i < 5; i++) {
        uint64_t before = clock_now();
        usleep(1000);
        assert_int_equal(rig_write(qp, &r, 0, 4096, 32, 1), 0);
        while (ibv_start_poll(cq, &none)) continue;
        uint64_t at = ibv_wc_read_completion_ts(cq), after = clock_now();
        ibv_end_poll(cq);
        assert_true(at + SLACK > before && at <= after);
        assert_true(after - before >= 1000000);
    }
    assert_int_equal(ibv_destroy_qp(qp), 0);
    assert_int_equal(ibv_destroy_cq(ibv_cq_ex_to_cq(cq)), 0);
}

static void test_time_of_day(void **state)
{
    (void)state;
    struct ibv_cq_init_attr_ex a = {.cqe = 8, .wc_flags = IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK};
    struct ibv_cq_ex *cq = ibv_create_cq_ex(r.ctx, &a);
    struct ibv_poll_cq_attr none = {0};

    assert_non_null(cq);
    struct ibv_qp *qp = new_qp(ibv_cq_ex_to_cq(cq), r.cq);
    rig_connect(&r, qp, qp->qp_num);
    const time_t before = time(NULL);
    assert_int_equal(rig_write(qp, &r, 0, 4096, 32, 1), 0);
    while (ibv_start_poll(cq, &none)) continue;
    const time_t at = (time_t)(ibv_wc_read_completion_wallclock_ns(cq) / 1000000000u);
    ibv_end_poll(cq);
    assert_true(at >= before - 2 && at <= time(NULL) + 2); /* time() may be a tick behind */
    assert_int_equal(ibv_destroy_qp(qp), 0);
    assert_int_equal(ibv_destroy_cq(ibv_cq_ex_to_cq(cq)), 0);
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, up, down)
    const struct CMUnitTest tests[] = {
        T(test_resize),      T(test_resize_large_entries), T(test_resize_too_small), T(test_resize_armed),
        T(test_moderation),  T(test_solicited_only),       T(test_overrun),          T(test_qp_events),
        T(test_established), T(test_time_stamps),          T(test_time_of_day),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
