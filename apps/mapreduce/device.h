/* SPDX-License-Identifier: Apache-2.0 */
/*
 * device.h: the engine's part that is compiled with each job. Included by mapreduce.h. Names that end in _
 * are private to the engine. This file has what host and kernels share. The kernels' steps follow, a file for
 * each: device_pairs.h, device_table.h, device_map.h, reduce.h.
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

#include "device_pairs.h"
#include "device_table.h"
#include "device_map.h"
#include "reduce.h"

#endif
