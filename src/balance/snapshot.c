/* SPDX-License-Identifier: Apache-2.0 */
/* Two hashes of addresses: which service has one, and which workers. */
#include "src/balance/snapshot.h"

#include <string.h>

static uint32_t snapshot_hash(uint8_t proto, const uint8_t *addr, bool ipv6, uint16_t port, uint32_t rows)
{
    uint64_t a[2] = {0}, h = (uint64_t)proto << 16 | port;
    uint32_t short_one;
    if (ipv6) {
        memcpy(a, addr, 16);
    } else {
        memcpy(&short_one, addr, 4);
        a[0] = short_one;
    }
    h = (h ^ a[0]) * 0x9e3779b97f4a7c15u;
    h = (h ^ h >> 32 ^ a[1]) * 0xd6e8feb86659fd93u;
    return (uint32_t)((h >> 32) * rows >> 32);
}

static bool snapshot_is_at(const struct bal_entry *e, uint8_t proto, const uint8_t *addr, bool ipv6,
                           uint16_t port)
{
    if (e->port != port || e->proto != proto || e->addr.family != (ipv6 ? 6 : 4)) return false;
    return ipv6 ? !memcmp(e->addr.byte, addr, 16) : !memcmp(e->addr.byte, addr, 4);
}

/* The row of an address, or the free one where it would stand. */
static struct bal_entry *snapshot_find(const struct bal_entry *table, uint32_t rows, uint8_t proto,
                                       const uint8_t *addr, bool ipv6, uint16_t port)
{
    uint32_t i = snapshot_hash(proto, addr, ipv6, port, rows);
    while (table[i].used && !snapshot_is_at(&table[i], proto, addr, ipv6, port)) i = i + 1 < rows ? i + 1 : 0;
    return (struct bal_entry *)&table[i];
}

int bal_find_vip(const struct bal_snapshot *s, uint8_t proto, const uint8_t *addr, bool ipv6, uint16_t port)
{
    const struct bal_entry *e = snapshot_find(s->vip, BAL_VIP_ROWS, proto, addr, ipv6, port);
    if (!e->used && s->has_any_port) e = snapshot_find(s->vip, BAL_VIP_ROWS, proto, addr, ipv6, 0);
    return e->used ? e->value : -1;
}

uint16_t bal_find_back(const struct bal_snapshot *s, uint8_t proto, const uint8_t *addr, bool ipv6,
                       uint16_t port)
{
    const struct bal_entry *e = snapshot_find(s->back, BAL_BACK_ROWS, proto, addr, ipv6, port);
    if (!e->used)
        e = snapshot_find(s->back, BAL_BACK_ROWS, proto, addr, ipv6, 0); /* of a service on any port */
    return e->used ? e->value : BAL_NO_WORKER;
}

bool bal_is_vip(const struct bal_snapshot *s, const struct bal_addr *addr)
{
    return snapshot_find(s->vip, BAL_VIP_ROWS, 0, addr->byte, addr->family == 6, 0)->used;
}

struct bal_entry *bal_entry_at(const struct bal_entry *table, uint32_t rows, const struct bal_entry *like)
{
    return snapshot_find(table, rows, like->proto, like->addr.byte, like->addr.family == 6, like->port);
}

void bal_entry_add(struct bal_entry *table, uint32_t rows, const struct bal_entry *entry)
{
    struct bal_entry *e = bal_entry_at(table, rows, entry);
    *e = *entry;
    e->used = true;
}
