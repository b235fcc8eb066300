/* SPDX-License-Identifier: Apache-2.0 */
/* mm_tile for CPU threads. The lanes convert a panel of B to fp32 together. Then each computes rows of its
 * own. A strip of them stays in registers while it runs down the panel. */
#include "product.h"

enum { MM_DEPTH = 64, MM_STRIP = 16, MM_ROWS = 4 }; /* of a panel; of what one pass computes */

struct mm_room {
    float b[MM_DEPTH][MM_TILE];
    float c[MM_TILE][MM_TILE]; /* the tile so far */
} __attribute__((aligned(64)));

/* TF32 has 10 bits of mantissa: rounds to the nearest, ties away from 0, as GPUs do. */
GW_DEV float mm_to_tf32(float f)
{
    uint32_t bits;

    memcpy(&bits, &f, sizeof(bits));
    if ((bits >> 23 & 255) != 255) bits = (bits + 0x1000) & ~0x1fffu;
    memcpy(&f, &bits, sizeof(f));
    return f;
}

GW_DEV float mm_from_half(uint16_t half)
{
    uint32_t bits = (half & 0x7fffu) << 13, sign = (half & 0x8000u) << 16;
    float f, shift = 0x1p112f; /* the exponents' offsets differ by 112; this is right for subnormals, too */

    if ((half & 0x7c00u) == 0x7c00u) bits |= 0x70000000u; /* infinite, or not a number */
    memcpy(&f, &bits, sizeof(f));
    if ((half & 0x7c00u) != 0x7c00u) f *= shift;
    memcpy(&bits, &f, sizeof(bits));
    bits |= sign;
    memcpy(&f, &bits, sizeof(f));
    return f;
}

/* `count` elements of a factor from i on. */
GW_DEV void mm_factors(float *to, const void *m, uint64_t i, uint32_t count, uint32_t type)
{
    if (type == MM_FP32)
        memcpy(to, (const float *)m + i, count * sizeof(float));
    else if (type == MM_TF32)
        for (uint32_t j = 0; j < count; j++) to[j] = mm_to_tf32(((const float *)m)[i + j]);
    else
        for (uint32_t j = 0; j < count; j++) to[j] = mm_from_half(((const uint16_t *)m)[i + j]);
}

/* Rows k0 … of B, where the tile's columns begin at j0. What lies beyond the matrix is 0. */
GW_DEV void mm_pack(struct mm_room *r, const struct mm_product *p, uint32_t k0, uint32_t j0)
{
    uint32_t columns = p->n - j0 < MM_TILE ? p->n - j0 : MM_TILE;

    for (uint32_t k = gw_thread_idx(); k < MM_DEPTH && k0 + k < p->n; k += gw_block_dim()) {
        mm_factors(r->b[k], p->b, (uint64_t)(k0 + k) * p->n + j0, columns, p->type);
        memset(&r->b[k][columns], 0, (MM_TILE - columns) * sizeof(float));
    }
}

/* Eight neighbours of a row. */
typedef float mm_eight __attribute__((vector_size(32), aligned(32), may_alias));

/* Adds a panel's part to MM_ROWS rows of the tile. `a` has their elements, row after row. The sums stay in
 * registers. */
static inline __attribute__((always_inline)) void mm_add_rows(struct mm_room *r, const float (*a)[MM_DEPTH],
                                                              uint32_t row, uint32_t depth)
{
    for (uint32_t j = 0; j < MM_TILE; j += MM_STRIP) {
        mm_eight sum[MM_ROWS][2], b[2];

#pragma GCC unroll 4
        for (uint32_t i = 0; i < MM_ROWS; i++) {
            sum[i][0] = *(const mm_eight *)&r->c[row + i][j];
            sum[i][1] = *(const mm_eight *)&r->c[row + i][j + 8];
        }
        for (uint32_t k = 0; k < depth; k++) {
            b[0] = *(const mm_eight *)&r->b[k][j];
            b[1] = *(const mm_eight *)&r->b[k][j + 8];
#pragma GCC unroll 4
            for (uint32_t i = 0; i < MM_ROWS; i++) {
                sum[i][0] += a[i][k] * b[0];
                sum[i][1] += a[i][k] * b[1];
            }
        }
#pragma GCC unroll 4
        for (uint32_t i = 0; i < MM_ROWS; i++) {
            *(mm_eight *)&r->c[row + i][j] = sum[i][0];
            *(mm_eight *)&r->c[row + i][j + 8] = sum[i][1];
        }
    }
}

#ifdef __x86_64__
/* The same for processors that have AVX2, compiled for them. */
static __attribute__((target("avx2,fma"))) void mm_add_avx2(struct mm_room *r, const float (*a)[MM_DEPTH],
                                                            uint32_t row, uint32_t depth)
{
    mm_add_rows(r, a, row, depth);
}
#endif

GW_DEV void mm_add(struct mm_room *r, const float (*a)[MM_DEPTH], uint32_t row, uint32_t depth)
{
#ifdef __x86_64__
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) {
        mm_add_avx2(r, a, row, depth);
        return;
    }
#endif
    mm_add_rows(r, a, row, depth);
}

GW_DEV void mm_tile(const struct mm_product *p, uint32_t tile)
{
    GW_SHARED(struct mm_room, r);
    uint32_t across = (p->n + MM_TILE - 1) / MM_TILE, i0 = tile / across * MM_TILE,
             j0 = tile % across * MM_TILE;
    uint32_t rows = p->n - i0 < MM_TILE ? p->n - i0 : MM_TILE,
             columns = p->n - j0 < MM_TILE ? p->n - j0 : MM_TILE;
    float a[MM_ROWS][MM_DEPTH];

    static_assert(MM_N_STEP % MM_ROWS == 0, "no row is left over");
    for (uint32_t i = MM_ROWS * gw_thread_idx(); i < rows; i += MM_ROWS * gw_block_dim())
        memset(r->c[i], 0, MM_ROWS * sizeof(r->c[i]));
    for (uint32_t k0 = 0; k0 < p->n; k0 += MM_DEPTH) {
        uint32_t depth = p->n - k0 < MM_DEPTH ? p->n - k0 : MM_DEPTH;

        gw_syncthreads(); /* all are done with the last panel */
        mm_pack(r, p, k0, j0);
        gw_syncthreads();
        for (uint32_t i = MM_ROWS * gw_thread_idx(); i < rows; i += MM_ROWS * gw_block_dim()) {
            for (uint32_t u = 0; u < MM_ROWS; u++)
                mm_factors(a[u], p->a, (uint64_t)(i0 + i + u) * p->n + k0, depth, p->type);
            mm_add(r, a, i, depth);
        }
    }
    for (uint32_t i = MM_ROWS * gw_thread_idx(); i < rows; i += MM_ROWS * gw_block_dim())
        for (uint32_t j = 0; j < MM_ROWS; j++)
            memcpy(p->c + (uint64_t)(i0 + i + j) * p->n + j0, r->c[i + j], columns * sizeof(float));
    gw_syncthreads();
}
