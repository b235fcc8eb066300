/* SPDX-License-Identifier: Apache-2.0 */
/* Does a table hold together? It reads all of it, so tests ask, and assertions where a table ends. */
#include <stdlib.h>

#include "src/flow/layout.h"

/* What the buckets say of themselves, to be held against the counts. */
struct tally {
    uint64_t flows;
    uint32_t *spilled, *of_worker;
};

/* Does another slot of the bucket hold this flow's key? */
static bool sound_is_twice(const struct gw_flow_table *t, uint64_t bucket, uint64_t at, unsigned way)
{
    const struct bucket *b = &t->bucket[bucket], *mine = &t->bucket[at];
    for (unsigned w = 0; w < WAYS; w++)
        if (b->used >> w & 1 && b->key[w] == mine->key[way] && !(bucket == at && w == way) &&
            (!t->long_keys || is_long_key(t, flow_slot_of(bucket, w), long_key(t, flow_slot_of(at, way)))))
            return true;
    return false;
}

/* The flow stands in one of its two buckets, and in one alone. */
static bool sound_flow(const struct gw_flow_table *t, struct tally *sum, uint64_t at, unsigned way)
{
    const struct place p = flow_place_of(t, key_at(t, at, way));
    const uint64_t first = first_bucket(t, p.hash), second = second_bucket(t, p.hash);
    if (p.tag != t->bucket[at].key[way] || (at != first && at != second)) return false;
    if (sound_is_twice(t, first, at, way) || sound_is_twice(t, second, at, way)) return false;
    sum->spilled[first] += at != first;
    sum->of_worker[flow_worker_of(t->bucket[at].value[way])]++;
    sum->flows++;
    return true;
}

static bool sound_buckets(const struct gw_flow_table *t, struct tally *sum)
{
    for (uint64_t i = 0; i < t->buckets; i++) {
        if (t->bucket[i].used & ~ALL_WAYS) return false;
        for (unsigned w = 0; w < WAYS; w++)
            if (t->bucket[i].used >> w & 1 && !sound_flow(t, sum, i, w)) return false;
    }
    for (uint64_t i = 0; i < t->buckets; i++)
        if (t->bucket[i].spilled != SPILL_FULL && t->bucket[i].spilled != sum->spilled[i]) return false;
    return sum->flows == t->flows &&
           !memcmp(sum->of_worker, t->of_worker, GW_FLOW_WORKERS * sizeof(uint32_t));
}

bool gw_flow_is_sound(const struct gw_flow_table *t)
{
    struct tally sum = {.spilled = calloc(t->buckets, sizeof(uint32_t)),
                        .of_worker = calloc(GW_FLOW_WORKERS, sizeof(uint32_t))};
    bool sound = !sum.spilled || !sum.of_worker || sound_buckets(t, &sum); /* no memory: it cannot say */
    free(sum.spilled);
    free(sum.of_worker);
    return sound && t->at < t->buckets && t->tick - t->safe_tick <= MAX_TICKS;
}
