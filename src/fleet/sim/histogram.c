/* SPDX-License-Identifier: Apache-2.0 */
/* histogram.c: times in buckets, eight for each power of two. */
#include "src/fleet/sim/histogram.h"

#include "src/fleet/sim/sim.h"

uint32_t sim_bucket(int64_t ns)
{
    if (ns < 16) return ns < 0 ? 0 : (uint32_t)ns;
    uint32_t top = 63 - (uint32_t)__builtin_clzll((uint64_t)ns),
             i = (top - 3) * 8 + ((uint32_t)(ns >> (top - 3)) & 7) + 8;
    return i < SIM_BUCKETS ? i : SIM_BUCKETS - 1;
}

int64_t sim_quantile(const uint64_t *buckets, double q)
{
    uint64_t all = 0, seen = 0;
    for (int i = 0; i < SIM_BUCKETS; i++) all += buckets[i];
    for (uint32_t i = 0; i < SIM_BUCKETS; i++) {
        seen += buckets[i];
        if (seen && (double)seen >= q * (double)all) return i < 16 ? i : (int64_t)(9 + i % 8) << (i / 8 - 1);
    }
    return 0;
}
