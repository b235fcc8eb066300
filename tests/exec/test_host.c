/* SPDX-License-Identifier: Apache-2.0 */
/* What kernels ask of the host: launches, the time, and printing. */
#include <dirent.h>
#include <errno.h>
#include <float.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/exec/host_kernels.h"
#include "tests/exec/options.h"

GW_KERNEL_DECLARE(add_kernel);
GW_KERNEL_DECLARE(again_kernel);
GW_KERNEL_DECLARE(wrong_kernel);
GW_KERNEL_DECLARE(ask_kernel);
GW_KERNEL_DECLARE(print_kernel);
GW_KERNEL_DECLARE(time_kernel);

#define SECOND UINT64_C(1000000000)
#define LIMIT  (20 * SECOND)

static const struct gw_kernel *const table[HK_KERNELS] = {&add_kernel, &again_kernel, &wrong_kernel};
static struct gw_exec *exec;
static struct gw_mem mem; /* host memory: the counter, results, what threads saw, an argument */
static uint32_t lanes;

static void must(int rc, const char *what)
{
    if (rc) fail_msg("%s: %d, %s", what, rc, gw_last_error());
}

static void run(const struct gw_kernel *kernel, uint32_t grid, uint32_t block, const void *args)
{
    must(gw_launch(exec, kernel, grid, block, args), "gw_launch");
    must(gw_exec_sync(exec, gw_deadline(60 * SECOND)), "gw_exec_sync");
}

/* ---- launches ------------------------------------------------------------------------------------------- */

static struct {
    uint64_t counter, seen[64];
    int32_t result[8];
    struct add_args add;
} * host, *kernels; /* the same memory, as each sees it */

static struct gw_host_server *serve(const struct gw_host_attr *a)
{
    struct gw_host_server *s;

    must(gw_host_open(exec, a, &s), "gw_host_open");
    memset(host, 0, sizeof(*host));
    host->add = (struct add_args){.to = &kernels->counter, .add = 3, .check = ~UINT64_C(3)};
    return s;
}

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
            /* What the launched kernels did is seen by all that waited. */
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

/* More launches than there are slots, that nobody waits for: all of them happen. */
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

/* What a launch that cannot be, or that fails, returns; the next one is none the worse. */
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

/* Kernels that launch kernels and wait: as deep as launches run at once; one more waits in vain. */
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

/* ---- time ----------------------------------------------------------------------------------------------- */

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

/* ---- printing ------------------------------------------------------------------------------------------- */

static struct {
    char text[1 << 20];
    size_t n;
    unsigned delay_us;
} out;

static void collect(void *ctx, const char *text, size_t n)
{
    (void)ctx;
    if (out.delay_us) usleep(out.delay_us);
    if (n > sizeof(out.text) - 1 - out.n) n = sizeof(out.text) - 1 - out.n;
    memcpy(out.text + out.n, text, n);
    out.n += n;
    out.text[out.n] = 0;
}

static struct gw_host_server *printing(uint32_t lines, unsigned delay_us)
{
    struct gw_host_attr a = {.lines = lines, .print = collect};

    out.n = 0;
    out.text[0] = 0;
    out.delay_us = delay_us;
    return serve(&a);
}

/* Every line that was taken is printed, whole, and each thread's in order; those that were not are counted. */
static void check_lines(uint32_t blocks, uint32_t threads, uint32_t each, uint64_t refused)
{
    uint32_t *next = calloc(blocks * threads, sizeof(*next));
    uint64_t seen = 0, lost = 0, told;
    char *line, *more = out.text;

    while ((line = strsep(&more, "\n")) && *line) {
        unsigned b, t, i;
        char word[8], again[64];

        if (sscanf(line, "[%lu lines lost", &told) == 1) {
            lost += told;
            continue;
        }
        if (sscanf(line, "%u %u %u %7s", &b, &t, &i, word) != 4) fail_msg("'%s'", line);
        snprintf(again, sizeof(again), "%u %u %u %s", b, t, i, i & 1 ? "odd" : "even");
        assert_string_equal(line, again);
        assert_in_range(b, 0, blocks - 1);
        assert_in_range(t, 0, threads - 1);
        assert_in_range(i, next[b * threads + t], each - 1);
        next[b * threads + t] = i + 1;
        seen++;
    }
    assert_int_equal(lost, refused);
    assert_int_equal(seen + lost, (uint64_t)blocks * threads * each);
    free(next);
}

static void test_print(void **state)
{
    static const struct {
        uint32_t lines, each;
        unsigned delay_us;
    } v[] = {{16384, 50, 0}, {16, 100, 0}, {16, 100, 300}};

    (void)state;
    for (size_t i = 0; i < sizeof(v) / sizeof(v[0]); i++) {
        struct gw_host_server *s = printing(v[i].lines, v[i].delay_us);
        struct print_args q = {.h = gw_host_handle(s), .lines = v[i].each, .refused = &kernels->counter};
        struct gw_host_counts counts;

        run(&print_kernel, 3, lanes, &q);
        must(gw_host_flush(s, gw_deadline(LIMIT)), "gw_host_flush");
        gw_host_query(s, &counts);
        assert_int_equal(counts.printed + host->counter, 3 * lanes * v[i].each);
        must(gw_host_close(s), "gw_host_close");
        if (v[i].lines > 3 * lanes * v[i].each) assert_int_equal(host->counter, 0);
        check_lines(3, lanes, v[i].each, host->counter);
    }
}

#define SAME(...)                                                                                            \
    do {                                                                                                     \
        char want[4096];                                                                                     \
        snprintf(want, sizeof(want), __VA_ARGS__);                                                           \
        out.n = 0;                                                                                           \
        assert_int_equal(gw_printf(h, __VA_ARGS__), 0);                                                      \
        must(gw_host_flush(s, gw_deadline(LIMIT)), "gw_host_flush");                                         \
        assert_string_equal(out.text, want);                                                                 \
    } while (0)

/* The same as C's printf. A CPU thread prints like a kernel's. */
static void test_format(void **state)
{
    struct gw_host_server *s;
    struct gw_host *h;
    const char *text = "a text";

    (void)state;
    if (gw_exec_kind(exec) != GW_EXEC_CPU) skip();
    s = printing(0, 0);
    h = gw_host_handle(s);
    SAME("nothing but text\n");
    SAME("100 %%, %d%%\n", 5);
    SAME("%d %i %5d|%-5d|%05d %+d % d %.3d\n", 1, -2, 3, 4, 5, 6, 7, 8);
    SAME("%u %x %X %#x %o %08x %u %x\n", 1u, 0xabcu, 0xabcu, 255u, 8u, 0xbeefu, UINT32_MAX, (unsigned)-1);
    SAME("%x %u %lx %zu\n", 0x7fffffff, 7u, -1L, sizeof(long));
    SAME("%ld %lld %lu %llx\n", INT64_MIN, (long long)INT64_MAX, UINT64_MAX, (unsigned long long)UINT64_MAX);
    SAME("%hd %hhu %c%c\n", (short)-3, (unsigned char)200, 'g', 'w');
    SAME("%s|%10s|%-10s|%.3s|%s\n", text, text, text, text, "");
    SAME("%f %.2f %e %g %G %a %10.3f|%-10.1f\n", 1.5, -2.345, 1e100, 0.0001, 1e-10, 1.0, 3.14159, 2.5f);
    SAME("%f %g %g\n", (double)1e300 * 1e10, DBL_MIN, 0.0);
    SAME("%p\n", (void *)h);
    out.n = 0;
    gw_puts(h, "100 % of it, %d too");
    must(gw_host_flush(s, gw_deadline(LIMIT)), "gw_host_flush");
    assert_string_equal(out.text, "100 % of it, %d too");
    must(gw_host_close(s), "gw_host_close");
}

/* Formats that C would not survive, and what does not fit. */
static void test_wrong_format(void **state)
{
    static const struct {
        const char *format, *want;
    } v[] = {
        {"%s\n", "(%s?)\n"},
        {"%n%d\n", "(%n?)(missing)\n"},
        {"%*d\n", "(%*?)d\n"},
        {"%d %d\n", "42 (missing)\n"},
        {"%", "(%?"
              "?)"},
        {"%-+ #0-+5\n", "(%?"
                        "?)"},
        {"%99999999999d", NULL},
        {"%.99999999999f", NULL},
        {"%lf|%c", "42.000000|(missing)"},
    };
    struct gw_host_server *s;
    char *large = malloc(3000), want[500];
    struct gw_host *h;

    (void)state;
    if (gw_exec_kind(exec) != GW_EXEC_CPU) skip();
    s = printing(0, 0);
    h = gw_host_handle(s);
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat"
    for (size_t i = 0; i < sizeof(v) / sizeof(v[0]); i++) {
        out.n = 0;
        gw_printf(h, v[i].format, 42);
        must(gw_host_flush(s, gw_deadline(LIMIT)), "gw_host_flush");
        if (v[i].want)
            assert_string_equal(out.text, v[i].want);
        else
            assert_in_range(out.n, 500, 600);
    }
#pragma GCC diagnostic pop
    memset(large, 'x', 2999);
    large[2999] = 0;
    out.n = 0;
    gw_printf(h, "%s %d\n", large, 7);
    must(gw_host_flush(s, gw_deadline(LIMIT)), "gw_host_flush");
    memset(want, 'x', 408);
    strcpy(want + 408, " 7\n…\n");
    assert_string_equal(out.text, want);
    must(gw_host_close(s), "gw_host_close");
    free(large);
}

/* ---- idle, refused -------------------------------------------------------------------------------------- */

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

/* On CPU threads the server does not run at all while nobody asks. */
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

static int open_exec(void **state)
{
    (void)state;
    exec = test_exec();
    lanes = test_block_dim(exec, 64);
    if (gw_mem_alloc(exec, GW_MEM_HOST, sizeof(*host), &mem)) return -1;
    host = mem.host;
    kernels = mem.dev;
    return 0;
}

static int close_exec(void **state)
{
    (void)state;
    gw_mem_free(&mem);
    return gw_exec_destroy(exec);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_launch),        cmocka_unit_test(test_start_only),
        cmocka_unit_test(test_launch_errors), cmocka_unit_test(test_nested),
        cmocka_unit_test(test_time),          cmocka_unit_test(test_print),
        cmocka_unit_test(test_format),        cmocka_unit_test(test_wrong_format),
        cmocka_unit_test(test_idle),          cmocka_unit_test(test_refused),
    };

    test_options(argc, argv);
    return cmocka_run_group_tests(tests, open_exec, close_exec);
}
