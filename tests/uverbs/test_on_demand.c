/* SPDX-License-Identifier: Apache-2.0 */
/* Memory that is registered on demand: it may come after the region, go before it, and be all there is. */
#include "tests/apart.h"
#include "tests/uverbs/pair.h"

#include <errno.h>
#include <sys/mman.h>
#include <unistd.h>

enum {
    PAGE = 4096,
    ACCESS = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ,
    ON_DEMAND = ACCESS | IBV_ACCESS_ON_DEMAND,
};

static bool resident(void *page)
{
    unsigned char in = 0;
    assert_int_equal(mincore(page, PAGE, &in), 0);
    return in & 1;
}

static void test_announced(void **state)
{
    struct ibv_device_attr_ex a;

    (void)state;
    assert_int_equal(ibv_query_device_ex(r.ctx, NULL, &a), 0);
    assert_int_equal(a.odp_caps.general_caps, IBV_ODP_SUPPORT | IBV_ODP_SUPPORT_IMPLICIT);
    const uint32_t rc = a.odp_caps.per_transport_caps.rc_odp_caps;
    assert_int_equal(rc & IBV_ODP_SUPPORT_ATOMIC, IBV_ODP_SUPPORT_ATOMIC);
    assert_int_equal(rc & IBV_ODP_SUPPORT_SRQ_RECV, IBV_ODP_SUPPORT_SRQ_RECV);
    assert_int_equal(a.odp_caps.per_transport_caps.ud_odp_caps & IBV_ODP_SUPPORT_READ, 0);
}

static void test_comes_later(void **state)
{
    (void)state;
    unsigned char *p = map_apart(2 * PAGE);

    assert_non_null(p);
    munmap(p, 2 * PAGE);
    assert_null(ibv_reg_mr(r.pd, p, 2 * PAGE, ACCESS));
    assert_int_equal(errno, EFAULT);
    struct ibv_mr *mr = ibv_reg_mr(r.pd, p, 2 * PAGE, ON_DEMAND);
    assert_non_null(mr);
    assert_ptr_equal(
        mmap(p, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0), p);
    memset(r.buf, 0x42, PAGE);
    assert_int_equal(write_to((uintptr_t)p + 100, mr->rkey, PAGE), IBV_WC_SUCCESS);
    assert_memory_equal(p + 100, r.buf, PAGE);
    /* Other memory at the same place is the region's from then on. */
    assert_ptr_equal(
        mmap(p, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0), p);
    assert_int_equal(rdma(IBV_WR_RDMA_WRITE, (uintptr_t)p, mr->lkey, (uintptr_t)r.buf, r.mr->rkey, PAGE),
                     IBV_WC_SUCCESS);
    for (int i = 0; i < PAGE; i++) assert_int_equal(r.buf[i], 0);
    assert_int_equal(ibv_dereg_mr(mr), 0);
    munmap(p, 2 * PAGE);
}

static void test_missing(void **state)
{
    (void)state;
    unsigned char *p = map_apart(2 * PAGE);
    struct ibv_mr *mr = ibv_reg_mr(r.pd, p, 2 * PAGE, ON_DEMAND);

    assert_non_null(mr);
    munmap(p + PAGE, PAGE);
    assert_int_equal(write_to((uintptr_t)p, mr->rkey, PAGE), IBV_WC_SUCCESS);
    assert_int_equal(write_to((uintptr_t)p, mr->rkey, 2 * PAGE), IBV_WC_REM_OP_ERR);
    assert_int_equal(ibv_dereg_mr(mr), 0);
    munmap(p, PAGE);
}

/* One region that is all memory of the process. */
static void test_implicit(void **state)
{
    (void)state;
    struct ibv_mr *mr = ibv_reg_mr(r.pd, NULL, SIZE_MAX, ON_DEMAND);
    unsigned char *p = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    assert_non_null(mr);
    memset(r.buf, 0x17, PAGE);
    assert_int_equal(rdma(IBV_WR_RDMA_WRITE, (uintptr_t)r.buf, mr->lkey, (uintptr_t)p, mr->rkey, PAGE),
                     IBV_WC_SUCCESS);
    assert_memory_equal(p, r.buf, PAGE);
    assert_int_equal(write_to(8, mr->rkey, 8), IBV_WC_REM_OP_ERR); /* where nothing is */
    assert_int_equal(ibv_dereg_mr(mr), 0);
    munmap(p, PAGE);
    assert_null(ibv_reg_mr(r.pd, NULL, SIZE_MAX, ACCESS));
}

static int advise(enum ib_uverbs_advise_mr_advice advice, uint32_t flags, void *at, uint32_t n, uint32_t lkey)
{
    struct ibv_sge sge = {.addr = (uintptr_t)at, .length = n, .lkey = lkey};
    return ibv_advise_mr(r.pd, advice, flags, &sge, 1);
}

static void test_advise(void **state)
{
    (void)state;
    unsigned char *p = mmap(NULL, 4 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    struct ibv_mr *mr = ibv_reg_mr(r.pd, p, 3 * PAGE, ON_DEMAND),
                  *reads = ibv_reg_mr(r.pd, p, PAGE, IBV_ACCESS_ON_DEMAND);

    assert_non_null(mr);
    assert_non_null(reads);
    assert_false(resident(p + PAGE));
    assert_int_equal(advise(IBV_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT, 0, p + PAGE, 8, mr->lkey), 0);
    assert_false(resident(p + PAGE));
    assert_int_equal(
        advise(IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE, IBV_ADVISE_MR_FLAG_FLUSH, p + PAGE + 5, 8, mr->lkey), 0);
    assert_true(resident(p + PAGE));
    assert_false(resident(p));
    assert_int_equal(advise(IBV_ADVISE_MR_ADVICE_PREFETCH, 0, p, PAGE, reads->lkey), 0);
    assert_int_equal(advise(IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE, 0, p, PAGE, reads->lkey), EPERM);
    assert_int_equal(advise(IBV_ADVISE_MR_ADVICE_PREFETCH, 0, p, 4 * PAGE, mr->lkey), EFAULT);
    assert_int_equal(advise(IBV_ADVISE_MR_ADVICE_PREFETCH, 0, r.buf, 8, r.mr->lkey), ENOENT);
    assert_int_equal(advise(IBV_ADVISE_MR_ADVICE_PREFETCH, 0, p, 8, mr->lkey + 1), ENOENT);
    assert_int_equal(ibv_advise_mr(r.pd, (enum ib_uverbs_advise_mr_advice)77, 0, NULL, 0), EOPNOTSUPP);
    munmap(p + 2 * PAGE, PAGE);
    assert_int_equal(advise(IBV_ADVISE_MR_ADVICE_PREFETCH, IBV_ADVISE_MR_FLAG_FLUSH, p, 3 * PAGE, mr->lkey),
                     EFAULT);
    assert_int_equal(ibv_dereg_mr(mr), 0);
    assert_int_equal(ibv_dereg_mr(reads), 0);
    munmap(p, 4 * PAGE);
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, up, down)
    const struct CMUnitTest tests[] = {
        T(test_announced), T(test_comes_later), T(test_missing), T(test_implicit), T(test_advise),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
