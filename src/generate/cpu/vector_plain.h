/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Vectors of 16 floats by the compiler's own vectors, for any processor. Products and sums are rounded one by
 * one. kernels_body.h says what each function means.
 */
#ifndef GW_GENERATE_CPU_VECTOR_PLAIN_H
#define GW_GENERATE_CPU_VECTOR_PLAIN_H

#include <math.h>
#include <stdint.h>
#include <string.h>

#include "src/generate/program/number.h"

#define VECTOR_NAME "plain"

typedef float vf __attribute__((vector_size(64)));
typedef int32_t vi __attribute__((vector_size(64)));

static inline vf vf_set(float f)
{
    return (vf){f, f, f, f, f, f, f, f, f, f, f, f, f, f, f, f};
}
static inline vf vf_load(const float *p)
{
    vf v;

    memcpy(&v, p, sizeof(v));
    return v;
}
static inline void vf_store(float *p, vf v)
{
    memcpy(p, &v, sizeof(v));
}
static inline vf vf_load_n(const float *p, uint32_t n)
{
    vf v = {0};

    memcpy(&v, p, n * sizeof(*p));
    return v;
}
static inline void vf_store_n(float *p, vf v, uint32_t n)
{
    memcpy(p, &v, n * sizeof(*p));
}
static inline vf vf_f16(const uint16_t *p)
{
    float all[16];

    for (int i = 0; i < 16; i++) all[i] = gwm_half_soft(p[i]);
    return vf_load(all);
}
static inline vf vf_bf16(const uint16_t *p)
{
    float all[16];

    for (int i = 0; i < 16; i++) all[i] = gen_bf16_get(p[i]);
    return vf_load(all);
}
static inline void vf_f16_store(uint16_t *p, vf v)
{
    for (int i = 0; i < 16; i++) p[i] = gwm_half_round(v[i]);
}
static inline vf vf_add(vf a, vf b)
{
    return a + b;
}
static inline vf vf_sub(vf a, vf b)
{
    return a - b;
}
static inline vf vf_mul(vf a, vf b)
{
    return a * b;
}
static inline vf vf_div(vf a, vf b)
{
    return a / b;
}
static inline vf vf_fma(vf a, vf b, vf c)
{
    return a * b + c;
}
static inline vf vf_choose(vi which, vf a, vf b)
{
    return (vf)(((vi)a & which) | ((vi)b & ~which));
}
static inline vf vf_min(vf a, vf b)
{
    return vf_choose(a < b, a, b);
}
static inline vf vf_max(vf a, vf b)
{
    return vf_choose(a > b, a, b);
}
static inline vf vf_abs(vf a)
{
    return vf_choose(a < 0, -a, a);
}
static inline vf vf_round(vf a)
{
    const vf big = vf_set(12582912); /* 1.5 * 2^23: no bits are left after the point */

    return a + big - big;
}
static inline vf vf_scale2(vf a, vf n)
{
    return a * (vf)((__builtin_convertvector(n, vi) + 127) << 23);
}
static inline vf vf_low(vf a, vf b)
{
    for (int i = 8; i < 16; i++) a[i] = b[i];
    return a;
}
static inline vf vf_keep(vf a, uint32_t from, uint32_t to, float other)
{
    for (uint32_t i = 0; i < 16; i++) a[i] = i >= from && i < to ? a[i] : other;
    return a;
}
static inline float vf_sum(vf v)
{
    float s[16];

    vf_store(s, v);
    for (int half = 8; half; half /= 2)
        for (int i = 0; i < half; i++) s[i] += s[i + half];
    return s[0];
}
static inline float vf_most(vf v)
{
    float most = v[0];

    for (int i = 1; i < 16; i++) most = fmaxf(most, v[i]);
    return most;
}
static inline vf vf_sum16(const vf v[16])
{
    float sum[16];

    for (int i = 0; i < 16; i++) sum[i] = vf_sum(v[i]);
    return vf_load(sum);
}

/* What a block's quants stand for. */
typedef struct {
    float zero, scale;
} vq;
static inline vq vq_of(float zero, float scale)
{
    return (vq){zero, scale};
}
static inline void vq_get(vq block, const uint8_t *bytes, vf *low, vf *high)
{
    float all[32];

    for (int i = 0; i < 16; i++) {
        all[i] = ((float)(bytes[i] & 15) - block.zero) * block.scale;
        all[16 + i] = ((float)(bytes[i] >> 4) - block.zero) * block.scale;
    }
    *low = vf_load(all);
    *high = vf_load(all + 16);
}

/* The even elements of 32, then the odd ones. */
static inline void vf_unzip(float *p)
{
    float all[32];

    memcpy(all, p, sizeof(all));
    for (int i = 0; i < 32; i++) p[i] = all[2 * (i % 16) + i / 16];
}

#endif
