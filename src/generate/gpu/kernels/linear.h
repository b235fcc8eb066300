/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Products of rows with matrices, y = W x, which read all weights once for each group of rows.
 *
 * On tensor cores a block takes WIDE sixteens of columns of y and DEEP eights of rows. Its warps share the
 * sum over k: each takes every Nth slice, and at the end the block adds up in the order of warps. So the sum
 * of an element is always formed in the same order.
 *
 * A slice of k lies so that a lane reads 16 bytes of each row of W: lane 4 g + t has the t-th quarter. Which
 * k that is in the tensor core's sense does not matter, as long as x is read by the same rule.
 */
#ifndef GW_GENERATE_GPU_KERNELS_LINEAR_H
#define GW_GENERATE_GPU_KERNELS_LINEAR_H

#include "src/generate/gpu/kernels/mma.h"

#define LINEAR_AHEAD 4 /* 16-byte loads of a lane that are under way for each eight rows of W */

/* A block's place: `matrix`, its columns from `n` on, rows of x from `row` on. */
struct gen_linear_place {
    uint32_t matrix, n, row, rows;
};

GW_DEV struct gen_linear_place gen_linear_place(const struct gen_linear_args *a, uint32_t wide, uint32_t deep)
{
    struct gen_linear_place p;
    uint32_t tile = gw_block_idx() % a->tiles, tiles;

    for (p.matrix = 0; p.matrix + 1 < a->matrices; p.matrix++) {
        tiles = (a->w[p.matrix].n + wide - 1) / wide;
        if (tile < tiles) break;
        tile -= tiles;
    }
    p.n = tile * wide;
    p.row = gw_block_idx() / a->tiles * deep;
    p.rows = gen_count_rows(&a->count);
    return p;
}

GW_DEV void gen_linear_put(const struct gen_linear_args *a, const struct gen_linear_place *p, uint32_t n,
                           uint32_t row, float sum)
{
    if (n >= a->w[p->matrix].n || row >= p->rows) return;
    if (a->w[p->matrix].bias) sum += a->w[p->matrix].bias[n];
    if (a->add.p) sum += gen_row_get(&a->add, row, n);
    gen_row_put(&a->y[p->matrix], row, n, sum);
}

/* 16 bytes of a row, or zeros past its end. */
GW_DEV struct gen_words gen_linear_words(const void *p, int there)
{
    struct gen_words z = {{0, 0, 0, 0}};

    return there ? *(const struct gen_words *)p : z;
}

/* Eight quants become four pairs. */
GW_DEV void gen_linear_spread(uint32_t type, uint32_t q, float scale, float zero, uint32_t to[4])
{
    uint32_t i;

    GWM_UNROLL
    for (i = 0; i < 4; i++, q >>= 4)
        to[i] = gen_pack(type, ((float)(q & 15) - zero) * scale, ((float)(q >> 16 & 15) - zero) * scale);
}

/* Scale and zero of element (n, k). */
GW_DEV void gen_linear_block(const struct gen_matrix *w, uint32_t n, uint32_t k, float *scale, float *zero)
{
    uint64_t at = (uint64_t)n * w->blocks + (k < w->k ? k : w->k - 1) / w->block;

    *scale = gen_get(w->scale_type, w->scale, at);
    *zero = w->zero ? gen_get(w->scale_type, w->zero, at) : 8.0f;
}

/* Adds eight elements of k: words of two rows of W, g and g + 8, by the words of x for each eight rows. */
GWM_INLINE void gen_linear_eight(uint32_t type, uint32_t deep, float (*sum)[4], const uint32_t *w0,
                                 const uint32_t *w1, const struct gen_words *x)
{
    uint32_t i, d;

    GWM_UNROLL
    for (i = 0; i < 4; i += 2) {
        const uint32_t a[4] = {w0[i], w1[i], w0[i + 1], w1[i + 1]};
        GWM_UNROLL
        for (d = 0; d < deep; d++) gen_mma(type, sum[d], a, x[d].w[i], x[d].w[i + 1]);
    }
}

struct gen_linear_side { /* of a lane */
    const char *w[4][2]; /* rows g and g + 8 of each sixteen of W */
    uint32_t n[4][2];
    const uint16_t *x[8];
};

GWM_INLINE void gen_linear_sides(const struct gen_linear_args *a, const struct gen_linear_place *p,
                                 uint32_t wide, uint32_t deep, struct gen_linear_side *s)
{
    const struct gen_matrix *w = &a->w[p->matrix];
    uint32_t i, g = gw_lane() / 4;

    GWM_UNROLL
    for (i = 0; i < 2 * wide; i++) { /* rows past the last are read as the last, and not stored */
        uint32_t n = p->n + i / 2 * 16 + i % 2 * 8 + g;
        s->n[i / 2][i % 2] = n = n < w->n ? n : w->n - 1;
        s->w[i / 2][i % 2] = (const char *)w->data + n * w->row_bytes;
    }
    GWM_UNROLL
    for (i = 0; i < deep; i++) {
        uint32_t row = p->row + i * 8 + g;
        s->x[i] = (const uint16_t *)a->x.p + (uint64_t)(row < p->rows ? row : p->rows - 1) * a->x.stride;
    }
}

/* Weights of 16 bits: a lane's part of a slice is eight elements. */
GWM_INLINE void gen_linear_plain(const struct gen_linear_args *a, const struct gen_linear_place *p,
                                 uint32_t type, uint32_t wide, uint32_t deep, float (*sum)[4])
{
    uint32_t width = a->w[p->matrix].k, ahead = LINEAR_AHEAD / wide, step = gw_block_dim() / 32 * 32;
    uint32_t first = gw_warp_idx() * 32 + gw_lane() % 4 * 8, k, u, i, d;
    struct gen_linear_side s;

    gen_linear_sides(a, p, wide, deep, &s);
    for (k = first; k - gw_lane() % 4 * 8 < width; k += ahead * step) {
        struct gen_words w[LINEAR_AHEAD][2], x[8];
        GWM_UNROLL
        for (u = 0; u < ahead; u++) {
            GWM_UNROLL
            for (i = 0; i < 2 * wide; i++)
                w[u * wide + i / 2][i % 2] =
                    gen_linear_words(s.w[i / 2][i % 2] + 2 * (uint64_t)(k + u * step), k + u * step < width);
        }
        GWM_UNROLL
        for (u = 0; u < ahead; u++) {
            GWM_UNROLL
            for (d = 0; d < deep; d++) x[d] = gen_linear_words(s.x[d] + k + u * step, k + u * step < width);
            GWM_UNROLL
            for (i = 0; i < wide; i++)
                gen_linear_eight(type, deep, sum + i * deep, w[u * wide + i][0].w, w[u * wide + i][1].w, x);
        }
    }
}

/* Blocks of 4 bits: a lane's part of a slice is 32 elements. */
GWM_INLINE void gen_linear_q4(const struct gen_linear_args *a, const struct gen_linear_place *p,
                              uint32_t type, uint32_t wide, uint32_t deep, float (*sum)[4])
{
    const struct gen_matrix *m = &a->w[p->matrix];
    uint32_t step = gw_block_dim() / 32 * 128, first = gw_warp_idx() * 128 + gw_lane() % 4 * 32, k, c, i, d;
    struct gen_linear_side s;

    gen_linear_sides(a, p, wide, deep, &s);
    for (k = first; k - gw_lane() % 4 * 32 < m->k; k += step) {
        struct gen_words w[LINEAR_AHEAD][2], x[8];
        GWM_UNROLL
        for (i = 0; i < 2 * wide; i++)
            w[i / 2][i % 2] = gen_linear_words(s.w[i / 2][i % 2] + k / 2, k < m->k);
        GWM_UNROLL
        for (c = 0; c < 4; c++) {
            uint32_t at = k + c * 8;
            GWM_UNROLL
            for (d = 0; d < deep; d++) x[d] = gen_linear_words(s.x[d] + at, at < m->k);
            GWM_UNROLL
            for (i = 0; i < wide; i++) {
                uint32_t w0[4], w1[4];
                float scale, zero;
                gen_linear_block(m, s.n[i][0], at, &scale, &zero);
                gen_linear_spread(type, w[i][0].w[c], scale, zero, w0);
                gen_linear_block(m, s.n[i][1], at, &scale, &zero);
                gen_linear_spread(type, w[i][1].w[c], scale, zero, w1);
                gen_linear_eight(type, deep, sum + i * deep, w0, w1, x);
            }
        }
    }
}

struct gen_linear_room {
    float sum[GEN_GPU_WARPS][64][16]; /* of each warp: rows of x × columns */
};

/* Adds up what the warps have, one sixteen of columns after another. */
GWM_INLINE void gen_linear_join(const struct gen_linear_args *a, const struct gen_linear_place *p,
                                uint32_t wide, uint32_t deep, float (*sum)[4])
{
    GW_SHARED(struct gen_linear_room, room);
    uint32_t warps = gw_block_dim() / 32, me = gw_thread_idx(), g = gw_lane() / 4, t = gw_lane() % 4, i, d, e;

    for (i = 0; i < wide; i++) {
        float(*own)[16] = room->sum[gw_warp_idx()];
        gw_syncthreads(); /* all have read the sixteen before */
        GWM_UNROLL
        for (d = 0; d < deep; d++) {
            GWM_UNROLL
            for (e = 0; e < 4; e++) own[d * 8 + 2 * t + e % 2][g + e / 2 * 8] = sum[i * deep + d][e];
        }
        gw_syncthreads(); /* all sums are there */
        for (e = me; e < deep * 8 * 16; e += gw_block_dim()) {
            float v = 0;
            for (d = 0; d < warps; d++) v += room->sum[d][e / 16][e % 16];
            gen_linear_put(a, p, p->n + i * 16 + e % 16, p->row + e / 16, v);
        }
    }
}

GWM_INLINE void gen_linear_warps(const struct gen_linear_args *a, uint32_t type, uint32_t q4, uint32_t wide,
                                 uint32_t deep)
{
    struct gen_linear_place p = gen_linear_place(a, wide * 16, deep * 8);
    float sum[32][4];
    uint32_t i;

    if (p.row >= p.rows) return;
    GWM_UNROLL
    for (i = 0; i < wide * deep; i++) sum[i][0] = sum[i][1] = sum[i][2] = sum[i][3] = 0;
    if (q4)
        gen_linear_q4(a, &p, type, wide, deep, sum);
    else
        gen_linear_plain(a, &p, type, wide, deep, sum);
    gen_linear_join(a, &p, wide, deep, sum);
}

#define LINEAR_KERNEL(name, type, q4, wide, deep)                                                            \
    GW_KERNEL(name##_##wide##x##deep, struct gen_linear_args, a)                                             \
    {                                                                                                        \
        gen_linear_warps(a, type, q4, wide, deep);                                                           \
    }
#define LINEAR_KERNELS(name, type, q4)                                                                       \
    LINEAR_KERNEL(name, type, q4, 1, 1)                                                                      \
    LINEAR_KERNEL(name, type, q4, 1, 2)                                                                      \
    LINEAR_KERNEL(name, type, q4, 2, 4)                                                                      \
    LINEAR_KERNEL(name, type, q4, 4, 8)

#endif
