/* SPDX-License-Identifier: Apache-2.0 */
/* fence.h: the fences of gpuwire/sync.h. Names that end in _ are private. */
#ifndef GPUWIRE_DETAIL_EXEC_FENCE_H
#define GPUWIRE_DETAIL_EXEC_FENCE_H

#include <stdint.h>

#include <gpuwire/fn.h>

#if defined(__SANITIZE_THREAD__) /* gcc */
#define GW_TSAN_ 1
#elif defined(__has_feature) /* clang */
#if __has_feature(thread_sanitizer)
#define GW_TSAN_ 1
#endif
#endif
#if !defined(__CUDACC__) && defined(GW_TSAN_)
/* ThreadSanitizer does not know fences. In its builds a fence is a read-modify-write of one word that all
 * fences share. It creates every edge that the fence creates on hardware. It creates more, too, so a missing
 * fence may go unseen there. */
extern uint32_t gw_tsan_fence_word;
__attribute__((weak)) uint32_t gw_tsan_fence_word;
#define GW_CPU_FENCE_(order) ((void)__atomic_fetch_add(&gw_tsan_fence_word, 0, __ATOMIC_SEQ_CST))
#elif !defined(__CUDA_ARCH__) && defined(__aarch64__)
/* The compiler's fences are for the inner shareable domain: CPUs, and devices that are coherent with them. A
 * device may lie in the outer one, and rdma-core's barriers for devices reach there. */
#define GW_CPU_FENCE_(order)                                                                                 \
    do {                                                                                                     \
        if ((order) == __ATOMIC_ACQUIRE)                                                                     \
            asm volatile("dmb oshld" ::: "memory");                                                          \
        else                                                                                                 \
            asm volatile("dmb osh" ::: "memory");                                                            \
    } while (0)
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

GW_FN void gw_fence_release(void)
{
#ifdef __CUDA_ARCH__
    asm volatile(GW_PTX_RELEASE_ ::: "memory");
#else
    GW_CPU_FENCE_(__ATOMIC_RELEASE);
#endif
}

GW_FN void gw_fence_acquire(void)
{
#ifdef __CUDA_ARCH__
    asm volatile("fence.acq_rel.sys;" ::: "memory");
#else
    GW_CPU_FENCE_(__ATOMIC_ACQUIRE);
#endif
}

/* Between an acquiring load that saw what a device wrote, and reads of what the device wrote earlier. Only
 * where the load's own order does not reach devices: see above. */
GW_FN void gw_fence_from_device_(void)
{
#if !defined(__CUDA_ARCH__) && defined(__aarch64__)
    GW_CPU_FENCE_(__ATOMIC_ACQUIRE);
#endif
}

GW_FN void gw_fence_acq_rel(void)
{
#ifdef __CUDA_ARCH__
    asm volatile("fence.acq_rel.sys;" ::: "memory");
#else
    GW_CPU_FENCE_(__ATOMIC_ACQ_REL);
#endif
}

GW_FN void gw_fence_sc(void)
{
#ifdef __CUDA_ARCH__
    asm volatile("fence.sc.sys;" ::: "memory");
#else
    GW_CPU_FENCE_(__ATOMIC_SEQ_CST);
#endif
}

GW_FN void gw_fence_gpu(void)
{
#ifdef __CUDA_ARCH__
    asm volatile("fence.acq_rel.gpu;" ::: "memory");
#else
    GW_CPU_FENCE_(__ATOMIC_ACQ_REL);
#endif
}

#endif
