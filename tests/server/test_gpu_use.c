/* SPDX-License-Identifier: Apache-2.0 */
/* The use of GPUs, from a library that stands in for NVIDIA's (fake_nvml.c). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "src/server/lifecycle/gpu_use.h"

static void gpus_that_answer_are_told(void **state)
{
    (void)state;
    struct gw_gpu_use gpu[GW_GPU_USE_MAX];
    assert_int_equal(gw_gpu_use_read(gpu, GW_GPU_USE_MAX), 2);
    assert_string_equal(gpu[0].uuid, "GPU-0");
    assert_true(gpu[0].utilization > 0.249 && gpu[0].utilization < 0.251);
    assert_int_equal(gpu[0].memory, 1000);
    assert_int_equal(gpu[0].memory_used, 600);
    assert_true(gpu[0].watts > 70.4 && gpu[0].watts < 70.6);
    assert_string_equal(gpu[1].uuid, "GPU-2");
    assert_true(gpu[1].utilization > 0.99 && gpu[1].watts == 0);
    assert_int_equal(gw_gpu_use_read(gpu, 1), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(gpus_that_answer_are_told)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
