/* SPDX-License-Identifier: Apache-2.0 */
/*
 * snapshot.h: a configuration as the cores look things up in it. Publications make one (publication.h), and
 * then it does not change. Any thread that holds one.
 */
#ifndef GW_SRC_BALANCE_SNAPSHOT_H
#define GW_SRC_BALANCE_SNAPSHOT_H

#include <stdbool.h>
#include <stdint.h>

#include "src/balance/address.h"
#include "src/balance/neighbour.h"
#include "src/balance/objects.h"

struct bal_table { /* which worker has a row; shared by publications that do not change it */
    uint32_t users;
    uint32_t rows; /* 1 where there is no choice; bal_table_rows says which */
    uint16_t worker[];
};
/* The worker of a row, which bal_row has counted as if there were BAL_MAGLEV of them. */
static inline const uint16_t *bal_table_at(const struct bal_table *t, uint32_t row)
{
    return &t->worker[(uint32_t)((uint64_t)row * t->rows / BAL_MAGLEV)];
}

struct bal_entry { /* of a hash of addresses and ports */
    struct bal_addr addr;
    uint16_t port;
    uint8_t proto;
    bool used;
    uint16_t value;
};
enum { BAL_VIP_ROWS = 4 * BAL_SERVICES, BAL_BACK_ROWS = 2 * BAL_WORKERS };

struct bal_direct { /* of the services whose address is IPv4's, with a port: nearly all packets are for one */
    uint64_t key;   /* 0: none */
    uint16_t value; /* the service */
};
enum { BAL_DIRECT_BITS = 15, BAL_FEW_SERVICES = 1024 };
_Static_assert(1 << BAL_DIRECT_BITS >= 2 * BAL_SERVICES, "half of the rows are free");

/* A packet on its way to a worker reads this line alone, and nothing of the worker, its service and its
 * port. */
struct bal_way {
    bool keeps; /* the worker serves the flows that it has */
    bool quick; /* a packet goes there with no more than another Ethernet header, or NAT of IPv4; no tag */
    bool nat;   /* and the rest of this struct is right */
    uint8_t via;
    uint16_t service;
    uint16_t most;      /* bytes of an IP packet that fit */
    uint32_t neighbour; /* of the next hop, unless mac_known */
    bool mac_known;
    uint8_t mac[6];
    uint8_t addr[4], port[2];         /* NAT: the new destination */
    uint32_t addr_change, all_change; /* what that adds to IPv4's checksum, and to the transport's */
};

struct bal_snapshot {
    uint64_t generation;
    struct bal_snapshot *older; /* in the list of those to be freed */
    bool has_any_port, has_nat, has_ip6, has_roce;
    uint32_t services; /* how many there are */
    struct bal_config config;
    struct bal_entry vip[BAL_VIP_ROWS];   /* value: the service */
    struct bal_entry back[BAL_BACK_ROWS]; /* a NAT worker's address: the first of the workers there */
    uint16_t next_back[BAL_WORKERS];      /* the next worker at the same address, or BAL_NO_WORKER */
    uint16_t member[BAL_WORKERS];         /* workers by service */
    struct {
        uint16_t first, count;
    } members[BAL_SERVICES];
    struct bal_table *table[BAL_SERVICES];  /* of the workers that are up */
    struct bal_table *stable[BAL_SERVICES]; /* track_moved: of all workers; else NULL */
    struct bal_neighbours *neighbours;
    uint32_t neighbour[BAL_WORKERS]; /* of the worker's next hop; BAL_NO_NEIGHBOUR */
    uint32_t gateway[BAL_PORTS][2];  /* of IPv4 and of IPv6; or BAL_NO_NEIGHBOUR */
    bool no_place;                   /* for a next hop */
    struct bal_direct direct[1 << BAL_DIRECT_BITS];
    struct bal_way way[BAL_WORKERS];
    struct bal_up { /* the workers that may get something new, by service */
        uint16_t worker, weight;
    } up[BAL_WORKERS];
    struct {
        uint16_t first, count;
        bool equal; /* all of them have one weight */
    } ups[BAL_SERVICES];
};

/* A row of a hash of addresses: that of the address, or the free one where it would stand. */
struct bal_entry *bal_entry_at(const struct bal_entry *table, uint32_t rows, const struct bal_entry *like);
void bal_entry_add(struct bal_entry *table, uint32_t rows, const struct bal_entry *entry);

/* The number of the service at an address of 4 or 16 bytes, or -1. */
int bal_find_vip(const struct bal_snapshot *s, uint8_t proto, const uint8_t *addr, bool ipv6, uint16_t port);
static inline uint64_t bal_direct_key(uint8_t proto, const uint8_t addr[4], uint16_t port)
{
    uint32_t a;
    __builtin_memcpy(&a, addr, 4);
    return (uint64_t)a << 32 | (uint64_t)port << 16 | proto;
}
static inline uint32_t bal_direct_row(uint64_t key)
{
    return (uint32_t)(key * 0x9e3779b97f4a7c15u >> (64 - BAL_DIRECT_BITS));
}
/* The number of a service in `direct`, or -1. */
static inline int bal_find_direct(const struct bal_snapshot *s, uint64_t key)
{
    uint32_t i = bal_direct_row(key);
    for (; s->direct[i].key; i = (i + 1) % (1 << BAL_DIRECT_BITS))
        if (s->direct[i].key == key) return s->direct[i].value;
    return -1;
}
/* The first worker at an address, or BAL_NO_WORKER. */
uint16_t bal_find_back(const struct bal_snapshot *s, uint8_t proto, const uint8_t *addr, bool ipv6,
                       uint16_t port);
/* Is it the address of a service, for which the balancer answers? */
bool bal_is_vip(const struct bal_snapshot *s, const struct bal_addr *addr);

static inline bool bal_is_up(const struct bal_snapshot *s, uint16_t w)
{
    return s->config.worker[w].used && s->config.worker[w].state == BAL_UP && s->config.worker[w].weight;
}
/* Does the worker still serve the flows that it has? */
static inline bool bal_keeps(const struct bal_snapshot *s, uint16_t w, uint32_t service)
{
    return w < BAL_WORKERS && s->way[w].keeps && s->way[w].service == service;
}

#endif
