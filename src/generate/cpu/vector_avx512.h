/* SPDX-License-Identifier: Apache-2.0 */
/* Vectors of 16 floats with AVX-512. kernels_body.h says what each function means. */
#ifndef GW_GENERATE_CPU_VECTOR_AVX512_H
#define GW_GENERATE_CPU_VECTOR_AVX512_H

#include <immintrin.h>
#include <stdint.h>

#define VECTOR_NAME "avx512"

typedef __m512 vf;

static inline vf vf_set(float f)
{
    return _mm512_set1_ps(f);
}
static inline vf vf_load(const float *p)
{
    return _mm512_loadu_ps(p);
}
static inline vf vf_load_n(const float *p, uint32_t n)
{
    return _mm512_maskz_loadu_ps((__mmask16)((1u << n) - 1), p);
}
static inline void vf_store(float *p, vf v)
{
    _mm512_storeu_ps(p, v);
}
static inline void vf_store_n(float *p, vf v, uint32_t n)
{
    _mm512_mask_storeu_ps(p, (__mmask16)((1u << n) - 1), v);
}
static inline vf vf_f16(const uint16_t *p)
{
    return _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)p));
}
static inline vf vf_bf16(const uint16_t *p)
{
    __m512i wide = _mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i *)p));

    return _mm512_castsi512_ps(_mm512_slli_epi32(wide, 16));
}
static inline void vf_f16_store(uint16_t *p, vf v)
{
    _mm256_storeu_si256((__m256i *)p, _mm512_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
}
static inline vf vf_add(vf a, vf b)
{
    return _mm512_add_ps(a, b);
}
static inline vf vf_sub(vf a, vf b)
{
    return _mm512_sub_ps(a, b);
}
static inline vf vf_mul(vf a, vf b)
{
    return _mm512_mul_ps(a, b);
}
static inline vf vf_div(vf a, vf b)
{
    return _mm512_div_ps(a, b);
}
static inline vf vf_fma(vf a, vf b, vf c)
{
    return _mm512_fmadd_ps(a, b, c);
}
static inline vf vf_min(vf a, vf b)
{
    return _mm512_min_ps(a, b);
}
static inline vf vf_max(vf a, vf b)
{
    return _mm512_max_ps(a, b);
}
static inline vf vf_abs(vf a)
{
    return _mm512_abs_ps(a);
}
static inline vf vf_round(vf a)
{
    return _mm512_roundscale_ps(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}
static inline vf vf_scale2(vf a, vf n)
{
    return _mm512_scalef_ps(a, n);
}
static inline vf vf_low(vf a, vf b)
{
    return _mm512_mask_blend_ps(0xff00, a, b);
}
static inline vf vf_keep(vf a, uint32_t from, uint32_t to, float other)
{
    return _mm512_mask_blend_ps((__mmask16)((1u << to) - (1u << from)), vf_set(other), a);
}
static inline float vf_sum(vf v)
{
    __m256 a = _mm256_add_ps(_mm512_castps512_ps256(v), _mm512_extractf32x8_ps(v, 1));
    __m128 b = _mm_add_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));

    b = _mm_add_ps(b, _mm_movehl_ps(b, b));
    return _mm_cvtss_f32(_mm_add_ss(b, _mm_movehdup_ps(b)));
}
static inline float vf_most(vf v)
{
    return _mm512_reduce_max_ps(v);
}

/* The sums of pairs of halves of each 2 n lanes: of a in the lower lanes, of b in the upper ones. */
static inline vf vf_halves8(vf a, vf b)
{
    return vf_add(_mm512_shuffle_f32x4(a, b, 0x44), _mm512_shuffle_f32x4(a, b, 0xee));
}
static inline vf vf_halves4(vf a, vf b)
{
    return vf_add(_mm512_shuffle_f32x4(a, b, 0x88), _mm512_shuffle_f32x4(a, b, 0xdd));
}
static inline vf vf_halves2(vf a, vf b)
{
    return vf_add(_mm512_shuffle_ps(a, b, 0x44), _mm512_shuffle_ps(a, b, 0xee));
}
static inline vf vf_halves1(vf a, vf b)
{
    return vf_add(_mm512_shuffle_ps(a, b, 0x88), _mm512_shuffle_ps(a, b, 0xdd));
}
/* Lane i of the result is vf_sum(v[i]). */
static inline vf vf_sum16(const vf v[16])
{
    vf q[4];

    for (int i = 0; i < 4; i++) {
        /* Two vectors' pairs of 8 lie side by side, then four vectors' of 4, one in each 128 bits. */
        vf a = vf_halves8(v[i], v[i + 4]), b = vf_halves8(v[i + 8], v[i + 12]);
        q[i] = vf_halves4(a, b);
    }
    /* Then within the 128 bits; lane 4 j + i is of vector 4 j + i, since q[i] has vectors i, i + 4, …. */
    return vf_halves1(vf_halves2(q[0], q[1]), vf_halves2(q[2], q[3]));
}

/* The 16 numbers that a block's quants stand for. */
typedef __m512 vq;
static inline vq vq_of(float zero, float scale)
{
    const __m512 all = _mm512_setr_ps(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);

    return _mm512_mul_ps(_mm512_sub_ps(all, _mm512_set1_ps(zero)), _mm512_set1_ps(scale));
}
static inline void vq_get(vq block, const uint8_t *bytes, vf *low, vf *high)
{
    __m512i q = _mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i *)bytes));

    *low = _mm512_permutexvar_ps(q, block); /* it looks at the lower 4 bits alone */
    *high = _mm512_permutexvar_ps(_mm512_srli_epi32(q, 4), block);
}

/* The even elements of 32, then the odd ones. */
static inline void vf_unzip(float *p)
{
    const __m512i even = _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
    vf a = vf_load(p), b = vf_load(p + 16);

    vf_store(p, _mm512_permutex2var_ps(a, even, b));
    vf_store(p + 16, _mm512_permutex2var_ps(a, _mm512_add_epi32(even, _mm512_set1_epi32(1)), b));
}

#endif
