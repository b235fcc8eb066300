/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How long runs of a batch size take: a histogram that forgets, and its 99th percentile. Bucket 4 e + m holds
 * the times from (4 + m) << (e + 8) ns on, the first one all below too, the last one all above. One thread.
 */
#ifndef GW_SERVER_DEVICE_COST_H
#define GW_SERVER_DEVICE_COST_H

#include <gpuwire/kernel.h>

#include "src/server/device/shared.h"

#define GW_SERVE_COST_MAX 512 /* when this number is counted, each bucket keeps half */

GW_DEV uint32_t gw_serve_bucket_of(uint64_t ns)
{
    uint32_t octave = 0;
    while (octave < GW_SERVE_BUCKETS / 4 - 1 && ns >> (octave + 11)) octave++;
    uint64_t quarter = ns >> (octave + 8);
    return 4 * octave + (quarter < 4 ? 0 : quarter > 7 ? 3 : (uint32_t)(quarter & 3));
}

/* Where a bucket ends. */
GW_DEV uint64_t gw_serve_bucket_end(uint32_t bucket)
{
    return (uint64_t)(5 + bucket % 4) << (bucket / 4 + 8);
}

GW_DEV void gw_serve_cost_add(struct gw_serve_cost *c, uint64_t ns)
{
    uint32_t above = 0, i = GW_SERVE_BUCKETS;
    c->bucket[gw_serve_bucket_of(ns)]++;
    if (++c->count == GW_SERVE_COST_MAX) {
        c->count = 0;
        for (uint32_t k = 0; k < GW_SERVE_BUCKETS; k++) c->count += c->bucket[k] /= 2;
    }
    /* No more than a hundredth lies above the bucket where this ends. */
    while (i > 0 && (above += c->bucket[--i]) * 100 <= c->count) continue;
    c->p99_ns = gw_serve_bucket_end(i);
}

#endif
