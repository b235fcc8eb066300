/* SPDX-License-Identifier: Apache-2.0 */
/* A set of keys, each with the round in which it was seen. */
#include "src/fleet/registry/known.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <gpuwire/error.h>

#define SLOTS 256 /* at first */

struct fleet_known_key {
    struct fleet_known_key *next;
    uint64_t hash;
    uint32_t round;
    size_t bytes;
    char key[];
};

static uint64_t known_hash(struct fleet_etcd_bytes key)
{
    uint64_t h = 0xcbf29ce484222325u; /* FNV-1a */
    for (size_t i = 0; i < key.bytes; i++) h = (h ^ ((const uint8_t *)key.data)[i]) * 0x100000001b3u;
    return h;
}

static struct fleet_known_key **known_find(const struct fleet_known *k, struct fleet_etcd_bytes key,
                                           uint64_t hash)
{
    struct fleet_known_key **at = &k->slot[hash % k->slots];
    while (*at &&
           !((*at)->hash == hash && (*at)->bytes == key.bytes && !memcmp((*at)->key, key.data, key.bytes)))
        at = &(*at)->next;
    return at;
}

static int known_grow(struct fleet_known *k)
{
    size_t slots = k->slots ? 2 * k->slots : SLOTS;
    struct fleet_known_key **slot = calloc(slots, sizeof(*slot));
    if (!slot) return gw_error_errno(-ENOMEM, "fleet");
    for (size_t i = 0; i < k->slots; i++)
        for (struct fleet_known_key *e = k->slot[i], *next; e; e = next) {
            next = e->next;
            e->next = slot[e->hash % slots];
            slot[e->hash % slots] = e;
        }
    free(k->slot);
    k->slot = slot;
    k->slots = slots;
    return 0;
}

int fleet_known_add(struct fleet_known *k, struct fleet_etcd_bytes key)
{
    uint64_t hash = known_hash(key);
    if (k->keys >= k->slots) {
        int err = known_grow(k);
        if (err) return err;
    }
    struct fleet_known_key **at = known_find(k, key, hash);
    if (!*at) {
        *at = malloc(sizeof(**at) + key.bytes);
        if (!*at) return gw_error_errno(-ENOMEM, "fleet");
        **at = (struct fleet_known_key){.hash = hash, .bytes = key.bytes};
        memcpy((*at)->key, key.data, key.bytes);
        k->keys++;
    }
    (*at)->round = k->round;
    return 0;
}

static void known_take(struct fleet_known *k, struct fleet_known_key **at)
{
    struct fleet_known_key *e = *at;
    *at = e->next;
    free(e);
    k->keys--;
}

bool fleet_known_drop(struct fleet_known *k, struct fleet_etcd_bytes key)
{
    struct fleet_known_key **at = k->slots ? known_find(k, key, known_hash(key)) : NULL;
    if (!at || !*at) return false;
    known_take(k, at);
    return true;
}

void fleet_known_next_round(struct fleet_known *k)
{
    k->round++;
}

void fleet_known_sweep(struct fleet_known *k, void (*f)(void *ctx, struct fleet_etcd_bytes key), void *ctx)
{
    for (size_t i = 0; i < k->slots; i++)
        for (struct fleet_known_key **at = &k->slot[i]; *at;) {
            if ((*at)->round == k->round) {
                at = &(*at)->next;
                continue;
            }
            f(ctx, (struct fleet_etcd_bytes){(*at)->key, (*at)->bytes});
            known_take(k, at);
        }
}

void fleet_known_free(struct fleet_known *k)
{
    for (size_t i = 0; i < k->slots; i++)
        while (k->slot[i]) known_take(k, &k->slot[i]);
    free(k->slot);
    *k = (struct fleet_known){0};
}
