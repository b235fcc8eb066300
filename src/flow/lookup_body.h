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
#define PLACES    128u /* a power of two, more than AHEAD + KEY_AHEAD: keys that have been asked for */
#define SECONDS   32u  /* keys whose second line may be outstanding */

#define INLINE static inline __attribute__((always_inline))

/* A lookup keeps these in registers. The compiler would read the table again after each result it writes. */
struct view {
    struct gw_flow_table *t;
    struct bucket *bucket;
    uint32_t tick;
    size_t size; /* of a key */
};

/* The bucket of each key that is under way. A short key is its own tag. */
struct asked {
    struct bucket *bucket[PLACES];
    uint64_t tag[PLACES];
};

/* Keys that their first bucket does not hold, and that may lie in their second one. */
struct seconds {
    size_t n, key[SECONDS];
    struct bucket *bucket[SECONDS];
};

TARGET INLINE uint64_t tag_of(const struct asked *asked, const uint8_t *key, size_t i, bool wide)
{
    uint64_t tag;
    if (wide) return asked->tag[i % PLACES];
    memcpy(&tag, key, sizeof(tag));
    return tag;
}

TARGET INLINE bool lookup_probe(const struct view *v, struct bucket *b, uint64_t tag, const uint8_t *key,
                                struct gw_flow *found, bool wide)
{
    for (unsigned ways = MATCH(b, tag) & b->used; ways; ways &= ways - 1) {
        unsigned way = (unsigned)__builtin_ctz(ways);
        uint32_t value = b->value[way], slot = flow_slot_of((uint64_t)(b - v->bucket), way);
        if (wide && !is_long_key(v->t, slot, key)) continue;
        if (((v->tick - value) & EPOCH_MASK) > v->t->life[flow_state_of(value)]) continue;
        uint32_t seen = (value & ~EPOCH_MASK) | (v->tick & EPOCH_MASK);
        if (seen != value) b->value[way] = seen; /* a line that nothing changes in stays clean */
        *found = (struct gw_flow){slot, (uint16_t)flow_worker_of(value), (uint8_t)flow_state_of(value), 0};
        return true;
    }
    found->slot = GW_FLOW_NONE;
    return false;
}

TARGET INLINE void ask_for(const struct view *v, const uint8_t *key, struct asked *asked, size_t i, bool wide)
{
    const struct place p = wide ? long_place(v->t, key) : short_place(v->t, key);
    struct bucket *b = &v->bucket[first_bucket(v->t, p.hash)];
    __builtin_prefetch(b, 1);
    asked->bucket[i % PLACES] = b;
    if (wide) asked->tag[i % PLACES] = p.tag;
}

/* The key that the bucket names, seldom several, may lie across two lines. */
TARGET INLINE void ask_for_key(const struct view *v, const struct bucket *b, uint64_t tag)
{
    unsigned ways = MATCH(b, tag) & b->used;
    if (!ways) return;
    const uint8_t *key =
        long_key(v->t, flow_slot_of((uint64_t)(b - v->bucket), (unsigned)__builtin_ctz(ways)));
    __builtin_prefetch(key);
    __builtin_prefetch(key + GW_FLOW_KEY_MAX - 1);
}

TARGET static size_t look_again(const struct view *v, const uint8_t *keys, struct seconds *s,
                                struct gw_flow *found, bool wide)
{
    size_t hits = 0;
    for (size_t i = 0; i < s->n; i++) {
        size_t k = s->key[i];
        const uint8_t *key = keys + k * v->size;
        hits += lookup_probe(v, s->bucket[i], flow_place_of(v->t, key).tag, key, &found[k], wide);
    }
    s->n = 0;
    return hits;
}

TARGET static __attribute__((noinline)) void note_second(const struct view *v, const uint8_t *key, size_t k,
                                                         struct seconds *s)
{
    struct bucket *b = &v->bucket[second_bucket(v->t, flow_place_of(v->t, key).hash)];
    __builtin_prefetch(b, 1);
    s->bucket[s->n] = b;
    s->key[s->n++] = k;
}

TARGET INLINE size_t lookup_burst(struct gw_flow_table *t, const uint8_t *keys, size_t n,
                                  struct gw_flow *found, bool wide)
{
    const struct view v = {t, t->bucket, (uint32_t)t->tick, wide ? t->key_bytes : 8};
    const size_t behind = !wide ? 0 : n > KEY_AHEAD ? KEY_AHEAD : n - 1;
    struct asked asked;
    struct seconds seconds;
    size_t hits = 0;
    seconds.n = 0;
    for (size_t i = 0; i < n && i < AHEAD; i++) ask_for(&v, keys + i * v.size, &asked, i, wide);
    for (size_t i = 0; i < n + behind; i++) {
        const size_t ahead = i + AHEAD, k = i - behind;
        if (ahead < n) ask_for(&v, keys + ahead * v.size, &asked, ahead, wide);
        if (wide && i < n) ask_for_key(&v, asked.bucket[i % PLACES], asked.tag[i % PLACES]);
        if (i < behind) continue;
        const uint8_t *key = keys + k * v.size;
        struct bucket *b = asked.bucket[k % PLACES];
        if (lookup_probe(&v, b, tag_of(&asked, key, k, wide), key, &found[k], wide)) {
            hits++;
        } else if (b->spilled) {
            note_second(&v, key, k, &seconds);
            if (seconds.n == SECONDS) hits += look_again(&v, keys, &seconds, found, wide);
        }
    }
    return hits + look_again(&v, keys, &seconds, found, wide);
}

TARGET size_t LOOKUP(struct gw_flow_table *t, const void *keys, size_t n, struct gw_flow *found)
{
    if (!n) return 0;
    return t->long_keys ? lookup_burst(t, keys, n, found, true) : lookup_burst(t, keys, n, found, false);
}
