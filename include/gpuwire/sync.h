/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sync.h: loads, stores, fences, atomics, the doorbell store, clock and pause, for memory that a CPU, a GPU
 * and a NIC share.
 *
 * Any host thread and any GPU thread may call everything here: in C, in CUDA device code and in the host part
 * of a .cu file. On the CPU these are C11 atomics (clean under ThreadSanitizer), on the GPU PTX with the same
 * meaning. Only detail/exec, fn.h and this header ask which of the two they are compiled for.
 *
 * Names: gw_<operation>_<order>_<type>[_gpu]. Without a suffix the scope is the *system*: every CPU thread,
 * every GPU and every device that reads the memory coherently. With _gpu it is the threads of one GPU: for
 * locks and counters that only kernels of one GPU touch. That is cheaper on a GPU (a fence costs 150-300 ns
 * instead of 550), and the same on a CPU.
 *
 * Orders, as in C11:
 *   relaxed   The access is single (not torn, not repeated, not invented) and orders nothing else.
 *   acquire   A load. No later load or store of this thread moves before it. All that was written before the
 *             release that it reads from is visible after it.
 *   release   A store. No earlier load or store of this thread moves after it.
 *   acq_rel   A read-modify-write that is both.
 *
 * Addresses must be aligned to the size of the type. On a GPU they must lie in global memory: its own, or the
 * host's as it maps it. For memory that a block's threads share (GW_SHARED), their barriers are the order.
 */
#ifndef GPUWIRE_SYNC_H
#define GPUWIRE_SYNC_H

#include <stdint.h>
#include <time.h>
#include <sched.h>

#include <gpuwire/fn.h>

/* ---- loads and stores --------------------------------------------------------------------------------- */

/*
 * Single accesses of 1, 2, 4 or 8 bytes. A macro in detail/exec/ldst.h makes them, for both scopes:
 *
 * uintN_t gw_ld_{relaxed,acquire}_u{8,16,32,64}[_gpu](const void *p)
 * void    gw_st_{relaxed,release}_u{8,16,32,64}[_gpu](void *p, uintN_t v)
 */
#include <gpuwire/detail/exec/ldst.h>

/* Stores sixteen bytes, relaxed, system scope. p is aligned to 16. Each 8-byte half is single; the pair is
 * not promised to be (it is one store instruction on a GPU, two on a CPU). For data that another agent may
 * look at while it is being written; a builder that publishes afterwards can use gw_store16 of fn.h. */
GW_FN void gw_st_relaxed_2u64(void *p, uint64_t lo, uint64_t hi);

/* Loads what gw_st_relaxed_2u64 stores, relaxed: *lo from p, *hi from the 8 bytes after it. Each half is
 * single, the pair is not. */
GW_FN void gw_ld_relaxed_2u64(const void *p, uint64_t *lo, uint64_t *hi);

/* ---- fences ------------------------------------------------------------------------------------------- */

/*
 * They order the calling thread's accesses for the whole system (every CPU thread, GPU and device), but for
 * gw_fence_gpu.
 */

/* Earlier loads and stores stay before it, later stores after it: put it between data and the relaxed store
 * that announces them. It holds back no later load. So it neither acquires what an earlier relaxed load saw
 * (gw_fence_acq_rel), nor keeps a store before a load (gw_fence_sc); on sm_90 it is really that weak. */
GW_FN void gw_fence_release(void);

/* Earlier loads stay before it, later loads and stores after it: put it between the relaxed load that saw an
 * announcement and the first use of the data. */
GW_FN void gw_fence_acquire(void);

/* Both of the above. */
GW_FN void gw_fence_acq_rel(void);

/* Both, and it also keeps earlier *stores* before later *loads*, which neither of the above does. For
 * "announce that I sleep, then look once more", where the other side writes first and then looks at the
 * announcement. */
GW_FN void gw_fence_sc(void);

/* Release and acquire among the threads of one GPU. */
GW_FN void gw_fence_gpu(void);

#include <gpuwire/detail/exec/fence.h>

/* ---- atomic read-modify-write ------------------------------------------------------------------------- */

/*
 * A macro in detail/exec/rmw.h makes them, for both scopes. All return the value that was there before:
 *
 * uintN_t gw_{add,exch,or,and}_{relaxed,acquire,release,acq_rel}_u{32,64}[_gpu](void *p, uintN_t v) uintN_t
 * gw_cas_{relaxed,acquire,release,acq_rel}_u{32,64}[_gpu](void *p, uintN_t expected, uintN_t desired)
 *
 * A CAS that finds another value stores nothing, and is an acquire at most. On a GPU, atomics on *host*
 * memory work only where the system has PCIe atomics or a coherent link. So keep words that kernels count in
 * in GPU memory.
 */
#include <gpuwire/detail/exec/rmw.h>

/* ---- the doorbell ------------------------------------------------------------------------------------- */

/* Writes a device register (a doorbell) with one 8-byte store that is neither merged nor repeated. It orders
 * nothing on a GPU: put gw_fence_release between the doorbell record and this. On a CPU it is also a release.
 * That costs nothing on x86, and lets ThreadSanitizer see the edge to a software NIC. A write-combining
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

/* Nanoseconds since the epoch. ahead: how far they are ahead of the GPU's clock, which a CPU need not be
 * told. */
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

/* For a thread that waits, between two looks at memory that another agent will change; round counts its looks
 * from 0. CPU: a processor pause for the first 64 rounds. Then it gives the processor up (sched_yield), since
 * the agent may be a thread that waits for this very core. GPU: nothing for 16 rounds, then about 50 ns of
 * sleep. It never sleeps long: what waits for milliseconds belongs on a file descriptor (gw_wait_fds). */
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
