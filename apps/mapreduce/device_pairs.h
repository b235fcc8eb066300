/* SPDX-License-Identifier: Apache-2.0 */
/*
 * device_pairs.h: pairs on their way to a partition. Included by device.h.
 *
 * They lie in chunks of a heap. Each mapper block fills one chunk of each partition. A full chunk goes to the
 * partition's owner: into a mover's queue (move.h), or into this rank's own store.
 */
#ifndef GW_MAPREDUCE_DEVICE_PAIRS_H
#define GW_MAPREDUCE_DEVICE_PAIRS_H

/* ---- chunks -------------------------------------------------------------------------------------------- */

/* Takes a chunk from the list of free ones, which is never empty for who holds a right to one. */
GW_DEV uint32_t mr_chunk_pop_(const struct mr_args_ *a)
{
    uint32_t round;

    for (round = 0;; round++) {
        uint64_t head = gw_ld_acquire_u64_gpu(&a->dev->free_head); /* next[] of it was written before */
        uint32_t one = (uint32_t)head;
        uint64_t to;

        if (!one) {
            if (mr_stopped_(a)) return MR_NO_CHUNK;
            mr_idle_(round);
            continue;
        }
        to = ((head >> 32) + 1) << 32 | gw_ld_relaxed_u32_gpu(&a->next[one - 1]);
        /* acquire: the chunk's bytes may not be written before its last user has let it go */
        if (gw_cas_acq_rel_u64_gpu(&a->dev->free_head, head, to) == head) return one - 1;
    }
}

GW_DEV void mr_chunk_push_(const struct mr_args_ *a, uint32_t chunk)
{
    for (;;) {
        uint64_t head = gw_ld_relaxed_u64_gpu(&a->dev->free_head);

        gw_st_relaxed_u32_gpu(&a->next[chunk], (uint32_t)head);
        /* release: next[] and this user's reads of the chunk come before */
        if (gw_cas_acq_rel_u64_gpu(&a->dev->free_head, head, ((head >> 32) + 1) << 32 | (chunk + 1)) == head)
            return;
    }
}

/* A right to one of the chunks that mappers share; waits for it. false: the round is given up. */
GW_DEV bool mr_flight_take_(const struct mr_args_ *a)
{
    uint32_t round;

    for (round = 0;; round++) {
        uint32_t n = gw_ld_relaxed_u32_gpu(&a->dev->flight);

        /* acquire: the list is not looked at before, so the chunk that the right stands for is there */
        if (n && gw_cas_acquire_u32_gpu(&a->dev->flight, n, n - 1) == n) return true;
        if (!n) {
            if ((round & 63) == 63 && mr_stopped_(a)) return false;
            mr_idle_(round);
        }
    }
}

/* Puts a full chunk into the store, where it stays until the reduce. false: the heap is full. */
GW_DEV bool mr_store_(const struct mr_args_ *a, uint32_t chunk, uint32_t part, uint32_t bytes, uint32_t pairs)
{
    uint32_t i = gw_add_relaxed_u32_gpu(&a->dev->stored, 1);

    if (i >= a->store_max) {
        mr_wrong_(a, MR_WRONG_STORE, 0);
        return false;
    }
    a->store[i].chunk = chunk;
    a->store[i].part = part;
    a->store[i].bytes = bytes;
    a->store[i].pairs = pairs;
    return true;
}

/* Sends a full chunk on its way. One thread. */
GW_DEV void mr_chunk_seal_(const struct mr_args_ *a, uint32_t chunk, uint32_t part)
{
    struct mr_chunk *c = mr_chunk_(a, chunk);
    uint64_t done = gw_ld_acquire_u64_gpu(&c->done); /* the pairs were written before */
    uint32_t owner = a->owner[part];

    c->bytes = (uint32_t)done;
    c->pairs = (uint32_t)(done >> 32);
    c->part = part;
    c->kind = 0;
    gw_add_relaxed_u64_gpu(&a->dev->pairs_in, c->pairs);
    if (owner == 0) {
        /* release: the chunk's entry is written before another block gets this right */
        if (mr_store_(a, chunk, part, c->bytes, c->pairs)) gw_add_release_u32_gpu(&a->dev->flight, 1);
    } else {
        uint64_t at = gw_add_relaxed_u64_gpu(&a->queue[owner - 1].tail, 1) % a->chunks;

        /* release: the mover that sees it sees the chunk, as every thread wrote it */
        gw_st_release_u32_gpu(&a->ring[(uint64_t)(owner - 1) * a->chunks + at], chunk + 1);
    }
}

/* A pair that is to be written. */
struct mr_new {
    uint32_t hash, key_bytes, value_bytes;
    const uint8_t *key;
    const void *value;
};

/* ---- pairs --------------------------------------------------------------------------------------------- */

GW_DEV void mr_pair_write_(const struct mr_args_ *a, uint32_t chunk, uint32_t at, const struct mr_new *n)
{
    struct mr_chunk *c = mr_chunk_(a, chunk);
    struct mr_pair *p = (struct mr_pair *)((uint8_t *)(c + 1) + at);

    p->hash = n->hash;
    p->key = (uint16_t)n->key_bytes;
    p->value = (uint16_t)n->value_bytes;
    mr_bytes_((uint8_t *)(p + 1), (const uint8_t *)n->value, n->value_bytes);
    mr_bytes_((uint8_t *)(p + 1) + n->value_bytes, n->key, n->key_bytes);
    /* release: the thread that seals the chunk sees the pair */
    gw_add_release_u64_gpu(&c->done, (uint64_t)1 << 32 | mr_pair_bytes_(n->key_bytes, n->value_bytes));
}

/* Replaces a bucket's chunk, which has room for no more. The thread that took its last room, up to `full`.
 * false: the round is given up. */
GW_DEV bool mr_bucket_next_(const struct mr_args_ *a, struct mr_bucket *b, uint32_t part, uint32_t old,
                            uint32_t full, uint32_t need)
{
    uint32_t chunk, round = 0;

    if (old != MR_NO_CHUNK) {
        while ((uint32_t)gw_ld_acquire_u64_gpu(&mr_chunk_(a, old)->done) != full) mr_idle_(round++);
        mr_chunk_seal_(a, old, part);
    }
    if (!mr_flight_take_(a)) return false;
    chunk = mr_chunk_pop_(a);
    if (chunk == MR_NO_CHUNK) return false;
    gw_st_relaxed_u64_gpu(&mr_chunk_(a, chunk)->done, 0);
    /* release: `done` begins before others add to it */
    gw_st_release_u64_gpu(&b->word, (uint64_t)chunk << 32 | need);
    return true;
}

/* Adds a pair to a bucket. Any number of the block's threads. */
GW_DEV void mr_bucket_add_(const struct mr_args_ *a, struct mr_bucket *b, uint32_t part,
                           const struct mr_new *n)
{
    uint32_t need = mr_pair_bytes_(n->key_bytes, n->value_bytes), round;

    for (round = 0;; round++) {
        uint64_t w = gw_ld_relaxed_u64_gpu(&b->word);
        uint32_t fill = (uint32_t)w;

        if (fill > MR_ROOM) { /* another thread replaces the chunk, and asks the host while it waits */
            if ((round & 63) == 63 && mr_failed_(a)) return;
            mr_idle_(round);
            continue;
        }
        w = gw_add_acquire_u64_gpu(&b->word, need); /* `done` of a new chunk is 0 */
        fill = (uint32_t)w;
        if (fill > MR_ROOM) continue;
        if (fill + need > MR_ROOM) {
            if (!mr_bucket_next_(a, b, part, (uint32_t)(w >> 32), fill, need)) return;
            w = gw_ld_relaxed_u64_gpu(&b->word) & ~(uint64_t)0xffffffff; /* its first bytes are this pair's */
        }
        mr_pair_write_(a, (uint32_t)(w >> 32), (uint32_t)w, n);
        return;
    }
}

/* The partition of a key: by its hash, or by the sampled keys between partitions. */
GW_DEV uint32_t mr_part_(const struct mr_args_ *a, uint32_t hash, const uint8_t *key, uint32_t bytes)
{
    uint32_t low = 0, high = a->parts - 1;

    if (!a->splits) return (uint32_t)((uint64_t)hash * a->parts >> 32);
    while (low < high) {
        uint32_t mid = (low + high) / 2;
        const uint8_t *s = a->splits + (uint64_t)mid * MR_SAMPLE;

        if (mr_compare_(key, bytes, s + 2, *(const uint16_t *)s) < 0)
            high = mid;
        else
            low = mid + 1;
    }
    return low;
}

/* Out of line: a job that combines comes here rarely, and needs its registers elsewhere. */
GW_SLOW_DEV void mr_pair_send_(const struct mr_args_ *a, struct mr_bucket *bucket, const struct mr_new *n)
{
    uint32_t part = mr_part_(a, n->hash, n->key, n->key_bytes);

    mr_bucket_add_(a, bucket + part, part, n);
}

#endif
