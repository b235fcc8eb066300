/* SPDX-License-Identifier: Apache-2.0 */
/*
 * centres.h: the arithmetic of k-means, whose result does not depend on the order or the processor.
 *
 * Which centre is nearest: the one with the least score |c|² / 2 - x · c; of equal ones the first. The
 * score starts with the half square and subtracts the products from the left, with one rounding each
 * (fmaf).
 *
 * A sum of points adds integers: each coordinate times a power of two, rounded. So the order does not
 * matter. The power leaves room for all points together in 63 bits, and for one in 51.
 */
#ifndef MAPREDUCE_CENTRES_H
#define MAPREDUCE_CENTRES_H

#include <math.h>
#include <stdint.h>
#include <string.h>

#include <gpuwire/fn.h>

/* The exponent, as a float's bits have it, of the largest coordinates that there may be: others are 2^60 or
 * more, and scores could overflow. */
enum { CENTRES_MAX_EXPONENT = 126 + 60 };

static inline uint32_t centres_exponent(float x)
{
    uint32_t bits;

    memcpy(&bits, &x, sizeof(bits));
    return bits >> 23 & 0xff;
}

/* The power of two for n points, whose largest coordinate has this exponent. */
static inline double centres_scale(uint32_t exponent, uint64_t n)
{
    int bits = 64 - __builtin_clzll(n | 1);

    return ldexp(1, (bits > 12 ? 62 - bits : 50) - ((int)exponent - 126));
}

/* round(x × scale), ties to even. Adding 1.5 × 2^52 leaves the integer in the lower bits of the sum. */
GW_FN int64_t centres_fixed(float x, double scale)
{
    double sum = (double)x * scale + 0x1.8p52;
    int64_t bits;

    memcpy(&bits, &sum, sizeof(bits));
    return bits - 0x4338000000000000;
}

/* The half square that a score starts with. */
static inline float centres_half_square(const float *c, uint64_t dims)
{
    float sum = 0;

    for (uint64_t d = 0; d < dims; d++) sum = __builtin_fmaf(c[d], c[d], sum);
    return sum / 2;
}

/* The point that centre k begins at. */
static inline uint64_t centres_first(uint64_t k, uint64_t centres, uint64_t points)
{
    return (uint64_t)((unsigned __int128)k * points / centres);
}

/* Moves a centre to the middle of its points. One without points stays. Returns 1 if it moved. */
static inline int centres_move(float *c, const int64_t *sum, uint64_t count, uint64_t dims, double scale)
{
    int moved = 0;

    for (uint64_t d = 0; d < dims && count; d++) {
        float to = (float)((double)sum[d] / (double)count / scale);

        moved |= to != c[d];
        c[d] = to;
    }
    return moved;
}

#endif
