/* SPDX-License-Identifier: Apache-2.0 */
/*
 * table.h: what the flow benchmarks ask of a table. Our table has its own way of forgetting flows. The others
 * are an index, from keys to positions, and beside it an entry for each position, with one of several ways
 * (peer.c).
 */
#ifndef BENCH_FLOW_TABLE_H
#define BENCH_FLOW_TABLE_H

#include <stddef.h>
#include <stdint.h>

enum { FLOW_BURST = 64, FLOW_MAX_KEYS = 1024, FLOW_WORKERS = 64 };
#define FLOW_IDLE_NS UINT64_C(2000000000)

/* How cores share a table, or that they do not. */
enum flow_sharing { FLOW_PER_CORE, FLOW_LOCK_FREE, FLOW_RWLOCK, FLOW_SPINLOCK, FLOW_MUTEX, FLOW_SHARINGS };
/* How flows go whose time is over. */
enum flow_deletion { FLOW_NEVER, FLOW_WHEEL, FLOW_LAZY, FLOW_SCAN, FLOW_EPOCHS, FLOW_DELETIONS };
extern const char *const flow_sharing_name[FLOW_SHARINGS], *const flow_deletion_name[FLOW_DELETIONS];

struct flow_how {
    uint64_t flows; /* of the whole table */
    enum flow_sharing sharing;
    enum flow_deletion deletion;
};

struct flow_cost { /* of opening flows: how many, and ticks of bench_ticks() */
    uint64_t opened, ticks;
};

/* A table, and what each thread has of it. */
struct flow_kind {
    const char *name;
    unsigned sharings, deletions; /* bits: what it can do */
    /* NULL: no memory, or it cannot do this. */
    void *(*open)(const struct flow_kind *kind, const struct flow_how *how);
    void (*close)(void *table);
    /* A thread's part of the table; it calls the functions below with it. */
    void *(*join)(void *table);
    void (*leave)(void *part);
    /* Lookups alone: how many of the keys are there. FLOW_BURST at most, and FLOW_MAX_KEYS of ours. */
    size_t (*lookup)(void *part, const uint64_t *keys, size_t n);
    /* A packet of each key: finds its worker, or chooses one and remembers it; frees flows whose time is
     * over. Returns the sum of the workers. */
    uint64_t (*step)(void *part, const uint64_t *keys, size_t n, uint64_t now_ns);
    struct flow_cost (*cost)(const void *part);
    uint64_t (*count)(const void *table);
    uint64_t (*bytes)(const void *table); /* 0: it cannot tell */
    const void *index;                    /* of peer.c's kinds: a struct flow_index */
};

extern const struct flow_kind flow_ours, flow_rte, flow_chain, flow_cuckoo, flow_stl;
/* How many lines of our table a lookup reads on average, of a flow that is there. */
double flow_ours_lines(const void *table);
/* The kinds of this build, ours first. Without DPDK there is no rte_hash, and no cuckoo without its
 * library. */
extern const struct flow_kind *const flow_kinds[];

/* ---- indexes ---- */

struct flow_entry { /* four of them have one line */
    uint64_t key;
    uint32_t seen; /* FLOW_GRAIN_NS */
    uint32_t worker;
};
#define FLOW_GRAIN_NS (FLOW_IDLE_NS / 2048)
#define FLOW_DEAD     UINT64_MAX /* the key of an entry that is none */

struct flow_index {
    void *(*open)(uint64_t entries, enum flow_sharing sharing);
    void (*close)(void *index);
    uint64_t (*positions)(const void *index); /* more than any that it gives */
    /* The positions of the keys, or -1. */
    void (*find)(void *index, const uint64_t *keys, size_t n, int32_t *at);
    /* The position of a key, which may be there already; -1: full. */
    int32_t (*add)(void *index, uint64_t key);
    /* FLOW_LAZY: the same, and on its way it frees what was seen before `oldest`. NULL: it cannot. */
    int32_t (*add_lazily)(void *index, uint64_t key, struct flow_entry *entry, uint32_t oldest);
    void (*del)(void *index, uint64_t key, int32_t at);
    /* FLOW_LOCK_FREE: no reader sees the deleted position any more. NULL: del does it. */
    void (*reclaim)(void *index, int32_t at);
    uint64_t (*count)(const void *index);
};

/* The functions of peer.c, for a struct flow_kind. */
void *flow_peer_open(const struct flow_kind *kind, const struct flow_how *how);
void flow_peer_close(void *table);
void *flow_peer_join(void *table);
void flow_peer_leave(void *part);
size_t flow_peer_lookup(void *part, const uint64_t *keys, size_t n);
uint64_t flow_peer_step(void *part, const uint64_t *keys, size_t n, uint64_t now_ns);
struct flow_cost flow_peer_cost(const void *part);
uint64_t flow_peer_count(const void *table);
uint64_t flow_peer_bytes(const void *table);
#define FLOW_PEER(kind_name, sharing_bits, deletion_bits, of_index)                                          \
    {                                                                                                        \
        .name = kind_name, .sharings = (sharing_bits), .deletions = (deletion_bits), .open = flow_peer_open, \
        .close = flow_peer_close, .join = flow_peer_join, .leave = flow_peer_leave,                          \
        .lookup = flow_peer_lookup, .step = flow_peer_step, .cost = flow_peer_cost,                          \
        .count = flow_peer_count, .bytes = flow_peer_bytes, .index = (of_index)                              \
    }

/* Memory on large pages where the kernel has them, zeroed. NULL: none. */
void *flow_memory(uint64_t bytes);
void flow_memory_free(void *p, uint64_t bytes);

/* ---- keys and traces ---- */

static inline uint64_t flow_scramble(uint64_t v)
{
    v *= 0x9e3779b97f4a7c15u;
    v ^= v >> 32;
    v *= 0xd6e8feb86659fd93u;
    return v ^ v >> 32;
}

/* Packets of a window of living flows, of which `churn` (0 to 1) open a new one while the oldest falls
 * silent. */
struct flow_trace {
    uint64_t next, window, packet, name; /* traces with different names share no flow */
    double churn, opened;
};
/* A trace for a table with `flows` in all: those that send, and those that are silent and not yet freed. A
 * packet comes every `packet_ns`. */
struct flow_trace flow_trace_of(uint64_t flows, double churn, double packet_ns, uint64_t name);
void flow_trace_keys(struct flow_trace *t, uint64_t *keys, size_t n);
/* The key of the trace's flow i. */
static inline uint64_t flow_trace_key(const struct flow_trace *t, uint64_t i)
{
    return flow_scramble(i << 6 | t->name);
}

#endif
