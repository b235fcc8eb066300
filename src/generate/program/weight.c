/* SPDX-License-Identifier: Apache-2.0 */
/* What the elements of a weight are, in every format, and how many bytes it takes. */
#include "src/generate/program/program.h"

#include "src/generate/program/number.h"

/* The type of a format's elements, or of the scales. Q4 itself has none. */
static uint32_t weight_dtype(uint32_t format)
{
    return format == GEN_F16 ? GW_DTYPE_F16 : format == GEN_BF16 ? GW_DTYPE_BF16 : GW_DTYPE_F32;
}

uint64_t gen_weight_bytes(const struct gen_weight *w)
{
    uint64_t blocks, zeros = 0;

    if (w->format == GEN_F32) return (uint64_t)w->n * w->k * 4;
    if (w->format == GEN_F16 || w->format == GEN_BF16) return (uint64_t)w->n * w->k * 2;
    if (w->format != GEN_Q4 || w->block < 16) return 0;
    blocks = ((uint64_t)w->k + w->block - 1) / w->block;
    if (w->zero)
        zeros = w->zero_is_float ? blocks * gw_dtype_bytes(weight_dtype(w->scale_type)) : (blocks + 1) / 2;
    return w->n * (blocks * (w->block / 2 + gw_dtype_bytes(weight_dtype(w->scale_type))) + zeros);
}

float gen_weight_at(const struct gen_weight *w, uint32_t n, uint32_t k)
{
    uint32_t type = weight_dtype(w->scale_type);
    uint64_t blocks, at;
    float zero = 8;
    uint8_t byte;

    if (w->format != GEN_Q4) return gen_number_get(weight_dtype(w->format), w->data, (uint64_t)n * w->k + k);
    blocks = (w->k + w->block - 1) / w->block;
    at = n * blocks + k / w->block;
    byte = ((const uint8_t *)w->data)[at * (w->block / 2) + k % w->block / 2];
    if (w->zero && w->zero_is_float) {
        zero = gen_number_get(type, w->zero, at);
    } else if (w->zero) {
        uint8_t two = ((const uint8_t *)w->zero)[n * ((blocks + 1) / 2) + k / w->block / 2];
        zero = k / w->block % 2 ? two >> 4 : two & 15;
    }
    return ((float)(k % 2 ? byte >> 4 : byte & 15) - zero) * gen_number_get(type, w->scale, at);
}
