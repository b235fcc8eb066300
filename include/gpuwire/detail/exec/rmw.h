/* SPDX-License-Identifier: Apache-2.0 */
/* rmw.h: the atomic read-modify-write of gpuwire/sync.h. Names that end in _ are private. */
#ifndef GPUWIRE_DETAIL_EXEC_RMW_H
#define GPUWIRE_DETAIL_EXEC_RMW_H

#include <gpuwire/detail/exec/ldst.h>

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

/* 0, but a compiler for GPUs cannot know that it is the same in all lanes. Add it to the operand of an
 * addition whose answer the kernel waits for. Then the compiler elects no lane that adds for all and tells
 * the others. For a lane that is alone, that election would take 30 ns on an H200. */
GW_FN uint32_t gw_each_lane_(void)
{
#ifdef __CUDA_ARCH__
    uint32_t below; /* lanes: 2^k - 1, which a compiler does not know */
    asm("mov.u32 %0, %%lanemask_lt;" : "=r"(below));
    return below & (below + 1);
#else
    return 0;
#endif
}

#endif
