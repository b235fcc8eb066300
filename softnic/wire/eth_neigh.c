/* SPDX-License-Identifier: Apache-2.0 */
/* The table of stations' MAC addresses. */
#include "softnic/wire/eth_neigh.h"

#include <string.h>

static struct sn_neigh_entry *set_of(struct sn_neigh *n, const uint8_t gid[16])
{
    uint64_t half[2], h;

    memcpy(half, gid, 16);
    h = (half[0] ^ n->salt) * 0x9e3779b97f4a7c15u;
    h = (h ^ half[1] ^ h >> 32) * 0xbf58476d1ce4e5b9u;
    return n->entry[h >> 58];
}

static struct sn_neigh_entry *lookup(struct sn_neigh *n, const uint8_t gid[16])
{
    struct sn_neigh_entry *set = set_of(n, gid);

    for (int i = 0; i < SN_NEIGH_WAYS; i++) {
        if (set[i].used && memcmp(set[i].gid, gid, 16) == 0) return &set[i];
    }
    return NULL;
}

/* A new entry, in place of the one whose last use is longest ago. */
static struct sn_neigh_entry *insert(struct sn_neigh *n, const uint8_t gid[16], uint64_t now)
{
    struct sn_neigh_entry *set = set_of(n, gid), *e = set;

    for (int i = 0; i < SN_NEIGH_WAYS && e->used; i++) {
        if (!set[i].used || set[i].at_use < e->at_use) e = &set[i];
    }
    memset(e, 0, sizeof(*e));
    memcpy(e->gid, gid, 16);
    e->used = true;
    e->at_use = now;
    return e;
}

const uint8_t *sn_neigh_find(struct sn_neigh *n, const uint8_t gid[16], uint64_t now, bool *ask)
{
    struct sn_neigh_entry *e = lookup(n, gid);
    bool fresh = e != NULL;

    if (!e) e = insert(n, gid, now);
    e->at_use = now;
    if (e->known && now - e->confirmed > SN_NEIGH_DEAD_NS) e->known = false;
    *ask = !fresh || (!e->known && now - e->asked >= SN_NEIGH_ASK_NS) ||
           (e->known && now - e->confirmed > SN_NEIGH_STALE_NS && now - e->asked >= SN_NEIGH_ASK_NS);
    if (*ask) e->asked = now;
    return e->known ? e->mac : NULL;
}

bool sn_neigh_learn(struct sn_neigh *n, const uint8_t gid[16], const uint8_t mac[6], uint64_t now,
                    bool create)
{
    struct sn_neigh_entry *e = lookup(n, gid);
    bool waited;

    if (!e && !create) return false;
    if (!e) e = insert(n, gid, now);
    waited = !e->known;
    memcpy(e->mac, mac, 6);
    e->known = true;
    e->confirmed = now;
    return waited;
}

void sn_neigh_confirm(struct sn_neigh *n, const uint8_t gid[16], const uint8_t mac[6], uint64_t now)
{
    struct sn_neigh_entry *e = lookup(n, gid);

    if (e && e->known && memcmp(e->mac, mac, 6) == 0) e->confirmed = now;
}
