/* SPDX-License-Identifier: Apache-2.0 */
/* Included by clock_kernel.c for the CPU and by clock_kernel.cu for the GPU. */
#include "src/host/clock_kernel.h"

GW_KERNEL(gw_clock_kernel, struct gw_clock_args, a)
{
    uint64_t until = gw_clock_ns() + GW_CLOCK_LIMIT_NS;
    uint32_t i;

    if (gw_global_idx()) return;
    for (i = 1; i <= GW_CLOCK_ROUNDS; i++) {
        /* Acquire: the clock is read after the round has begun … */
        while (gw_ld_acquire_u32(&a->page->begun) < i)
            if (gw_clock_ns() >= until) return;
        gw_st_relaxed_u64(&a->page->clock, gw_clock_ns());
        gw_st_release_u32(&a->page->done, i); /* … and release: written before it is over. */
    }
}
