/* SPDX-License-Identifier: Apache-2.0 */
/* That gpuwire perf's --verify sees what is wrong: any one byte. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "src/cli/perf/perf.h"

static uint8_t all[4 * 4096], (*const memory)[4096] = (uint8_t(*)[4096])all;
static struct perf_side side = {.shape = {.qps = 4}};
static const struct perf_place at = {.span = 4096, .stride = 128, .slots = 32};

/* As src/cli/perf/side.c has them, for memory that the CPU sees. */
int perf_copy_in(struct perf_side *s, uint64_t offset, const void *from, uint64_t n)
{
    (void)s;
    memcpy(all + offset, from, n);
    return 0;
}

int perf_copy_out(struct perf_side *s, void *to, uint64_t offset, uint64_t n)
{
    (void)s;
    memcpy(to, all + offset, n);
    return 0;
}

static struct perf_row checked(struct perf_content what, uint64_t size, const uint64_t *first, uint64_t used)
{
    const struct perf_written written = {what, size, used, first};
    struct perf_row row = {0};

    assert_int_equal(perf_check(&side, &at, &written, &row), 0);
    assert_int_equal(row.checked, sizeof(all));
    return row;
}

static void every_byte_counts(void **state)
{
    const struct perf_content what = {.seed = 9};

    (void)state;
    assert_int_equal(perf_fill(&side, &at, what), 0);
    assert_int_equal(checked(what, 128, NULL, 32).wrong, 0);
    for (uint32_t i = 0; i < sizeof(all); i += 13) {
        all[i] ^= 1u << i % 8;
        assert_int_equal(checked(what, 128, NULL, 32).wrong, 1);
        all[i] ^= 1u << i % 8;
    }
    /* Bytes that did not arrive, that went where nothing belongs, or that are of another round or queue pair.
     */
    assert_int_equal(checked(what, 100, NULL, 32).wrong, 4 * 32 * 28);
    assert_int_equal(checked(what, 128, NULL, 31).wrong, 4 * 128);
    assert_true(checked((struct perf_content){.seed = 10}, 128, NULL, 32).wrong > sizeof(all) / 2);
    memcpy(memory[1], memory[2], 4096);
    assert_true(checked(what, 128, NULL, 32).wrong > 2048);
    memset(all, 0, sizeof(all));
    assert_int_equal(checked(what, 128, NULL, 32).wrong, sizeof(all));
}

/* Receives are taken in a circle, which goes on from round to round. */
static void receives_go_around(void **state)
{
    const struct perf_content what = {.seed = 3, .same = true};
    const uint64_t first[4] = {30, 0, 31, 64 + 5};

    (void)state;
    assert_int_equal(perf_fill(&side, &at, what), 0);
    for (uint32_t q = 0; q < 4; q++)
        for (uint32_t i = 3; i < 32; i++) memset(memory[q] + (first[q] + i) % 32 * 128, 0, 128);
    for (uint32_t i = 0; i < sizeof(all); i += 128) memset(all + i + 77, 0, 51);
    assert_int_equal(checked(what, 77, first, 3).wrong, 0);
    assert_int_equal(checked(what, 77, NULL, 3).wrong > 0, 1);
}

static void atomics_are_accounted_for(void **state)
{
    struct perf_row row = {0};

    (void)state;
    memset(all, 0, sizeof(all));
    for (uint64_t q = 0; q < 4; q++)
        for (uint64_t i = 0; i < 32; i++) memory[q][i * 128] = (uint8_t)((i * 7 + q) % 32);
    assert_int_equal(perf_check_fetched(&side, &at, PERF_FETCH_ADD, 32, &row), 0);
    assert_int_equal(row.checked, 4 * 32 * 8);
    assert_int_equal(row.wrong, 0);
    memory[3][5 * 128] = memory[3][6 * 128]; /* the same value twice */
    assert_int_equal(perf_check_fetched(&side, &at, PERF_FETCH_ADD, 32, &row), 0);
    assert_int_equal(row.wrong, 8);
    memset(all, 0, sizeof(all));
    for (uint64_t q = 0; q < 4; q++) memory[q][0] = 20;
    row = (struct perf_row){0};
    assert_int_equal(perf_check_target(&side, &at, PERF_FETCH_ADD, 20, 0, &row), 0);
    assert_int_equal(row.wrong, 0);
    assert_int_equal(perf_check_target(&side, &at, PERF_FETCH_ADD, 21, 0, &row), 0);
    assert_int_equal(row.wrong, 4);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_byte_counts),
        cmocka_unit_test(receives_go_around),
        cmocka_unit_test(atomics_are_accounted_for),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
