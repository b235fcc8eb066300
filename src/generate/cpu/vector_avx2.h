/* SPDX-License-Identifier: Apache-2.0 */
/* Vectors of 16 floats as two of AVX2. kernels_body.h says what each function means. */
#ifndef GW_GENERATE_CPU_VECTOR_AVX2_H
#define GW_GENERATE_CPU_VECTOR_AVX2_H

#include <immintrin.h>
#include <stdint.h>
#include <string.h>

#define VECTOR_NAME "avx2"

typedef struct {
    __m256 a, b;
} vf;

static inline vf vf_set(float f)
{
    return (vf){_mm256_set1_ps(f), _mm256_set1_ps(f)};
}
static inline vf vf_load(const float *p)
{
    return (vf){_mm256_loadu_ps(p), _mm256_loadu_ps(p + 8)};
}
static inline void vf_store(float *p, vf v)
{
    _mm256_storeu_ps(p, v.a);
    _mm256_storeu_ps(p + 8, v.b);
}
static inline vf vf_load_n(const float *p, uint32_t n)
{
    float all[16] = {0};

    memcpy(all, p, n * sizeof(*p));
    return vf_load(all);
}
static inline void vf_store_n(float *p, vf v, uint32_t n)
{
    float all[16];

    vf_store(all, v);
    memcpy(p, all, n * sizeof(*p));
}
static inline vf vf_f16(const uint16_t *p)
{
    return (vf){_mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)p)),
                _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(p + 8)))};
}
static inline __m256 bf16_half(const uint16_t *p)
{
    __m256i wide = _mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i *)p));

    return _mm256_castsi256_ps(_mm256_slli_epi32(wide, 16));
}
static inline vf vf_bf16(const uint16_t *p)
{
    return (vf){bf16_half(p), bf16_half(p + 8)};
}
static inline void vf_f16_store(uint16_t *p, vf v)
{
    _mm_storeu_si128((__m128i *)p, _mm256_cvtps_ph(v.a, _MM_FROUND_TO_NEAREST_INT));
    _mm_storeu_si128((__m128i *)(p + 8), _mm256_cvtps_ph(v.b, _MM_FROUND_TO_NEAREST_INT));
}
static inline vf vf_add(vf x, vf y)
{
    return (vf){_mm256_add_ps(x.a, y.a), _mm256_add_ps(x.b, y.b)};
}
static inline vf vf_sub(vf x, vf y)
{
    return (vf){_mm256_sub_ps(x.a, y.a), _mm256_sub_ps(x.b, y.b)};
}
static inline vf vf_mul(vf x, vf y)
{
    return (vf){_mm256_mul_ps(x.a, y.a), _mm256_mul_ps(x.b, y.b)};
}
static inline vf vf_div(vf x, vf y)
{
    return (vf){_mm256_div_ps(x.a, y.a), _mm256_div_ps(x.b, y.b)};
}
static inline vf vf_fma(vf x, vf y, vf z)
{
    return (vf){_mm256_fmadd_ps(x.a, y.a, z.a), _mm256_fmadd_ps(x.b, y.b, z.b)};
}
static inline vf vf_min(vf x, vf y)
{
    return (vf){_mm256_min_ps(x.a, y.a), _mm256_min_ps(x.b, y.b)};
}
static inline vf vf_max(vf x, vf y)
{
    return (vf){_mm256_max_ps(x.a, y.a), _mm256_max_ps(x.b, y.b)};
}
static inline vf vf_abs(vf x)
{
    __m256 sign = _mm256_set1_ps(-0.f);

    return (vf){_mm256_andnot_ps(sign, x.a), _mm256_andnot_ps(sign, x.b)};
}
static inline vf vf_round(vf x)
{
    return (vf){_mm256_round_ps(x.a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC),
                _mm256_round_ps(x.b, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC)};
}
static inline __m256 scale2_half(__m256 x, __m256 n)
{
    __m256i exponent = _mm256_add_epi32(_mm256_cvtps_epi32(n), _mm256_set1_epi32(127));

    return _mm256_mul_ps(x, _mm256_castsi256_ps(_mm256_slli_epi32(exponent, 23)));
}
static inline vf vf_scale2(vf x, vf n)
{
    return (vf){scale2_half(x.a, n.a), scale2_half(x.b, n.b)};
}
static inline vf vf_low(vf x, vf y)
{
    return (vf){x.a, y.b};
}
static inline vf vf_keep(vf x, uint32_t from, uint32_t to, float other)
{
    float all[16];

    vf_store(all, x);
    for (uint32_t i = 0; i < 16; i++) all[i] = i >= from && i < to ? all[i] : other;
    return vf_load(all);
}

static inline float sum8(__m256 v)
{
    __m128 b = _mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));

    b = _mm_add_ps(b, _mm_movehl_ps(b, b));
    return _mm_cvtss_f32(_mm_add_ss(b, _mm_movehdup_ps(b)));
}
static inline float vf_sum(vf v)
{
    return sum8(_mm256_add_ps(v.a, v.b));
}
static inline float vf_most(vf v)
{
    __m256 a = _mm256_max_ps(v.a, v.b);
    __m128 b = _mm_max_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));

    b = _mm_max_ps(b, _mm_movehl_ps(b, b));
    return _mm_cvtss_f32(_mm_max_ss(b, _mm_movehdup_ps(b)));
}

/* The sums of 8 vectors of 8: in each lane those of one. */
static inline __m256 sum8x8(const __m256 v[8])
{
    __m256 q[4], a, b;

    for (int i = 0; i < 4; i++) {
        a = _mm256_permute2f128_ps(v[i], v[i + 4], 0x20);
        q[i] = _mm256_add_ps(a, _mm256_permute2f128_ps(v[i], v[i + 4], 0x31));
    }
    a = _mm256_add_ps(_mm256_shuffle_ps(q[0], q[1], 0x44), _mm256_shuffle_ps(q[0], q[1], 0xee));
    b = _mm256_add_ps(_mm256_shuffle_ps(q[2], q[3], 0x44), _mm256_shuffle_ps(q[2], q[3], 0xee));
    return _mm256_add_ps(_mm256_shuffle_ps(a, b, 0x88), _mm256_shuffle_ps(a, b, 0xdd));
}
static inline vf vf_sum16(const vf v[16])
{
    __m256 half[16];

    for (int i = 0; i < 16; i++) half[i] = _mm256_add_ps(v[i].a, v[i].b);
    return (vf){sum8x8(half), sum8x8(half + 8)};
}

/* What a block's quants stand for. */
typedef struct {
    __m256 zero, scale;
} vq;
static inline vq vq_of(float zero, float scale)
{
    return (vq){_mm256_set1_ps(zero), _mm256_set1_ps(scale)};
}
static inline __m256 vq_half(vq block, __m256i q)
{
    return _mm256_mul_ps(_mm256_sub_ps(_mm256_cvtepi32_ps(q), block.zero), block.scale);
}
static inline void vq_get(vq block, const uint8_t *bytes, vf *low, vf *high)
{
    __m256i mask = _mm256_set1_epi32(15);
    __m256i a = _mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)bytes));
    __m256i b = _mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)(bytes + 8)));

    *low = (vf){vq_half(block, _mm256_and_si256(a, mask)), vq_half(block, _mm256_and_si256(b, mask))};
    *high = (vf){vq_half(block, _mm256_srli_epi32(a, 4)), vq_half(block, _mm256_srli_epi32(b, 4))};
}

/* The even elements of 32, then the odd ones. */
static inline void vf_unzip(float *p)
{
    float all[32];

    memcpy(all, p, sizeof(all));
    for (int i = 0; i < 32; i++) p[i] = all[2 * (i % 16) + i / 16];
}

#endif
