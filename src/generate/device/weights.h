/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Weights and keys of tokens. A token's weight is exp((logit - the largest) / temperature) as an integer,
 * 2^40 for the largest. Sums of integers do not depend on their order, so the result is the same for any
 * number of threads. A token below 2^-40 of the most likely one is never taken.
 *
 * A token's key orders tokens: by logit, then by number, the lower one first. No two have the same.
 */
#ifndef GW_GENERATE_DEVICE_WEIGHTS_H
#define GW_GENERATE_DEVICE_WEIGHTS_H

#include <gpuwire/kernel.h>

#define GEN_WEIGHT_ONE ((float)(UINT64_C(1) << 40))

/* e^x, x <= 0, to 2^-22 of itself; 0 below -40. */
GW_DEV float gen_exp(float x)
{
    if (!(x > -40.0f)) return 0;
    float n = (float)(int32_t)(x * 1.44269504f - 0.5f); /* rounds to the nearest, x being negative */
    float r = x - n * 0.693359375f + n * 2.12194440e-4f;
    float p = 1.3981999507e-3f;
    p = p * r + 8.3334519073e-3f;
    p = p * r + 4.1665795894e-2f;
    p = p * r + 1.6666665459e-1f;
    p = p * r + 5.0000001201e-1f;
    p = p * r * r + r + 1;
    uint32_t bits = (uint32_t)(127 + (int32_t)n) << 23;
    float power;
    memcpy(&power, &bits, 4);
    return p * power;
}

/* by: 1 / temperature. */
GW_DEV uint64_t gen_weight(float logit, float largest, float by)
{
    float e = gen_exp((logit - largest) * by);
    return (uint64_t)((e < 1 ? e : 1) * GEN_WEIGHT_ONE);
}

GW_DEV uint32_t gen_float_bits(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, 4);
    return bits;
}

/* Larger for larger floats; both zeros are equal. Without a branch, which no processor would foresee. */
GW_DEV uint32_t gen_float_order(float x)
{
    uint32_t bits = gen_float_bits(x + 0.0f); /* a negative zero becomes the other one */
    return bits ^ ((0 - (bits >> 31)) | 0x80000000u);
}

GW_DEV uint64_t gen_token_key(float logit, uint32_t token)
{
    return (uint64_t)gen_float_order(logit) << 32 | (UINT32_MAX - token);
}

GW_DEV uint32_t gen_key_token(uint64_t key)
{
    return UINT32_MAX - (uint32_t)key;
}

/* Below any key of a token that can be taken: that of minus infinity is not above it. */
#define GEN_KEY_NONE ((uint64_t)0x007fffffu << 32 | UINT32_MAX)

#endif
