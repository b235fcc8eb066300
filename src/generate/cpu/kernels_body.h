/* SPDX-License-Identifier: Apache-2.0 */
/*
 * kernels_body.h: the arithmetic of rows, written once for vectors of 16 floats (`vf`). Each kernels_*.c
 * includes the vectors of a kind of processor, names its table KERNELS, and then includes this.
 *
 * What the vectors' functions do, where their names do not say it:
 *
 *   vf_load_n   n floats, then zeros
 *   vf_keep     lanes from … to - 1 stay; the others become another number
 *   vf_low      the lower 8 lanes of a, the upper 8 of b
 *   vf_scale2   a * 2^n
 *   vf_sum      adds up as kernels.h says; lane i of vf_sum16 is vf_sum(v[i])
 *   vq_get      the numbers of 16 bytes of quants: of their lower 4 bits, and of their upper 4
 *   vf_unzip    puts 32 floats into the order in which vq_get has them
 */
#include <math.h>

#include "src/generate/cpu/kernels.h"
#include "src/generate/program/number.h"

#define INLINE static inline __attribute__((always_inline))
#define TILE   4u /* rows, and outputs, of a product at a time */

/* ---- weights ---- */

/* Elements at … at + 15 of n numbers; zeros after element n - 1. */
INLINE vf kernel_numbers(uint32_t format, const void *row, size_t at, size_t n)
{
    uint16_t tail[16] = {0};

    if (format == GEN_F32) {
        const float *f = (const float *)row + at;
        return at + 16 <= n ? vf_load(f) : vf_load_n(f, (uint32_t)(n - at));
    }
    if (at + 16 > n) memcpy(tail, (const uint16_t *)row + at, (n - at) * sizeof(*tail));
    const uint16_t *h = at + 16 > n ? tail : (const uint16_t *)row + at;
    return format == GEN_F16 ? vf_f16(h) : vf_bf16(h);
}

static const void *dense_row(const struct gen_weight *w, uint32_t n)
{
    return (const char *)w->data + (size_t)n * w->k * (w->format == GEN_F32 ? 4 : 2);
}

INLINE vf q4_floats(uint32_t type, const void *from, size_t at, size_t n)
{
    if (type == GEN_F32) return kernel_numbers(GEN_F32, from, at, n);
    return type == GEN_F16 ? kernel_numbers(GEN_F16, from, at, n) : kernel_numbers(GEN_BF16, from, at, n);
}

/* Scales and zeros of row n's blocks b … b + 15; b is a multiple of 16. What lies after the row's last block
 * means nothing. */
INLINE void q4_scales(const struct gen_weight *w, uint32_t n, uint32_t b, float scale[2][16])
{
    size_t blocks = (w->k + w->block - 1) / w->block, at = n * blocks + b, all = w->n * blocks;

    vf_store(scale[0], q4_floats(w->scale_type, w->scale, at, all));
    if (!w->zero) {
        vf_store(scale[1], vf_set(8));
    } else if (w->zero_is_float) {
        vf_store(scale[1], q4_floats(w->scale_type, w->zero, at, all));
    } else {
        size_t bytes = (blocks + 1) / 2, first = n * bytes + b / 2, rest = w->n * bytes - first;
        uint8_t zero[8] = {0};

        memcpy(zero, (const uint8_t *)w->zero + first, rest < 8 ? rest : 8);
        for (uint32_t i = 0; i < 16; i++) scale[1][i] = (float)(zero[i / 2] >> (i % 2 * 4) & 15);
    }
}

/* 32 numbers of two blocks of 16; there may be no second one. */
INLINE void q4_pair(const uint8_t *bytes, float scale[2][16], uint32_t i, bool second, vf *low, vf *high)
{
    uint8_t copy[16] = {0};
    vf low_b, high_b;

    memcpy(copy, bytes, second ? 16 : 8);
    vq_get(vq_of(scale[1][i], scale[0][i]), copy, low, high);
    vq_get(second ? vq_of(scale[1][i + 1], scale[0][i + 1]) : vq_of(0, 0), copy, &low_b, &high_b);
    *low = vf_low(*low, low_b);
    *high = vf_low(*high, high_b);
}

/* Row n as floats: whole groups, Q4 in the order of its products. */
static void kernel_unpack(const struct gen_weight *w, uint32_t n, uint32_t k, float *to)
{
    uint32_t blocks, block = w->block;

    if (w->format != GEN_Q4) {
        for (uint32_t at = 0; at < k; at += 16)
            vf_store(to + at, at < w->k ? kernel_numbers(w->format, dense_row(w, n), at, w->k) : vf_set(0));
        return;
    }
    blocks = (w->k + block - 1) / block;
    for (uint32_t b = 0; b < blocks; b++) {
        const uint8_t *bytes = (const uint8_t *)w->data + ((size_t)n * blocks + b) * (block / 2);
        float scale[2][16];
        vf low, high;

        if (b % 16 == 0) q4_scales(w, n, b, scale);
        if (block == 16) {
            if (b % 2) continue;
            q4_pair(bytes, scale, b % 16, b + 1 < blocks, &low, &high);
            vf_store(to + b * 16, low);
            vf_store(to + b * 16 + 16, high);
            continue;
        }
        for (uint32_t at = b * block; at < (b + 1) * block && at < k; at += 32, bytes += 16) {
            vq_get(vq_of(scale[1][b % 16], scale[0][b % 16]), bytes, &low, &high);
            vf_store(to + at, low);
            vf_store(to + at + 16, high);
        }
    }
}

/* ---- products ---- */

/* Rows of a product's input. */
struct tile_rows {
    uint32_t m; /* how many: a constant wherever it is used */
    const float *x;
    uint32_t stride;
};

/* Four outputs of these rows: acc[i * 4 + j] is of row i and output j. Loops over a tile are unrolled, so
 * that its sums stay in registers. */
INLINE void dense_tile(struct tile_rows r, uint32_t format, const void *const w[4], uint32_t k, vf *acc)
{
    size_t at = 0;

    for (; at + 16 <= k; at += 16)
#pragma GCC unroll 4
        for (uint32_t j = 0; j < TILE; j++) {
            vf v = kernel_numbers(format, w[j], at, at + 16);
#pragma GCC unroll 4
            for (uint32_t i = 0; i < r.m; i++)
                acc[i * 4 + j] = vf_fma(v, vf_load(r.x + i * r.stride + at), acc[i * 4 + j]);
        }
    for (uint32_t j = 0; j < TILE && at < k; j++) {
        vf v = kernel_numbers(format, w[j], at, k);
#pragma GCC unroll 4
        for (uint32_t i = 0; i < r.m; i++)
            acc[i * 4 + j] = vf_fma(v, vf_load(r.x + i * r.stride + at), acc[i * 4 + j]);
    }
}

INLINE void q4_add(struct tile_rows r, vf low, vf high, uint32_t at, vf *acc)
{
#pragma GCC unroll 4
    for (uint32_t i = 0; i < r.m; i++) {
        vf sum = vf_fma(low, vf_load(r.x + i * r.stride + at), acc[i * 4]);
        acc[i * 4] = vf_fma(high, vf_load(r.x + i * r.stride + at + 16), sum);
    }
}

/* As dense_tile, for outputs n[0 … 3] of a Q4 weight: blocks b … b + count - 1. */
INLINE void q4_blocks(struct tile_rows r, const struct gen_weight *w, const uint32_t n[4], uint32_t b,
                      uint32_t count, vf *acc)
{
    size_t block = w->block, blocks = (w->k + block - 1) / block;
    const uint8_t *data = (const uint8_t *)w->data + b * (block / 2), *row[TILE];
    float scale[TILE][2][16];

#pragma GCC unroll 4
    for (uint32_t j = 0; j < TILE; j++) {
        q4_scales(w, n[j], b, scale[j]);
        row[j] = data + n[j] * blocks * (block / 2);
    }
    for (uint32_t i = 0; i < count; i++) {
        uint32_t from = (b + i) * w->block, rest = r.stride - from < block ? r.stride - from : w->block;

#pragma GCC unroll 4
        for (uint32_t j = 0; j < TILE; j++) {
            vq numbers = vq_of(scale[j][1][i], scale[j][0][i]);

            for (uint32_t at = 0; at < (block == 32 ? 32 : rest); at += 32) {
                vf low, high;

                vq_get(numbers, row[j] + i * (block / 2) + at / 2, &low, &high);
                q4_add(r, low, high, from + at, acc + j);
            }
        }
    }
}

/* The same for blocks of 16. */
INLINE void q4_pairs(struct tile_rows r, const struct gen_weight *w, const uint32_t n[4], uint32_t b,
                     uint32_t count, vf *acc)
{
    uint32_t blocks = (w->k + 15) / 16;
    float scale[2][16];

    for (uint32_t j = 0; j < TILE; j++) {
        const uint8_t *bytes = (const uint8_t *)w->data + ((size_t)n[j] * blocks + b) * 8;
        vf low, high;

        q4_scales(w, n[j], b, scale);
        for (uint32_t i = 0; i < count; i += 2) {
            q4_pair(bytes + i * 8, scale, i, i + 1 < count, &low, &high);
            q4_add(r, low, high, (b + i) * 16, acc + j);
        }
    }
}

INLINE void q4_tile(struct tile_rows r, const struct gen_weight *w, const uint32_t n[4], vf *acc)
{
    struct gen_weight common = *w; /* the size of block that most models have, as a constant */
    uint32_t blocks = (w->k + w->block - 1) / w->block;

    common.block = 32;
    for (uint32_t b = 0; b < blocks; b += 16) {
        uint32_t count = blocks - b < 16 ? blocks - b : 16;

        if (w->block == 16)
            q4_pairs(r, w, n, b, count, acc);
        else if (w->block == 32)
            q4_blocks(r, &common, n, b, count, acc);
        else
            q4_blocks(r, w, n, b, count, acc);
    }
}

/* The sums of a tile become outputs n … of rows row …. */
INLINE void tile_finish(uint32_t m, const struct gen_cpu_product *p, uint32_t row, uint32_t n, const vf *acc)
{
    uint32_t some = p->to - n < TILE ? p->to - n : TILE;
    float sum[16];

    if (m == TILE)
        vf_store(sum, vf_sum16(acc));
    else
        for (uint32_t i = 0; i < m * TILE; i++) sum[i] = vf_sum(acc[i]);
    for (uint32_t i = 0; i < m; i++) {
        float *out = p->out + (row + i) * p->out_stride + (n - p->from);

        for (uint32_t j = 0; j < some; j++) out[j] = sum[i * 4 + j];
    }
}

/* Up to four rows: the weight is widened as it is read. */
INLINE void few_rows(uint32_t m, uint32_t format, const struct gen_cpu_product *p)
{
    struct tile_rows rows = {.m = m, .x = p->x, .stride = p->x_stride};

    for (uint32_t n = p->from; n < p->to; n += TILE) {
        const void *w[TILE];
        uint32_t of[TILE];
        vf acc[16];

        for (uint32_t i = 0; i < 16; i++) acc[i] = vf_set(0);
        for (uint32_t j = 0; j < TILE; j++) of[j] = n + j < p->to ? n + j : n;
        if (format == GEN_Q4) {
            q4_tile(rows, p->w, of, acc);
        } else {
            for (uint32_t j = 0; j < TILE; j++) w[j] = dense_row(p->w, of[j]);
            dense_tile(rows, format, w, p->w->k, acc);
        }
        tile_finish(m, p, 0, n, acc);
    }
}

/* m rows from `row` on, times four rows of floats. */
INLINE void some_rows(uint32_t m, const struct gen_cpu_product *p, uint32_t row, uint32_t n,
                      const void *const w[4])
{
    struct tile_rows rows = {.m = m, .x = p->x + (size_t)row * p->x_stride, .stride = p->x_stride};
    vf acc[16];

    for (uint32_t i = 0; i < 16; i++) acc[i] = vf_set(0);
    dense_tile(rows, GEN_F32, w, p->x_stride, acc);
    tile_finish(m, p, row, n, acc);
}

/* Many rows: the weight is widened once for all of them. */
static void many_rows(const struct gen_cpu_product *p)
{
    bool as_is = p->w->format == GEN_F32 && p->w->k == p->x_stride;

    for (uint32_t n = p->from; n < p->to; n += TILE) {
        const void *w[TILE];
        uint32_t row = 0;

        for (uint32_t j = 0; j < TILE; j++) {
            uint32_t of = n + j < p->to ? n + j : n;

            w[j] = as_is ? dense_row(p->w, of) : p->panel + (size_t)j * p->x_stride;
            if (!as_is) kernel_unpack(p->w, of, p->x_stride, p->panel + (size_t)j * p->x_stride);
        }
        for (; row + TILE <= p->rows; row += TILE) some_rows(TILE, p, row, n, w);
        if (p->rows - row == 3) some_rows(3, p, row, n, w);
        if (p->rows - row == 2) some_rows(2, p, row, n, w);
        if (p->rows - row == 1) some_rows(1, p, row, n, w);
    }
}

#define FEW(name, format)                                                                                    \
    static void name(const struct gen_cpu_product *p)                                                        \
    {                                                                                                        \
        if (p->rows == 1) few_rows(1, format, p);                                                            \
        if (p->rows == 2) few_rows(2, format, p);                                                            \
        if (p->rows == 3) few_rows(3, format, p);                                                            \
        if (p->rows == 4) few_rows(4, format, p);                                                            \
    }
FEW(few_f32, GEN_F32)
FEW(few_f16, GEN_F16)
FEW(few_bf16, GEN_BF16)
FEW(few_q4, GEN_Q4)

static void kernel_product(const struct gen_cpu_product *p)
{
    if (p->rows > TILE) {
        many_rows(p);
        return;
    }
    switch (p->w->format) {
    case GEN_F32: few_f32(p); return;
    case GEN_F16: few_f16(p); return;
    case GEN_BF16: few_bf16(p); return;
    case GEN_Q4: few_q4(p); return;
    }
}

static void kernel_order(float *x, uint32_t n)
{
    for (uint32_t at = 0; at < n; at += GEN_CPU_GROUP) vf_unzip(x + at);
}

/* ---- functions ---- */

static vf vf_exp(vf x)
{
    vf n, r, p;

    x = vf_max(vf_min(x, vf_set(88)), vf_set(-87));
    n = vf_round(vf_mul(x, vf_set(1.44269504f)));
    r = vf_fma(n, vf_set(-0.693359375f), x); /* ln 2 in two parts, the first of few bits */
    r = vf_fma(n, vf_set(2.12194440e-4f), r);
    p = vf_fma(r, vf_set(1.9875691500e-4f), vf_set(1.3981999507e-3f));
    p = vf_fma(p, r, vf_set(8.3334519073e-3f));
    p = vf_fma(p, r, vf_set(4.1665795894e-2f));
    p = vf_fma(p, r, vf_set(1.6666665459e-1f));
    p = vf_fma(p, r, vf_set(0.5f));
    p = vf_add(vf_fma(p, vf_mul(r, r), r), vf_set(1));
    return vf_scale2(p, n);
}

/* x / (1 + exp(-y)) */
static vf vf_sigmoid(vf x, vf y)
{
    return vf_div(x, vf_add(vf_set(1), vf_exp(vf_sub(vf_set(0), y))));
}

/* x * (1 + erf(x / sqrt 2)) / 2, by Abramowitz and Stegun 7.1.26: erfc to 1.5e-7. */
static vf vf_gelu(vf x)
{
    vf z = vf_mul(vf_abs(x), vf_set(0.70710678f));
    vf t = vf_div(vf_set(1), vf_fma(z, vf_set(0.3275911f), vf_set(1)));
    vf p = vf_fma(t, vf_set(1.061405429f), vf_set(-1.453152027f));

    p = vf_fma(p, t, vf_set(1.421413741f));
    p = vf_fma(p, t, vf_set(-0.284496736f));
    p = vf_mul(vf_fma(p, t, vf_set(0.254829592f)), t);
    p = vf_mul(p, vf_exp(vf_sub(vf_set(0), vf_mul(z, z))));
    return vf_sub(vf_max(x, vf_set(0)), vf_mul(vf_mul(vf_abs(x), vf_set(0.5f)), p));
}

static vf vf_act(enum gen_act act, vf x)
{
    vf y;

    switch (act) {
    case GEN_SILU: return vf_sigmoid(x, x);
    case GEN_GELU: return vf_gelu(x);
    case GEN_GELU_TANH:
        y = vf_fma(vf_mul(vf_mul(x, x), x), vf_set(0.044715f), x);
        return vf_sigmoid(x, vf_mul(y, vf_set(1.59576912f))); /* 2 sqrt(2 / pi) */
    case GEN_RELU: return vf_max(x, vf_set(0));
    case GEN_QUICK_GELU: return vf_sigmoid(x, vf_mul(x, vf_set(1.702f)));
    case GEN_RELU2: y = vf_max(x, vf_set(0)); return vf_mul(y, y);
    }
    return x;
}

static vf vf_cap(vf x, float cap)
{
    vf e = vf_exp(vf_mul(x, vf_set(2 / cap)));

    /* tanh(z) = 1 - 2 / (exp(2 z) + 1) */
    return vf_mul(vf_sub(vf_set(1), vf_div(vf_set(2), vf_add(e, vf_set(1)))), vf_set(cap));
}

static vf element_of(const struct gen_op *op, vf a, vf b, bool two)
{
    switch (op->kind) {
    case GEN_ADD: return vf_add(a, b);
    case GEN_MUL: return vf_mul(a, two ? b : vf_set(op->scale));
    case GEN_ACT: return vf_act(op->act, a);
    case GEN_GATE: return vf_mul(vf_act(op->act, a), b);
    case GEN_CAP: return vf_cap(a, op->cap);
    default: return a;
    }
}

static void kernel_element(const struct gen_op *op, const float *a, const float *b, float *out, uint32_t n)
{
    uint32_t i = 0, rest = n % 16;

    for (; i + 16 <= n; i += 16)
        vf_store(out + i, element_of(op, vf_load(a + i), b ? vf_load(b + i) : vf_set(0), b));
    if (!rest) return;
    vf_store_n(out + i, element_of(op, vf_load_n(a + i, rest), b ? vf_load_n(b + i, rest) : vf_set(0), b),
               rest);
}

/* ---- norms ---- */

/* Element i … i + 15 less the mean; zeros after element n - 1. */
INLINE vf centred(const float *a, uint32_t i, uint32_t n, float mean)
{
    return vf_keep(vf_sub(kernel_numbers(GEN_F32, a, i, n), vf_set(mean)), 0, n - i < 16 ? n - i : 16, 0);
}

static void norm_segment(const struct gen_cpu_norm *norm, const float *a, float *out)
{
    uint32_t n = norm->segment;
    vf sum = vf_set(0), square = vf_set(0);
    float mean = 0, factor;

    if (norm->mean) {
        for (uint32_t i = 0; i < n; i += 16) sum = vf_add(sum, kernel_numbers(GEN_F32, a, i, n));
        mean = vf_sum(sum) / (float)n;
    }
    for (uint32_t i = 0; i < n; i += 16) {
        vf v = centred(a, i, n, mean);
        square = vf_fma(v, v, square);
    }
    factor = 1 / sqrtf(vf_sum(square) / (float)n + norm->epsilon);
    for (uint32_t i = 0; i < n; i += 16) {
        vf v = vf_mul(centred(a, i, n, mean), vf_set(factor));

        v = vf_mul(v, kernel_numbers(GEN_F32, norm->factor, i, n));
        if (norm->bias) v = vf_add(v, kernel_numbers(GEN_F32, norm->bias, i, n));
        if (n - i >= 16)
            vf_store(out + i, v);
        else
            vf_store_n(out + i, v, n - i);
    }
}

static void kernel_norm(const struct gen_cpu_norm *norm, const float *a, float *out, uint32_t n)
{
    for (uint32_t at = 0; at < n; at += norm->segment) norm_segment(norm, a + at, out + at);
}

/* ---- the cache ---- */

static void kernel_store(uint32_t dtype, void *to, const float *from, uint32_t n)
{
    uint32_t i = 0;

    if (dtype == GW_DTYPE_F32) {
        memcpy(to, from, n * sizeof(*from));
        return;
    }
    for (; dtype == GW_DTYPE_F16 && i + 16 <= n; i += 16) vf_f16_store((uint16_t *)to + i, vf_load(from + i));
    for (; i < n; i++) gen_number_put(dtype, to, i, from[i]);
}

/* Keys, or values, of the page's token t. */
INLINE const void *attend_token(const struct gen_cpu_attend *a, uint32_t format, const void *page, uint32_t t)
{
    return (const char *)page + t * (size_t)a->width * (format == GEN_F32 ? 4 : 2);
}

/* The scores of a page's tokens for query g; -INFINITY for tokens outside, of which anything may be in the
 * page. */
INLINE vf attend_scores(const struct gen_cpu_attend *a, uint32_t format, uint32_t g)
{
    const float *query = a->query + (size_t)g * a->stride;
    vf dot[16], score;

    for (uint32_t t = 0; t < 16; t += TILE) {
        vf sum[TILE];

#pragma GCC unroll 4
        for (uint32_t j = 0; j < TILE; j++) sum[j] = vf_set(0);
        for (size_t i = 0; i < a->head; i += 16)
#pragma GCC unroll 4
            for (uint32_t j = 0; j < TILE; j++) {
                vf key = kernel_numbers(format, attend_token(a, format, a->key, t + j), i, a->head);
                sum[j] = vf_fma(vf_load(query + i), key, sum[j]);
            }
#pragma GCC unroll 4
        for (uint32_t j = 0; j < TILE; j++) dot[t + j] = sum[j];
    }
    score = vf_mul(vf_sum16(dot), vf_set(a->scale));
    if (a->cap > 0) score = vf_cap(score, a->cap);
    return vf_keep(score, a->from, a->to, -INFINITY);
}

/* Elements i … of the values' sum: n vectors of them. */
INLINE void attend_some(const struct gen_cpu_attend *a, uint32_t format, size_t i, uint32_t n, float *out,
                        const float *weight)
{
    vf sum[TILE];

#pragma GCC unroll 4
    for (uint32_t j = 0; j < n; j++) sum[j] = vf_load(out + i + 16 * j);
    for (uint32_t t = a->from; t < a->to; t++) {
        const void *value = attend_token(a, format, a->value, t);
#pragma GCC unroll 4
        for (uint32_t j = 0; j < n; j++)
            sum[j] =
                vf_fma(vf_set(weight[t]), kernel_numbers(format, value, i + 16 * j, a->value_head), sum[j]);
    }
#pragma GCC unroll 4
    for (uint32_t j = 0; j < n; j++) vf_store(out + i + 16 * j, sum[j]);
}

INLINE void attend_values(const struct gen_cpu_attend *a, uint32_t format, uint32_t g, const float *weight,
                          float keep)
{
    float *out = a->out + (size_t)g * a->stride;
    size_t i = 0;

    for (; keep != 1 && i < a->value_head; i += 16) vf_store(out + i, vf_mul(vf_load(out + i), vf_set(keep)));
    for (i = 0; i + 16 * TILE <= a->value_head; i += 16 * TILE) attend_some(a, format, i, TILE, out, weight);
    for (; i < a->value_head; i += 16) attend_some(a, format, i, 1, out, weight);
}

INLINE void attend_page(const struct gen_cpu_attend *a, uint32_t format)
{
    for (uint32_t g = 0; g < a->group; g++) {
        vf score = attend_scores(a, format, g), weight;
        float most = fmaxf(a->most[g], vf_most(score)), each[16], keep = 1;

        /* exp() here never returns 0, and tokens outside count as nothing. */
        weight = vf_keep(vf_exp(vf_sub(score, vf_set(most))), a->from, a->to, 0);
        vf_store(each, weight);
        if (most > a->most[g]) keep = expf(a->most[g] - most);
        a->sum[g] = a->sum[g] * keep + vf_sum(weight);
        a->most[g] = most;
        attend_values(a, format, g, each, keep);
    }
}

static void kernel_attend(const struct gen_cpu_attend *a)
{
    if (a->dtype == GW_DTYPE_F16)
        attend_page(a, GEN_F16);
    else if (a->dtype == GW_DTYPE_BF16)
        attend_page(a, GEN_BF16);
    else
        attend_page(a, GEN_F32);
}

const struct gen_cpu_kernels KERNELS = {.name = VECTOR_NAME,
                                        .product = kernel_product,
                                        .order = kernel_order,
                                        .norm = kernel_norm,
                                        .element = kernel_element,
                                        .store = kernel_store,
                                        .attend = kernel_attend};
