/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The peer: DPDK's rte_hash, looked up in bursts, with a value beside it for each position and a timer wheel.
 * A flow that had a packet since its timer was set gets a new one when the timer fires, so that a packet costs the
 * wheel nothing.
 */
#include <errno.h>
#include <rte_eal.h>
#include <rte_hash.h>
#include <rte_jhash.h>
#include <rte_hash_crc.h>
#include <rte_malloc.h>
#include <rte_memory.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "bench/flow_bench.h"

enum { WHEEL = 4096 };
#define GRAIN_NS (FLOW_IDLE_NS / 2048)

struct entry {
    uint64_t key;
    uint64_t seen_ns;
    int32_t next; /* in its slot of the wheel; -1: the last */
    uint32_t worker;
};

static struct {
    struct rte_hash *hash;
    struct entry *entry;
    uint64_t entries;
    int32_t wheel[WHEEL];
    uint64_t tick; /* the slots up to it have been emptied */
    uint32_t next_worker;
    int ready;
} p;

/* DPDK's memory without huge pages set aside: transparent ones, as the other table has. */
static int advise(const struct rte_memseg_list *list, void *arg)
{
    (void)arg;
    madvise(list->base_va, list->len, MADV_HUGEPAGE);
    return 0;
}

static int open_table(uint64_t flows)
{
    char *argv[] = {"flow_bench", "--no-huge", "--no-shconf", "-l", "0", "-m",
                    "2048",       "--no-pci",  "--log-level", "4",  NULL};
    if (!p.ready && rte_eal_init(10, argv) < 0) return -EIO;
    if (!p.ready) rte_memseg_list_walk(advise, NULL);
    p.ready = 1;
    struct rte_hash_parameters how = {.name = "flows",
                                      .entries = (uint32_t)(flows + flows / 4),
                                      .key_len = 8,
                                      .hash_func = rte_hash_crc,
                                      .hash_func_init_val = 0x5bd1e995,
                                      .socket_id = 0};
    p.hash = rte_hash_create(&how);
    if (!p.hash) return -ENOMEM;
    p.entries = how.entries + 64;
    p.entry = aligned_alloc(2 << 20, (p.entries * sizeof(*p.entry) + (2 << 20)) & ~((size_t)(2 << 20) - 1));
    if (!p.entry) return -ENOMEM;
    madvise(p.entry, p.entries * sizeof(*p.entry), MADV_HUGEPAGE);
    for (int i = 0; i < WHEEL; i++) p.wheel[i] = -1;
    p.tick = 0;
    return 0;
}

static void close_table(void)
{
    rte_hash_free(p.hash);
    free(p.entry);
}

static size_t find(const uint64_t *keys, size_t n, int32_t *at)
{
    const void *key[FLOW_BURST];
    size_t hits = 0;
    for (size_t i = 0; i < n; i++) key[i] = &keys[i];
    rte_hash_lookup_bulk(p.hash, key, (uint32_t)n, at);
    for (size_t i = 0; i < n; i++) hits += at[i] >= 0;
    return hits;
}

static size_t lookup(const uint64_t *keys, size_t n)
{
    int32_t at[FLOW_BURST];
    return find(keys, n, at);
}

static void set_timer(int32_t at, uint64_t when_ns)
{
    int32_t *slot = &p.wheel[when_ns / GRAIN_NS % WHEEL];
    p.entry[at].next = *slot;
    *slot = at;
}

static void turn_wheel(uint64_t now_ns)
{
    for (uint64_t to = now_ns / GRAIN_NS; p.tick < to; p.tick++) {
        int32_t at = p.wheel[p.tick % WHEEL];
        p.wheel[p.tick % WHEEL] = -1;
        while (at >= 0) {
            struct entry *e = &p.entry[at];
            int32_t next = e->next;
            if (next >= 0) __builtin_prefetch(&p.entry[next]);
            if (now_ns - e->seen_ns >= FLOW_IDLE_NS)
                rte_hash_del_key(p.hash, &e->key);
            else
                set_timer(at, e->seen_ns + FLOW_IDLE_NS + GRAIN_NS);
            at = next;
        }
    }
}

static uint64_t step(const uint64_t *keys, size_t n, uint64_t now_ns)
{
    int32_t at[FLOW_BURST];
    uint64_t sum = 0;
    if (!p.tick) p.tick = now_ns / GRAIN_NS;
    find(keys, n, at);
    for (size_t i = 0; i < n; i++)
        if (at[i] >= 0) __builtin_prefetch(&p.entry[at[i]], 1);
    for (size_t i = 0; i < n; i++) {
        if (at[i] < 0) at[i] = rte_hash_lookup(p.hash, &keys[i]); /* twice in this burst */
        if (at[i] < 0) {
            at[i] = rte_hash_add_key(p.hash, &keys[i]);
            if (at[i] < 0) continue;
            p.entry[at[i]] = (struct entry){keys[i], now_ns, -1, p.next_worker++ % FLOW_WORKERS};
            set_timer(at[i], now_ns + FLOW_IDLE_NS + GRAIN_NS);
        }
        p.entry[at[i]].seen_ns = now_ns;
        sum += p.entry[at[i]].worker;
    }
    turn_wheel(now_ns);
    return sum;
}

static uint64_t count(void)
{
    return (uint64_t)rte_hash_count(p.hash);
}
static uint64_t bytes(void)
{
    return 0;
}

static const struct flow_table rte = {"rte_hash", open_table, close_table, lookup, step, count, bytes};
const struct flow_table *flow_peer(void)
{
    return &rte;
}
