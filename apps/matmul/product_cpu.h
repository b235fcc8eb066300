/* SPDX-License-Identifier: Apache-2.0 */
/* mm_tile for CPU threads. The lanes convert a panel of B to fp32 together. Then each computes rows of its
 * own. A strip of them stays in registers while it runs down the panel. */
#include "product.h"

enum { MM_DEPTH = 32, MM_STRIP = 16, MM_ROWS = 2 }; /* of a panel; of what one pass computes */

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

/* Element i of a factor, as fp32. */
GW_DEV float mm_factor(const void *m, uint64_t i, uint32_t type)
{
    if (type == MM_FP16) return mm_from_half(((const uint16_t *)m)[i]);
    return type == MM_TF32 ? mm_to_tf32(((const float *)m)[i]) : ((const float *)m)[i];
}

/* Rows k0 … of B, where the tile's columns begin at j0. What lies beyond the matrix is 0. */
GW_DEV void mm_pack(struct mm_room *r, const struct mm_product *p, uint32_t k0, uint32_t j0)
{
    uint32_t columns = p->n - j0 < MM_TILE ? p->n - j0 : MM_TILE;

    for (uint32_t k = gw_thread_idx(); k < MM_DEPTH && k0 + k < p->n; k += gw_block_dim()) {
        uint64_t at = (uint64_t)(k0 + k) * p->n + j0;

        if (p->type == MM_FP32)
            memcpy(r->b[k], (const float *)p->b + at, columns * sizeof(float));
        else
            for (uint32_t j = 0; j < columns; j++) r->b[k][j] = mm_factor(p->b, at + j, p->type);
        for (uint32_t j = columns; j < MM_TILE; j++) r->b[k][j] = 0;
    }
}

/* Adds a panel's part to MM_ROWS rows of the tile. `a` has their elements, row after row. */
GW_DEV void mm_add(struct mm_room *r, const float (*a)[MM_DEPTH], uint32_t row, uint32_t depth)
{
    for (uint32_t j0 = 0; j0 < MM_TILE; j0 += MM_STRIP) {
        float sum[MM_ROWS][MM_STRIP];

        memcpy(sum[0], &r->c[row][j0], sizeof(sum[0]));
        memcpy(sum[1], &r->c[row + 1][j0], sizeof(sum[1]));
        for (uint32_t k = 0; k < depth; k++) {
            const float *b = &r->b[k][j0];
            float a0 = a[0][k], a1 = a[1][k];

            for (uint32_t j = 0; j < MM_STRIP; j++) {
                sum[0][j] += a0 * b[j];
                sum[1][j] += a1 * b[j];
            }
        }
        memcpy(&r->c[row][j0], sum[0], sizeof(sum[0]));
        memcpy(&r->c[row + 1][j0], sum[1], sizeof(sum[1]));
    }
}

GW_DEV void mm_tile(const struct mm_product *p, uint32_t tile)
{
    GW_SHARED(struct mm_room, r);
    uint32_t across = (p->n + MM_TILE - 1) / MM_TILE, i0 = tile / across * MM_TILE,
             j0 = tile % across * MM_TILE;
    uint32_t rows = p->n - i0 < MM_TILE ? p->n - i0 : MM_TILE,
             columns = p->n - j0 < MM_TILE ? p->n - j0 : MM_TILE;
    float a[MM_ROWS][MM_DEPTH];

    static_assert(MM_ROWS == 2 && MM_N_STEP % MM_ROWS == 0, "mm_add has two rows");
    for (uint32_t i = MM_ROWS * gw_thread_idx(); i < rows; i += MM_ROWS * gw_block_dim())
        memset(r->c[i], 0, MM_ROWS * sizeof(r->c[i]));
    for (uint32_t k0 = 0; k0 < p->n; k0 += MM_DEPTH) {
        uint32_t depth = p->n - k0 < MM_DEPTH ? p->n - k0 : MM_DEPTH;

        gw_syncthreads(); /* all are done with the last panel */
        mm_pack(r, p, k0, j0);
        gw_syncthreads();
        for (uint32_t i = MM_ROWS * gw_thread_idx(); i < rows; i += MM_ROWS * gw_block_dim()) {
            for (uint32_t k = 0; k < MM_ROWS * depth; k++)
                a[k / depth][k % depth] =
                    mm_factor(p->a, (uint64_t)(i0 + i + k / depth) * p->n + k0 + k % depth, p->type);
            mm_add(r, a, i, depth);
        }
    }
    for (uint32_t i = MM_ROWS * gw_thread_idx(); i < rows; i += MM_ROWS * gw_block_dim())
        for (uint32_t j = 0; j < MM_ROWS; j++)
            memcpy(p->c + (uint64_t)(i0 + i + j) * p->n + j0, r->c[i + j], columns * sizeof(float));
    gw_syncthreads();
}
