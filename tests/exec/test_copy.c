/* SPDX-License-Identifier: Apache-2.0 */
/* gw_copy_share: what a group's threads copy together, by lengths, alignments and numbers of threads. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "tests/exec/copy_kernels.h"
#include "examples/options.h"

GW_KERNEL_DECLARE(copy_kernel);
GW_KERNEL_DECLARE(copy_shared_kernel);

#define LIMIT_NS 240000000000u
enum { THREADS = 256 };

static struct gw_exec *exec;
static struct gw_mem to, from, wrong;

static void must(int rc, const char *what)
{
    if (rc) fail_msg("%s: %d, %s", what, rc, gw_last_error());
}

static void run(const struct gw_kernel *k, uint32_t threads, uint32_t len)
{
    struct copy_args a = {.to = to.dev, .from = from.dev, .len = len, .wrong = wrong.dev};
    uint64_t got[THREADS] = {0}, sum = 0;

    must(gw_copy_in(exec, wrong.dev, got, sizeof(got)), "gw_copy_in");
    must(gw_launch(exec, k, 1, threads, &a), "gw_launch");
    must(gw_exec_sync(exec, gw_deadline(LIMIT_NS)), "gw_exec_sync");
    must(gw_copy_out(exec, got, wrong.dev, sizeof(got)), "gw_copy_out");
    for (int i = 0; i < THREADS; i++) sum += got[i];
    if (sum) fail_msg("%u threads, %u bytes: %llu are wrong", threads, len, (unsigned long long)sum);
}

static void test_alignments(void **state)
{
    static const uint32_t lengths[] = {0, 1, 3, 4, 15, 16, 17, 64, 100, 1023, MAX_COPY};
    static const uint32_t threads[] = {1, 7, 32, THREADS};

    (void)state;
    for (int t = 0; t < 4; t++)
        for (int l = 0; l < 11; l++) run(&copy_kernel, test_block_dim(exec, threads[t]), lengths[l]);
}

static void test_shared(void **state)
{
    (void)state;
    run(&copy_shared_kernel, test_block_dim(exec, THREADS), 0);
    run(&copy_shared_kernel, 1, 0);
}

static int setup(void **state)
{
    (void)state;
    exec = test_exec();
    return gw_mem_alloc(exec, GW_MEM_DEVICE, COPY_ROOM, &to) ||
           gw_mem_alloc(exec, GW_MEM_DEVICE, COPY_ROOM, &from) ||
           gw_mem_alloc(exec, GW_MEM_DEVICE, THREADS * sizeof(uint64_t), &wrong);
}

static int teardown(void **state)
{
    (void)state;
    gw_mem_free(&to);
    gw_mem_free(&from);
    gw_mem_free(&wrong);
    return gw_exec_destroy(exec);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_alignments), cmocka_unit_test(test_shared)};

    test_options(argc, argv);
    return cmocka_run_group_tests(tests, setup, teardown);
}
