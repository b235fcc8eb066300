/* SPDX-License-Identifier: Apache-2.0 */
/* IEEE half precision as 16 bits, to float and back (to the nearest, ties to even), on host and device. */
#ifndef GW_MODEL_HALF_H
#define GW_MODEL_HALF_H

#include <string.h>

#include <gpuwire/fn.h>

#ifdef __CUDACC__
#include <cuda_fp16.h>
#endif

static inline float gwm_float_of_bits(uint32_t bits)
{
    float f;

    memcpy(&f, &bits, sizeof(f));
    return f;
}

/* By bits, for compilers without a type for it. */
static inline float gwm_half_soft(uint16_t h)
{
    uint32_t sign = (uint32_t)(h & 0x8000) << 16, rest = h & 0x7fff;

    if (rest >= 0x7c00) return gwm_float_of_bits(sign | 0x7f800000 | (rest & 0x3ff) << 13); /* inf, NaN */
    /* The exponents differ by 112; as a product, so that subnormal numbers become normal ones. */
    return gwm_float_of_bits(sign | rest << 13) * gwm_float_of_bits(0x77800000);
}

static inline uint16_t gwm_half_round(float f)
{
    uint32_t bits, sign, rest, shift, half;

    memcpy(&bits, &f, sizeof(bits));
    sign = bits >> 16 & 0x8000;
    rest = bits & 0x7fffffff;
    if (rest > 0x7f800000) return (uint16_t)(sign | 0x7e00);  /* NaN */
    if (rest >= 0x477ff000) return (uint16_t)(sign | 0x7c00); /* 65520 and more round to infinity */
    if (rest >= 0x38800000) {                                 /* normal */
        rest += 0xfff + (rest >> 13 & 1);
        return (uint16_t)(sign | (rest - 0x38000000) >> 13);
    }
    if (rest < 0x33000000) return (uint16_t)sign; /* less than half of the smallest */
    shift = 126 - (rest >> 23);                   /* 14 … 24 */
    rest = (rest & 0x7fffff) | 0x800000;
    half = rest >> shift;
    bits = rest & ((1u << shift) - 1); /* what is cut off */
    if (bits > 1u << (shift - 1) || (bits == 1u << (shift - 1) && (half & 1))) half++;
    return (uint16_t)(sign | half);
}

/* The same in kernels; and of two numbers, for which a GPU has one instruction: the first is the lower
 * one. */
#ifdef __CUDACC__
static __device__ inline float gwm_half_get(uint16_t h)
{
    return __half2float(__ushort_as_half(h));
}
static __device__ inline uint16_t gwm_half_put(float f)
{
    return __half_as_ushort(__float2half_rn(f));
}
static __device__ inline uint32_t gwm_half_put2(float a, float b)
{
    __half2 h = __floats2half2_rn(a, b);
    uint32_t bits;

    memcpy(&bits, &h, sizeof(bits));
    return bits;
}
#else
static inline float gwm_half_get(uint16_t h)
{
    return gwm_half_soft(h);
}
static inline uint16_t gwm_half_put(float f)
{
    return gwm_half_round(f);
}
static inline uint32_t gwm_half_put2(float a, float b)
{
    return gwm_half_round(a) | (uint32_t)gwm_half_round(b) << 16;
}
#endif

#endif
