/* SPDX-License-Identifier: Apache-2.0 */
/* The checks of every test on the driver made of host memory. */
#ifndef TESTS_WIRE_FAKE_CHECKS_H
#define TESTS_WIRE_FAKE_CHECKS_H

#include "softnic/cuda/cuda.h"
#include "tests/wire/fake_cuda.h"

static inline struct sn_cuda_stats stats_of(const struct sn_cuda_region *region)
{
    struct sn_cuda_stats s;

    sn_cuda_region_stats(region, &s);
    return s;
}

/* Each call pushed a context, and popped it again. Nothing was touched without the right to. */
static inline void assert_driver_well_used(void)
{
    assert_int_equal(fake_ctx_depth, 0);
    assert_int_equal(fake_outside, 0);
    assert_int_equal(fake_faults, 0);
}

#endif
