/* SPDX-License-Identifier: Apache-2.0 */
/* random.h: the simulator's chance: the same numbers for the same seed (xorshift64*). */
#ifndef GW_FLEET_RANDOM_H
#define GW_FLEET_RANDOM_H

#include <math.h>
#include <stdint.h>

struct sim_random {
    uint64_t state; /* not 0 */
};

static inline uint64_t sim_u64(struct sim_random *r)
{
    r->state ^= r->state >> 12;
    r->state ^= r->state << 25;
    r->state ^= r->state >> 27;
    return r->state * UINT64_C(2685821657736338717);
}

/* 0 to n - 1 */
static inline uint32_t sim_below(struct sim_random *r, uint32_t n)
{
    return (uint32_t)((sim_u64(r) >> 32) * n >> 32);
}

/* 0 to 1, neither of them */
static inline double sim_unit(struct sim_random *r)
{
    return ((double)(sim_u64(r) >> 12) + 0.5) * 0x1p-52;
}

static inline double sim_exponential(struct sim_random *r, double mean)
{
    return -mean * log(sim_unit(r));
}

static inline double sim_normal(struct sim_random *r)
{
    return sqrt(-2 * log(sim_unit(r))) * cos(6.283185307179586 * sim_unit(r));
}

/* At least `least`; the smaller `alpha`, the heavier the tail. */
static inline double sim_pareto(struct sim_random *r, double least, double alpha)
{
    return least * pow(sim_unit(r), -1 / alpha);
}

#endif
