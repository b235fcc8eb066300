/* SPDX-License-Identifier: Apache-2.0 */
/* leases.c: leases, and the numbers by which the loop knows their clients. A client is found by a hash
 * of its id, which is random. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "src/fleet/real/impl.h"

#define LEASE_TRIES    1000
#define LEASE_PAUSE_NS 20000
#define OWNER_NONE     UINT32_MAX

/* ---- clients ---- */

static uint32_t *owner_bucket(const struct real *r, const uint8_t id[FLEET_ID])
{
    uint32_t hash;

    memcpy(&hash, id, sizeof(hash));
    return &r->bucket[hash & (r->owner_room - 1)];
}

/* Twice the room, and a new order by hash. */
static int owners_grow(struct real *r)
{
    uint32_t room = r->owner_room ? 2 * r->owner_room : 64;
    struct real_owner *owner = (struct real_owner *)realloc(r->owner, room * sizeof(*owner));
    uint32_t *bucket = owner ? (uint32_t *)malloc(room * sizeof(*bucket)) : NULL;

    if (owner) r->owner = owner;
    if (!bucket) return -ENOMEM;
    free(r->bucket);
    r->bucket = bucket;
    memset(bucket, 0xff, room * sizeof(*bucket));
    for (uint32_t i = r->owner_room; i < room; i++) {
        r->owner[i] = (struct real_owner){.next = r->free_owner};
        r->free_owner = i;
    }
    r->owner_room = room;
    for (uint32_t i = 0; i < room; i++) {
        if (!r->owner[i].users) continue;
        uint32_t *b = owner_bucket(r, r->owner[i].id);
        r->owner[i].next = *b;
        *b = i;
    }
    return 0;
}

static uint32_t owner_take(struct real *r, const uint8_t id[FLEET_ID])
{
    uint32_t i = r->owner_room ? *owner_bucket(r, id) : OWNER_NONE;

    while (i != OWNER_NONE && memcmp(r->owner[i].id, id, FLEET_ID)) i = r->owner[i].next;
    if (i == OWNER_NONE) {
        if (r->free_owner == OWNER_NONE && owners_grow(r)) return OWNER_NONE;
        i = r->free_owner;
        r->free_owner = r->owner[i].next;
        uint32_t *b = owner_bucket(r, id);
        memcpy(r->owner[i].id, id, FLEET_ID);
        r->owner[i].next = *b;
        *b = i;
    }
    r->owner[i].users++;
    return i;
}

uint32_t real_owner_take(struct real *r, const uint8_t id[FLEET_ID])
{
    pthread_mutex_lock(&r->clients);
    uint32_t i = owner_take(r, id);
    pthread_mutex_unlock(&r->clients);
    return i;
}

void real_owner_drop(struct real *r, uint32_t owner)
{
    pthread_mutex_lock(&r->clients);
    if (!--r->owner[owner].users) {
        uint32_t *at = owner_bucket(r, r->owner[owner].id);
        while (*at != owner) at = &r->owner[*at].next;
        *at = r->owner[owner].next;
        r->owner[owner].next = r->free_owner;
        r->free_owner = owner;
    }
    pthread_mutex_unlock(&r->clients);
}

/* ---- leases ---- */

/* The loop takes what it is told between two batches. */
static int lease_tell(struct real *r, uint32_t number, const struct gw_many_lease *l)
{
    int err = -EAGAIN;

    for (int i = 0; i < LEASE_TRIES && err == -EAGAIN; i++) {
        if (i) nanosleep(&(struct timespec){0, LEASE_PAUSE_NS}, NULL);
        pthread_mutex_lock(&r->host);
        err = l ? gw_many_lease(r->many, number, l) : gw_many_lease_end(r->many, number);
        pthread_mutex_unlock(&r->host);
    }
    return err;
}

static int lease_end(struct real *r, struct real_lease *at, uint32_t number)
{
    int err = at->is.key ? lease_tell(r, number, NULL) : 0;

    if (!err && at->is.key) real_owner_drop(r, at->owner);
    if (!err) at->is.key = 0;
    return err;
}

int real_set_lease(struct fleet_engine *e, const struct fleet_lease *l, int64_t until_at)
{
    struct real *r = real_of(e);
    bool number = l->lease < r->o.leases;
    uint32_t models = real_models(r);

    if (!number || (until_at && (l->model >= models || !l->key || !l->slots)))
        return gw_error(-EINVAL, "no such lease, model, key or slots");
    struct real_lease *at = &r->lease[l->lease];
    if (!until_at) return lease_end(r, at, l->lease);
    uint32_t owner = real_owner_take(r, l->client);
    if (owner == OWNER_NONE) return gw_error(-ENOMEM, "no memory for one more client");
    const struct gw_many_lease is = {.key = l->key,
                                     .owner = owner,
                                     .model = l->model,
                                     .slots = l->slots,
                                     .max_batch = l->max_batch,
                                     .rate = l->rate > 0 ? (double)l->rate : 0,
                                     .until_ns = (uint64_t)until_at};
    int err = lease_tell(r, l->lease, &is);
    if (err) {
        real_owner_drop(r, owner);
        return err;
    }
    if (at->is.key) real_owner_drop(r, at->owner);
    *at = (struct real_lease){*l, owner};
    return 0;
}
