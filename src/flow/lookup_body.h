/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The lookup of a burst, compiled once for each way to compare keys. Before it is included, LOOKUP names the
 * function, TARGET its processor's attribute, and MATCH(bucket, tag) gives the ways whose key is the tag.
 *
 * A dependent read of memory takes some hundred nanoseconds, and a core has a few dozen reads under way at
 * once. So the line of key i + AHEAD is asked for when key i is looked at. A long key lies beside the table,
 * in another line or two. It is asked for when the bucket names its slot, and read KEY_AHEAD keys later.
 *
 * Short keys, which nearly all are, have a copy of their own: `wide` is a constant in both.
 */
#define AHEAD     48u
#define KEY_AHEAD 32u
#define BURST     256u /* keys whose second line may be outstanding */

#define INLINE static inline __attribute__((always_inline))

TARGET INLINE void probe(struct gw_flow_table *t, struct bucket *b, unsigned ways, const void *key,
                         struct gw_flow *found, bool wide)
{
    found->slot = GW_FLOW_NONE;
    ways &= b->used;
    while (ways) {
        unsigned way = (unsigned)__builtin_ctz(ways);
        uint32_t value = b->value[way], slot = slot_of((uint64_t)(b - t->bucket), way);
        ways &= ways - 1;
        if (wide && !is_long_key(t, slot, key)) continue;
        if (is_over(t, value)) continue;
        uint32_t seen = (value & ~EPOCH_MASK) | (uint32_t)(t->tick & EPOCH_MASK);
        if (seen != value) b->value[way] = seen; /* a line that nothing changes in stays clean */
        *found = (struct gw_flow){slot, (uint16_t)worker_of(value), (uint8_t)state_of(value), 0};
        return;
    }
}

TARGET INLINE void ask_for(const struct gw_flow_table *t, const uint8_t *key, struct place *place, bool wide)
{
    *place = wide ? long_place(t, key) : short_place(t, key);
    __builtin_prefetch(&t->bucket[first_bucket(t, place->hash)], 1);
}

/* The key that the bucket names, seldom several, may lie across two lines. */
TARGET INLINE void ask_for_key(const struct gw_flow_table *t, const struct place *place)
{
    const struct bucket *b = &t->bucket[first_bucket(t, place->hash)];
    unsigned ways = MATCH(b, place->tag) & b->used;
    if (!ways) return;
    const uint8_t *key = long_key(t, slot_of((uint64_t)(b - t->bucket), (unsigned)__builtin_ctz(ways)));
    __builtin_prefetch(key);
    __builtin_prefetch(key + GW_FLOW_KEY_MAX - 1);
}

TARGET INLINE size_t burst(struct gw_flow_table *t, const uint8_t *keys, size_t n, struct gw_flow *found,
                           bool wide)
{
    const size_t size = wide ? t->key_bytes : 8, behind = !wide ? 0 : n > KEY_AHEAD ? KEY_AHEAD : n - 1;
    struct place place[BURST];
    uint32_t second[BURST];
    size_t hits = 0, seconds = 0;
    for (size_t i = 0; i < n && i < AHEAD; i++) ask_for(t, keys + i * size, &place[i], wide);
    for (size_t i = 0; i < n + behind; i++) {
        if (i + AHEAD < n) ask_for(t, keys + (i + AHEAD) * size, &place[i + AHEAD], wide);
        if (wide && i < n) ask_for_key(t, &place[i]);
        if (i < behind) continue;
        size_t k = i - behind;
        struct bucket *b = &t->bucket[first_bucket(t, place[k].hash)];
        unsigned ways = MATCH(b, place[k].tag);
        probe(t, b, ways, keys + k * size, &found[k], wide);
        hits += found[k].slot != GW_FLOW_NONE;
        if (found[k].slot != GW_FLOW_NONE || !b->spilled) continue;
        __builtin_prefetch(&t->bucket[second_bucket(t, place[k].hash)], 1);
        second[seconds++] = (uint32_t)k;
    }
    for (size_t i = 0; i < seconds; i++) {
        size_t k = second[i];
        struct bucket *b = &t->bucket[second_bucket(t, place[k].hash)];
        unsigned ways = MATCH(b, place[k].tag);
        probe(t, b, ways, keys + k * size, &found[k], wide);
        hits += found[k].slot != GW_FLOW_NONE;
    }
    return hits;
}

TARGET size_t LOOKUP(struct gw_flow_table *t, const void *keys, size_t n, struct gw_flow *found)
{
    const uint8_t *key = keys;
    size_t hits = 0;
    for (size_t done = 0; done < n; done += BURST) {
        size_t some = n - done < BURST ? n - done : BURST;
        hits += t->long_keys ? burst(t, key + done * t->key_bytes, some, found + done, true)
                             : burst(t, key + done * 8, some, found + done, false);
    }
    return hits;
}
