/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sync.h: loads, stores, fences, atomics, the doorbell store, clock and pause, for memory that a CPU, a GPU
 * and a NIC share.
 *
 * Everything here may be called by any host thread and by any GPU thread, in C, in CUDA device code and in
 * the host part of a .cu file. On the CPU these are C11 atomics (clean under ThreadSanitizer), on the GPU PTX
 * with the same meaning. This is the only header of the project that asks for which of the two it is being
 * compiled.
 *
 * Names: gw_<operation>_<order>_<type>[_gpu]. Without a suffix the scope is the *system*: every CPU thread,
 * every GPU and every device that reads the memory coherently. With _gpu it is the threads of one GPU, which
 * is cheaper there (a fence costs 150-300 ns instead of 550) and the same on a CPU: for locks and counters
 * that only kernels of one GPU touch.
 *
 * Orders, as in C11:
 *   relaxed   the access is single (not torn, not repeated, not invented) and orders nothing else;
 *   acquire   a load: no later load or store of this thread moves before it; what was written before the
 * release that it reads from is visible after it; release   a store: no earlier load or store of this thread
 * moves after it; acq_rel   a read-modify-write that is both. Addresses must be aligned to the size of the
 * type, and on a GPU lie in global memory (its own, or the host's as it maps it): what a block's threads
 * share (GW_SHARED) is ordered by their barriers.
 */
#ifndef GPUWIRE_SYNC_H
#define GPUWIRE_SYNC_H

#include <stdint.h>
#include <time.h>
#include <sched.h>

#include <gpuwire/fn.h>

/* The address within global memory: the instructions that need not ask first which memory they go to are
 * faster, and an atomic's answer need not be waited for until it is used. */
#ifdef __CUDA_ARCH__
#define GW_GLOBAL_(p) __cvta_generic_to_global(p)
#endif

/* ---- loads and stores --------------------------------------------------------------------------------- */

/*
 * uintN_t gw_ld_{relaxed,acquire}_u{8,16,32,64}[_gpu](const void *p)
 * void    gw_st_{relaxed,release}_u{8,16,32,64}[_gpu](void *p, uintN_t v)
 */
#ifdef __CUDA_ARCH__
#define GW_LD_(name, type, ptx, reg, regtype)                                                                \
    GW_FN type name(const void *p)                                                                           \
    {                                                                                                        \
        regtype v;                                                                                           \
        asm volatile("ld." ptx " %0, [%1];" : reg(v) : "l"(GW_GLOBAL_(p)) : "memory");                       \
        return (type)v;                                                                                      \
    }
#define GW_ST_(name, type, ptx, reg, regtype)                                                                \
    GW_FN void name(void *p, type v)                                                                         \
    {                                                                                                        \
        asm volatile("st." ptx " [%0], %1;" : : "l"(GW_GLOBAL_(p)), reg((regtype)v) : "memory");             \
    }
#define GW_LDST_SCOPE_(suffix, scope)                                                                        \
    GW_LD_(gw_ld_relaxed_u8##suffix, uint8_t, "relaxed." scope ".global.b8", "=h", uint16_t)                 \
    GW_LD_(gw_ld_relaxed_u16##suffix, uint16_t, "relaxed." scope ".global.b16", "=h", uint16_t)              \
    GW_LD_(gw_ld_relaxed_u32##suffix, uint32_t, "relaxed." scope ".global.b32", "=r", uint32_t)              \
    GW_LD_(gw_ld_relaxed_u64##suffix, uint64_t, "relaxed." scope ".global.b64", "=l", uint64_t)              \
    GW_LD_(gw_ld_acquire_u8##suffix, uint8_t, "acquire." scope ".global.b8", "=h", uint16_t)                 \
    GW_LD_(gw_ld_acquire_u16##suffix, uint16_t, "acquire." scope ".global.b16", "=h", uint16_t)              \
    GW_LD_(gw_ld_acquire_u32##suffix, uint32_t, "acquire." scope ".global.b32", "=r", uint32_t)              \
    GW_LD_(gw_ld_acquire_u64##suffix, uint64_t, "acquire." scope ".global.b64", "=l", uint64_t)              \
    GW_ST_(gw_st_relaxed_u8##suffix, uint8_t, "relaxed." scope ".global.b8", "h", uint16_t)                  \
    GW_ST_(gw_st_relaxed_u16##suffix, uint16_t, "relaxed." scope ".global.b16", "h", uint16_t)               \
    GW_ST_(gw_st_relaxed_u32##suffix, uint32_t, "relaxed." scope ".global.b32", "r", uint32_t)               \
    GW_ST_(gw_st_relaxed_u64##suffix, uint64_t, "relaxed." scope ".global.b64", "l", uint64_t)               \
    GW_ST_(gw_st_release_u8##suffix, uint8_t, "release." scope ".global.b8", "h", uint16_t)                  \
    GW_ST_(gw_st_release_u16##suffix, uint16_t, "release." scope ".global.b16", "h", uint16_t)               \
    GW_ST_(gw_st_release_u32##suffix, uint32_t, "release." scope ".global.b32", "r", uint32_t)               \
    GW_ST_(gw_st_release_u64##suffix, uint64_t, "release." scope ".global.b64", "l", uint64_t)
#else
#define GW_LD_(name, type, order)                                                                            \
    GW_FN type name(const void *p)                                                                           \
    {                                                                                                        \
        return __atomic_load_n((const type *)p, order);                                                      \
    }
#define GW_ST_(name, type, order)                                                                            \
    GW_FN void name(void *p, type v)                                                                         \
    {                                                                                                        \
        __atomic_store_n((type *)p, v, order);                                                               \
    }
#define GW_LDST_SCOPE_(suffix, scope)                                                                        \
    GW_LD_(gw_ld_relaxed_u8##suffix, uint8_t, __ATOMIC_RELAXED)                                              \
    GW_LD_(gw_ld_relaxed_u16##suffix, uint16_t, __ATOMIC_RELAXED)                                            \
    GW_LD_(gw_ld_relaxed_u32##suffix, uint32_t, __ATOMIC_RELAXED)                                            \
    GW_LD_(gw_ld_relaxed_u64##suffix, uint64_t, __ATOMIC_RELAXED)                                            \
    GW_LD_(gw_ld_acquire_u8##suffix, uint8_t, __ATOMIC_ACQUIRE)                                              \
    GW_LD_(gw_ld_acquire_u16##suffix, uint16_t, __ATOMIC_ACQUIRE)                                            \
    GW_LD_(gw_ld_acquire_u32##suffix, uint32_t, __ATOMIC_ACQUIRE)                                            \
    GW_LD_(gw_ld_acquire_u64##suffix, uint64_t, __ATOMIC_ACQUIRE)                                            \
    GW_ST_(gw_st_relaxed_u8##suffix, uint8_t, __ATOMIC_RELAXED)                                              \
    GW_ST_(gw_st_relaxed_u16##suffix, uint16_t, __ATOMIC_RELAXED)                                            \
    GW_ST_(gw_st_relaxed_u32##suffix, uint32_t, __ATOMIC_RELAXED)                                            \
    GW_ST_(gw_st_relaxed_u64##suffix, uint64_t, __ATOMIC_RELAXED)                                            \
    GW_ST_(gw_st_release_u8##suffix, uint8_t, __ATOMIC_RELEASE)                                              \
    GW_ST_(gw_st_release_u16##suffix, uint16_t, __ATOMIC_RELEASE)                                            \
    GW_ST_(gw_st_release_u32##suffix, uint32_t, __ATOMIC_RELEASE)                                            \
    GW_ST_(gw_st_release_u64##suffix, uint64_t, __ATOMIC_RELEASE)
#endif
GW_LDST_SCOPE_(, "sys")
GW_LDST_SCOPE_(_gpu, "gpu")

/* Sixteen bytes, relaxed, system scope: each 8-byte half is single, the pair is not promised to be (it is one
 * store instruction on a GPU, two on a CPU). p is aligned to 16. For data that another agent may look at
 * while it is being written; a builder that publishes afterwards can use gw_store16 of fn.h. */
GW_FN void gw_st_relaxed_2u64(void *p, uint64_t lo, uint64_t hi)
{
#ifdef __CUDA_ARCH__
    asm volatile("st.relaxed.sys.global.v2.b64 [%0], {%1, %2};"
                 :
                 : "l"(GW_GLOBAL_(p)), "l"(lo), "l"(hi)
                 : "memory");
#else
    gw_st_relaxed_u64(p, lo);
    gw_st_relaxed_u64((uint8_t *)p + 8, hi);
#endif
}

/* Reads what gw_st_relaxed_2u64 writes: *lo from p, *hi from behind it; each single, the pair not. */
GW_FN void gw_ld_relaxed_2u64(const void *p, uint64_t *lo, uint64_t *hi)
{
#ifdef __CUDA_ARCH__
    uint64_t a, b; /* registers, whatever lo and hi point to */
    asm volatile("ld.relaxed.sys.global.v2.b64 {%0, %1}, [%2];"
                 : "=l"(a), "=l"(b)
                 : "l"(GW_GLOBAL_(p))
                 : "memory");
    *lo = a;
    *hi = b;
#else
    *lo = gw_ld_relaxed_u64(p);
    *hi = gw_ld_relaxed_u64((const uint8_t *)p + 8);
#endif
}

/* ---- fences ------------------------------------------------------------------------------------------- */

#if defined(__SANITIZE_THREAD__) /* gcc */
#define GW_TSAN_ 1
#elif defined(__has_feature) /* clang */
#if __has_feature(thread_sanitizer)
#define GW_TSAN_ 1
#endif
#endif
#if !defined(__CUDACC__) && defined(GW_TSAN_)
/* ThreadSanitizer does not know fences. In its builds a fence is a read-modify-write of one word that all
 * fences share: it creates every edge that the fence creates on hardware (and more, so a missing fence may go
 * unseen there). */
extern uint32_t gw_tsan_fence_word;
__attribute__((weak)) uint32_t gw_tsan_fence_word;
#define GW_CPU_FENCE_(order) ((void)__atomic_fetch_add(&gw_tsan_fence_word, 0, __ATOMIC_SEQ_CST))
#else
#define GW_CPU_FENCE_(order) __atomic_thread_fence(order)
#endif

/* One-way fences are cheaper (by 70 ns on an H200: L1 stays as it is); PTX has them since 8.6, for sm_90. */
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900 &&                                                        \
    (__CUDACC_VER_MAJOR__ > 12 || (__CUDACC_VER_MAJOR__ == 12 && __CUDACC_VER_MINOR__ >= 8))
#define GW_PTX_RELEASE_ "fence.release.sys;"
#else
#define GW_PTX_RELEASE_ "fence.acq_rel.sys;"
#endif

/* Earlier loads and stores stay before it, later stores after it: put it between data and the relaxed store
 * that announces them, to the whole system. It holds back no later load, so it neither acquires what an
 * earlier relaxed load saw (gw_fence_acq_rel) nor keeps store before load (gw_fence_sc): on sm_90 it is that
 * weak indeed. */
GW_FN void gw_fence_release(void)
{
#ifdef __CUDA_ARCH__
    asm volatile(GW_PTX_RELEASE_ ::: "memory");
#else
    GW_CPU_FENCE_(__ATOMIC_RELEASE);
#endif
}

/* Earlier loads stay before it, later loads and stores after it: put it between the relaxed load that saw an
 * announcement and the first use of the data. */
GW_FN void gw_fence_acquire(void)
{
#ifdef __CUDA_ARCH__
    asm volatile("fence.acq_rel.sys;" ::: "memory");
#else
    GW_CPU_FENCE_(__ATOMIC_ACQUIRE);
#endif
}

/* Both of the above. */
GW_FN void gw_fence_acq_rel(void)
{
#ifdef __CUDA_ARCH__
    asm volatile("fence.acq_rel.sys;" ::: "memory");
#else
    GW_CPU_FENCE_(__ATOMIC_ACQ_REL);
#endif
}

/* Both, and it also keeps earlier *stores* before later *loads*, which neither of the above does: for
 * "announce that I sleep, then look once more", where the other side writes first and looks at the
 * announcement then. */
GW_FN void gw_fence_sc(void)
{
#ifdef __CUDA_ARCH__
    asm volatile("fence.sc.sys;" ::: "memory");
#else
    GW_CPU_FENCE_(__ATOMIC_SEQ_CST);
#endif
}

/* Release and acquire among the threads of one GPU. */
GW_FN void gw_fence_gpu(void)
{
#ifdef __CUDA_ARCH__
    asm volatile("fence.acq_rel.gpu;" ::: "memory");
#else
    GW_CPU_FENCE_(__ATOMIC_ACQ_REL);
#endif
}

/* ---- read-modify-write -------------------------------------------------------------------------------- */

/*
 * uintN_t gw_{add,exch,or,and}_{relaxed,acquire,release,acq_rel}_u{32,64}[_gpu](void *p, uintN_t v)
 * uintN_t gw_cas_{relaxed,acquire,release,acq_rel}_u{32,64}[_gpu](void *p, uintN_t expected, uintN_t desired)
 * All return the value that was there before. A CAS that finds another value stores nothing (and is an
 * acquire at most). On a GPU, atomics on *host* memory work only where the system has PCIe atomics or a
 * coherent link: keep words that kernels count in in GPU memory.
 */
#ifdef __CUDA_ARCH__
#define GW_RMW_(name, type, ptx, reg)                                                                        \
    GW_FN type name(void *p, type v)                                                                         \
    {                                                                                                        \
        type old;                                                                                            \
        asm volatile("atom." ptx " %0, [%1], %2;" : "=" reg(old) : "l"(GW_GLOBAL_(p)), reg(v) : "memory");   \
        return old;                                                                                          \
    }
#define GW_CAS_(name, type, ptx, reg)                                                                        \
    GW_FN type name(void *p, type expected, type desired)                                                    \
    {                                                                                                        \
        type old;                                                                                            \
        asm volatile("atom." ptx " %0, [%1], %2, %3;"                                                        \
                     : "=" reg(old)                                                                          \
                     : "l"(GW_GLOBAL_(p)), reg(expected), reg(desired)                                       \
                     : "memory");                                                                            \
        return old;                                                                                          \
    }
#define GW_RMW_ORDER_(order, corder, suffix, scope)                                                          \
    GW_RMW_(gw_add_##order##_u32##suffix, uint32_t, #order "." scope ".global.add.u32", "r")                 \
    GW_RMW_(gw_add_##order##_u64##suffix, uint64_t, #order "." scope ".global.add.u64", "l")                 \
    GW_RMW_(gw_exch_##order##_u32##suffix, uint32_t, #order "." scope ".global.exch.b32", "r")               \
    GW_RMW_(gw_exch_##order##_u64##suffix, uint64_t, #order "." scope ".global.exch.b64", "l")               \
    GW_RMW_(gw_or_##order##_u32##suffix, uint32_t, #order "." scope ".global.or.b32", "r")                   \
    GW_RMW_(gw_or_##order##_u64##suffix, uint64_t, #order "." scope ".global.or.b64", "l")                   \
    GW_RMW_(gw_and_##order##_u32##suffix, uint32_t, #order "." scope ".global.and.b32", "r")                 \
    GW_RMW_(gw_and_##order##_u64##suffix, uint64_t, #order "." scope ".global.and.b64", "l")                 \
    GW_CAS_(gw_cas_##order##_u32##suffix, uint32_t, #order "." scope ".global.cas.b32", "r")                 \
    GW_CAS_(gw_cas_##order##_u64##suffix, uint64_t, #order "." scope ".global.cas.b64", "l")
#else
#define GW_RMW_(name, type, op, order)                                                                       \
    GW_FN type name(void *p, type v)                                                                         \
    {                                                                                                        \
        return op((type *)p, v, order);                                                                      \
    }
#define GW_CAS_(name, type, order, failure)                                                                  \
    GW_FN type name(void *p, type expected, type desired)                                                    \
    {                                                                                                        \
        __atomic_compare_exchange_n((type *)p, &expected, desired, 0, order, failure);                       \
        return expected; /* on failure the builtin stored what it found here */                              \
    }
#define GW_CAS_FAIL_relaxed __ATOMIC_RELAXED
#define GW_CAS_FAIL_acquire __ATOMIC_ACQUIRE
#define GW_CAS_FAIL_release __ATOMIC_RELAXED
#define GW_CAS_FAIL_acq_rel __ATOMIC_ACQUIRE
#define GW_RMW_ORDER_(order, corder, suffix, scope)                                                          \
    GW_RMW_(gw_add_##order##_u32##suffix, uint32_t, __atomic_fetch_add, corder)                              \
    GW_RMW_(gw_add_##order##_u64##suffix, uint64_t, __atomic_fetch_add, corder)                              \
    GW_RMW_(gw_exch_##order##_u32##suffix, uint32_t, __atomic_exchange_n, corder)                            \
    GW_RMW_(gw_exch_##order##_u64##suffix, uint64_t, __atomic_exchange_n, corder)                            \
    GW_RMW_(gw_or_##order##_u32##suffix, uint32_t, __atomic_fetch_or, corder)                                \
    GW_RMW_(gw_or_##order##_u64##suffix, uint64_t, __atomic_fetch_or, corder)                                \
    GW_RMW_(gw_and_##order##_u32##suffix, uint32_t, __atomic_fetch_and, corder)                              \
    GW_RMW_(gw_and_##order##_u64##suffix, uint64_t, __atomic_fetch_and, corder)                              \
    GW_CAS_(gw_cas_##order##_u32##suffix, uint32_t, corder, GW_CAS_FAIL_##order)                             \
    GW_CAS_(gw_cas_##order##_u64##suffix, uint64_t, corder, GW_CAS_FAIL_##order)
#endif
#define GW_RMW_SCOPE_(suffix, scope)                                                                         \
    GW_RMW_ORDER_(relaxed, __ATOMIC_RELAXED, suffix, scope)                                                  \
    GW_RMW_ORDER_(acquire, __ATOMIC_ACQUIRE, suffix, scope)                                                  \
    GW_RMW_ORDER_(release, __ATOMIC_RELEASE, suffix, scope)                                                  \
    GW_RMW_ORDER_(acq_rel, __ATOMIC_ACQ_REL, suffix, scope)
GW_RMW_SCOPE_(, "sys")
GW_RMW_SCOPE_(_gpu, "gpu")

/* 0, but a compiler for GPUs cannot know that it is the same in all lanes. Added to the operand of an addition whose answer
 * is waited for, it keeps it from electing a lane that adds for all and tells the others, which takes a lane
 * that is alone longer, by 30 ns on an H200. */
GW_FN uint32_t gw_each_lane_(void)
{
#ifdef __CUDA_ARCH__
    uint32_t lane;
    asm("mov.u32 %0, %%laneid;" : "=r"(lane));
    return lane >> 5;
#else
    return 0;
#endif
}

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
