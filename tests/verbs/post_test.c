/* SPDX-License-Identifier: Apache-2.0 */
/* Posting and polling against a NIC that a thread plays: nothing lost, nothing twice, in order, whichever
 * thread posts.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "tests/exec/with_exec.h"
#include "tests/verbs/post_kernels.h"
#include "tests/verbs/rig.h"

GW_KERNEL_DECLARE(post_kernel);
GW_KERNEL_DECLARE(recv_kernel);
GW_KERNEL_DECLARE(tx_kernel);

#define LIMIT_NS 60000000000u

static void must(int rc, const char *what)
{
    if (rc) fail_msg("%s: %d, %s", what, rc, gw_last_error());
}

struct shape {
    uint32_t grid, block, how, one, signal_all, each, wqebbs;
};

static struct post_result run_kernel(const struct gw_kernel *k, uint32_t grid, uint32_t block, void *args,
                                     struct post_result **where)
{
    struct post_result result;
    struct gw_mem mem;

    must(gw_mem_alloc(exec, GW_MEM_DEVICE, sizeof(result), &mem), "gw_mem_alloc");
    *where = mem.dev;
    must(gw_launch(exec, k, grid, block, args), "gw_launch");
    must(gw_exec_sync(exec, gw_deadline(2 * (uint64_t)LIMIT_NS)), "gw_exec_sync");
    must(gw_copy_out(exec, &result, mem.dev, sizeof(result)), "gw_copy_out");
    gw_mem_free(&mem);
    return result;
}

/* In a warp every lane but one in turn takes part; otherwise every thread posts every request. */
static uint32_t expected(const struct shape *s, uint32_t token)
{
    uint32_t dim = test_block_dim(exec, s->block), thread = token / s->each % dim, i = token % s->each;
    uint32_t size = dim - (thread & ~31u) < 32 ? dim - (thread & ~31u) : 32;

    if (s->how == TX_BLOCK) return dim == 1 || i % 4 == 3 || thread != i % dim;
    if (s->how == TX_WARP) return size == 1 || i % 4 == 3 || (thread & 31) != i % size;
    return s->how != POST_WARP || size == 1 || (thread & 31) != i % size;
}

static void check_sends(const struct rig *r, const struct post_result *got, uint32_t tokens,
                        const struct shape *s)
{
    uint32_t i, missing = 0, twice = 0;

    for (i = 0; i < tokens; i++) {
        missing += r->seen[i] < expected(s, i);
        twice += r->seen[i] > expected(s, i);
    }
    printf("gpu: how %u, %u x %u, one %u: %u posted, %u rings (%u with nothing new), queue full %u times\n",
           s->how, s->grid, s->block, s->one, got->posted, r->rings, r->empty_rings, got->full);
    if (r->wrong[0]) fail_msg("the NIC found: %s", r->wrong);
    assert_int_equal(got->timeouts, 0);
    assert_int_equal(got->errors, 0);
    assert_int_equal(got->out_of_order, 0);
    assert_int_equal(missing, 0);
    assert_int_equal(twice, 0);
    assert_int_equal(r->wqes, got->posted);
}

/* On a queue pair that has posted `first` WQEBBs before. lock_free: on CPU threads, which else take turns. */
static struct post_result post_so(const struct shape *s, uint64_t first, bool lock_free)
{
    uint32_t dim = test_block_dim(exec, s->block), threads = s->grid * dim, each = s->each, sum = 0, i;
    struct rig_opts o = {
        .wqebbs = s->wqebbs, .wqes = 16, .cqes = s->wqebbs, .tokens = threads * each, .first = first};
    struct post_args args;
    struct post_result got;
    struct rig r;

    o.shift = s->how >= TX_THREAD ? 3 : 0; /* atomics' addresses are multiples of 8 */
    o.qp_flags = s->one ? GW_QP_ONE_POSTER : lock_free ? GW_QP_LOCK_FREE : 0;
    o.cq_flags = s->one ? GW_CQ_ONE_POLLER : 0;
    rig_start(&r, exec, &o);
    args.qp = r.qp;
    args.cq = r.cqh;
    args.how = s->how;
    args.each = each;
    args.signal_all = s->signal_all;
    args.limit_ns = LIMIT_NS;
    got = run_kernel(s->how >= TX_THREAD ? &tx_kernel : &post_kernel, s->grid, s->block, &args, &args.result);
    rig_stop(&r);
    check_sends(&r, &got, threads * each, s);
    if (s->how != POST_WARP && s->how != TX_WARP && s->how != TX_BLOCK)
        assert_int_equal(got.posted, threads * each);
    if (s->signal_all) {
        assert_int_equal(got.completed, got.posted);
        for (i = 0; i < threads * each; i++) sum += r.seen[i] ? i : 0;
        assert_int_equal(got.wr_id_sum, sum);
    }
    rig_free(&r);
    return got;
}

static void post_after(const struct shape *s, uint64_t first)
{
    post_so(s, first, false);
    if (!s->one && gw_exec_kind(exec) == GW_EXEC_CPU) post_so(s, first, true);
}

static void post(const struct shape *s)
{
    post_after(s, 0);
}

static void test_one_thread(void **state)
{
    static const struct shape shapes[] = {
        {1, 1, POST_PUT, 1, 1, 3000, 64},   {1, 1, POST_PUT, 1, 0, 3000, 16},
        {1, 1, POST_DEFER, 1, 1, 3000, 64}, {1, 1, POST_PUT, 0, 1, 3000, 64},
        {1, 1, POST_LIST, 1, 1, 3000, 64},  {1, 1, POST_LIST, 0, 1, 3000, 16},
        {1, 1, POST_DEFER, 0, 1, 3000, 64},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(shapes) / sizeof(shapes[0]); i++) post(&shapes[i]);
}

/* Enough indices for the 16-bit ones to wrap. */
static void test_wrap(void **state)
{
    static const struct shape one = {1, 1, POST_PUT, 1, 1, 70000, 256},
                              many = {2, 1, POST_PUT, 0, 1, 35000, 256};

    (void)state;
    post(&one);
    post(&many);
}

static void test_many_threads(void **state)
{
    static const struct shape shapes[] = {
        {4, 32, POST_PUT, 0, 1, 30, 512},  {4, 32, POST_PUT, 0, 1, 30, 16},
        {4, 32, POST_PUT, 0, 0, 30, 1024}, {4, 32, POST_DEFER, 0, 1, 30, 512},
        {4, 32, POST_DEFER, 0, 1, 30, 32}, {4, 32, POST_LIST, 0, 1, 30, 512},
        {4, 32, POST_LIST, 0, 1, 30, 16},  {1, 32, POST_PUT, 0, 1, 150, 64},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(shapes) / sizeof(shapes[0]); i++) post(&shapes[i]);
}

static void test_warps(void **state)
{
    static const struct shape shapes[] = {
        {1, 32, POST_WARP, 1, 1, 100, 128},
        {1, 32, POST_WARP, 0, 1, 100, 64},
        {4, 32, POST_WARP, 0, 1, 40, 128},
        {2, 45, POST_WARP, 0, 1, 40, 128},
    };
    uint32_t i;

    (void)state;
    for (i = 0; i < 4; i++) {
        /* With one owner the lanes of one warp may post together, but only one of them may poll. */
        if (shapes[i].one && test_block_dim(exec, 32) > 1) continue;
        post(&shapes[i]);
    }
}

/* The fast calls in every form: one owner, then many threads; queues that are full nearly always, and hardly
 * ever. */
static void test_tickets(void **state)
{
    static const struct shape shapes[] = {
        {1, 1, TX_THREAD, 1, 0, 3000, 16},  {1, 1, TX_THREAD, 0, 0, 3000, 64},
        {1, 1, TX_DEFER, 1, 0, 3000, 64},   {1, 1, TX_DEFER, 0, 0, 3000, 16},
        {4, 32, TX_THREAD, 0, 0, 30, 512},  {4, 32, TX_THREAD, 0, 0, 30, 16},
        {4, 32, TX_DEFER, 0, 0, 30, 512},   {4, 32, TX_DEFER, 0, 0, 30, 32},
        {1, 32, TX_WARP, 1, 0, 100, 128},   {1, 32, TX_WARP, 0, 0, 100, 64},
        {4, 32, TX_WARP, 0, 0, 40, 128},    {2, 45, TX_WARP, 0, 0, 40, 128},
        {1, 45, TX_BLOCK, 1, 0, 60, 128},   {3, 45, TX_BLOCK, 0, 0, 40, 128},
        {2, 100, TX_BLOCK, 0, 0, 20, 1024},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(shapes) / sizeof(shapes[0]); i++) post(&shapes[i]);
}

/* Enough for the 16-bit index that the NIC sees to wrap. */
static void test_tickets_wrap(void **state)
{
    static const struct shape one = {1, 1, TX_THREAD, 1, 0, 140000, 256},
                              many = {2, 1, TX_DEFER, 0, 0, 35000, 256};

    (void)state;
    post(&one);
    post(&many);
}

/* A queue pair that has posted for long: 32 bits of its counts wrap, and the 47 that slots keep; tickets
 * never do. */
static void test_tickets_of_a_long_life(void **state)
{
    static const uint64_t near[] = {UINT64_C(1) << 32, UINT64_C(1) << 47, UINT64_C(1) << 48,
                                    UINT64_C(3) << 60};
    static const struct shape shapes[] = {
        {1, 1, TX_THREAD, 1, 0, 3000, 16}, {2, 1, TX_THREAD, 0, 0, 1500, 64},
        {2, 1, TX_DEFER, 0, 0, 1500, 16},  {1, 32, TX_WARP, 0, 0, 100, 64},
        {2, 1, POST_PUT, 0, 1, 1500, 64},  {1, 1, POST_LIST, 1, 1, 3000, 64},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(shapes) / sizeof(shapes[0]); i++)
        for (size_t k = 0; k < 4; k++) post_after(&shapes[i], near[k] - 50);
}

/* The cost of a post when the queue never fills: as many requests as it holds. */
static void test_cost(void **state)
{
    static const struct {
        struct shape s;
        const char *what;
    } c[] = {
        {{1, 1, POST_PUT, 1, 0, 4000, 4096}, "one thread, sole poster, a doorbell each"},
        {{1, 1, POST_PUT, 0, 0, 4000, 4096}, "one thread, shared queue pair, a doorbell each"},
        {{1, 1, POST_DEFER, 1, 0, 4000, 4096}, "one thread, sole poster, a doorbell for three"},
        {{1, 32, POST_WARP, 0, 0, 120, 4096}, "a warp, shared queue pair, a doorbell per call"},
        {{32, 1, POST_PUT, 0, 0, 120, 4096}, "32 blocks of a thread on one queue pair"},
        {{32, 32, POST_WARP, 0, 0, 30, 32768}, "32 blocks of a warp on one queue pair"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(c) / sizeof(c[0]); i++) {
        struct post_result got;

        /* On CPU threads blocks run one after another, and a warp's lanes take turns: it says nothing. */
        if (gw_exec_kind(exec) == GW_EXEC_CPU && c[i].s.grid * c[i].s.block > 1) continue;
        got = post_so(&c[i].s, 0, false);
        printf("measured: %s: %.1f ns per request\n", c[i].what, (double)got.ns / got.posted);
    }
}

static void receive(uint32_t grid, uint32_t block, uint32_t each, uint32_t one, uint32_t wqes, uint64_t first)
{
    uint32_t n = grid * test_block_dim(exec, block) * each, i, *imm;
    struct rig_opts o = {
        .wqebbs = 16, .wqes = wqes, .cqes = wqes < 16 ? 16 : wqes, .receive = true, .first = first};
    struct recv_args args;
    struct post_result got;
    struct gw_mem mem;
    struct rig r;
    uint8_t *seen;

    o.qp_flags = one ? GW_QP_ONE_POSTER : 0;
    rig_start(&r, exec, &o);
    must(gw_mem_alloc(exec, GW_MEM_DEVICE, 4 * n, &mem), "gw_mem_alloc");
    args.qp = r.qp;
    args.cq = r.cqh;
    args.each = each;
    args.limit_ns = LIMIT_NS;
    args.imm = mem.dev;
    got = run_kernel(&recv_kernel, grid, block, &args, &args.result);
    rig_stop(&r);
    if (r.wrong[0]) fail_msg("the NIC found: %s", r.wrong);
    assert_int_equal(got.timeouts, 0);
    assert_int_equal(got.posted, n);
    assert_int_equal(got.completed, n);
    imm = malloc(4 * n);
    seen = calloc(n, 1);
    must(gw_copy_out(exec, imm, mem.dev, 4 * n), "gw_copy_out");
    for (i = 0; i < n; i++) {
        assert_true(imm[i] < n);
        assert_int_equal(seen[imm[i]]++, 0);
    }
    free(seen);
    free(imm);
    gw_mem_free(&mem);
    rig_free(&r);
}

static void test_receive(void **state)
{
    (void)state;
    receive(1, 1, 2000, 1, 16, 0);
    receive(1, 1, 2000, 0, 64, 0);
    receive(4, 32, 40, 0, 64, 0);
    receive(4, 32, 40, 0, 8, 0);
    receive(1, 1, 2000, 1, 16, (UINT64_C(1) << 32) - 50);
    receive(2, 1, 1000, 0, 64, (UINT64_C(1) << 32) - 50);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one_thread),
        cmocka_unit_test(test_wrap),
        cmocka_unit_test(test_many_threads),
        cmocka_unit_test(test_warps),
        cmocka_unit_test(test_receive),
        cmocka_unit_test(test_cost),
        cmocka_unit_test(test_tickets),
        cmocka_unit_test(test_tickets_wrap),
        cmocka_unit_test(test_tickets_of_a_long_life),
    };

    test_options(argc, argv);
    cmocka_set_test_filter(test_pattern);
    return cmocka_run_group_tests(tests, open_exec, close_exec);
}
