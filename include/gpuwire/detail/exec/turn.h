/* SPDX-License-Identifier: Apache-2.0 */
/* turn.h: threads that take turns at something that kernels of one executor share. Names that end in _ are
 * private. */
#ifndef GPUWIRE_DETAIL_EXEC_TURN_H
#define GPUWIRE_DETAIL_EXEC_TURN_H

#include <errno.h>

#include <gpuwire/sync.h>

/* The result of a wait that has run out: a deadline of 0 asks not to wait at all. */
GW_FN int gw_expired_(uint64_t deadline_ns)
{
    return deadline_ns ? -ETIMEDOUT : -EAGAIN;
}

/*
 * Loads that are asked for together and acquire together: each by gw_ld_ahead_, and when what they say is
 * believed gw_acquired_. A GPU waits once for all of them; loads that acquire would wait for each other. On
 * CPU threads they do, for nothing, and ThreadSanitizer sees it.
 */
#ifdef __CUDACC__
#define gw_ld_ahead_u32_ gw_ld_relaxed_u32_gpu
#define gw_ld_ahead_u64_ gw_ld_relaxed_u64_gpu
#else
#define gw_ld_ahead_u32_ gw_ld_acquire_u32_gpu
#define gw_ld_ahead_u64_ gw_ld_acquire_u64_gpu
#endif

GW_FN void gw_acquired_(void)
{
#ifdef __CUDACC__
    gw_fence_gpu();
#endif
}

GW_FN int gw_turn_try_(uint32_t *lock)
{
    /* Acquire: what the last owner did comes before what we do. */
    return gw_ld_relaxed_u32_gpu(lock) == 0 && gw_cas_acquire_u32_gpu(lock, 0, 1) == 0;
}

GW_FN int gw_turn_take_(uint32_t *lock, uint64_t deadline_ns)
{
    uint32_t round = 0;

    while (!gw_turn_try_(lock)) {
        if (gw_clock_ns() >= deadline_ns) return gw_expired_(deadline_ns);
        gw_pause(round++);
    }
    return 0;
}

GW_FN void gw_turn_leave_(uint32_t *lock)
{
    gw_st_release_u32_gpu(lock, 0); /* release: what we did comes before what the next owner does */
}

#endif
