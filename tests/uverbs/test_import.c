/* SPDX-License-Identifier: Apache-2.0 */
/* A device, and its objects, imported by a copy of the fd; and the clock that every context gets. */
#include "tests/uverbs/rig.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

static struct rig r;
static struct ibv_context *imported;

static int up(void **state)
{
    (void)state;
    rig_up(&r);
    imported = ibv_import_device(dup(r.ctx->cmd_fd));
    assert_non_null(imported);
    return 0;
}

static int down(void **state)
{
    (void)state;
    assert_int_equal(ibv_close_device(imported), 0);
    rig_down(&r);
    return 0;
}

static bool readable(int fd)
{
    struct pollfd p = {.fd = fd, .events = POLLIN};
    return poll(&p, 1, 0) == 1;
}

/* Queues of the import's own, in the original's domain, move data between them. */
static void test_traffic(void **state)
{
    (void)state;
    struct rig own = r;
    own.ctx = imported;
    own.pd = ibv_import_pd(imported, r.pd->handle);
    assert_non_null(own.pd);
    own.mr = ibv_import_mr(own.pd, r.mr->handle);
    assert_non_null(own.mr);
    assert_int_equal(own.mr->lkey, r.mr->lkey);
    assert_int_equal(own.mr->length, r.mr->length);
    own.cq = ibv_create_cq(imported, 64, NULL, NULL, 0);
    assert_non_null(own.cq);

    enum { QPS = 12 }; /* more than there are registers of their own: the rest share some */
    struct ibv_qp *qp[QPS], *peer = rig_qp(&r, r.cq);
    for (int i = 0; i < QPS; i++) {
        qp[i] = rig_qp(&own, own.cq);
        rig_connect(&own, qp[i], qp[i]->qp_num);
    }
    for (int i = 0; i < QPS; i++) {
        r.buf[i] = (unsigned char)(i + 1);
        assert_int_equal(rig_write(qp[i], &own, (uint32_t)i, 8192 + (uint32_t)i, 1, (uint64_t)i), 0);
    }
    for (int i = 0; i < QPS; i++) assert_int_equal(rig_poll(own.cq).status, IBV_WC_SUCCESS);
    assert_memory_equal(r.buf, r.buf + 8192, QPS);
    for (int i = 0; i < QPS; i++) assert_int_equal(ibv_destroy_qp(qp[i]), 0);
    assert_int_equal(ibv_destroy_qp(peer), 0);
    assert_int_equal(ibv_destroy_cq(own.cq), 0);
    ibv_unimport_mr(own.mr);
    ibv_unimport_pd(own.pd);
}

/* A shared receive queue's limit is an event of the context that made it. */
static void test_events(void **state)
{
    (void)state;
    struct ibv_pd *pd = ibv_import_pd(imported, r.pd->handle);
    struct ibv_srq_init_attr a = {.attr = {.max_wr = 8, .max_sge = 1}};
    struct ibv_srq *srq = ibv_create_srq(pd, &a);
    struct ibv_srq_attr limit = {.srq_limit = 1};
    struct ibv_async_event event;

    assert_non_null(srq);
    assert_int_equal(ibv_modify_srq(srq, &limit, IBV_SRQ_LIMIT), 0); /* it has fewer already */
    assert_true(readable(imported->async_fd));
    assert_false(readable(r.ctx->async_fd));
    assert_int_equal(ibv_get_async_event(imported, &event), 0);
    assert_int_equal(event.event_type, IBV_EVENT_SRQ_LIMIT_REACHED);
    assert_ptr_equal(event.element.srq, srq);
    ibv_ack_async_event(&event);
    assert_int_equal(ibv_destroy_srq(srq), 0);
    ibv_unimport_pd(pd);
}

static void test_device_memory(void **state)
{
    (void)state;
    struct ibv_alloc_dm_attr a = {.length = 4096};
    struct ibv_dm *dm = ibv_alloc_dm(r.ctx, &a), *same = ibv_import_dm(imported, dm->handle);
    const char text[8] = "abcdefg";
    char back[8];

    assert_non_null(same);
    assert_int_equal(ibv_memcpy_to_dm(dm, 4000, text, sizeof(text)), 0);
    assert_int_equal(ibv_memcpy_from_dm(back, same, 4000, sizeof(back)), 0);
    assert_memory_equal(back, text, sizeof(text));
    ibv_unimport_dm(same);
    assert_int_equal(ibv_free_dm(dm), 0);
}

/* Another file of the same kind is no copy, and what was closed is forgotten. */
static void test_not_a_copy(void **state)
{
    (void)state;
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);

    assert_true(null >= 0);
    assert_null(ibv_import_device(null));
    assert_null(ibv_import_device(STDERR_FILENO));
    assert_null(ibv_import_pd(imported, r.pd->handle + 1));
    assert_null(ibv_import_dm(imported, r.pd->handle));
}

/* The original may be closed first: the copy keeps the objects. */
static void test_outlives(void **state)
{
    (void)state;
    struct ibv_context *first = rig_open();
    struct ibv_context *second = ibv_import_device(dup(first->cmd_fd));
    struct ibv_device_attr a;

    assert_non_null(second);
    assert_int_equal(ibv_close_device(first), 0);
    struct ibv_pd *pd = ibv_alloc_pd(second);
    assert_non_null(pd);
    assert_int_equal(ibv_query_device(second, &a), 0);
    assert_int_equal(ibv_dealloc_pd(pd), 0);
    assert_int_equal(ibv_close_device(second), 0);
}

/* Time stamps become the time of day. */
static void test_clock(void **state)
{
    struct mlx5dv_clock_info info;
    struct timespec day, mono;

    (void)state;
    assert_int_equal(mlx5dv_get_clock_info(r.ctx, &info), 0);
    clock_gettime(CLOCK_MONOTONIC, &mono);
    clock_gettime(CLOCK_REALTIME, &day);
    const uint64_t stamp = (uint64_t)mono.tv_sec * 1000000000u + (uint64_t)mono.tv_nsec,
                   now = (uint64_t)day.tv_sec * 1000000000u + (uint64_t)day.tv_nsec;
    const int64_t off = (int64_t)(mlx5dv_ts_to_ns(&info, stamp) - now);
    assert_true(off > -10000000000 && off < 10000000000); /* not decades, as without it */
    const uint64_t before = mlx5dv_ts_to_ns(&info, stamp - 5000000000u);
    assert_int_equal(mlx5dv_ts_to_ns(&info, stamp) - before, 5000000000u);
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, up, down)
    const struct CMUnitTest tests[] = {
        T(test_traffic),    T(test_events),   T(test_device_memory),
        T(test_not_a_copy), T(test_outlives), T(test_clock),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
