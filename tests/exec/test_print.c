/* SPDX-License-Identifier: Apache-2.0 */
/* Printing by kernels through the host. */
#include <errno.h>
#include <float.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "tests/exec/host_rig.h"

GW_KERNEL_DECLARE(print_kernel);

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

/* Every line that was taken is printed, whole, and each thread's in order; those that were not are
 * counted. */
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

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_print),
        cmocka_unit_test(test_format),
        cmocka_unit_test(test_wrong_format),
    };

    test_options(argc, argv);
    return cmocka_run_group_tests(tests, open_exec, close_exec);
}
