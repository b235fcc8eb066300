/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pattern.h: matrices whose product can be checked exactly, and how. Plain C, for programs without gpuwire,
 * too.
 *
 * Elements are whole numbers from -4 to 4, so all types hold them, and no sum of a product is rounded. C is
 * checked with a vector r: C r must be A (B r). That takes n² steps where a second product would take n³. It
 * finds every single wrong element, since no element of r is 0. Several wrong ones of a row go unnoticed if
 * they cancel each other, about once in a thousand.
 */
#ifndef MATMUL_PATTERN_H
#define MATMUL_PATTERN_H

#include "protocol.h"

/* Element i of the matrix that `seed` names. */
MM_FN int mm_pattern(uint32_t seed, uint32_t i)
{
    uint32_t x = (i + 1) * 0x9e3779b1u ^ seed * 0x85ebca6bu;

    x ^= x >> 15;
    x *= 0x2c1b3c6du;
    x ^= x >> 12;
    return (int)(x % 9) - 4;
}

/* Element i of r: 1 … 1000. */
MM_FN double mm_probe(uint32_t i)
{
    uint32_t x = (i + 1) * 0xc2b2ae35u;

    x ^= x >> 13;
    return (double)(x % 1000 + 1);
}

/* A whole number from -4 to 4 in IEEE 754's binary16. */
MM_FN uint16_t mm_half(int x)
{
    uint16_t size = (uint16_t)(x < 0 ? -x : x);
    uint16_t bits = size < 2 ? (uint16_t)(size * 0x3c00) : (uint16_t)(0x4000 + (size - 2) * 0x200);

    return x < 0 ? (uint16_t)(bits | 0x8000) : bits;
}

/* Writes element i of a factor. */
MM_FN void mm_put(void *factor, uint32_t type, uint32_t i, int x)
{
    if (type == MM_FP16)
        ((uint16_t *)factor)[i] = mm_half(x);
    else
        ((float *)factor)[i] = (float)x;
}

#endif
