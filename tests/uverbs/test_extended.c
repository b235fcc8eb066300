/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ibv_wr_start … ibv_wr_complete and ibv_start_poll: the calling thread does the NIC's work, as with the
 * plain calls. The NIC's own thread sleeps for up to 8 ms after a silence, so it hardly ever does it. The
 * page faults show which thread has done the work.
 */
#include "tests/uverbs/rig.h"

#include <errno.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

enum { TRIALS = 24, MOST = 12, PAGES = 4, BYTES = PAGES * 4096 };

struct extended {
    struct rig r;
    struct ibv_cq_ex *cq;
    struct ibv_qp *qp;
    struct ibv_qp_ex *qpx;
    int (*complete)(struct ibv_qp_ex *); /* libmlx5's own */
};

static void up(struct extended *x, bool by_mlx5dv, unsigned cq_flags)
{
    rig_up(&x->r);
    struct ibv_cq_init_attr_ex ca = {.cqe = 64,
                                     .wc_flags = IBV_WC_EX_WITH_BYTE_LEN,
                                     .comp_mask = cq_flags ? IBV_CQ_INIT_ATTR_MASK_FLAGS : 0,
                                     .flags = cq_flags};
    struct mlx5dv_cq_init_attr dca = {0};
    x->cq = by_mlx5dv ? mlx5dv_create_cq(x->r.ctx, &ca, &dca) : ibv_create_cq_ex(x->r.ctx, &ca);
    assert_non_null(x->cq);
    struct ibv_qp_init_attr_ex qa = {
        .send_cq = ibv_cq_ex_to_cq(x->cq),
        .recv_cq = ibv_cq_ex_to_cq(x->cq),
        .qp_type = IBV_QPT_RC,
        .cap = {.max_send_wr = 16, .max_recv_wr = 16, .max_send_sge = 2, .max_recv_sge = 2},
        .comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
        .pd = x->r.pd,
        .send_ops_flags = IBV_QP_EX_WITH_RDMA_WRITE,
    };
    struct mlx5dv_qp_init_attr dqa = {0};
    x->qp = by_mlx5dv ? mlx5dv_create_qp(x->r.ctx, &qa, &dqa) : ibv_create_qp_ex(x->r.ctx, &qa);
    assert_non_null(x->qp);
    x->qpx = ibv_qp_to_qp_ex(x->qp);
    assert_non_null(x->qpx);
    rig_connect(&x->r, x->qp, x->qp->qp_num);
    x->complete = x->qpx->wr_complete;
}

static void down(struct extended *x)
{
    assert_int_equal(ibv_destroy_qp(x->qp), 0);
    assert_int_equal(ibv_destroy_cq(ibv_cq_ex_to_cq(x->cq)), 0);
    rig_down(&x->r);
}

static void begin_write(struct extended *x, uint64_t id)
{
    const struct rig *r = &x->r;
    ibv_wr_start(x->qpx);
    x->qpx->wr_id = id;
    x->qpx->wr_flags = IBV_SEND_SIGNALED;
    ibv_wr_rdma_write(x->qpx, r->mr->rkey, (uintptr_t)r->buf + BYTES);
    ibv_wr_set_sge(x->qpx, r->mr->lkey, (uintptr_t)r->buf, BYTES);
}

static void take(struct extended *x, uint64_t id)
{
    assert_int_equal(x->cq->status, IBV_WC_SUCCESS);
    assert_int_equal(x->cq->wr_id, id);
    assert_int_equal(ibv_wc_read_opcode(x->cq), IBV_WC_RDMA_WRITE);
    ibv_end_poll(x->cq);
}

static int poll_once(struct extended *x, uint64_t id)
{
    struct ibv_poll_cq_attr none = {0};
    int err = ibv_start_poll(x->cq, &none);
    if (!err) take(x, id);
    return err;
}

static void poll_until_there(struct extended *x, uint64_t id)
{
    double end = rig_seconds() + RIG_WAIT_S;
    while (poll_once(x, id)) assert_true(rig_seconds() < end);
}

/* Pages that this thread was the first to touch, so far. */
static long faults(void)
{
    struct rusage u;

    assert_int_equal(getrusage(RUSAGE_THREAD, &u), 0);
    return u.ru_minflt;
}

/*
 * Posts after a silence, from pages that were never touched: the thread that reads them takes a fault for
 * each. Returns how often it was this thread, in posting or, with by_poll, in the first poll, when posting
 * did nothing for the NIC.
 */
static int by_this_thread(struct extended *x, bool by_poll)
{
    int n = 0;

    for (int i = 0; i < TRIALS; i++) {
        usleep(20000);
        assert_int_equal(madvise(x->r.buf, BYTES, MADV_DONTNEED), 0);
        memset(x->r.buf + BYTES, i + 1, BYTES);
        begin_write(x, (uint64_t)i);
        if (by_poll) x->qpx->wr_complete = x->complete;
        long before = faults();
        assert_int_equal(ibv_wr_complete(x->qpx), 0);
        long posted = faults() - before;
        bool polled = !poll_once(x, (uint64_t)i);
        long both = faults() - before;
        if (!polled) poll_until_there(x, (uint64_t)i);
        for (int k = 0; k < BYTES; k++) assert_int_equal(x->r.buf[BYTES + k], 0);
        if (by_poll) assert_true(posted < PAGES);
        n += (by_poll ? both : posted) >= PAGES;
    }
    return n;
}

static void the_caller_drives(bool by_mlx5dv, unsigned cq_flags)
{
    struct extended x;

    up(&x, by_mlx5dv, cq_flags);
    int posted = by_this_thread(&x, false), polled = by_this_thread(&x, true);
    if (posted < MOST || polled < MOST)
        fail_msg("of %d posts %d were executed by ibv_wr_complete, and %d by the first poll when that did "
                 "nothing for the NIC",
                 TRIALS, posted, polled);
    down(&x);
}

static void test_plain_verbs(void **state)
{
    (void)state;
    the_caller_drives(false, 0);
}

static void test_mlx5dv(void **state)
{
    (void)state;
    the_caller_drives(true, 0);
}

static void test_single_threaded(void **state)
{
    (void)state;
    the_caller_drives(false, IBV_CREATE_CQ_ATTR_SINGLE_THREADED);
}

/* libmlx5 refuses a post in RESET, and that must stay so. */
static void test_refused_in_reset(void **state)
{
    struct extended x;
    struct ibv_qp_attr reset = {.qp_state = IBV_QPS_RESET};

    (void)state;
    up(&x, false, 0);
    for (int round = 0; round < 3; round++) {
        begin_write(&x, 1);
        assert_int_equal(ibv_wr_complete(x.qpx), 0);
        poll_until_there(&x, 1);
        assert_int_equal(ibv_modify_qp(x.qp, &reset, IBV_QP_STATE), 0);
        begin_write(&x, 2);
        assert_int_equal(ibv_wr_complete(x.qpx), EINVAL);
        rig_connect(&x.r, x.qp, x.qp->qp_num);
    }
    down(&x);
}

static void test_child(void **state)
{
    struct extended x;
    struct ibv_poll_cq_attr none = {0};
    int status;

    (void)state;
    up(&x, false, 0);
    pid_t child = fork();
    assert_true(child >= 0);
    if (!child) {
        begin_write(&x, 1);
        int posted = ibv_wr_complete(x.qpx);
        begin_write(&x, 1); /* the first gave the queue's lock back */
        int again = ibv_wr_complete(x.qpx);
        _exit(posted == EIO && again == EIO && ibv_start_poll(x.cq, &none) == EIO ? 0 : 1);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    begin_write(&x, 7);
    assert_int_equal(ibv_wr_complete(x.qpx), 0);
    poll_until_there(&x, 7);
    down(&x);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_plain_verbs),     cmocka_unit_test(test_mlx5dv),
        cmocka_unit_test(test_single_threaded), cmocka_unit_test(test_refused_in_reset),
        cmocka_unit_test(test_child),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
