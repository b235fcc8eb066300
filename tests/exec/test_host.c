/* SPDX-License-Identifier: Apache-2.0 */
/* Kernels' requests to the host: launches and the time. */
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/exec/host_rig.h"

GW_KERNEL_DECLARE(add_kernel);
GW_KERNEL_DECLARE(again_kernel);
GW_KERNEL_DECLARE(wrong_kernel);
GW_KERNEL_DECLARE(ask_kernel);
GW_KERNEL_DECLARE(time_kernel);

static const struct gw_kernel *const table[HK_KERNELS] = {&add_kernel, &again_kernel, &wrong_kernel};

/* ---- launches ------------------------------------------------------------------------------------------ */

static struct ask_args asking(struct gw_host_server *s, enum ask_how how, enum gw_group form)
{
    return (struct ask_args){.h = gw_host_handle(s),
                             .how = how,
                             .form = form,
                             .kernel = HK_ADD,
                             .grid = 2,
                             .block = 1,
                             .times = 5,
                             .limit_ns = LIMIT,
                             .add = &kernels->add,
                             .result = kernels->result,
                             .seen = kernels->seen};
}

static void test_launch(void **state)
{
    struct gw_host_attr a = {.kernels = table, .count = HK_KERNELS};
    struct gw_host_counts counts;

    (void)state;
    for (int how = ASK_LAUNCH; how <= ASK_START; how++)
        for (int form = GW_THREAD; form <= GW_BLOCK; form++) {
            struct gw_host_server *s = serve(&a);
            struct ask_args q = asking(s, how, form);

            run(&ask_kernel, 1, lanes, &q);
            assert_int_equal(host->result[0], 0);
            assert_int_equal(host->result[1], how == ASK_START ? -EINVAL : 0);
            /* All that waited see the writes of the launched kernels. */
            for (uint32_t t = 0; t < (form == GW_THREAD               ? 1
                                      : form == GW_WARP && lanes > 32 ? 32
                                                                      : lanes);
                 t++)
                assert_int_equal(host->seen[t], 5 * 2 * 3);
            gw_host_query(s, &counts);
            assert_int_equal(counts.launches, 5);
            assert_int_equal(counts.failed, 0);
            must(gw_host_close(s), "gw_host_close");
        }
}

/* More launches than there are slots, without a wait: all of them happen. */
static void test_start_only(void **state)
{
    struct gw_host_attr a = {.kernels = table, .count = HK_KERNELS, .at_once = 2};
    struct gw_host_server *s = serve(&a);
    struct ask_args q = asking(s, ASK_START_ONLY, GW_BLOCK);
    struct gw_host_counts counts;

    (void)state;
    q.times = 200;
    run(&ask_kernel, 1, lanes, &q);
    assert_int_equal(host->result[0], 0);
    must(gw_host_close(s), "gw_host_close"); /* it waits for them */
    assert_int_equal(host->counter, 200 * 2 * 3);
    s = serve(&a);
    q = asking(s, ASK_START_ONLY, GW_THREAD);
    q.kernel = HK_KERNELS;
    run(&ask_kernel, 1, lanes, &q);
    assert_int_equal(host->result[0], -EINVAL);
    gw_host_query(s, &counts);
    assert_int_equal(counts.launches, 0);
    must(gw_host_close(s), "gw_host_close");
}

/* The return of a launch that cannot be, or that fails. The next one is none the worse. */
static void test_launch_errors(void **state)
{
    struct gw_host_attr a = {.kernels = table, .count = HK_KERNELS};
    struct gw_host_server *s = serve(&a);
    struct {
        uint32_t kernel, grid, block;
        uint64_t limit;
        int err;
    } v[] = {
        {HK_KERNELS, 1, 1, LIMIT, -EINVAL},
        {UINT32_MAX, 1, 1, LIMIT, -EINVAL},
        {HK_ADD, 0, 1, LIMIT, -EINVAL},
        {HK_ADD, 1, 1025, LIMIT, -EINVAL},
        {HK_ADD, UINT32_MAX, 1, LIMIT, -EINVAL},
        {HK_ADD, 1, 1, 0, -EAGAIN},
        {HK_WRONG, 1, 2, LIMIT, -EIO}, /* CPU executor */
        {HK_ADD, 1, 1, LIMIT, 0},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(v) / sizeof(v[0]); i++) {
        struct ask_args q = asking(s, ASK_LAUNCH, GW_BLOCK);

        if (v[i].err == -EIO && (gw_exec_kind(exec) != GW_EXEC_CPU || lanes < 2)) continue;
        q.kernel = v[i].kernel;
        q.grid = v[i].grid;
        q.block = v[i].block;
        q.limit_ns = v[i].limit;
        q.times = 1;
        run(&ask_kernel, 1, lanes, &q);
        if (host->result[0] != v[i].err) fail_msg("launch %zu: %d, not %d", i, host->result[0], v[i].err);
    }
    assert_int_equal(host->counter, 3);
    must(gw_host_close(s), "gw_host_close");
}

/* Kernels that launch kernels and wait: as deep as launches run at once; one more waits until its deadline.
 */
static void test_nested(void **state)
{
    struct gw_host_attr a = {.kernels = table, .count = HK_KERNELS, .at_once = 3};
    struct gw_host_server *s = serve(&a);
    struct again_args q = {
        .h = gw_host_handle(s), .add = host->add, .depth = 3, .limit_ns = LIMIT, .result = kernels->result};

    (void)state;
    run(&again_kernel, 1, 1, &q);
    assert_int_equal(host->counter, 4 * 3);
    for (int i = 0; i < 3; i++) assert_int_equal(host->result[i], 0);
    q.depth = 4;
    q.limit_ns = SECOND / 2;
    run(&again_kernel, 1, 1, &q);
    assert_int_equal(host->result[0], -ETIMEDOUT); /* the innermost */
    must(gw_host_close(s), "gw_host_close");
    assert_int_equal(host->counter, 4 * 3 + 5 * 3); /* it happened later */
}

/* ---- time ---------------------------------------------------------------------------------------------- */

static void test_time(void **state)
{
    struct gw_host_server *s = serve(NULL);
    struct time_args q = {.h = gw_host_handle(s), .at = kernels->seen};
    struct timespec before, after;
    uint64_t slack = gw_exec_kind(exec) == GW_EXEC_GPU ? 1000000 : 0;

    (void)state;
    clock_gettime(CLOCK_REALTIME, &before);
    run(&time_kernel, 1, lanes < 32 ? lanes : 32, &q);
    clock_gettime(CLOCK_REALTIME, &after);
    for (uint32_t i = 0; i < 2 * (lanes < 32 ? lanes : 32); i++)
        assert_in_range(host->seen[i], (uint64_t)before.tv_sec * SECOND + (uint64_t)before.tv_nsec - slack,
                        (uint64_t)after.tv_sec * SECOND + (uint64_t)after.tv_nsec + slack);
    must(gw_host_close(s), "gw_host_close");
}

/* ---- idle, refused ------------------------------------------------------------------------------------- */

/* How often the server's thread has slept so far. */
static long sleeps(void)
{
    DIR *dir = opendir("/proc/self/task");
    struct dirent *e;
    long n = -1;

    while ((e = readdir(dir))) {
        char path[300], line[200], name[32] = "";
        FILE *f;

        snprintf(path, sizeof(path), "/proc/self/task/%s/status", e->d_name);
        f = fopen(path, "r");
        while (f && fgets(line, sizeof(line), f)) {
            sscanf(line, "Name: %31s", name);
            if (!strcmp(name, "gw-host")) sscanf(line, "voluntary_ctxt_switches: %ld", &n);
        }
        if (f) fclose(f);
    }
    closedir(dir);
    return n;
}

/* On CPU threads the server does not run at all without a request. */
static void test_idle(void **state)
{
    struct gw_host_server *s;
    long before;

    (void)state;
    if (gw_exec_kind(exec) != GW_EXEC_CPU) skip();
    s = serve(NULL);
    usleep(300000); /* it has gone to sleep by then */
    before = sleeps();
    assert_true(before >= 0);
    usleep(300000);
    assert_int_equal(sleeps(), before);
    must(gw_host_close(s), "gw_host_close");
}

static void test_refused(void **state)
{
    static const struct gw_kernel *const none[1];
    static const struct gw_host_attr bad[] = {
        {.count = 1},
        {.kernels = none, .count = 1},
        {.kernels = table, .count = GW_HOST_KERNELS + 1},
        {.at_once = 17},
        {.lines = 65537},
    };
    struct gw_host_server *s;

    (void)state;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        assert_int_equal(gw_host_open(exec, &bad[i], &s), -EINVAL);
        assert_null(s);
    }
    must(gw_host_close(NULL), "gw_host_close");
    if (gw_exec_kind(exec) == GW_EXEC_CPU) {
        s = serve(&(struct gw_host_attr){.kernels = table, .count = HK_KERNELS});
        assert_int_equal(gw_host_find(gw_host_handle(s), "again_kernel"), HK_AGAIN);
        assert_int_equal(gw_host_find(gw_host_handle(s), "again"), -ENOENT);
        assert_int_equal(gw_host_find(gw_host_handle(s), ""), -ENOENT);
        must(gw_host_close(s), "gw_host_close");
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_launch),        cmocka_unit_test(test_start_only),
        cmocka_unit_test(test_launch_errors), cmocka_unit_test(test_nested),
        cmocka_unit_test(test_time),          cmocka_unit_test(test_idle),
        cmocka_unit_test(test_refused),
    };

    test_options(argc, argv);
    return cmocka_run_group_tests(tests, open_exec, close_exec);
}
