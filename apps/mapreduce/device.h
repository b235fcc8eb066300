/* SPDX-License-Identifier: Apache-2.0 */
/*
 * device.h: the engine's part that is compiled with each job: maps, pairs and reduces. Included by
 * mapreduce.h. Names that end in _ are private to the engine.
 *
 * Pairs lie in chunks of a heap. Each mapper block fills one chunk of each partition. A full chunk goes to
 * the partition's owner: into a mover's queue (move.h), or into this rank's own store.
 */
#ifndef GW_MAPREDUCE_DEVICE_H
#define GW_MAPREDUCE_DEVICE_H

#include "formats.h"

enum {
    MR_CHUNK = 32 << 10,                /* bytes of a chunk, and of a message between ranks */
    MR_CHUNK_HEAD = 32,                 /* … of its head */
    MR_ROOM = MR_CHUNK - MR_CHUNK_HEAD, /* … for pairs */
    MR_NO_CHUNK = 0xffffffff,
    MR_LEAD = 64,   /* bytes of a slot before its piece; the last is the byte before the piece */
    MR_SAMPLE = 64, /* bytes of a sampled key: its length, 16 bits, and its first bytes */
    MR_SAMPLE_KEY = MR_SAMPLE - 2,
    MR_INLINE_KEY = 24, /* longer keys are not combined before they travel */
    MR_PROBES = 8,      /* places of the table where a key may stand */
};

/* What is wrong with a round, as kernels say it. */
enum mr_wrong {
    MR_FINE = 0,
    MR_WRONG_STORE, /* the pairs do not fit into the heap */
    MR_WRONG_KEY,   /* a key of more bytes than the job's `key`, or of none: detail */
    MR_WRONG_VALUE, /* detail: bytes */
    MR_WRONG_LONG,  /* a line or word that is too long: at detail */
    MR_WRONG_LINK,  /* the channel to rank detail failed */
    MR_WRONG_PEER,  /* rank detail sent what it must not */
    MR_WRONG_PAIR,  /* a chunk holds what is no pair */
};

/* The head of a chunk; pairs follow. It travels with them. */
struct mr_chunk {
    uint32_t bytes, pairs; /* of the pairs; how many */
    uint32_t part, kind;   /* kind: 0 pairs; 1 the sender's end of the round, `pairs` chunks were sent */
    uint64_t done;         /* while it is filled: pairs << 32 | bytes written */
    uint64_t pad;
};

/* A pair: this, the value (which so is aligned to 8), the key, and what pads it to 8. */
struct mr_pair {
    uint32_t hash;
    uint16_t key, value; /* bytes */
};

/* What the host learns of a chunk in the store. */
struct mr_stored {
    uint32_t chunk, part, bytes, pairs;
};

/* A piece of the input, in a slot of mapped host memory. The host writes it, and `ready` last. */
struct mr_slot {
    uint64_t offset, number; /* in the file; of the first record */
    uint64_t keep;           /* 1 + where in `kept` the piece stays for later rounds; 0: nowhere */
    uint64_t is_kept;        /* it is there already */
    uint32_t file;
    uint32_t bytes, avail; /* records that begin in the first `bytes` belong to it; bytes that were read */
    uint32_t last;         /* the file ends where these bytes do */
    uint64_t ready, taken; /* the slot's ticket + 1, once it is filled; once it is free again */
};

/* Host memory that kernels and host watch. */
struct mr_ctl {
    uint32_t stop;    /* host: give up */
    uint32_t no_more; /* host: there are `tickets` pieces in all */
    uint64_t tickets;
    uint32_t wrong, pad; /* kernels: the first enum mr_wrong */
    uint64_t detail;
};

/* The rank's counters in device memory. */
struct mr_dev {
    uint64_t free_head; /* of the list of free chunks: change << 32 | chunk + 1 */
    uint64_t ticket;    /* the next piece to take */
    uint32_t flight;    /* chunks that mappers may still take */
    uint32_t stored;    /* chunks in the store */
    uint32_t mapped;    /* mapper blocks that have ended */
    uint32_t arrived;   /* MR_ONE_TABLE: mapper blocks that combine no more */
    uint32_t samples;
    uint32_t failed, pad;
    uint64_t pairs_out, pairs_in; /* pairs emitted; put into chunks */
};

/* The queue of chunks for one peer, and what its movers know. */
struct mr_queue {
    uint64_t tail, head;
    uint32_t given, taken; /* chunks sent and received in this round */
    uint32_t gave, took;   /* the end was sent; received */
    uint32_t holding, pad; /* the chunk to send + 1 */
};

struct mr_bucket {
    uint64_t word; /* chunk << 32 | bytes taken; more than MR_ROOM: it is being replaced */
};

/* An entry of the index that is sorted. */
struct mr_entry {
    uint64_t prefix; /* of the order */
    uint64_t at;     /* of the pair in the heap */
};

struct gw_channel;

/* The arguments of all kernels. Pointers are the executor's. */
struct mr_args_ {
    struct mr_ctl *ctl;
    struct mr_dev *dev;
    /* input */
    struct mr_slot *slot;
    uint8_t *kept;
    uint8_t *buffers, *own; /* a slot's bytes; a block's (NULL: it reads the slot's) */
    uint32_t slots, buffer; /* how many; bytes of each */
    uint32_t input, by, record, overlap;
    const uint8_t *names; /* files' names: u32 offsets (one more than files), then the names */
    /* the job */
    const void *state;
    uint64_t state_bytes;
    uint32_t combine_how, flags, key, value;
    uint32_t mappers, parts, peers, rank;
    uint32_t groups, pad1; /* of a block's warps: fewer threads wait for each other */
    const uint8_t *splits; /* MR_ORDER: parts - 1 keys of MR_SAMPLE bytes */
    uint8_t *sample;       /* not NULL: keys go here, and nothing else happens */
    uint32_t sample_max;
    /* pairs */
    uint8_t *heap;
    uint32_t *next; /* the chunk + 1 after this one in the list of free chunks */
    uint32_t chunks, store_max;
    struct mr_stored *store;
    const uint32_t *owner;      /* of each partition: 0 this rank, else 1 + the peer's place */
    struct mr_queue *queue;     /* of each peer */
    uint32_t *ring;             /* `chunks` places for each peer */
    struct gw_channel *channel; /* of each peer */
    struct mr_bucket *bucket;   /* `parts` for each group of warps of each mapper block */
    uint8_t *table;             /* of each mapper block */
    uint32_t table_slots, table_stride, table_key, pad;
    uint64_t table_bytes; /* of all tables */
    /* reduce */
    struct mr_entry *entry, *spare;
    uint64_t entries, run; /* run: entries of a sorted run, for the sort's passes */
    uint64_t *length;      /* what a reduce puts; then where in its tile that begins */
    uint64_t *tile;        /* what a tile's reduces put; then where in the output that begins */
    uint64_t first_tile, last_tile, base;
    uint8_t *out; /* NULL: measure */
    const struct mr_stored *part_chunk;
    const uint64_t *part_first; /* of each of those chunks, the number of its first entry */
    uint32_t part_chunks, tile_entries;
};

/* ---- small helpers ------------------------------------------------------------------------------------- */

GW_DEV void mr_no_combine_(void *into, const void *from)
{
    (void)into;
    (void)from;
}

/* A wait's pause: gw_pause, and on a CPU a real sleep once it has been long. */
GW_DEV void mr_idle_(uint32_t round)
{
#ifndef __CUDACC__
    if (round > 256) {
        struct timespec nap = {0, 50000};

        nanosleep(&nap, NULL);
        return;
    }
#endif
    gw_pause(round);
}

GW_DEV bool mr_failed_(const struct mr_args_ *a)
{
    return gw_ld_relaxed_u32_gpu(&a->dev->failed);
}

/* Is the round given up? For few threads: a GPU's reads of the host's word fill the bus. Others ask
 * mr_failed_, which says the same a little later, if another thread asks here. */
GW_DEV bool mr_stopped_(const struct mr_args_ *a)
{
    if (!gw_ld_relaxed_u32(&a->ctl->stop)) return mr_failed_(a);
    gw_st_relaxed_u32_gpu(&a->dev->failed, 1);
    return true;
}

/* The round fails: the first reason stays. One thread. */
GW_DEV void mr_wrong_(const struct mr_args_ *a, uint32_t wrong, uint64_t detail)
{
    if (gw_exch_relaxed_u32_gpu(&a->dev->failed, 1)) return;
    gw_st_relaxed_u64(&a->ctl->detail, detail);
    gw_st_release_u32(&a->ctl->wrong, wrong); /* not before its detail */
}

GW_DEV struct mr_chunk *mr_chunk_(const struct mr_args_ *a, uint32_t chunk)
{
    return (struct mr_chunk *)(a->heap + (uint64_t)chunk * MR_CHUNK);
}

GW_FN uint32_t mr_up8_(uint32_t n)
{
    return (n + 7) & ~7u;
}

GW_FN uint32_t mr_pair_bytes_(uint32_t key, uint32_t value)
{
    return (uint32_t)sizeof(struct mr_pair) + mr_up8_(value + key);
}

GW_FN const uint8_t *mr_pair_value_(const struct mr_pair *p)
{
    return (const uint8_t *)(p + 1);
}

GW_FN const uint8_t *mr_pair_key_(const struct mr_pair *p)
{
    return (const uint8_t *)(p + 1) + p->value;
}

GW_FN int mr_compare_(const uint8_t *a, uint32_t an, const uint8_t *b, uint32_t bn)
{
    uint32_t i, n = an < bn ? an : bn;

    GW_NO_UNROLL_
    for (i = 0; i < n; i++)
        if (a[i] != b[i]) return a[i] < b[i] ? -1 : 1;
    return an < bn ? -1 : an > bn;
}

GW_FN uint32_t mr_hash_(const uint8_t *key, uint32_t bytes)
{
    uint64_t h = 0xcbf29ce484222325u;
    uint32_t i;

    GW_NO_UNROLL_
    for (i = 0; i < bytes; i++) h = (h ^ key[i]) * 0x100000001b3u;
    h ^= h >> 33;
    h *= 0xff51afd7ed558ccdu;
    return (uint32_t)(h >> 32);
}

GW_DEV void mr_bytes_(uint8_t *to, const uint8_t *from, uint32_t n)
{
    typedef uint64_t __attribute__((may_alias)) eight;
    typedef uint16_t __attribute__((may_alias)) two;
    uintptr_t both = (uintptr_t)to | (uintptr_t)from;
    uint32_t i = 0, eights = both & 7 ? 0 : n / 8 * 8, twos = both & 1 ? 0 : n / 2 * 2;

    GW_NO_UNROLL_
    for (; i < eights; i += 8) *(eight *)(to + i) = *(const eight *)(from + i);
    GW_NO_UNROLL_
    for (; i < twos; i += 2) *(two *)(to + i) = *(const two *)(from + i);
    GW_NO_UNROLL_
    for (; i < n; i++) to[i] = from[i];
}

GW_DEV const char *mr_file_name(const struct mr_args_ *a, uint32_t file, uint32_t *bytes)
{
    const uint32_t *at = (const uint32_t *)a->names;

    *bytes = at[file + 1] - at[file];
    return (const char *)a->names + at[file];
}

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

/* ---- combining ----------------------------------------------------------------------------------------- */

/* A place of a block's table: this, the value, the key. */
struct mr_place {
    uint32_t tag; /* 0 free, 1 being written, else of the key there */
    uint32_t key; /* bytes */
};

GW_DEV void mr_number_f32_(void *into, const void *from)
{
    for (;;) {
        uint32_t old = gw_ld_relaxed_u32_gpu(into), now;
        float f;

        memcpy(&f, &old, 4);
        f += *(const float *)from;
        memcpy(&now, &f, 4);
        if (gw_cas_relaxed_u32_gpu(into, old, now) == old) return;
    }
}

GW_DEV void mr_number_f64_(void *into, const void *from)
{
    for (;;) {
        uint64_t old = gw_ld_relaxed_u64_gpu(into), now;
        double f;

        memcpy(&f, &old, 8);
        f += *(const double *)from;
        memcpy(&now, &f, 8);
        if (gw_cas_relaxed_u64_gpu(into, old, now) == old) return;
    }
}

GW_DEV void mr_number_extreme_(void *into, uint64_t v, bool max)
{
    for (;;) {
        uint64_t old = gw_ld_relaxed_u64_gpu(into);

        if ((max ? v <= old : v >= old) || gw_cas_relaxed_u64_gpu(into, old, v) == old) return;
    }
}

/* Combines a value into one that other threads combine into, too. */
GW_DEV void mr_combine_(struct mr_map *m, struct mr_place *p, uint32_t tag, const void *value, uint32_t bytes)
{
    uint8_t *into = (uint8_t *)(p + 1);
    const uint8_t *from = (const uint8_t *)value;
    uint32_t i, round = 0;

    switch (m->a->combine_how) {
    case MR_SUM_U64:
        GW_NO_UNROLL_
        for (i = 0; i < bytes; i += 8) gw_add_relaxed_u64_gpu(into + i, *(const uint64_t *)(from + i));
        break;
    case MR_SUM_F32:
        for (i = 0; i < bytes; i += 4) mr_number_f32_(into + i, from + i);
        break;
    case MR_SUM_F64:
        for (i = 0; i < bytes; i += 8) mr_number_f64_(into + i, from + i);
        break;
    case MR_MIN_U64:
    case MR_MAX_U64:
        for (i = 0; i < bytes; i += 8)
            mr_number_extreme_(into + i, *(const uint64_t *)(from + i), m->a->combine_how == MR_MAX_U64);
        break;
    default: /* the job's own, which one thread at a time runs: the tag is the lock */
        /* acquire: not before the last one's value is whole; release: not seen free before this one's is */
        while (gw_cas_acquire_u32_gpu(&p->tag, tag, 1) != tag) mr_idle_(round++);
        m->combine(into, value);
        gw_st_release_u32_gpu(&p->tag, tag);
    }
}

/* The tag of a place that is not being written. acquire: its key was written before. */
GW_DEV uint32_t mr_place_tag_(struct mr_place *p)
{
    uint32_t tag, round = 0;

    while ((tag = gw_ld_acquire_u32_gpu(&p->tag)) == 1) mr_idle_(round++);
    return tag;
}

GW_DEV struct mr_place *mr_place_at_(const struct mr_map *m, uint32_t i)
{
    uint32_t at = i & (m->a->table_slots - 1);

    return (struct mr_place *)((uint8_t *)m->table + (uint64_t)at * m->a->table_stride);
}

/* A key's place in the table. If there was none, *fresh: it now has the value, or zeros for NULL. NULL: there
 * is no room; with a value, none near where the key belongs. */
GW_DEV struct mr_place *mr_place_get_(struct mr_map *m, const struct mr_new *n, bool *fresh)
{
    uint32_t tag = n->hash | 2, probes = n->value ? MR_PROBES : m->a->table_slots, i;

    *fresh = false;
    GW_NO_UNROLL_
    for (i = 0; i < probes; i++) {
        struct mr_place *p = mr_place_at_(m, n->hash + i);
        uint8_t *its_key = (uint8_t *)(p + 1) + mr_up8_(m->a->value);
        uint32_t seen = mr_place_tag_(p);

        if (!seen) {
            seen = gw_cas_acquire_u32_gpu(&p->tag, 0, 1);
            if (!seen) {
                p->key = n->key_bytes;
                if (n->value)
                    mr_bytes_((uint8_t *)(p + 1), (const uint8_t *)n->value, n->value_bytes);
                else
                    memset(p + 1, 0, n->value_bytes);
                mr_bytes_(its_key, n->key, n->key_bytes);
                gw_st_release_u32_gpu(&p->tag, tag); /* who sees the tag sees key and value */
                *fresh = true;
                return p;
            }
            if (seen == 1) seen = mr_place_tag_(p);
        }
        if (seen == tag && p->key == n->key_bytes &&
            !mr_compare_(its_key, n->key_bytes, n->key, n->key_bytes))
            return p;
    }
    return NULL;
}

/* Combines a pair in the block's table. false: there is no place for its key. */
GW_DEV bool mr_table_add_(struct mr_map *m, const struct mr_new *n)
{
    bool fresh;
    struct mr_place *p = mr_place_get_(m, n, &fresh);

    if (p && !fresh) mr_combine_(m, p, n->hash | 2, n->value, n->value_bytes);
    return p != NULL;
}

GW_DEV uint64_t *mr_sums(struct mr_map *m, const void *key, uint32_t key_bytes)
{
    const uint8_t *k = (const uint8_t *)key;
    struct mr_new n = {mr_hash_(k, key_bytes), key_bytes, m->a->value, k, NULL};
    bool fresh;
    struct mr_place *p = mr_place_get_(m, &n, &fresh);

    return p ? (uint64_t *)(p + 1) : NULL;
}

/* Sends all that the block's table has. All threads of the block. */
GW_DEV void mr_table_flush_(struct mr_map *m)
{
    const struct mr_args_ *a = m->a;
    uint32_t i;

    for (i = gw_thread_idx(); i < a->table_slots; i += gw_block_dim()) {
        struct mr_place *p = mr_place_at_(m, i);
        uint8_t *key = (uint8_t *)(p + 1) + mr_up8_(a->value);
        struct mr_new n = {mr_hash_(key, p->key), p->key, a->value, key, p + 1};

        if (!p->tag) continue;
        mr_pair_send_(a, (struct mr_bucket *)m->bucket, &n);
        p->tag = 0;
    }
}

/* ---- map ----------------------------------------------------------------------------------------------- */

GW_DEV void mr_sample_(const struct mr_args_ *a, const uint8_t *key, uint32_t bytes)
{
    uint32_t i = gw_add_relaxed_u32_gpu(&a->dev->samples, 1);
    uint8_t *to = a->sample + (uint64_t)i * MR_SAMPLE;

    if (i >= a->sample_max) return;
    if (bytes > MR_SAMPLE_KEY) bytes = MR_SAMPLE_KEY;
    *(uint16_t *)to = (uint16_t)bytes;
    mr_bytes_(to + 2, key, bytes);
}

GW_DEV void mr_emit(struct mr_map *m, const void *key, uint32_t key_bytes, const void *value,
                    uint32_t value_bytes)
{
    const struct mr_args_ *a = m->a;
    struct mr_new n = {0, key_bytes, value_bytes, (const uint8_t *)key, value};

    if (key_bytes - 1 >= a->key) {
        mr_wrong_(a, MR_WRONG_KEY, key_bytes);
        return;
    }
    if (value_bytes > a->value || (a->combine_how && value_bytes != a->value)) {
        mr_wrong_(a, MR_WRONG_VALUE, value_bytes);
        return;
    }
    if (a->sample) {
        mr_sample_(a, n.key, key_bytes);
        return;
    }
    n.hash = mr_hash_(n.key, key_bytes);
    if (a->combine_how && key_bytes <= a->table_key && mr_table_add_(m, &n)) return;
    mr_pair_send_(a, (struct mr_bucket *)m->bucket, &n);
}

GW_DEV void mr_emit_u64(struct mr_map *m, const void *key, uint32_t key_bytes, uint64_t value)
{
    mr_emit(m, key, key_bytes, &value, 8);
}

typedef void (*mr_map_fn_)(struct mr_map *m, const uint8_t *record, uint32_t bytes);

/* Does a record of text begin at byte i of a piece? p[-1] is the byte before the piece. */
GW_DEV bool mr_text_begins_(const struct mr_args_ *a, const uint8_t *p, uint64_t offset, uint32_t i)
{
    bool first = offset + i == 0;

    if (a->input == MR_LINES) return first || p[(int64_t)i - 1] == '\n';
    return !mr_is_space(p[i]) && (first || mr_is_space(p[(int64_t)i - 1]));
}

/* Maps the record of text that begins at byte i of a piece. */
GW_DEV void mr_text_map_(struct mr_map *m, const struct mr_slot *s, const uint8_t *p, uint32_t i,
                         mr_map_fn_ map)
{
    bool words = m->a->input == MR_WORDS;
    uint32_t n = i;

    GW_NO_UNROLL_
    while (n < s->avail && !(words ? mr_is_space(p[n]) : p[n] == '\n')) n++;
    if ((n == s->avail && !s->last) || n - i > m->a->overlap) {
        mr_wrong_(m->a, MR_WRONG_LONG, s->offset + i);
        return;
    }
    m->offset = s->offset + i;
    map(m, p + i, n - i);
}

/* Where records begin, of those that each warp has found and not mapped. */
struct mr_starts {
    uint32_t at[32][64];
};

/* Each warp looks at 32 bytes at a time, and maps when it has found 32 records. So all its threads map,
 * though records begin at few of the bytes. A block of whole warps. */
GW_DEV void mr_map_text_packed_(struct mr_map *m, const struct mr_slot *s, const uint8_t *p, mr_map_fn_ map)
{
    GW_SHARED(struct mr_starts, starts);
    uint32_t *at = starts->at[gw_warp_idx()], lane = gw_lane(), base, n = 0;

    for (base = gw_thread_idx() - lane; base < s->bytes; base += gw_block_dim()) {
        bool begins = base + lane < s->bytes && mr_text_begins_(m->a, p, s->offset, base + lane);
        uint32_t mask = gw_ballot(gw_warp_all(), begins);

        if (begins) at[n + gw_popcount(mask & ((1u << lane) - 1))] = base + lane;
        n += gw_popcount(mask);
        if (n < 32) continue;
        gw_syncwarp(gw_warp_all());
        mr_text_map_(m, s, p, at[lane], map);
        n -= 32;
        gw_syncwarp(gw_warp_all()); /* the first 32 have been read */
        if (lane < n) at[lane] = at[32 + lane];
        gw_syncwarp(gw_warp_all());
    }
    gw_syncwarp(gw_warp_all());
    if (lane < n) mr_text_map_(m, s, p, at[lane], map);
}

/* A piece of text. */
GW_DEV void mr_map_text_(struct mr_map *m, const struct mr_slot *s, const uint8_t *p, mr_map_fn_ map)
{
    bool warp = m->a->by == MR_BY_WARP;
    uint32_t i, step = warp ? (gw_block_dim() + 31) / 32 : gw_block_dim();

    if (!warp && gw_block_dim() % 32 == 0) {
        mr_map_text_packed_(m, s, p, map);
        return;
    }
    for (i = warp ? gw_warp_idx() : gw_thread_idx(); i < s->bytes; i += step) {
        if (!mr_text_begins_(m->a, p, s->offset, i)) continue;
        mr_text_map_(m, s, p, i, map);
        if (warp) gw_syncwarp(gw_warp_mask());
    }
}

/* A piece of whole records. */
GW_DEV void mr_map_records_(struct mr_map *m, const struct mr_slot *s, const uint8_t *p, uint64_t offset,
                            mr_map_fn_ map)
{
    uint32_t size = m->a->record, n = s->bytes / size, i;
    bool warp = m->a->by == MR_BY_WARP;
    uint32_t step = warp ? (gw_block_dim() + 31) / 32 : gw_block_dim();
    uint64_t first = s->number;

    if (m->a->by == MR_BY_BLOCK) {
        m->offset = offset;
        m->number = first;
        map(m, p, n * size);
        return;
    }
    for (i = warp ? gw_warp_idx() : gw_thread_idx(); i < n; i += step) {
        m->offset = offset + (uint64_t)i * size;
        m->number = first + i;
        map(m, p + (uint64_t)i * size, size);
        if (warp) gw_syncwarp(gw_warp_mask());
    }
}

/* Waits for the next piece. NULL: there is none, or the round is given up. All threads of a block. */
GW_DEV struct mr_slot *mr_slot_next_(const struct mr_args_ *a)
{
    uint64_t ticket = 0;
    uint32_t round;

    if (gw_thread_idx() == 0) {
        ticket = gw_add_relaxed_u64_gpu(&a->dev->ticket, 1);
        for (round = 0;; round++) {
            /* acquire: the piece was written before */
            if (gw_ld_acquire_u64(&a->slot[ticket % a->slots].ready) == ticket + 1) break;
            /* acquire: `tickets` was */
            if ((gw_ld_acquire_u32(&a->ctl->no_more) && ticket >= gw_ld_relaxed_u64(&a->ctl->tickets)) ||
                mr_stopped_(a)) {
                ticket = UINT64_MAX;
                break;
            }
            mr_idle_(round);
        }
    }
    ticket = gw_group_first(GW_BLOCK, ticket);
    return ticket == UINT64_MAX ? NULL : &a->slot[ticket % a->slots];
}

/* Copies a slot's bytes; both places are aligned to 64. Four loads of each thread are on their way at a time:
 * gw_copy_share has more, whose registers would halve the number of mappers. */
GW_DEV void mr_slot_copy_(uint8_t *to, const uint8_t *from, uint32_t bytes)
{
    const struct gw_u128 *f = (const struct gw_u128 *)from;
    struct gw_u128 *t = (struct gw_u128 *)to;
    uint32_t n = (bytes + 15) / 16, step = gw_block_dim(), i = gw_thread_idx();

    for (; i + 3 * step < n; i += 4 * step) {
        struct gw_u128 a = f[i], b = f[i + step], c = f[i + 2 * step], d = f[i + 3 * step];

        t[i] = a;
        t[i + step] = b;
        t[i + 2 * step] = c;
        t[i + 3 * step] = d;
    }
    GW_NO_UNROLL_
    for (; i < n; i += step) t[i] = f[i];
}

/* Maps a piece. The slot is free again when its bytes are not needed there. All threads of a block. */
GW_DEV void mr_map_piece_(struct mr_map *m, struct mr_slot *slot, uint32_t mapper, mr_map_fn_ map)
{
    const struct mr_args_ *a = m->a;
    struct mr_slot s = *slot;
    uint8_t *p = a->buffers + (uint64_t)(slot - a->slot) * a->buffer;
    uint8_t *own = s.keep ? a->kept + (s.keep - 1) : a->own ? a->own + (uint64_t)mapper * a->buffer : NULL;

    if (own) {
        if (!s.is_kept) gw_copy_share(own, p, MR_LEAD + (uint64_t)s.avail, gw_thread_idx(), gw_block_dim());
        p = own;
        gw_syncthreads();
        if (gw_thread_idx() == 0) gw_st_release_u64(&slot->taken, s.ready); /* after the copy's loads */
    }
    if (a->combine_how && a->flags & MR_FILES_APART && !a->sample && m->file != s.file) {
        mr_table_flush_(m);
        gw_syncthreads();
    }
    m->file = s.file;
    if (a->input == MR_LINES || a->input == MR_WORDS)
        mr_map_text_(m, &s, p + MR_LEAD, map);
    else
        mr_map_records_(m, &s, p + MR_LEAD, s.offset, map);
    gw_syncthreads();
    if (!own && gw_thread_idx() == 0) gw_st_release_u64(&slot->taken, s.ready); /* after the map's loads */
}

/* Is it this block that sends what its table has? Of blocks that share one it is the last. All threads. */
GW_DEV bool mr_last_to_combine_(const struct mr_args_ *a)
{
    uint32_t before = gw_grid_dim() - 1;

    if (!(a->flags & MR_ONE_TABLE)) return true;
    /* release: what this block has combined, all before the barrier. acquire: what the others have */
    if (gw_thread_idx() == 0) before = gw_add_acq_rel_u32_gpu(&a->dev->arrived, 1);
    return gw_group_first(GW_BLOCK, before) == gw_grid_dim() - 1;
}

/* The kernel of a round: each block is a mapper. */
GW_DEV void mr_map_block_(const struct mr_args_ *a, mr_map_fn_ map, void (*combine)(void *, const void *))
{
    uint32_t mapper = gw_block_idx(), i;
    struct mr_slot *slot;
    struct mr_map m;

    memset(&m, 0, sizeof(m));
    m.a = a;
    m.state = a->state;
    m.state_bytes = a->state_bytes;
    m.record = a->record;
    m.bucket = a->bucket + ((uint64_t)mapper * a->groups + gw_warp_idx() % a->groups) * a->parts;
    m.table = a->table;
    if (!(a->flags & MR_ONE_TABLE)) m.table = a->table + (uint64_t)mapper * a->table_slots * a->table_stride;
    m.combine = combine;
    while ((slot = mr_slot_next_(a))) mr_map_piece_(&m, slot, mapper, map);
    gw_syncthreads();
    if (a->combine_how && !a->sample && mr_last_to_combine_(a)) mr_table_flush_(&m);
    gw_syncthreads();
    for (i = gw_thread_idx(); i < a->groups * a->parts && !a->sample && !mr_failed_(a); i += gw_block_dim()) {
        struct mr_bucket *b = a->bucket + (uint64_t)mapper * a->groups * a->parts + i;
        uint32_t chunk = (uint32_t)(b->word >> 32);

        if (chunk != MR_NO_CHUNK) mr_chunk_seal_(a, chunk, i % a->parts);
        b->word = (uint64_t)MR_NO_CHUNK << 32 | MR_ROOM;
    }
    gw_syncthreads();
    /* release: the movers that see all mappers ended see all that they have sealed */
    if (gw_thread_idx() == 0) gw_add_release_u32_gpu(&a->dev->mapped, 1);
}

#include "reduce.h"

#endif
