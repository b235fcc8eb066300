/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sync.h: loads, stores, fences, atomics, the doorbell store, clock and pause, for memory that a CPU, a GPU
 * and a NIC share. Here are the last three; sync_ldst.h, sync_fence.h and sync_rmw.h have the others.
 *
 * Everything here may be called by any host thread and by any GPU thread, in C, in CUDA device code and in
 * the host part of a .cu file. On the CPU these are C11 atomics (clean under ThreadSanitizer), on the GPU PTX
 * with the same meaning. For which of the two they are being compiled only these headers ask, fn.h and group.h.
 *
 * Names: gw_<operation>_<order>_<type>[_gpu]. Without a suffix the scope is the *system*: every CPU thread,
 * every GPU and every device that reads the memory coherently. With _gpu it is the threads of one GPU, which
 * is cheaper there (a fence costs 150-300 ns instead of 550) and the same on a CPU: for locks and counters
 * that only kernels of one GPU touch.
 *
 * Orders, as in C11:
 *   relaxed   the access is single (not torn, not repeated, not invented) and orders nothing else;
 *   acquire   a load: no later load or store of this thread moves before it; what was written before the
 *             release that it reads from is visible after it;
 *   release   a store: no earlier load or store of this thread moves after it;
 *   acq_rel   a read-modify-write that is both.
 *
 * Addresses must be aligned to the size of the type, and on a GPU lie in global memory (its own, or the host's
 * as it maps it): what a block's threads share (GW_SHARED) is ordered by their barriers.
 */
#ifndef GPUWIRE_SYNC_H
#define GPUWIRE_SYNC_H

#include <stdint.h>
#include <time.h>
#include <sched.h>

#include <gpuwire/fn.h>
#include <gpuwire/sync_fence.h>
#include <gpuwire/sync_ldst.h>
#include <gpuwire/sync_rmw.h>

/* ---- the doorbell ------------------------------------------------------------------------------------- */

/* Writes a device register (a doorbell) with one 8-byte store that is neither merged nor repeated. It orders
 * nothing on a GPU: put gw_fence_release between the doorbell record and this. On a CPU it is also a release,
 * which costs nothing on x86 and lets ThreadSanitizer see the edge to a software NIC; a write-combining
 * mapping still needs gw_mmio_flush, an uncached one does not. */
GW_FN void gw_mmio_st64(void *reg, uint64_t v)
{
#ifdef __CUDA_ARCH__
    asm volatile("st.mmio.relaxed.sys.global.u64 [%0], %1;" : : "l"(GW_GLOBAL_(reg)), "l"(v) : "memory");
#else
    __atomic_store_n((uint64_t *)reg, v, __ATOMIC_RELEASE);
#endif
}

/* After gw_mmio_st64, on a CPU: if the register is mapped write-combining, the store leaves the processor now
 * and not when something else happens to empty the buffer. A GPU has no such buffer. */
GW_FN void gw_mmio_flush(void)
{
#if defined(__CUDA_ARCH__)
#elif defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_sfence();
#elif defined(__aarch64__)
    asm volatile("dsb st" ::: "memory");
#else
    gw_fence_sc();
#endif
}

/* ---- time --------------------------------------------------------------------------------------------- */

/* Nanoseconds that only go forward. CPU: CLOCK_MONOTONIC. GPU: %globaltimer, whose *epoch differs* (never
 * compare the two) and which ticks in steps of 32 ns on recent GPUs, up to 1 µs on older ones. Deadlines for
 * device code are therefore made by device code: gw_clock_ns() + what it may take. */
GW_FN uint64_t gw_clock_ns(void)
{
#ifdef __CUDA_ARCH__
    uint64_t t;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(t));
    return t;
#else
    struct timespec ts;
    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
#endif
}

/* Nanoseconds since the epoch. ahead: how far they are ahead of the GPU's clock, which a CPU need not be told. */
GW_FN uint64_t gw_clock_epoch_ns_(const uint64_t *ahead)
{
#ifdef __CUDA_ARCH__
    return gw_clock_ns() + gw_ld_relaxed_u64(ahead);
#else
    struct timespec ts;
    (void)ahead;
    clock_gettime(CLOCK_REALTIME, &ts);
    return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
#endif
}

/* What a thread does between two looks at memory that another agent will change; round counts its looks from
 * 0. CPU: a processor pause for the first 64 rounds, then it gives the processor up (sched_yield), since the
 * agent may be a thread that waits for this very core. GPU: nothing for 16 rounds, then about 50 ns of sleep.
 * It never sleeps long: what waits for milliseconds belongs on a file descriptor (gw_wait_fds). */
GW_FN void gw_pause(uint32_t round)
{
#ifdef __CUDA_ARCH__
    if (round >= 16) __nanosleep(50);
#else
    if (round >= 64) {
        sched_yield();
    } else {
#if defined(__x86_64__) || defined(__i386__)
        __builtin_ia32_pause();
#elif defined(__aarch64__)
        asm volatile("yield" ::: "memory");
#endif
    }
#endif
}

#endif
