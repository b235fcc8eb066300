/* SPDX-License-Identifier: Apache-2.0 */
/* table.c: the hash table of models, workers and leases: chains, and twice as many of them when they grow. */
#include "src/fleet/wire/table.h"

#include <errno.h>
#include <stdlib.h>

enum { TABLE_LEAST = 16 };

/* FNV-1a from a secret seed, and a last mix that spreads it over the low bits. */
uint64_t fleet_table_hash(uint64_t seed, const void *key, size_t bytes)
{
    const uint8_t *at = key;
    uint64_t h = seed ^ 0xcbf29ce484222325u;
    for (size_t i = 0; i < bytes; i++) h = (h ^ at[i]) * 0x100000001b3u;
    h ^= h >> 32;
    h *= 0xd6e8feb86659fd93u;
    return h ^ h >> 32;
}

static struct fleet_entry **table_slot(const struct fleet_table *t, uint64_t hash)
{
    return &t->slot[hash & (t->slots - 1)];
}

static int table_grow(struct fleet_table *t)
{
    struct fleet_table more = {.slots = t->slots ? 2 * t->slots : TABLE_LEAST, .n = t->n};
    more.slot = calloc(more.slots, sizeof *more.slot);
    if (!more.slot) return -ENOMEM;
    for (uint32_t i = 0; i < t->slots; i++) {
        for (struct fleet_entry *e = t->slot[i], *next; e; e = next) {
            struct fleet_entry **to = table_slot(&more, e->hash);
            next = e->next;
            e->next = *to;
            *to = e;
        }
    }
    free(t->slot);
    *t = more;
    return 0;
}

int fleet_table_add(struct fleet_table *t, struct fleet_entry *e, uint64_t hash)
{
    int err = t->n == t->slots ? table_grow(t) : 0;
    if (err) return err;
    struct fleet_entry **to = table_slot(t, hash);
    e->hash = hash;
    e->next = *to;
    *to = e;
    t->n++;
    return 0;
}

void fleet_table_remove(struct fleet_table *t, struct fleet_entry *e)
{
    struct fleet_entry **at = table_slot(t, e->hash);
    while (*at != e) at = &(*at)->next;
    *at = e->next;
    t->n--;
}

struct fleet_entry *fleet_table_find(const struct fleet_table *t, uint64_t hash)
{
    struct fleet_entry *e = t->slots ? *table_slot(t, hash) : NULL;
    while (e && e->hash != hash) e = e->next;
    return e;
}

struct fleet_entry *fleet_table_next(const struct fleet_entry *e)
{
    const struct fleet_entry *next = e->next;
    while (next && next->hash != e->hash) next = next->next;
    return (struct fleet_entry *)next;
}

void fleet_table_free(struct fleet_table *t)
{
    free(t->slot);
    *t = (struct fleet_table){0};
}
