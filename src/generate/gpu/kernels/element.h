/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers of any float type in kernels: one, two, or as many as 16 bytes hold. */
#ifndef GW_GENERATE_GPU_KERNELS_ELEMENT_H
#define GW_GENERATE_GPU_KERNELS_ELEMENT_H

#include <math.h>

#include <gpuwire/dtype.h>

#include "src/generate/gpu/kernels/args.h"
#include "src/generate/program/program.h"
#include "src/model/kernels/device.h"

/* 16 bytes, read or written at once. */
struct gen_words {
    uint32_t w[4];
} __attribute__((aligned(16)));

/* What is read once only. */
GW_DEV struct gen_words gen_words_once(const void *p)
{
#ifdef __CUDACC__
    uint4 v = __ldcs((const uint4 *)p);
    struct gen_words w = {{v.x, v.y, v.z, v.w}};

    return w;
#else
    return *(const struct gen_words *)p;
#endif
}

GW_DEV float gen_bits_float(uint32_t bits)
{
    float f;

    memcpy(&f, &bits, sizeof(f));
    return f;
}

/* To the nearest, ties to even; NaN stays NaN. */
GW_DEV uint16_t gen_float_bf16(float f)
{
    uint32_t bits;

    memcpy(&bits, &f, sizeof(bits));
    if ((bits & 0x7fffffff) > 0x7f800000) return (uint16_t)(bits >> 16 | 0x40);
    return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

/* The number in the lower half of a word: fp16 or bf16. */
GW_DEV float gen_half(uint32_t type, uint32_t word)
{
    return type == GW_DTYPE_F16 ? gwm_half_get((uint16_t)word) : gen_bits_float(word << 16);
}

GW_DEV float gen_get(uint32_t type, const void *p, uint64_t i)
{
    if (type == GW_DTYPE_F32) return ((const float *)p)[i];
    if (type == GW_DTYPE_F16) return gwm_half_get(((const uint16_t *)p)[i]);
    return gen_bits_float((uint32_t)((const uint16_t *)p)[i] << 16);
}

GW_DEV void gen_put(uint32_t type, void *p, uint64_t i, float f)
{
    if (type == GW_DTYPE_F32)
        ((float *)p)[i] = f;
    else
        ((uint16_t *)p)[i] = type == GW_DTYPE_F16 ? gwm_half_put(f) : gen_float_bf16(f);
}

/* Two of 16 bits in a word, the first in the lower half. */
GW_DEV uint32_t gen_pack(uint32_t type, float a, float b)
{
    if (type == GW_DTYPE_F16) return gwm_half_put2(a, b);
    return gen_float_bf16(a) | (uint32_t)gen_float_bf16(b) << 16;
}

GW_DEV float gen_row_get(const struct gen_rows *x, uint32_t row, uint32_t i)
{
    return gen_get(x->type, x->p, (uint64_t)row * x->stride + i);
}

GW_DEV void gen_row_put(const struct gen_rows *y, uint32_t row, uint32_t i, float f)
{
    gen_put(y->type, y->p, (uint64_t)row * y->stride + i, f);
}

/* The rows that are there. */
GW_DEV uint32_t gen_count_rows(const struct gen_count *c)
{
    uint32_t rows = c->picked ? c->step->outs : c->step->rows;

    return rows < c->most ? rows : c->most;
}

GW_DEV uint32_t gen_format_type(uint32_t format)
{
    return format == GEN_F32 ? GW_DTYPE_F32 : format == GEN_F16 ? GW_DTYPE_F16 : GW_DTYPE_BF16;
}

/* Element (n, k) of a matrix of any format. */
GW_DEV float gen_matrix_get(const struct gen_matrix *w, uint32_t n, uint32_t k)
{
    const char *row = (const char *)w->data + n * w->row_bytes;
    uint64_t at;
    uint32_t q;

    if (w->format != GEN_Q4) return gen_get(gen_format_type(w->format), row, k);
    at = 2 * ((uint64_t)n * w->blocks + (k >> w->shift));
    q = ((const uint32_t *)row)[k / 8] >> (k / 2 % 4 * 4 + k % 2 * 16) & 15;
    return (float)q * gen_get(w->scale_type, w->scale, at) + gen_get(w->scale_type, w->scale, at + 1);
}

#endif
