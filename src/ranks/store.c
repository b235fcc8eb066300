/* SPDX-License-Identifier: Apache-2.0 */
/* Published values: one hash table of chains for all ranks, and what each rank has used of its limits. */
#include "src/ranks/store.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define CHAINS 4096u

struct entry {
    struct entry *next;
    uint32_t rank;
    char key[GW_RANKS_KEY];
    struct gw_ranks_blob *value;
};

struct gw_ranks_store {
    struct entry *chain[CHAINS];
    struct {
        uint32_t keys;
        size_t room;
    } used[];
};

struct gw_ranks_blob *gw_ranks_blob_new(size_t size)
{
    struct gw_ranks_blob *b = malloc(sizeof(*b) + size);

    if (b) *b = (struct gw_ranks_blob){.refs = 1, .size = size};
    return b;
}

void gw_ranks_blob_drop(struct gw_ranks_blob *blob)
{
    if (blob && !--blob->refs) free(blob);
}

struct gw_ranks_store *gw_ranks_store_new(uint32_t ranks)
{
    struct gw_ranks_store *s = NULL;

    return calloc(1, sizeof(*s) + ranks * sizeof(s->used[0]));
}

void gw_ranks_store_free(struct gw_ranks_store *store)
{
    if (!store) return;
    for (uint32_t i = 0; i < CHAINS; i++) {
        struct entry *e;

        while ((e = store->chain[i])) {
            store->chain[i] = e->next;
            gw_ranks_blob_drop(e->value);
            free(e);
        }
    }
    free(store);
}

static uint32_t store_chain(uint32_t rank, const char *key)
{
    uint32_t hash = 2166136261u ^ rank;

    while (*key) hash = (hash ^ (uint8_t)*key++) * 16777619u;
    return (hash ^ hash >> 16) % CHAINS;
}

struct gw_ranks_blob *gw_ranks_store_get(const struct gw_ranks_store *store, uint32_t rank, const char *key)
{
    const struct entry *e = store->chain[store_chain(rank, key)];

    while (e && (e->rank != rank || strcmp(e->key, key))) e = e->next;
    return e ? e->value : NULL;
}

int gw_ranks_store_put(struct gw_ranks_store *store, uint32_t rank, const char *key, const void *value,
                       size_t size)
{
    struct entry *e, **chain = &store->chain[store_chain(rank, key)];

    if (gw_ranks_store_get(store, rank, key)) return -EEXIST;
    if (store->used[rank].keys >= GW_RANKS_KEYS || size > GW_RANKS_ROOM - store->used[rank].room)
        return -ENOSPC;
    e = calloc(1, sizeof(*e));
    if (e) e->value = gw_ranks_blob_new(size);
    if (!e || !e->value) {
        free(e);
        return -ENOMEM;
    }
    e->rank = rank;
    strcpy(e->key, key); /* the caller has checked its length */
    memcpy(e->value->bytes, value, size);
    e->next = *chain;
    *chain = e;
    store->used[rank].keys++;
    store->used[rank].room += size;
    return 0;
}
