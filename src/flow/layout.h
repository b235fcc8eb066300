/* SPDX-License-Identifier: Apache-2.0 */
/*
 * layout.h: how a table of flows lies in memory.
 *
 * A bucket is one cache line: five keys, five values, and which of them are in use. Each key has two buckets,
 * which a keyed hash names. A flow lies in its first bucket as long as there is room, so that a lookup reads
 * one line. When it lies in its second one, the first one's `spilled` counts it: a lookup reads the second
 * line only where that is not 0.
 */
#ifndef GW_FLOW_LAYOUT_H
#define GW_FLOW_LAYOUT_H

#include <assert.h>
#include <stdbool.h>
#include <string.h>

#include <gpuwire/detail/assert.h>
#include <gpuwire/flow.h>

#define WAYS       5u
#define ALL_WAYS   ((1u << WAYS) - 1)
#define SPILL_FULL 255u /* then the count is lost: it stays so, and costs lookups a line */
#define EPOCH_BITS 14
#define EPOCH_MASK ((1u << EPOCH_BITS) - 1)
#define MAX_TICKS                                                                                            \
    8000u /* of a time-out: what is left of the epoch's range is for flows that have not been freed yet */
#define KEY_WORDS (GW_FLOW_KEY_MAX / 8)

struct bucket {
    uint64_t key[WAYS];   /* of 8 bytes: the key; longer: a second hash of it */
    uint32_t value[WAYS]; /* worker << 18 | state << 14 | epoch: the tick of the last packet */
    uint8_t used;         /* bit w: way w holds a flow */
    uint8_t spilled;      /* flows whose first bucket this is and that lie in their second one */
    uint8_t reserved[2];
};
static_assert(sizeof(struct bucket) == 64, "a bucket is one cache line");

typedef size_t lookup_fn(struct gw_flow_table *t, const void *keys, size_t n, struct gw_flow *found);

struct gw_flow_table {
    struct bucket *bucket;
    uint64_t buckets;
    uint8_t *long_keys; /* NULL, or GW_FLOW_KEY_MAX bytes for each slot */
    uint32_t key_bytes, evictable;
    uint64_t seed[4];
    uint32_t life[GW_FLOW_STATES]; /* ticks; EPOCH_MASK: forever */
    uint64_t tick_ns, now_ns, tick, next_tick_ns;
    lookup_fn *lookup;
    const char *simd;
    uint64_t flows;
    uint32_t *of_worker;
    /* The sweep: the next bucket, the tick when this round began, and when the last whole one did. */
    uint64_t at, round_tick, safe_tick, round_ticks;
    uint64_t swept_ns;                    /* until when gw_flow_expire has swept what it owed */
    double buckets_per_ns, ns_per_bucket; /* that it owes: no division in each burst */
    size_t bucket_bytes, key_store_bytes;
};

extern lookup_fn gw_flow_lookup_scalar;
#ifdef __x86_64__
extern lookup_fn gw_flow_lookup_avx2, gw_flow_lookup_avx512;
#endif

/* ---- values ---- */

static inline uint32_t flow_value_of(uint32_t worker, uint32_t state, uint64_t tick)
{
    return worker << 18 | state << EPOCH_BITS | (uint32_t)(tick & EPOCH_MASK);
}
static inline uint32_t flow_worker_of(uint32_t value)
{
    return value >> 18;
}
static inline uint32_t flow_state_of(uint32_t value)
{
    return value >> EPOCH_BITS & (GW_FLOW_STATES - 1);
}
static inline uint32_t flow_age_of(const struct gw_flow_table *t, uint32_t value)
{
    return (uint32_t)(t->tick - value) & EPOCH_MASK;
}
static inline bool flow_is_over(const struct gw_flow_table *t, uint32_t value)
{
    return flow_age_of(t, value) > t->life[flow_state_of(value)];
}

/* ---- where a key belongs ---- */

struct place {
    uint64_t tag;  /* what stands in the bucket */
    uint64_t hash; /* of which each half names a bucket */
};

static inline uint64_t flow_mix(uint64_t a, uint64_t b)
{
    unsigned __int128 p = (unsigned __int128)a * b;
    return (uint64_t)p ^ (uint64_t)(p >> 64);
}

/* A key of 8 bytes stands for itself. A longer one has two hashes, from seeds of their own: strangers who do
 * not know the seeds cannot aim at a bucket with either. */
static inline struct place short_place(const struct gw_flow_table *t, const void *key)
{
    struct place p;
    memcpy(&p.tag, key, 8);
    p.hash = flow_mix(flow_mix(p.tag ^ t->seed[0], t->seed[1]) ^ t->seed[2], t->seed[3]);
    return p;
}
/* A long key in words, followed by zeros. Nearly all have the greatest length, which is a constant. */
static inline void key_words(const struct gw_flow_table *t, const void *key, uint64_t word[KEY_WORDS])
{
    if (t->key_bytes == GW_FLOW_KEY_MAX) {
        memcpy(word, key, GW_FLOW_KEY_MAX);
        return;
    }
    memset(word, 0, GW_FLOW_KEY_MAX);
    memcpy(word, key, t->key_bytes);
}
static inline void flow_take_word(const struct gw_flow_table *t, uint64_t word, struct place *p)
{
    p->hash = flow_mix(p->hash ^ word ^ t->seed[0], t->seed[1]);
    p->tag = flow_mix(p->tag ^ word ^ t->seed[1], t->seed[0] | 1);
}
/* No loop: gcc keeps such a loop, and each product in it goes through memory. */
static inline struct place long_place(const struct gw_flow_table *t, const void *key)
{
    struct place p;
    uint64_t word[KEY_WORDS];
    key_words(t, key, word);
    p.hash = t->seed[2];
    p.tag = t->seed[3];
    static_assert(KEY_WORDS == 5, "each word of a key counts");
    flow_take_word(t, word[0], &p);
    flow_take_word(t, word[1], &p);
    flow_take_word(t, word[2], &p);
    flow_take_word(t, word[3], &p);
    flow_take_word(t, word[4], &p);
    p.hash = flow_mix(p.hash ^ t->seed[3], t->seed[1]);
    return p;
}
static inline struct place flow_place_of(const struct gw_flow_table *t, const void *key)
{
    return t->long_keys ? long_place(t, key) : short_place(t, key);
}

static inline uint64_t first_bucket(const struct gw_flow_table *t, uint64_t hash)
{
    return (hash >> 32) * t->buckets >> 32;
}
static inline uint64_t second_bucket(const struct gw_flow_table *t, uint64_t hash)
{
    uint64_t b = (hash & UINT32_MAX) * t->buckets >> 32, first = first_bucket(t, hash);
    return b != first ? b : b + 1 < t->buckets ? b + 1 : 0;
}

static inline uint32_t flow_slot_of(uint64_t bucket, unsigned way)
{
    return (uint32_t)(bucket * WAYS + way);
}
static inline uint8_t *long_key(const struct gw_flow_table *t, uint32_t slot)
{
    return t->long_keys + (size_t)slot * GW_FLOW_KEY_MAX;
}
/* Is it the key in a slot? A stored key is followed by zeros, too. */
static inline bool is_long_key(const struct gw_flow_table *t, uint32_t slot, const void *key)
{
    uint64_t a[KEY_WORDS], b[KEY_WORDS];
    key_words(t, key, a);
    memcpy(b, long_key(t, slot), GW_FLOW_KEY_MAX);
    return !((a[0] ^ b[0]) | (a[1] ^ b[1]) | (a[2] ^ b[2]) | (a[3] ^ b[3]) | (a[4] ^ b[4]));
}
/* The key in a slot, and where it belongs. */
static inline const void *key_at(const struct gw_flow_table *t, uint64_t bucket, unsigned way)
{
    return t->long_keys ? (const void *)long_key(t, flow_slot_of(bucket, way)) : &t->bucket[bucket].key[way];
}

/* Takes a flow out of its slot, and out of the counts. */
void gw_flow_free_slot(struct gw_flow_table *t, uint64_t bucket, unsigned way);

/* Does each flow stand where its key belongs, and nowhere else? Are the counts what the buckets hold? */
bool gw_flow_is_sound(const struct gw_flow_table *t);

#endif
