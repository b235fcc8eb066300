/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fn.h: how a function that CPU and GPU share is marked, and the few primitives the formats need.
 *
 * Everything marked GW_FN is in the common subset of C11 and CUDA C++. Any host thread and any GPU thread may
 * call it. It touches only what its arguments point to, and never blocks.
 */
#ifndef GPUWIRE_FN_H
#define GPUWIRE_FN_H

#include <assert.h> /* static_assert, in C */
#include <stdint.h>

#ifdef __CUDACC__
#define GW_FN static inline __host__ __device__
#else
#define GW_FN static inline
#endif

/* As GW_FN, for rare cases: kept out of line. A GPU thread waits for the code it runs through, so a loop must
 * fit into the instruction cache. Give it scalars and handles: the address of a local would force it into
 * memory. */
#ifdef __CUDACC__
#define GW_SLOW_FN static __attribute__((unused)) __noinline__ __host__ __device__
#else
#define GW_SLOW_FN static __attribute__((unused, noinline))
#endif

/* In front of a loop that a GPU's compiler is to leave as it is. Copies of a large body cost the instruction
 * cache more than the branches do, and the compiler most of its time. */
#ifdef __CUDA_ARCH__
#define GW_NO_UNROLL_ _Pragma("unroll 1")
#else
#define GW_NO_UNROLL_
#endif

/* As GW_FN, for code that every post runs through. A CPU's compiler always inlines it, so that the operation
 * and the flags, which the caller knows, are decided when it is compiled. */
#ifdef __CUDACC__
#define GW_HOT_FN GW_FN
#else
#define GW_HOT_FN static inline __attribute__((always_inline))
#endif

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "gpuwire runs on little-endian machines only: its big-endian conversions always swap"
#endif

/* Host order to big-endian and back. gcc and clang turn the shifts into one swap; nvcc needs to be told. */
GW_FN uint16_t gw_be16(uint16_t x)
{
    return (uint16_t)(x << 8 | x >> 8);
}

GW_FN uint32_t gw_be32(uint32_t x)
{
#ifdef __CUDA_ARCH__
    return __byte_perm(x, 0, 0x0123);
#else
    return x << 24 | (x & 0xff00u) << 8 | (x >> 8 & 0xff00u) | x >> 24;
#endif
}

GW_FN uint64_t gw_be64(uint64_t x)
{
    return (uint64_t)gw_be32((uint32_t)x) << 32 | gw_be32((uint32_t)(x >> 32));
}

/* Sixteen bytes that move with one store. may_alias: queue memory is looked at through other types elsewhere.
 */
struct gw_u128 {
    uint32_t w[4];
} __attribute__((aligned(16), may_alias));

/* How many bits are set. */
GW_FN uint32_t gw_popcount(uint32_t x)
{
#ifdef __CUDA_ARCH__
    return (uint32_t)__popc(x);
#else
    return (uint32_t)__builtin_popcount(x);
#endif
}

/* Is this code compiled for a GPU? A constant, for the few places where GPU and CPU do different things. And
 * may a store of several bytes go to any address? */
#ifdef __CUDA_ARCH__
enum { GW_ON_GPU = 1, GW_UNALIGNED_STORES = 0 };
#else
enum { GW_ON_GPU = 0, GW_UNALIGNED_STORES = 1 };
#endif

/*
 * Writes 16 bytes to dst (aligned to 16). A GPU does it with a single st.v4 (to global memory). A CPU does it
 * with two stores of 8 bytes. The bytes come out of general registers, and bringing them together in a vector
 * register would be slower than a second store. They are plain stores: they order nothing, and the caller
 * publishes afterwards.
 */
GW_FN void gw_store16(void *dst, struct gw_u128 v)
{
#if defined(__CUDA_ARCH__)
    asm volatile("st.global.v4.b32 [%0], {%1, %2, %3, %4};"
                 :
                 : "l"(__cvta_generic_to_global(dst)), "r"(v.w[0]), "r"(v.w[1]), "r"(v.w[2]), "r"(v.w[3])
                 : "memory");
#elif defined(__CUDACC__)
    *(uint4 *)dst = make_uint4(v.w[0], v.w[1], v.w[2], v.w[3]);
#else
    typedef uint64_t __attribute__((may_alias)) half;

    ((half *)dst)[0] = v.w[0] | (uint64_t)v.w[1] << 32;
    ((half *)dst)[1] = v.w[2] | (uint64_t)v.w[3] << 32;
#endif
}

#endif
