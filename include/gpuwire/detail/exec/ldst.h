/* SPDX-License-Identifier: Apache-2.0 */
/* ldst.h: the loads and stores of gpuwire/sync.h. Names that end in _ are private. */
#ifndef GPUWIRE_DETAIL_EXEC_LDST_H
#define GPUWIRE_DETAIL_EXEC_LDST_H

#include <stdint.h>

#include <gpuwire/fn.h>

/* The address within global memory. Instructions that need not ask first which memory they go to are faster.
 * And nothing waits for an atomic's answer until it is used. */
#ifdef __CUDA_ARCH__
#define GW_GLOBAL_(p) __cvta_generic_to_global(p)
#endif

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

#endif
