/* SPDX-License-Identifier: Apache-2.0 */
/* A table's memory, its clock's grain, and how its processor compares keys. */
#include "src/flow/layout.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/random.h>

#define HUGE_PAGE   ((size_t)2 << 20)
#define LEAST_TICK  1000000u /* ns */
#define BUCKET_LOAD 3.75 /* flows of a bucket when the table is as full as was asked for: 3/4 of its ways */

/* Zeroed, on pages as large as can be had. */
static void *table_map(size_t bytes, uint32_t flags)
{
    const int how = MAP_PRIVATE | MAP_ANONYMOUS;
    void *p = MAP_FAILED;
    if (flags & GW_FLOW_HUGE_PAGES)
        p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, how | MAP_HUGETLB | MAP_POPULATE, -1, 0);
    if (p != MAP_FAILED) return p;
    p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, how, -1, 0);
    if (p == MAP_FAILED) return NULL;
    madvise(p, bytes, MADV_HUGEPAGE); /* if it cannot, small pages serve as well, slower */
    return p;
}

static size_t table_whole_pages(uint64_t bytes)
{
    return (size_t)((bytes + HUGE_PAGE - 1) / HUGE_PAGE * HUGE_PAGE);
}

static int set_times(struct gw_flow_table *t, const uint64_t timeout_ns[GW_FLOW_STATES])
{
    uint64_t longest = 0, shortest = UINT64_MAX;
    for (unsigned s = 0; s < GW_FLOW_STATES; s++) {
        if (timeout_ns[s] > longest) longest = timeout_ns[s];
        if (timeout_ns[s] && timeout_ns[s] < shortest) shortest = timeout_ns[s];
    }
    t->tick_ns = longest / MAX_TICKS > LEAST_TICK ? (longest + MAX_TICKS - 1) / MAX_TICKS : LEAST_TICK;
    if (longest && shortest < t->tick_ns) return -EINVAL;
    for (unsigned s = 0; s < GW_FLOW_STATES; s++)
        t->life[s] = timeout_ns[s] ? (uint32_t)(timeout_ns[s] / t->tick_ns) : EPOCH_MASK;
    /* The sweep's round: the shortest time-out, or a quarter of the longest. */
    uint64_t round = longest ? longest / t->tick_ns / 4 : MAX_TICKS / 4;
    if (longest && shortest / t->tick_ns < round) round = shortest / t->tick_ns;
    t->round_ticks = round ? round : 1;
    return 0;
}

static int table_set_seed(struct gw_flow_table *t, const uint64_t seed[4])
{
    memcpy(t->seed, seed, sizeof(t->seed));
    if (!(seed[0] | seed[1] | seed[2] | seed[3]) &&
        getrandom(t->seed, sizeof(t->seed), 0) != (ssize_t)sizeof(t->seed))
        return -EIO;
    t->seed[1] |= 1; /* multiplying by an odd number loses nothing */
    t->seed[3] |= 1;
    return 0;
}

static void choose_simd(struct gw_flow_table *t)
{
    const char *wish = getenv("GPUWIRE_FLOW_SIMD");
    t->lookup = gw_flow_lookup_scalar;
    t->simd = "scalar";
#ifdef __x86_64__
    if (wish && !strcmp(wish, "scalar")) return;
    if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("bmi2")) return;
    t->lookup = gw_flow_lookup_avx2;
    t->simd = "avx2";
    if ((wish && !strcmp(wish, "avx2")) || !__builtin_cpu_supports("avx512f")) return;
    t->lookup = gw_flow_lookup_avx512;
    t->simd = "avx512";
#else
    (void)wish;
#endif
}

static int take_memory(struct gw_flow_table *t, const struct gw_flow_attr *attr)
{
    t->buckets = (uint64_t)((double)attr->flows / BUCKET_LOAD) + 2; /* a key's two buckets differ */
    t->bucket_bytes = table_whole_pages(t->buckets * sizeof(struct bucket));
    t->bucket = table_map(t->bucket_bytes, attr->flags);
    t->ns_per_bucket = (double)(t->round_ticks * t->tick_ns) / (double)t->buckets;
    t->buckets_per_ns = 1 / t->ns_per_bucket;
    t->of_worker = calloc(GW_FLOW_WORKERS, sizeof(*t->of_worker));
    if (!t->bucket || !t->of_worker) return -ENOMEM;
    if (attr->key_bytes == 8) return 0;
    t->key_store_bytes = table_whole_pages(t->buckets * WAYS * GW_FLOW_KEY_MAX);
    t->long_keys = table_map(t->key_store_bytes, attr->flags);
    return t->long_keys ? 0 : -ENOMEM;
}

static void table_free(struct gw_flow_table *t)
{
    if (t->bucket) munmap(t->bucket, t->bucket_bytes);
    if (t->long_keys) munmap(t->long_keys, t->key_store_bytes);
    free(t->of_worker);
    free(t);
}

int gw_flow_create(const struct gw_flow_attr *attr, struct gw_flow_table **out)
{
    *out = NULL;
    if (!attr->flows || attr->flows > GW_FLOW_MAX || attr->key_bytes < 8 ||
        attr->key_bytes > GW_FLOW_KEY_MAX || attr->flags & ~GW_FLOW_HUGE_PAGES)
        return -EINVAL;
    struct gw_flow_table *t = calloc(1, sizeof(*t));
    if (!t) return -ENOMEM;
    t->key_bytes = attr->key_bytes;
    t->evictable = attr->evictable;
    choose_simd(t);
    int err = set_times(t, attr->timeout_ns);
    if (!err) err = table_set_seed(t, attr->seed);
    if (!err) err = take_memory(t, attr);
    if (err) {
        table_free(t);
        return err;
    }
    *out = t;
    return 0;
}

void gw_flow_destroy(struct gw_flow_table *t)
{
    if (!t) return;
    GW_ASSERT(gw_flow_is_sound(t));
    table_free(t);
}

size_t gw_flow_lookup_bulk(struct gw_flow_table *t, const void *keys, size_t n, struct gw_flow *found)
{
    return t->lookup(t, keys, n, found);
}

void gw_flow_prefetch(const struct gw_flow_table *t, const void *key)
{
    __builtin_prefetch(&t->bucket[first_bucket(t, flow_place_of(t, key).hash)], 1);
}

uint64_t gw_flow_count(const struct gw_flow_table *t)
{
    return t->flows;
}

uint32_t gw_flow_worker_count(const struct gw_flow_table *t, uint32_t worker)
{
    return worker < GW_FLOW_WORKERS ? t->of_worker[worker] : 0;
}

const uint32_t *gw_flow_worker_counts(const struct gw_flow_table *t)
{
    return t->of_worker;
}

uint64_t gw_flow_bytes(const struct gw_flow_table *t)
{
    return t->bucket_bytes + t->key_store_bytes;
}

const char *gw_flow_simd(const struct gw_flow_table *t)
{
    return t->simd;
}
