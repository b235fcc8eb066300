/* SPDX-License-Identifier: Apache-2.0 */
/*
 * flow.h: a table of flows, for programs that see millions of packets a second on each core.
 *
 * A flow is a key (who talks to whom) with the worker that serves it, a state, and the time of its last
 * packet. A load balancer keeps one table for each core and looks packets up in bursts:
 *
 *     struct gw_flow_attr attr = {.flows = 4000000, .key_bytes = 8};
 *     attr.timeout_ns[NEW] = 5 * s, attr.timeout_ns[OPEN] = 900 * s;
 *     gw_flow_create(&attr, &table);
 *     gw_flow_clock(table, now_ns);
 *     gw_flow_lookup_bulk(table, keys, 64, found);
 *     for each i: if (found[i].slot == GW_FLOW_NONE) gw_flow_insert(table, key(i), worker, NEW, &found[i]);
 *     gw_flow_expire(table, 0);
 *
 * Host only. A table belongs to one thread at a time; nothing in it locks. Functions return 0 or a negative
 * errno unless they say otherwise. No function allocates, but gw_flow_create.
 *
 * A table never forgets a flow before its time, except when it is full: see gw_flow_insert.
 */
#ifndef GPUWIRE_FLOW_H
#define GPUWIRE_FLOW_H

#include <stddef.h>
#include <stdint.h>

#include <gpuwire/error.h>

#ifdef __cplusplus
extern "C" {
#endif

#define GW_FLOW_WORKERS 16384u /* workers are numbered from 0 to one less */
#define GW_FLOW_STATES  16u    /* states are numbered from 0 to one less; what they mean is the caller's */
#define GW_FLOW_NONE    UINT32_MAX          /* a slot's number that stands for none */
#define GW_FLOW_KEY_MAX 40u                 /* bytes */
#define GW_FLOW_MAX     ((uint64_t)1 << 31) /* flows of one table */

struct gw_flow_table;

struct gw_flow_attr {
    uint64_t flows;     /* the table holds at least these; each takes 17.1 bytes (and 54 with long keys) */
    uint32_t key_bytes; /* 8, or from 9 to GW_FLOW_KEY_MAX: then each key is also kept beside the table */
    uint32_t flags;     /* GW_FLOW_ */
    /* How long a flow lives after its last packet, by state. 0: such flows never end by themselves. */
    uint64_t timeout_ns[GW_FLOW_STATES];
    /* Bit s: when the table is full, a flow in state s may make room for a new one. Bit 16 + s
     * (GW_FLOW_IDLE): so may this one, if no flow of the first kind is near. It must be idle: a 128th of its
     * time has passed since its last packet. */
    uint32_t evictable;
    uint64_t seed[4]; /* of the hash; all 0: from getrandom, as it should be wherever strangers choose keys */
};

/* Take 2 MiB pages where the system has some set aside; without, or where it has none, the kernel is asked
 * for transparent ones. Lookups are up to twice as fast on them. */
#define GW_FLOW_HUGE_PAGES 1u

/* In gw_flow_attr.evictable: the states of these bits make room only when they are idle. */
#define GW_FLOW_IDLE(states) ((uint32_t)(states) << 16)

/*
 * Makes an empty table. Returns 0 or an error. -EINVAL: an attribute is out of range, or one time-out is more
 * than 8,000 times another, which one clock cannot count. -ENOMEM: no memory. -EIO: no random numbers.
 */
GW_API int gw_flow_create(const struct gw_flow_attr *attr, struct gw_flow_table **table);
GW_API void gw_flow_destroy(struct gw_flow_table *table); /* NULL is allowed */

/* Where a flow lies, and what is known of it. `slot` is valid until the next insert, delete or expire. */
struct gw_flow {
    uint32_t slot; /* GW_FLOW_NONE: there is no such flow */
    uint16_t worker;
    uint8_t state;
    uint8_t reserved;
};

/*
 * Tells the table the time, in nanoseconds on any clock that does not go back. Flows age in ticks of
 * gw_flow_tick_ns(): it is enough to call this once a burst.
 */
GW_API void gw_flow_clock(struct gw_flow_table *table, uint64_t now_ns);
/* One tick: the longest time-out divided by 8,000, and at least a millisecond. A flow ends within a tick of
 * its time. */
GW_API uint64_t gw_flow_tick_ns(const struct gw_flow_table *table);

/*
 * Looks n keys up, of key_bytes each, one after the other. found[i] is the flow of key i; a flow that is
 * found has had a packet now. Returns how many were found. Memory is prefetched across the whole burst, so
 * bursts of 32 and more are several times as fast as single keys. Hundreds of keys in one call are faster
 * still, because each call begins and ends with few reads under way.
 */
GW_API size_t gw_flow_lookup_bulk(struct gw_flow_table *table, const void *keys, size_t n,
                                  struct gw_flow *found);

/* Asks memory for what a lookup of the key reads first, and does not wait. A program that parses a burst
 * calls it for each packet, and looks all of them up afterwards. */
GW_API void gw_flow_prefetch(const struct gw_flow_table *table, const void *key);

/*
 * Adds a flow, whose last packet is now. `at`, which may be NULL, becomes its place.
 *
 * Returns 0, or 1 when it took the place of an evictable flow, or a negative errno:
 *
 *   `-EEXIST`  There is one already, which `at` now names. Nothing changed.
 *   `-ENOSPC`  The table is full, and no flow near the new one's places is evictable.
 *   `-EINVAL`  No such worker or state.
 *
 * A table that is full of half-open connections stays useful. A flow in a state outside `evictable` is never
 * evicted. Among the others the one whose last packet is longest ago goes first. Flows that are evictable
 * only when idle go last.
 */
GW_API int gw_flow_insert(struct gw_flow_table *table, const void *key, uint32_t worker, uint32_t state,
                          struct gw_flow *at);

/* Changes the state, or the worker, of the flow at `slot`, which a call has just named. -EINVAL: no flow is
 * there, or no such worker or state. */
GW_API int gw_flow_set_state(struct gw_flow_table *table, uint32_t slot, uint32_t state);
GW_API int gw_flow_set_worker(struct gw_flow_table *table, uint32_t slot, uint32_t worker);

/* Removes a flow. -ENOENT: there is none. */
GW_API int gw_flow_delete(struct gw_flow_table *table, const void *key);

/*
 * Frees the slots of flows whose time is over. Lookups miss such flows in any case; this gives their memory
 * and their workers' counts back. It looks at `buckets` buckets (about four flows each), from where the last
 * call stopped. With 0 it looks at as many as the time since the last call asks for. Then the whole table is
 * visited once in the shortest time-out, and at least four times in the longest. Call it after each burst.
 * Returns how many flows it freed.
 */
GW_API size_t gw_flow_expire(struct gw_flow_table *table, size_t buckets);

/*
 * Visits flows, to copy or to change them. Starts at bucket *cursor (0 at first), looks at `buckets` buckets,
 * calls visit for each living flow, and moves *cursor on. Returns 1 while there is more, 0 at the end of the
 * table. `visit` may call gw_flow_set_state and gw_flow_set_worker. A flow that an insert moves during the
 * call may be visited twice, or not at all.
 */
GW_API int gw_flow_scan(struct gw_flow_table *table, uint64_t *cursor, size_t buckets,
                        void (*visit)(void *ctx, const void *key, const struct gw_flow *flow), void *ctx);

/* Flows in the table: of all workers, and of one. A flow whose time is over counts until it is freed. */
GW_API uint64_t gw_flow_count(const struct gw_flow_table *table);
GW_API uint32_t gw_flow_worker_count(const struct gw_flow_table *table, uint32_t worker);
/* The counts of all workers, GW_FLOW_WORKERS of them, in one place: to compare many. They change as flows
 * come and go, and may be read by the table's thread until gw_flow_destroy. */
GW_API const uint32_t *gw_flow_worker_counts(const struct gw_flow_table *table);
/* Bytes that the table takes. */
GW_API uint64_t gw_flow_bytes(const struct gw_flow_table *table);
/* How this processor compares keys: "avx512", "avx2" or "scalar". GPUWIRE_FLOW_SIMD in the environment of
 * the process that creates the table chooses a slower one. */
GW_API const char *gw_flow_simd(const struct gw_flow_table *table);

#ifdef __cplusplus
}
#endif
#endif
