/* SPDX-License-Identifier: Apache-2.0 */
/* Device memory: allocated, copied to and from, registered, imported, and used by a forked child. */
#include "tests/uverbs/rig.h"

#include <errno.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    BYTES = 6000,
    ACCESS = IBV_ACCESS_ZERO_BASED | IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE,
};

static struct rig r;

static int up(void **state)
{
    (void)state;
    rig_up(&r);
    return 0;
}

static int down(void **state)
{
    (void)state;
    rig_down(&r);
    return 0;
}

static struct ibv_dm *alloc(size_t length)
{
    struct ibv_alloc_dm_attr a = {.length = length};
    return ibv_alloc_dm(r.ctx, &a);
}

static uint64_t most(void)
{
    struct ibv_device_attr_ex a;
    assert_int_equal(ibv_query_device_ex(r.ctx, NULL, &a), 0);
    return a.max_dm_size;
}

static void fill(unsigned char *p, size_t n, unsigned seed)
{
    for (size_t i = 0; i < n; i++) p[i] = (unsigned char)(seed + i * 7);
}

static void test_copies(void **state)
{
    (void)state;
    unsigned char back[BYTES];
    struct ibv_dm *dm = alloc(BYTES), *other = alloc(BYTES);

    assert_non_null(dm);
    assert_non_null(other);
    fill(r.buf, BYTES, 3);
    assert_int_equal(ibv_memcpy_to_dm(dm, 0, r.buf, BYTES), 0);
    memset(r.buf + BYTES, 0x99, BYTES);
    assert_int_equal(ibv_memcpy_to_dm(other, 0, r.buf + BYTES, BYTES), 0);
    assert_int_equal(ibv_memcpy_from_dm(back, dm, 0, BYTES), 0);
    assert_memory_equal(back, r.buf, BYTES);
    assert_int_equal(ibv_memcpy_to_dm(dm, BYTES - 4, r.buf, 8), EFAULT);
    assert_int_equal(ibv_free_dm(other), 0);
    assert_int_equal(ibv_free_dm(dm), 0);
}

static void test_limits(void **state)
{
    (void)state;
    const uint64_t all = most();

    assert_true(all >= 65536);
    assert_null(alloc(all + 1));
    assert_null(alloc(0));
    struct ibv_dm *dm = alloc(all);
    assert_non_null(dm);
    assert_null(alloc(1));
    assert_int_equal(ibv_free_dm(dm), 0);
    dm = alloc(all); /* it came back */
    assert_non_null(dm);
    assert_int_equal(ibv_free_dm(dm), 0);
}

/* A WRITE to a part of it, by its place in the region. */
static void test_region(void **state)
{
    (void)state;
    struct ibv_qp *qp = rig_qp(&r, r.cq), *peer = rig_qp(&r, r.cq);
    struct ibv_dm *dm = alloc(BYTES);
    unsigned char back[64];

    rig_connect(&r, qp, peer->qp_num);
    rig_connect(&r, peer, qp->qp_num);
    assert_null(ibv_reg_dm_mr(r.pd, dm, 0, BYTES + 4, ACCESS));
    assert_null(ibv_reg_dm_mr(r.pd, dm, 0, BYTES, ACCESS & ~IBV_ACCESS_ZERO_BASED));
    struct ibv_mr *mr = ibv_reg_dm_mr(r.pd, dm, 100, 200, ACCESS);
    assert_non_null(mr);
    assert_int_equal(ibv_free_dm(dm), EBUSY);
    fill(r.buf, sizeof(back), 9);
    struct ibv_sge sge = {.addr = (uintptr_t)r.buf, .length = sizeof(back), .lkey = r.mr->lkey};
    struct ibv_send_wr wr = {.opcode = IBV_WR_RDMA_WRITE,
                             .send_flags = IBV_SEND_SIGNALED,
                             .sg_list = &sge,
                             .num_sge = 1,
                             .wr.rdma = {.remote_addr = 16, .rkey = mr->rkey}},
                       *bad;
    assert_int_equal(ibv_post_send(qp, &wr, &bad), 0);
    assert_int_equal(rig_poll(r.cq).status, IBV_WC_SUCCESS);
    assert_int_equal(ibv_memcpy_from_dm(back, dm, 116, sizeof(back)), 0);
    assert_memory_equal(back, r.buf, sizeof(back));
    wr.wr.rdma.remote_addr = 200 - sizeof(back) + 1;
    assert_int_equal(ibv_post_send(qp, &wr, &bad), 0);
    assert_int_equal(rig_poll(r.cq).status, IBV_WC_REM_ACCESS_ERR);
    assert_int_equal(ibv_destroy_qp(qp), 0);
    assert_int_equal(ibv_destroy_qp(peer), 0);
    assert_int_equal(ibv_dereg_mr(mr), 0);
    assert_int_equal(ibv_free_dm(dm), 0);
}

static void test_special_addresses(void **state)
{
    (void)state;
    struct ibv_dm *dm = alloc(64);

    errno = 0;
    assert_null(mlx5dv_dm_map_op_addr(dm, 0));
    assert_int_equal(errno, EOPNOTSUPP);
    assert_int_equal(ibv_free_dm(dm), 0);
}

static int in_child(void)
{
    unsigned char back[64];
    struct ibv_dm *dm = alloc(sizeof(back));

    if (!dm || ibv_memcpy_to_dm(dm, 0, r.buf, sizeof(back))) return 1;
    if (ibv_memcpy_from_dm(back, dm, 0, sizeof(back)) || memcmp(back, r.buf, sizeof(back))) return 2;
    if (ibv_free_dm(dm)) return 3;
    return ibv_alloc_pd(r.ctx) || errno != EIO ? 4 : 0; /* the rest stays the parent's */
}

static void test_child(void **state)
{
    int status;

    (void)state;
    fill(r.buf, 64, 5);
    pid_t pid = fork();
    if (!pid) _exit(in_child());
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, up, down)
    const struct CMUnitTest tests[] = {
        T(test_copies), T(test_limits), T(test_region), T(test_special_addresses), T(test_child),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
