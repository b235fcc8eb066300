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

/* 16 bytes of a row, or zeros where there are none. Weights are read once: they need no place in a cache. */
GW_DEV struct gen_words gen_linear_words(const void *p, uint32_t there, uint32_t once)
{
    struct gen_words z = {{0, 0, 0, 0}};

    if (!there) return z;
    return once ? gen_words_once(p) : *(const struct gen_words *)p;
}

/* Quants become numbers: each is q * scale + offset, of two at a time. */
GWM_INLINE uint32_t gen_linear_two(uint32_t type, uint32_t q, uint32_t by)
{
#ifdef __CUDACC__
    uint32_t scale = __byte_perm(by, by, 0x1010), offset = __byte_perm(by, by, 0x3232), to;
    /* The quants' bits, below those of 1024 (fp16) or 128 (bf16), are that number plus the quant. */
    if (type == GW_DTYPE_F16) {
        asm("{.reg .b32 n; sub.f16x2 n, %1, %4; fma.rn.f16x2 %0, n, %2, %3;}"
            : "=r"(to)
            : "r"(q | 0x64006400), "r"(scale), "r"(offset), "r"(0x64006400));
        return to;
    }
    NV_IF_TARGET(NV_PROVIDES_SM_80,
                 (asm("{.reg .b32 n; fma.rn.bf16x2 n, %1, %4, %5; fma.rn.bf16x2 %0, n, %2, %3;}"
                      : "=r"(to)
                      : "r"(q | 0x43004300), "r"(scale), "r"(offset), "r"(0x3f803f80), "r"(0xc300c300));
                  return to;))
#endif
    {
        float s = gen_half(type, by), o = gen_half(type, by >> 16);
        return gen_pack(type, (float)(q & 15) * s + o, (float)(q >> 16 & 15) * s + o);
    }
}

/* Scale and offset of the block of element (n, k), or of the last one. */
GW_DEV uint32_t gen_linear_block(const struct gen_matrix *w, uint32_t n, uint32_t k)
{
    return ((const uint32_t *)w->scale)[(uint64_t)n * w->blocks + ((k < w->k ? k : w->k - 1) >> w->shift)];
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

/* The compiler knows these numbers of a kernel. */
struct gen_linear_form {
    uint32_t type, q4, wide, deep, ahead;
};

struct gen_linear_side { /* of a lane */
    const char *w[4][2]; /* rows g and g + 8 of each sixteen of W */
    uint32_t n[4][2];
    const uint16_t *x[8];
    uint32_t step; /* elements from a slice of the warp to its next */
};

GWM_INLINE void gen_linear_sides(const struct gen_linear_args *a, const struct gen_linear_place *p,
                                 const struct gen_linear_form *f, struct gen_linear_side *s)
{
    const struct gen_matrix *w = &a->w[p->matrix];
    uint32_t i, g = gw_lane() / 4;

    GWM_UNROLL
    for (i = 0; i < 2 * f->wide; i++) { /* rows past the last are read as the last, and not stored */
        uint32_t n = p->n + i / 2 * 16 + i % 2 * 8 + g;
        s->n[i / 2][i % 2] = n = n < w->n ? n : w->n - 1;
        s->w[i / 2][i % 2] = (const char *)w->data + n * w->row_bytes;
    }
    GWM_UNROLL
    for (i = 0; i < f->deep; i++) {
        uint32_t row = p->row + i * 8 + g;
        s->x[i] = (const uint16_t *)a->x.p + (uint64_t)(row < p->rows ? row : p->rows - 1) * a->x.stride;
    }
}

/* A lane has asked for this: of plain weights some slices, of blocks of 4 bits one. Kernels for many rows
 * read x when they need it: registers would not do. */
#define LINEAR_FEW 2 /* eights of rows */
struct gen_linear_load {
    struct gen_words w[2 * LINEAR_AHEAD][2], x[LINEAR_AHEAD][LINEAR_FEW];
    uint32_t by[4][2][2]; /* blocks: of each sixteen of W, of rows g and g + 8, of the first and last 16 */
};

/* `ahead` slices of weights of 16 bits, from k on: a lane's part of each is eight elements. Where `there` is
 * 0, this lane has nothing: the slice is the last one. */
GWM_INLINE void gen_plain_fetch(const struct gen_linear_side *s, const struct gen_linear_form *f, uint32_t k,
                                uint32_t there, struct gen_linear_load *to)
{
    uint32_t u, i, d;

    GWM_UNROLL
    for (u = 0; u < f->ahead; u++) {
        GWM_UNROLL
        for (i = 0; i < 2 * f->wide; i++)
            to->w[u * f->wide + i / 2][i % 2] =
                gen_linear_words(s->w[i / 2][i % 2] + 2 * (uint64_t)(k + u * s->step), there, 1);
        GWM_UNROLL
        for (d = 0; d < f->deep && f->deep <= LINEAR_FEW; d++)
            to->x[u][d] = gen_linear_words(s->x[d] + k + u * s->step, there, 0);
    }
}

GWM_INLINE void gen_plain_multiply(const struct gen_linear_side *s, const struct gen_linear_form *f,
                                   uint32_t k, uint32_t there, const struct gen_linear_load *l,
                                   float (*sum)[4])
{
    struct gen_words x[8];
    uint32_t u, i, d;

    GWM_UNROLL
    for (u = 0; u < f->ahead; u++) {
        GWM_UNROLL
        for (d = 0; d < f->deep; d++)
            x[d] = f->deep <= LINEAR_FEW ? l->x[u][d] : gen_linear_words(s->x[d] + k + u * s->step, there, 0);
        GWM_UNROLL
        for (i = 0; i < f->wide; i++)
            gen_linear_eight(f->type, f->deep, sum + i * f->deep, l->w[u * f->wide + i][0].w,
                             l->w[u * f->wide + i][1].w, x);
    }
}

/* While a lane multiplies, what it needs next is under way. */
GWM_INLINE void gen_linear_plain(const struct gen_linear_args *a, const struct gen_linear_place *p,
                                 const struct gen_linear_form *f, float (*sum)[4])
{
    uint32_t width = a->w[p->matrix].k, t = gw_lane() % 4 * 8, k = gw_warp_idx() * 32 + t, round, rounds;
    struct gen_linear_form many = *f, one = *f;
    struct gen_linear_load now, next;
    struct gen_linear_side s;

    many.ahead = f->wide * f->deep > 8 ? 1 : LINEAR_AHEAD / f->wide, one.ahead = 1;
    gen_linear_sides(a, p, f, &s);
    s.step = gw_block_dim() / 32 * 32;
    round = many.ahead * s.step;
    rounds = k - t + round - s.step + 32 <= width ? (width - (k - t + round - s.step + 32)) / round + 1 : 0;
    if (rounds) gen_plain_fetch(&s, &many, k, 1, &now);
    for (; rounds > 1; rounds--, k += round) {
        gen_plain_fetch(&s, &many, k + round, 1, &next);
        gen_plain_multiply(&s, &many, k, 1, &now, sum);
        now = next;
    }
    if (rounds) gen_plain_multiply(&s, &many, k, 1, &now, sum), k += round;
    for (; k - t < width; k += s.step) {
        gen_plain_fetch(&s, &one, k, k < width, &now);
        gen_plain_multiply(&s, &one, k, k < width, &now, sum);
    }
}

/* Blocks of 4 bits: a lane's part of a slice is 32 elements. */
GWM_INLINE void gen_q4_fetch(const struct gen_matrix *m, const struct gen_linear_side *s,
                             const struct gen_linear_form *f, uint32_t k, struct gen_linear_load *to)
{
    uint32_t i, d, c;

    GWM_UNROLL
    for (i = 0; i < 2 * f->wide; i++) {
        uint32_t n = s->n[i / 2][i % 2];
        to->w[i / 2][i % 2] = gen_linear_words(s->w[i / 2][i % 2] + k / 2, k < m->k, 1);
        to->by[i / 2][i % 2][0] = gen_linear_block(m, n, k);
        to->by[i / 2][i % 2][1] = gen_linear_block(m, n, k + 16);
    }
    GWM_UNROLL
    for (c = 0; c < 4; c++) {
        GWM_UNROLL
        for (d = 0; d < f->deep && f->deep <= LINEAR_FEW; d++)
            to->x[c][d] = gen_linear_words(s->x[d] + k + c * 8, k + c * 8 < m->k, 0);
    }
}

GWM_INLINE void gen_q4_multiply(const struct gen_matrix *m, const struct gen_linear_side *s,
                                const struct gen_linear_form *f, uint32_t k, const struct gen_linear_load *l,
                                float (*sum)[4])
{
    uint32_t i, d, c, e, r, w[2][4];
    struct gen_words x[8];

    GWM_UNROLL
    for (c = 0; c < 4; c++) {
        GWM_UNROLL
        for (d = 0; d < f->deep; d++)
            x[d] = f->deep <= LINEAR_FEW ? l->x[c][d]
                                         : gen_linear_words(s->x[d] + k + c * 8, k + c * 8 < m->k, 0);
        GWM_UNROLL
        for (i = 0; i < f->wide; i++) {
            GWM_UNROLL
            for (r = 0; r < 2; r++) {
                GWM_UNROLL
                for (e = 0; e < 4; e++)
                    w[r][e] =
                        gen_linear_two(f->type, l->w[i][r].w[c] >> (4 * e) & 0x000f000f, l->by[i][r][c / 2]);
            }
            gen_linear_eight(f->type, f->deep, sum + i * f->deep, w[0], w[1], x);
        }
    }
}

GWM_INLINE void gen_linear_q4(const struct gen_linear_args *a, const struct gen_linear_place *p,
                              const struct gen_linear_form *f, float (*sum)[4])
{
    const struct gen_matrix *m = &a->w[p->matrix];
    uint32_t step = gw_block_dim() / 32 * 128, t = gw_lane() % 4 * 32, k = gw_warp_idx() * 128 + t;
    struct gen_linear_load now, next;
    struct gen_linear_side s;

    gen_linear_sides(a, p, f, &s);
    if (k - t < m->k) gen_q4_fetch(m, &s, f, k, &now);
    for (; k - t < m->k; k += step) {
        if (f->deep <= 4) gen_q4_fetch(m, &s, f, k + step, &next); /* zeros past the end */
        gen_q4_multiply(m, &s, f, k, &now, sum);
        if (f->deep <= 4)
            now = next;
        else if (k + step - t < m->k) /* there are no registers for both */
            gen_q4_fetch(m, &s, f, k + step, &now);
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
    const struct gen_linear_form f = {type, q4, wide, deep, 0};
    struct gen_linear_place p = gen_linear_place(a, wide * 16, deep * 8);
    float sum[32][4];
    uint32_t i;

    if (p.row >= p.rows) return;
    GWM_UNROLL
    for (i = 0; i < wide * deep; i++) sum[i][0] = sum[i][1] = sum[i][2] = sum[i][3] = 0;
    if (q4)
        gen_linear_q4(a, &p, &f, sum);
    else
        gen_linear_plain(a, &p, &f, sum);
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
