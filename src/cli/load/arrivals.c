/* SPDX-License-Identifier: Apache-2.0 */
/* Draws the times at which requests are sent, evenly or by chance. */
#include "src/cli/load/arrivals.h"

#include <math.h>

/* SplitMix64. */
static uint64_t random_of(uint64_t *state)
{
    uint64_t z = *state += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

/* Above 0, and 1 at most. */
static double uniform(uint64_t *state)
{
    return (double)((random_of(state) >> 11) + 1) / (double)(UINT64_C(1) << 53);
}

static double gap(struct gw_arrivals *a)
{
    return a->constant ? a->gap_ns : -log(uniform(&a->state)) * a->gap_ns;
}

void gw_arrivals_begin(struct gw_arrivals *a, uint64_t start_ns, double rate, uint64_t seed, double phase)
{
    a->state = seed;
    a->gap_ns = 1e9 / rate;
    a->next_ns = (double)start_ns + (a->constant ? phase * a->gap_ns : gap(a));
}

uint64_t gw_arrivals_take(struct gw_arrivals *a)
{
    uint64_t at = (uint64_t)a->next_ns;
    a->next_ns += gap(a);
    return at;
}
