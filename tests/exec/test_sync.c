/* SPDX-License-Identifier: Apache-2.0 */
/* Memory order: what gpuwire/sync.h promises, tried between the blocks of a kernel and between a kernel and
 * the host.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "tests/exec/with_exec.h"
#include "tests/exec/sync_kernels.h"

GW_KERNEL_DECLARE(message_kernel);
GW_KERNEL_DECLARE(echo_kernel);
GW_KERNEL_DECLARE(buffer_kernel);
GW_KERNEL_DECLARE(count_kernel);

#define MESSAGES 3000u
#define ROUNDS   20000u

static const char *const announce_name[ANNOUNCES] = {"u64",      "u32",     "u16",        "u8", "fences",
                                                     "doorbell", "u32_gpu", "gpu fences", "rmw"};

static void must(int rc, const char *what)
{
    if (rc) fail_msg("%s: %d, %s", what, rc, gw_last_error());
}

static uint64_t soon(void)
{
    return gw_deadline(240000000000u);
}

static void one_way(enum gw_mem_kind kind, uint32_t how)
{
    struct message_args args = {NULL, how, MESSAGES};
    struct sync_page result;
    struct gw_mem mem;
    uint64_t start;

    must(gw_mem_alloc(exec, kind, sizeof(result), &mem), "gw_mem_alloc");
    args.page = mem.dev;
    start = gw_clock_ns();
    must(gw_launch(exec, &message_kernel, 2, 1, &args), "gw_launch");
    must(gw_exec_sync(exec, soon()), "gw_exec_sync");
    start = gw_clock_ns() - start;
    must(gw_copy_out(exec, &result, mem.dev, sizeof(result)), "gw_copy_out");
    gw_mem_free(&mem);
    printf("measured: %-10s in %s memory: %5.0f ns a message and its answer\n", announce_name[how],
           kind == GW_MEM_HOST ? "host" : "device", (double)start / MESSAGES);
    if (result.bad[1]) fail_msg("%s: a block gave up waiting", announce_name[how]);
    if (result.bad[0]) fail_msg("%s: %u words were late", announce_name[how], (unsigned)result.bad[0]);
}

static void test_messages(void **state)
{
    uint32_t how;

    (void)state;
    for (how = 0; how < ANNOUNCES; how++) {
        one_way(GW_MEM_DEVICE, how);
        /* Atomics of a GPU on host memory need PCIe atomics, which we do not rely on. */
        if (how != ANNOUNCE_RMW || gw_exec_kind(exec) == GW_EXEC_CPU) one_way(GW_MEM_HOST, how);
    }
}

/* Host and kernel, through host memory. */
static void test_host(void **state)
{
    struct message_args args = {NULL, ANNOUNCE_U64, MESSAGES};
    uint64_t start, give_up = soon();
    struct sync_page *p;
    struct gw_mem mem;
    uint32_t i, k, round;

    (void)state;
    must(gw_mem_alloc(exec, GW_MEM_HOST, sizeof(*p), &mem), "gw_mem_alloc");
    p = mem.host;
    args.page = mem.dev;
    must(gw_launch(exec, &echo_kernel, 1, 1, &args), "gw_launch");
    start = gw_clock_ns();
    for (i = 1; i <= MESSAGES; i++) {
        for (k = 0; k < 8; k++) p->data[k][0] = (uint64_t)i * 100 + k;
        gw_st_release_u64(&p->flag[0], i);
        for (round = 0; gw_ld_acquire_u64(&p->ack[0]) != i; round++) {
            if (gw_clock_ns() > give_up) fail_msg("the kernel does not answer message %u", i);
            gw_pause(round);
        }
    }
    printf("measured: host to kernel and back: %.0f ns\n", (double)(gw_clock_ns() - start) / MESSAGES);
    must(gw_exec_sync(exec, soon()), "gw_exec_sync");
    assert_int_equal(p->bad[0], 0);
    assert_int_equal(p->bad[1], 0);
    gw_mem_free(&mem);
}

/* How often both blocks missed what the other had written. */
static uint32_t both_missed(uint32_t fence)
{
    struct gw_mem page, words;
    struct buffer_args args;
    uint32_t *w, i, missed = 0;

    must(gw_mem_alloc(exec, GW_MEM_DEVICE, sizeof(struct sync_page), &page), "gw_mem_alloc");
    must(gw_mem_alloc(exec, GW_MEM_HOST, 4 * ROUNDS * 4, &words), "gw_mem_alloc");
    w = words.dev;
    args = (struct buffer_args){page.dev, w, w + ROUNDS, w + 2 * ROUNDS, w + 3 * ROUNDS, ROUNDS, fence};
    must(gw_launch(exec, &buffer_kernel, 2, 1, &args), "gw_launch");
    must(gw_exec_sync(exec, soon()), "gw_exec_sync");
    w = words.host;
    for (i = 0; i < ROUNDS; i++) {
        assert_int_equal(w[i], 1);
        assert_int_equal(w[ROUNDS + i], 1);
        missed += !w[2 * ROUNDS + i] && !w[3 * ROUNDS + i];
    }
    gw_mem_free(&page);
    gw_mem_free(&words);
    return missed;
}

static void test_store_load(void **state)
{
    (void)state;
    printf("measured: store then load, without a fence: %u of %u reordered\n", both_missed(0), ROUNDS);
    assert_int_equal(both_missed(1), 0);
}

static void test_counting(void **state)
{
    uint32_t grid = 4, threads = grid * test_block_dim(exec, 32);
    struct count_args args = {NULL, 200};
    uint64_t w[COUNTS], all = (uint64_t)threads * args.n;
    struct gw_mem mem;

    (void)state;
    memset(w, 0, sizeof(w));
    w[COUNT_AND] = 0xffffffffu;
    must(gw_mem_alloc(exec, GW_MEM_DEVICE, sizeof(w), &mem), "gw_mem_alloc");
    must(gw_copy_in(exec, mem.dev, w, sizeof(w)), "gw_copy_in");
    args.word = mem.dev;
    must(gw_launch(exec, &count_kernel, grid, 32, &args), "gw_launch");
    must(gw_exec_sync(exec, soon()), "gw_exec_sync");
    must(gw_copy_out(exec, w, mem.dev, sizeof(w)), "gw_copy_out");
    gw_mem_free(&mem);
    assert_true(w[COUNT_ADD32] == all);
    assert_true(w[COUNT_ADD64] == all << 32);
    assert_true(w[COUNT_ADD_GPU] == all * 3);
    assert_true(w[COUNT_CAS32] == all);
    assert_true(w[COUNT_CAS64] == all);
    assert_true(w[COUNT_LOCKED] == grid * args.n);
    assert_true(w[COUNT_LOCK] == 0);
    assert_true(w[COUNT_OR] == (threads >= 64 ? ~(uint64_t)0 : ((uint64_t)1 << threads) - 1));
    assert_true(w[COUNT_AND] == (threads >= 32 ? 0 : 0xffffffffu << threads));
}

static void test_pairs(void **state)
{
    uint64_t memory[2] __attribute__((aligned(16))) = {0, 0}, lo, hi;

    (void)state;
    gw_st_relaxed_2u64(memory, 0x1122334455667788u, 0x99aabbccddeeff00u);
    assert_true(memory[0] == 0x1122334455667788u && memory[1] == 0x99aabbccddeeff00u);
    gw_ld_relaxed_2u64(memory, &lo, &hi);
    assert_true(lo == memory[0] && hi == memory[1]);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_messages), cmocka_unit_test(test_host),  cmocka_unit_test(test_store_load),
        cmocka_unit_test(test_counting), cmocka_unit_test(test_pairs),
    };

    test_options(argc, argv);
    return cmocka_run_group_tests(tests, open_exec, close_exec);
}
