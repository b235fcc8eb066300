/* SPDX-License-Identifier: Apache-2.0 */
/* An index that chains: a bucket names its first node, and a node the next. Twice as many buckets as
 * flows. */
#include <stdlib.h>

#include "bench/flow/table.h"

struct node {
    uint64_t key;
    int32_t next;
};

struct chain {
    int32_t *bucket; /* the first node, or -1 */
    struct node *node;
    int32_t *free;
    uint64_t buckets, nodes, frees;
};

static uint64_t bucket_of(const struct chain *c, uint64_t key)
{
    return flow_scramble(key ^ 0x5bd1e995) & (c->buckets - 1);
}

static void close_index(void *index)
{
    struct chain *c = index;
    flow_memory_free(c->bucket, c->buckets * sizeof(*c->bucket));
    flow_memory_free(c->node, c->nodes * sizeof(*c->node));
    flow_memory_free(c->free, c->nodes * sizeof(*c->free));
    free(c);
}

static void *open_index(uint64_t entries, enum flow_sharing sharing)
{
    struct chain *c = calloc(1, sizeof(*c));
    (void)sharing;
    if (!c) return NULL;
    c->nodes = entries;
    for (c->buckets = 1; c->buckets < entries; c->buckets *= 2) continue;
    c->bucket = flow_memory(c->buckets * sizeof(*c->bucket));
    c->node = flow_memory(c->nodes * sizeof(*c->node));
    c->free = flow_memory(c->nodes * sizeof(*c->free));
    if (!c->bucket || !c->node || !c->free) {
        close_index(c);
        return NULL;
    }
    for (uint64_t i = 0; i < c->buckets; i++) c->bucket[i] = -1;
    for (uint64_t i = 0; i < c->nodes; i++) c->free[i] = (int32_t)(c->nodes - 1 - i);
    c->frees = c->nodes;
    return c;
}

static uint64_t positions(const void *index)
{
    const struct chain *c = index;
    return c->nodes;
}

static void find(void *index, const uint64_t *keys, size_t n, int32_t *at)
{
    const struct chain *c = index;
    uint64_t bucket[FLOW_BURST];
    for (size_t i = 0; i < n; i++) {
        bucket[i] = bucket_of(c, keys[i]);
        __builtin_prefetch(&c->bucket[bucket[i]]);
    }
    for (size_t i = 0; i < n; i++) {
        at[i] = c->bucket[bucket[i]];
        if (at[i] >= 0) __builtin_prefetch(&c->node[at[i]]);
    }
    for (size_t i = 0; i < n; i++)
        while (at[i] >= 0 && c->node[at[i]].key != keys[i]) at[i] = c->node[at[i]].next;
}

static int32_t *link_to(struct chain *c, uint64_t key)
{
    int32_t *link = &c->bucket[bucket_of(c, key)];
    while (*link >= 0 && c->node[*link].key != key) link = &c->node[*link].next;
    return link;
}

static int32_t put(struct chain *c, int32_t *link, uint64_t key)
{
    if (!c->frees) return -1;
    int32_t at = c->free[--c->frees];
    c->node[at] = (struct node){key, -1};
    *link = at;
    return at;
}

static int32_t add(void *index, uint64_t key)
{
    struct chain *c = index;
    int32_t *link = link_to(c, key);
    return *link >= 0 ? *link : put(c, link, key);
}

static int32_t add_lazily(void *index, uint64_t key, struct flow_entry *entry, uint32_t oldest)
{
    struct chain *c = index;
    int32_t *link = &c->bucket[bucket_of(c, key)];
    while (*link >= 0) {
        int32_t at = *link;
        if (c->node[at].key == key) return at;
        if (entry[at].seen < oldest) {
            *link = c->node[at].next;
            entry[at].key = FLOW_DEAD;
            c->free[c->frees++] = at;
        } else {
            link = &c->node[at].next;
        }
    }
    return put(c, link, key);
}

static void del(void *index, uint64_t key, int32_t at)
{
    struct chain *c = index;
    int32_t *link = link_to(c, key);
    if (*link != at) return;
    *link = c->node[at].next;
    c->free[c->frees++] = at;
}

static uint64_t count(const void *index)
{
    const struct chain *c = index;
    return c->nodes - c->frees;
}

static const struct flow_index chain = {.open = open_index,
                                        .close = close_index,
                                        .positions = positions,
                                        .find = find,
                                        .add = add,
                                        .add_lazily = add_lazily,
                                        .del = del,
                                        .count = count};
const struct flow_kind flow_chain =
    FLOW_PEER("chaining", 1u << FLOW_PER_CORE | 1u << FLOW_RWLOCK | 1u << FLOW_SPINLOCK | 1u << FLOW_MUTEX,
              1u << FLOW_NEVER | 1u << FLOW_WHEEL | 1u << FLOW_LAZY | 1u << FLOW_SCAN, &chain);
