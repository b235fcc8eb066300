/* SPDX-License-Identifier: Apache-2.0 */
/* Counts slots by the names of those who use them: a hash table whose entries were made ahead. */
#include "src/generate/client/owners.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <gpuwire/detail/assert.h>

int gen_owners_make(struct gen_owners *o, uint32_t n)
{
    uint32_t buckets = 4;
    n++; /* one that finds that it may have no slot has none yet */
    while (buckets < n) buckets *= 2;
    o->mask = buckets - 1;
    o->all = calloc(n, sizeof(*o->all));
    o->bucket = calloc(buckets, sizeof(*o->bucket));
    if (!o->all || !o->bucket) return -ENOMEM;
    for (uint32_t i = 0; i < n; i++) {
        o->all[i].next = o->free;
        o->free = &o->all[i];
    }
    return 0;
}

void gen_owners_free(struct gen_owners *o)
{
    free(o->all);
    free(o->bucket);
    memset(o, 0, sizeof(*o));
}

/* FNV-1a: names are short, and a client cannot choose its own. */
static struct gen_owner **owners_bucket(struct gen_owners *o, const char *who)
{
    uint32_t h = 2166136261u;
    for (const char *p = who; *p; p++) h = (h ^ (uint8_t)*p) * 16777619u;
    return &o->bucket[h & o->mask];
}

struct gen_owner *gen_owner_find(struct gen_owners *o, const char *who)
{
    char name[GW_WHO_TEXT];
    snprintf(name, sizeof(name), "%s", who ? who : "");
    struct gen_owner **bucket = owners_bucket(o, name), *e;
    for (e = *bucket; e; e = e->next)
        if (!strcmp(e->who, name)) return e;
    e = o->free;
    GW_ASSERT(e);
    o->free = e->next;
    memcpy(e->who, name, sizeof(name));
    e->slots = 0;
    e->next = *bucket;
    *bucket = e;
    return e;
}

void gen_owner_give(struct gen_owners *o, struct gen_owner *owner)
{
    if (owner->slots && --owner->slots) return;
    struct gen_owner **link = owners_bucket(o, owner->who);
    while (*link != owner) link = &(*link)->next;
    *link = owner->next;
    owner->next = o->free;
    o->free = owner;
}
