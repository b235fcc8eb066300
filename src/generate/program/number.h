/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers of any float type of a file or a cache, to float and back (to the nearest, ties to even). */
#ifndef GW_GENERATE_PROGRAM_NUMBER_H
#define GW_GENERATE_PROGRAM_NUMBER_H

#include <stdint.h>
#include <string.h>

#include <gpuwire/dtype.h>

#include "src/model/graph/half.h"

static inline float gen_bf16_get(uint16_t h)
{
    return gwm_float_of_bits((uint32_t)h << 16);
}

static inline uint16_t gen_bf16_put(float f)
{
    uint32_t bits;

    memcpy(&bits, &f, sizeof(bits));
    if ((bits & 0x7fffffff) > 0x7f800000) return (uint16_t)(bits >> 16 | 0x40); /* NaN stays NaN */
    return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

/* Element i; dtype: GW_DTYPE_F32, GW_DTYPE_F16 or GW_DTYPE_BF16. */
static inline float gen_number_get(uint32_t dtype, const void *p, uint64_t i)
{
    if (dtype == GW_DTYPE_F16) return gwm_half_soft(((const uint16_t *)p)[i]);
    if (dtype == GW_DTYPE_BF16) return gen_bf16_get(((const uint16_t *)p)[i]);
    return ((const float *)p)[i];
}

static inline void gen_number_put(uint32_t dtype, void *p, uint64_t i, float f)
{
    if (dtype == GW_DTYPE_F16)
        ((uint16_t *)p)[i] = gwm_half_round(f);
    else if (dtype == GW_DTYPE_BF16)
        ((uint16_t *)p)[i] = gen_bf16_put(f);
    else
        ((float *)p)[i] = f;
}

#endif
