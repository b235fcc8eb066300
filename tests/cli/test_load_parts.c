/* SPDX-License-Identifier: Apache-2.0 */
/* The parts of `gpuwire load` that need no server: histograms, arrivals, levels, numbers. */
#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <gpuwire/dtype.h>

#include "src/cli/histogram.h"
#include "src/cli/load/arrivals.h"
#include "src/cli/load/data.h"
#include "src/cli/load/sweep.h"
#include "tests/rnd.h"

static struct gw_histogram h, other;

static void small_numbers_are_exact(void **state)
{
    (void)state;
    gw_histogram_clear(&h);
    assert_int_equal(gw_histogram_percentile(&h, 50), 0);
    assert_true(gw_histogram_mean(&h) == 0);
    for (int i = 100; i >= 1; i--) gw_histogram_add(&h, i);
    assert_int_equal(gw_histogram_percentile(&h, 50), 50);
    assert_int_equal(gw_histogram_percentile(&h, 99), 99);
    assert_int_equal(gw_histogram_percentile(&h, 99.9), 100);
    assert_int_equal(gw_histogram_percentile(&h, 100), 100);
    assert_int_equal(gw_histogram_percentile(&h, 0), 1);
    assert_true(fabs(gw_histogram_mean(&h) - 50.5) < 1e-9);
    gw_histogram_add(&h, -5); /* of a clock that was estimated: counts as 0 */
    assert_int_equal(h.least, 0);
}

static int compare(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

/* Against the samples themselves, over all sizes that there are. */
static void percentiles_have_three_digits(void **state)
{
    (void)state;
    enum { N = 20000 };
    static uint64_t all[N];
    struct rnd r = {7};
    gw_histogram_clear(&h);
    for (int i = 0; i < N; i++) {
        all[i] = rnd64(&r) >> (22 + rnd_below(&r, 42));
        gw_histogram_add(&h, (int64_t)all[i]);
    }
    qsort(all, N, sizeof(all[0]), compare);
    for (double p = 0.5; p < 100; p += 0.5) {
        size_t rank = (size_t)ceil(p / 100 * N);
        double want = (double)all[rank - 1], got = (double)gw_histogram_percentile(&h, p);
        if (got < want || got > want * 1.001 + 1) fail_msg("p%g: %.0f, the samples say %.0f", p, got, want);
    }
    assert_int_equal(gw_histogram_percentile(&h, 100), all[N - 1]);
    assert_int_equal(h.least, all[0]);
}

static void the_largest_fit(void **state)
{
    (void)state;
    gw_histogram_clear(&h);
    gw_histogram_add(&h, INT64_MAX);
    gw_histogram_add(&h, (int64_t)GW_HISTOGRAM_MAX - 1);
    assert_int_equal(h.most, GW_HISTOGRAM_MAX);
    assert_int_equal(gw_histogram_percentile(&h, 50), GW_HISTOGRAM_MAX);
}

static void histograms_add_up(void **state)
{
    (void)state;
    gw_histogram_clear(&h);
    gw_histogram_clear(&other);
    gw_histogram_merge(&h, &other);
    assert_int_equal(h.count, 0);
    for (int i = 1; i <= 10; i++) gw_histogram_add(i % 2 ? &h : &other, i * 1000);
    gw_histogram_merge(&h, &other);
    assert_int_equal(h.count, 10);
    assert_int_equal(h.least, 1000);
    assert_int_equal(h.most, 10000);
    assert_true(fabs(gw_histogram_mean(&h) - 5500) < 1e-9);
    assert_int_equal(gw_histogram_percentile(&h, 50) / 10, 500);
}

/* The gaps of a Poisson process: their mean and their deviation are both the rate's inverse. */
static void arrivals_are_a_poisson_process(void **state)
{
    (void)state;
    enum { N = 200000 };
    struct gw_arrivals a = {0}, same, another;
    double sum = 0, squares = 0;
    uint64_t last = 1000000;
    gw_arrivals_begin(&a, last, 10000, 42, 0);
    for (int i = 0; i < N; i++) {
        uint64_t at = gw_arrivals_take(&a);
        assert_true(at >= last);
        double gap = (double)(at - last);
        sum += gap;
        squares += gap * gap;
        last = at;
    }
    double mean = sum / N, deviation = sqrt(squares / N - mean * mean);
    assert_true(fabs(mean / 100000 - 1) < 0.01);
    assert_true(fabs(deviation / 100000 - 1) < 0.01);
    a = same = another = (struct gw_arrivals){0};
    gw_arrivals_begin(&a, 0, 10, 42, 0);
    gw_arrivals_begin(&same, 0, 10, 42, 0);
    gw_arrivals_begin(&another, 0, 10, 43, 0);
    assert_int_equal(gw_arrivals_take(&a), gw_arrivals_take(&same));
    assert_int_not_equal(gw_arrivals_take(&a), gw_arrivals_take(&another));
}

static void arrivals_may_be_constant(void **state)
{
    (void)state;
    struct gw_arrivals a = {.constant = 1};
    gw_arrivals_begin(&a, 5000, 1e6, 1, 0.5);
    assert_int_equal(gw_arrivals_take(&a), 5500);
    assert_int_equal(gw_arrivals_take(&a), 6500);
}

/* The levels that a text stands for, as a text. */
static const char *levels(const char *text, int whole)
{
    static char out[256];
    struct gw_sweep s;
    double v = 0;
    size_t n = 0;
    out[0] = 0;
    if (gw_sweep_parse(text, whole ? 1 : 0.01, 1e6, whole, &s)) return "wrong";
    while ((v = gw_sweep_next(&s, v)) > 0 && n < sizeof(out) - 16)
        n += (size_t)snprintf(out + n, sizeof(out) - n, "%s%g", n ? " " : "", v);
    return out;
}

static void levels_are_what_was_written(void **state)
{
    (void)state;
    assert_string_equal(levels("4", 1), "4");
    assert_string_equal(levels("1:4", 1), "1 2 3 4");
    assert_string_equal(levels("1:16:2x", 1), "1 2 4 8 16");
    assert_string_equal(levels("1:20:2x", 1), "1 2 4 8 16");
    assert_string_equal(levels("100:500:150", 0), "100 250 400");
    assert_string_equal(levels("0.1:0.3:0.1", 0), "0.1 0.2 0.3");
    assert_string_equal(levels("100:200:1.25x", 0), "100 125 156.25 195.312");
    static const char *const bad[] = {
        "",  "0", "-1",    "1:",      "1:2:", "4:2", "1:2:0", "1:4:1x", "1:4x", "1:4:2x8", "1.5",
        "x", ":", "1:1e9", "1:4:0.5", "nan",  " 1",  "1 ",    "1:5000", "0x10", "1e3",     "inf"};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        if (strcmp(levels(bad[i], 1), "wrong")) fail_msg("'%s' is %s", bad[i], levels(bad[i], 1));
}

static void three_windows_must_agree(void **state)
{
    (void)state;
    struct gw_steady s = {0};
    gw_steady_add(&s, 100, 10);
    gw_steady_add(&s, 104, 10);
    assert_false(gw_steady_is(&s, 10));
    gw_steady_add(&s, 150, 10);
    assert_false(gw_steady_is(&s, 10)); /* the rate */
    gw_steady_add(&s, 150, 10);
    gw_steady_add(&s, 149, 10.5);
    assert_true(gw_steady_is(&s, 10)); /* the first two are forgotten */
    gw_steady_add(&s, 150, 15);
    assert_false(gw_steady_is(&s, 10)); /* the latency */
    gw_steady_add(&s, 0, 0);
    assert_false(gw_steady_is(&s, 100)); /* nothing was answered */
}

static void numbers_follow_from_the_id(void **state)
{
    (void)state;
    static uint8_t x[1000 * 8 + 1], y[1000 * 8];
    for (uint32_t dtype = GW_DTYPE_F32; dtype <= GW_DTYPE_I64; dtype++) {
        size_t bytes = 1000 * gw_dtype_bytes(dtype);
        memset(x, 0xaa, sizeof(x));
        gw_data_fill(dtype, x, 1000, 5, 1);
        assert_int_equal(x[bytes], 0xaa);
        assert_true(gw_data_is(dtype, x, 1000, 5, 1));
        assert_false(gw_data_is(dtype, x, 1000, 6, 1));
        assert_false(gw_data_is(dtype, x, 1000, 5, 2));
        gw_data_fill(dtype, y, 1000, 6, 1);
        assert_memory_not_equal(x, y, bytes);
        x[bytes - 1] ^= 1;
        assert_false(gw_data_is(dtype, x, 1000, 5, 1));
    }
    gw_data_fill(GW_DTYPE_I64, x, 1000, 1, 0);
    for (int i = 0; i < 1000; i++) {
        int64_t v;
        memcpy(&v, x + 8 * i, 8);
        assert_in_range(v, 0, 127);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(small_numbers_are_exact),
        cmocka_unit_test(percentiles_have_three_digits),
        cmocka_unit_test(the_largest_fit),
        cmocka_unit_test(histograms_add_up),
        cmocka_unit_test(arrivals_are_a_poisson_process),
        cmocka_unit_test(arrivals_may_be_constant),
        cmocka_unit_test(levels_are_what_was_written),
        cmocka_unit_test(three_windows_must_agree),
        cmocka_unit_test(numbers_follow_from_the_id),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
