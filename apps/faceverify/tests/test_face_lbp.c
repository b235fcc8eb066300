/* SPDX-License-Identifier: Apache-2.0 */
/* A block's histograms and comparisons equal the plain ones to the bit, and values that no picture gives are
 * refused. Arguments: cpu|gpu LANES. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <gpuwire/exec.h>

#include "apps/faceverify/tests/lbp_kernels.h"

GW_KERNEL_DECLARE(lbp_kernel);

static struct lbp_case cases[LBP_CASES];
static const char *executor = "cpu";
static struct gw_exec_opts opts = {.lanes = 1};

/* Noise, steps, and edges of both kinds. */
static void picture_fill(uint8_t *p, uint32_t kind)
{
    for (int i = 0; i < FACE_PIXELS; i++) {
        int x = i % FACE_SIDE, y = i / FACE_SIDE;

        p[i] = kind == 0   ? 0
               : kind == 1 ? 255
               : kind == 2 ? (uint8_t)i
               : kind == 3 ? (uint8_t)(x / 5 + y / 3)
                           : (uint8_t)(rand() >> 7 & (kind % 2 ? 0xff : 3));
    }
}

/* Runs all cases. */
static void run_cases(void)
{
    struct gw_exec *exec;
    struct lbp_args args;
    struct gw_mem mem;

    assert_int_equal(0, gw_exec_create(executor, &opts, &exec));
    assert_int_equal(0, gw_mem_alloc(exec, GW_MEM_DEVICE, sizeof(cases), &mem));
    args.cases = mem.dev;
    assert_int_equal(0, gw_copy_in(exec, mem.dev, cases, sizeof(cases)));
    assert_int_equal(0, gw_launch(exec, &lbp_kernel, LBP_CASES, 256, &args));
    assert_int_equal(0, gw_exec_sync(exec, gw_deadline(60 * (uint64_t)1000000000)));
    assert_int_equal(0, gw_copy_out(exec, cases, mem.dev, sizeof(cases)));
    gw_mem_free(&mem);
    assert_int_equal(0, gw_exec_destroy(exec));
}

static void equal_to_plain(void **state)
{
    struct face_histogram plain;

    (void)state;
    for (uint32_t i = 0; i < LBP_CASES; i++) {
        uint8_t other[FACE_PIXELS];

        picture_fill(cases[i].picture, i);
        picture_fill(other, i + 1);
        face_histogram_of(other, &cases[i].value.histogram);
        assert_true(face_histogram_valid(&cases[i].value.histogram));
    }
    run_cases();
    for (uint32_t i = 0; i < LBP_CASES; i++) {
        face_histogram_of(cases[i].picture, &plain);
        assert_memory_equal(&plain, &cases[i].own, sizeof(plain));
        for (int k = 0; k < LBP_ROUNDS; k++)
            assert_true(face_distance(cases[i].terms[k]) == face_compare(&plain, &cases[i].value.histogram));
    }
}

static void wrong_values(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < LBP_CASES; i++) {
        uint16_t *count = cases[i].value.histogram.count;

        face_histogram_of(cases[i].picture, &cases[i].value.histogram);
        if (i == 0)
            memset(count, 0xff, sizeof(cases[i].value.histogram)); /* the sum of terms would not fit */
        else
            count[(uint32_t)rand() % FACE_COUNTS] ^= (uint16_t)(1u << i);
        assert_false(face_histogram_valid(&cases[i].value.histogram));
    }
    run_cases();
    for (uint32_t i = 0; i < LBP_CASES; i++)
        for (int k = 0; k < LBP_ROUNDS; k++) assert_int_equal(UINT32_MAX, cases[i].terms[k]);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(equal_to_plain), cmocka_unit_test(wrong_values)};

    if (argc > 1) executor = argv[1];
    if (argc > 2) opts.lanes = (uint32_t)atoi(argv[2]);
    if (!strcmp(executor, "gpu") && !gw_exec_gpu_available(NULL, 0)) return 77;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
