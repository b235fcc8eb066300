/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Random numbers that depend on a seed and a number alone: Philox4x32 with ten rounds (Salmon and others,
 * "Parallel random numbers: as easy as 1, 2, 3", 2011). Any thread.
 */
#ifndef GW_GENERATE_DEVICE_RANDOM_H
#define GW_GENERATE_DEVICE_RANDOM_H

#include <gpuwire/fn.h>

/* Number `number` of the seed's. */
GW_FN uint64_t gen_random(uint64_t seed, uint32_t number)
{
    uint32_t c[4] = {number, 0, 0, 0}, k[2] = {(uint32_t)seed, (uint32_t)(seed >> 32)};
    for (uint32_t round = 0; round < 10; round++) {
        uint64_t x = (uint64_t)0xd2511f53u * c[0], y = (uint64_t)0xcd9e8d57u * c[2];
        uint32_t c1 = c[1], c3 = c[3];
        c[0] = (uint32_t)(y >> 32) ^ c1 ^ k[0];
        c[1] = (uint32_t)y;
        c[2] = (uint32_t)(x >> 32) ^ c3 ^ k[1];
        c[3] = (uint32_t)x;
        k[0] += 0x9e3779b9u;
        k[1] += 0xbb67ae85u;
    }
    return (uint64_t)c[0] << 32 | c[1];
}

/* A number below n, made of 64 random bits: the upper half of their product. */
GW_FN uint64_t gen_random_below(uint64_t bits, uint64_t n)
{
    uint64_t bl = (uint32_t)bits, bh = bits >> 32, nl = (uint32_t)n, nh = n >> 32;
    uint64_t low = bl * nl, mid = bh * nl + (low >> 32), cross = bl * nh + (uint32_t)mid;
    return bh * nh + (mid >> 32) + (cross >> 32);
}

#endif
