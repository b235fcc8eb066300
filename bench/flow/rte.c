/* SPDX-License-Identifier: Apache-2.0 */
/*
 * DPDK's rte_hash. Its memory comes from a heap of our own, on large pages as the other tables' does. Without
 * huge pages DPDK's own heap is shared memory, and the kernel gives that small pages.
 */
#include <errno.h>
#include <pthread.h>
#include <rte_eal.h>
#include <rte_errno.h>
#include <rte_hash.h>
#include <rte_hash_crc.h>
#include <rte_lcore.h>
#include <rte_malloc.h>
#include <stdio.h>
#include <stdlib.h>

#include "bench/flow/table.h"

#define HEAP      "flows"
#define HEAP_PAGE ((size_t)2 << 20)

static int start_dpdk(void)
{
    static int ready;
    char *argv[] = {"flows", "--no-huge", "--no-shconf",     "--no-telemetry", "-l", "0",
                    "-m",    "64",        "--log-level=*:4", "--no-pci",       NULL};
    if (ready) return 0;
    if (rte_eal_init(10, argv) < 0 || rte_malloc_heap_create(HEAP)) return -1;
    ready = 1;
    return 0;
}

struct index {
    struct rte_hash *hash;
    void *memory;
    size_t bytes;
};

static void close_index(void *index)
{
    struct index *x = index;
    rte_hash_free(x->hash);
    if (x->memory && !rte_malloc_heap_memory_remove(HEAP, x->memory, x->bytes))
        flow_memory_free(x->memory, x->bytes);
    free(x);
}

static void *open_index(uint64_t entries, enum flow_sharing sharing)
{
    static int number;
    char name[32];
    struct index *x = calloc(1, sizeof(*x));
    if (!x || start_dpdk()) {
        free(x);
        return NULL;
    }
    /* A key's slot has 16 bytes, a bucket of eight 64, and the ring of free slots 4 for each. */
    x->bytes = (entries * 16 + entries * 2 * 8 + entries * 2 * 4 + (HEAP_PAGE << 3)) / HEAP_PAGE * HEAP_PAGE;
    x->memory = flow_memory(x->bytes);
    if (!x->memory || rte_malloc_heap_memory_add(HEAP, x->memory, x->bytes, NULL, 0, HEAP_PAGE)) {
        fprintf(stderr, "rte_hash: no heap of %zu bytes: %s\n", x->bytes, rte_strerror(rte_errno));
        free(x);
        return NULL;
    }
    snprintf(name, sizeof(name), "flows%d", number++);
    struct rte_hash_parameters how = {.name = name,
                                      .entries = (uint32_t)entries,
                                      .key_len = 8,
                                      .hash_func = rte_hash_crc,
                                      .hash_func_init_val = 0x5bd1e995,
                                      .socket_id = rte_malloc_heap_get_socket(HEAP)};
    if (sharing == FLOW_LOCK_FREE)
        how.extra_flag = RTE_HASH_EXTRA_FLAGS_RW_CONCURRENCY_LF | RTE_HASH_EXTRA_FLAGS_MULTI_WRITER_ADD;
    x->hash = rte_hash_create(&how);
    if (x->hash) return x;
    fprintf(stderr, "rte_hash: no table of %llu: %s\n", (unsigned long long)entries, rte_strerror(rte_errno));
    close_index(x);
    return NULL;
}

static uint64_t positions(const void *index)
{
    const struct index *x = index;
    return (uint64_t)rte_hash_max_key_id(x->hash) + 1;
}

static void find(void *index, const uint64_t *keys, size_t n, int32_t *at)
{
    const struct index *x = index;
    const void *key[FLOW_BURST];
    for (size_t i = 0; i < n; i++) key[i] = &keys[i];
    rte_hash_lookup_bulk(x->hash, key, (uint32_t)n, at);
}

/* Writers of one table keep free slots by DPDK's number of the thread: each must have one, as long as it
 * lives. */
static pthread_key_t at_exit;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void unregister(void *arg)
{
    (void)arg;
    rte_thread_unregister();
}
static void make_key(void)
{
    if (pthread_key_create(&at_exit, unregister)) abort();
}

static void number_thread(void)
{
    if (rte_lcore_id() != LCORE_ID_ANY) return;
    pthread_once(&once, make_key);
    if (rte_thread_register() || pthread_setspecific(at_exit, &at_exit)) abort();
}

static int32_t add(void *index, uint64_t key)
{
    struct index *x = index;
    number_thread();
    return rte_hash_add_key(x->hash, &key);
}

static void del(void *index, uint64_t key, int32_t at)
{
    struct index *x = index;
    (void)at;
    number_thread();
    rte_hash_del_key(x->hash, &key);
}

static void reclaim(void *index, int32_t at)
{
    struct index *x = index;
    number_thread();
    rte_hash_free_key_with_position(x->hash, at);
}

static uint64_t count(const void *index)
{
    const struct index *x = index;
    return (uint64_t)rte_hash_count(x->hash);
}

static const struct flow_index rte = {.open = open_index,
                                      .close = close_index,
                                      .positions = positions,
                                      .find = find,
                                      .add = add,
                                      .del = del,
                                      .reclaim = reclaim,
                                      .count = count};
const struct flow_kind flow_rte = FLOW_PEER("rte_hash", (1u << FLOW_SHARINGS) - 1,
                                            1u << FLOW_NEVER | 1u << FLOW_WHEEL | 1u << FLOW_SCAN, &rte);
