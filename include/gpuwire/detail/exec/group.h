/* SPDX-License-Identifier: Apache-2.0 */
/* group.h: how the threads of a group share values and copies. Included by gpuwire/group.h; names that end in
 * _ are private. */
#include <gpuwire/group.h> /* which includes this file where it belongs */

#ifndef GPUWIRE_DETAIL_EXEC_GROUP_H
#define GPUWIRE_DETAIL_EXEC_GROUP_H

GW_DEV uint32_t gw_group_rank(enum gw_group g)
{
    return g == GW_BLOCK ? gw_thread_idx() : g == GW_WARP ? gw_lane() : 0;
}

GW_DEV uint32_t gw_group_size(enum gw_group g)
{
    return g == GW_BLOCK ? gw_block_dim() : g == GW_WARP ? gw_warp_size() : 1;
}

GW_DEV void gw_group_sync(enum gw_group g)
{
    if (g == GW_BLOCK)
        gw_syncthreads();
    else if (g == GW_WARP)
        gw_syncwarp(gw_warp_mask());
}

GW_DEV uint64_t gw_group_first(enum gw_group g, uint64_t value)
{
    if (g == GW_BLOCK) {
        GW_SHARED(uint64_t, first);

        if (gw_thread_idx() == 0) *first = value;
        gw_syncthreads();
        value = *first;
        gw_syncthreads(); /* no thread enters again while others still read *first */
    } else if (g == GW_WARP) {
        value = gw_shfl_u64(gw_warp_mask(), value, 0);
        gw_syncwarp(gw_warp_mask()); /* a shuffle orders no memory */
    }
    return value;
}

GW_DEV uint64_t gw_group_first_two(enum gw_group g, uint64_t value, uint64_t *also)
{
    if (g == GW_BLOCK) {
        GW_SHARED(uint64_t, first);
        GW_SHARED(uint64_t, second);

        if (gw_thread_idx() == 0) *first = value, *second = *also;
        gw_syncthreads();
        value = *first;
        *also = *second;
        gw_syncthreads(); /* as above */
    } else if (g == GW_WARP) {
        value = gw_shfl_u64(gw_warp_mask(), value, 0);
        *also = gw_shfl_u64(gw_warp_mask(), *also, 0);
        gw_syncwarp(gw_warp_mask());
    }
    return value;
}

GW_DEV void gw_group_first_three(enum gw_group g, uint64_t value[3])
{
    uint32_t i;

    if (g == GW_BLOCK) {
        GW_SHARED(uint64_t, first);
        GW_SHARED(uint64_t, second);
        GW_SHARED(uint64_t, third);

        if (gw_thread_idx() == 0) *first = value[0], *second = value[1], *third = value[2];
        gw_syncthreads();
        value[0] = *first;
        value[1] = *second;
        value[2] = *third;
        gw_syncthreads(); /* as above */
    } else if (g == GW_WARP) {
        for (i = 0; i < 3; i++) value[i] = gw_shfl_u64(gw_warp_mask(), value[i], 0);
        gw_syncwarp(gw_warp_mask());
    }
}

/* This thread's stretch of n bytes, whole lines but for the last one: CPU threads of a group share no line.
 */
GW_FN uint64_t gw_stretch_(uint64_t n, uint32_t rank, uint32_t size, uint64_t *at)
{
    uint64_t part = size == 1 ? n : ((n + size - 1) / size + 63) & ~(uint64_t)63;

    *at = part * rank < n ? part * rank : n;
    return n - *at < part ? n - *at : part;
}

#ifdef __CUDA_ARCH__
/*
 * Units number rank, rank + size and so on of a copy of n. Eight are read before the first is written, since
 * each read takes most of a microsecond. Units past the end are left out, so that the last ones take no round
 * of their own each.
 */
#define GW_COPY_UNITS_(name, unit, load, store)                                                              \
    GW_FN void name(uint8_t *to, const uint8_t *from, uint64_t n, uint32_t rank, uint32_t size)              \
    {                                                                                                        \
        unit *d = (unit *)to, v[8];                                                                          \
        const unit *s = (const unit *)from;                                                                  \
        uint64_t i;                                                                                          \
        uint32_t k;                                                                                          \
                                                                                                             \
        if (n <= size) { /* as most short copies are: nothing to unroll */                                   \
            if (rank < n) store(&d[rank], load(&s[rank]));                                                   \
            return;                                                                                          \
        }                                                                                                    \
        for (i = rank; i < n; i += 8 * (uint64_t)size) {                                                     \
            _Pragma("unroll") for (k = 0; k < 8; k++) if (i + k * size < n) v[k] = load(&s[i + k * size]);   \
            _Pragma("unroll") for (k = 0; k < 8; k++) if (i + k * size < n) store(&d[i + k * size], v[k]);   \
        }                                                                                                    \
    }
#define GW_COPY_LOAD_(p)     (*(p))
#define GW_COPY_STORE_(p, v) (*(p) = (v))
/* __isGlobal, which nvcc 13.0 fails to compile for pointers that were integers before. */
GW_FN uint32_t gw_is_global_(const void *p)
{
    uint32_t is;

    asm("{ .reg .pred p; isspacep.global p, %1; selp.u32 %0, 1, 0, p; }" : "=r"(is) : "l"(p));
    return is;
}

/* Plain accesses: either side may lie in what the block shares, or be one thread's own. */
GW_COPY_UNITS_(gw_copy_16_, uint4, GW_COPY_LOAD_, GW_COPY_STORE_)
GW_COPY_UNITS_(gw_copy_4_, uint32_t, GW_COPY_LOAD_, GW_COPY_STORE_)
GW_COPY_UNITS_(gw_copy_1_, uint8_t, GW_COPY_LOAD_, GW_COPY_STORE_)
/* Within global memory, where the instructions need not ask which memory they go to, and past the first-level
 * cache. */
GW_COPY_UNITS_(gw_copy_global_, uint4, __ldcg, __stcg)
#undef GW_COPY_STORE_
#undef GW_COPY_LOAD_
#undef GW_COPY_UNITS_
#endif

GW_FN void gw_copy_share(void *to, const void *from, uint64_t n, uint32_t rank, uint32_t size)
{
    uint8_t *d = (uint8_t *)to;
    const uint8_t *s = (const uint8_t *)from;
#ifdef __CUDA_ARCH__
    uint64_t apart = (uintptr_t)to ^ (uintptr_t)from, unit = apart & 3 ? 1 : apart & 15 ? 4 : 16;
    uint64_t head = (0 - (uintptr_t)to) & (unit - 1), body;

    if (head > n) head = n;
    body = (n - head) & ~(unit - 1);
    gw_copy_1_(d, s, head, rank, size);
    if (unit == 16 && gw_is_global_(to) && gw_is_global_(from))
        gw_copy_global_(d + head, s + head, body / 16, rank, size);
    else if (unit == 16)
        gw_copy_16_(d + head, s + head, body / 16, rank, size);
    else if (unit == 4)
        gw_copy_4_(d + head, s + head, body / 4, rank, size);
    else
        gw_copy_1_(d + head, s + head, body, rank, size);
    gw_copy_1_(d + head + body, s + head + body, n - head - body, rank, size);
#else
    uint64_t at, part = gw_stretch_(n, rank, size, &at);

    memcpy(d + at, s + at, part);
#endif
}

#ifndef __CUDACC__
#ifdef __cplusplus
extern "C" {
#endif
/* Copies past the caches, where that is faster. Later stores are ordered after it. */
GW_API void gw_cpu_copy_away_(void *to, const void *from, uint64_t n);
#ifdef __cplusplus
}
#endif
#endif

GW_FN void gw_copy_share_away(void *to, const void *from, uint64_t n, uint32_t rank, uint32_t size)
{
#ifdef __CUDACC__
    gw_copy_share(to, from, n, rank, size);
#else
    uint64_t at, part = gw_stretch_(n, rank, size, &at);

    gw_cpu_copy_away_((uint8_t *)to + at, (const uint8_t *)from + at, part);
#endif
}

#endif
