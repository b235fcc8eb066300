/* SPDX-License-Identifier: Apache-2.0 */
/*
 * balance.h: the balancer as its own files see it, and the step of the data plane.
 *
 * A core parses a burst of packets, finds their flows, moves the flows' states on, and changes the packets so
 * that they can be sent. It knows nothing of where packets come from: run_dpdk.c reads them from devices,
 * tests and benchmarks from memory.
 */
#ifndef GW_SRC_BALANCE_BALANCE_H
#define GW_SRC_BALANCE_BALANCE_H

#include <pthread.h>

#include <gpuwire/flow.h>

#include "src/balance/neighbour.h"
#include "src/balance/parse.h"
#include "src/balance/services.h"
#include "src/balance/states.h"

/* ---- what a publication makes of a configuration ---- */

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

/* Makes one; `last`, which may be NULL, lends tables that have not changed. bal_publish's errors. */
int bal_snapshot_make(struct bal *bal, const struct bal_config *config, const struct bal_snapshot *last,
                      struct bal_snapshot **out, char *error, size_t size);
void bal_snapshot_free(struct bal_snapshot *s);
/* Fills direct, way and up from the rest of a snapshot. */
void bal_make_ways(struct bal_snapshot *s);

/* Where packets to an address go from a port: to itself, or to the gateway if that may be. false: nowhere. */
bool bal_route(const struct bal_port *p, const struct bal_addr *to, bool gateway, struct bal_addr *hop);

/* The number of the service at an address of 4 or 16 bytes, or -1. */
int bal_find_vip(const struct bal_snapshot *s, uint8_t proto, const uint8_t *addr, bool ipv6, uint16_t port);
/* The number of a service in `direct`, or -1. */
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

static inline bool bal_same_addr(const struct bal_addr *a, const struct bal_addr *b)
{
    if (a->family != b->family) return false;
    return a->family == 4 ? !__builtin_memcmp(a->byte, b->byte, 4) : !__builtin_memcmp(a->byte, b->byte, 16);
}
static inline struct bal_addr bal_addr_of(const uint8_t *p, bool ipv6)
{
    struct bal_addr a = {.family = ipv6 ? 6 : 4};
    __builtin_memcpy(a.byte, p, ipv6 ? 16 : 4);
    return a;
}
/* A step of a hash: both halves of the product. `b` is odd, or random. */
static inline uint64_t bal_mix(uint64_t a, uint64_t b)
{
    unsigned __int128 p = (unsigned __int128)a * b;
    return (uint64_t)p ^ (uint64_t)(p >> 64);
}

/* "10.0.0.1", "fd00::1". */
#define BAL_ADDR_TEXT 46
const char *bal_addr_text(const struct bal_addr *addr, char text[BAL_ADDR_TEXT]);

/* ---- rows of Maglev ---- */

struct bal_candidate {
    uint16_t worker;
    bool up;
    uint32_t weight;
    uint64_t name; /* a hash of its address and port, the same on each balancer */
};
/* Fills rows with weighted Maglev: each candidate gets its share, and a change moves few of the others' rows.
 * `rows` is a prime, or 1 where there is one candidate at most. -ENOMEM. */
int bal_maglev(const struct bal_candidate *c, uint32_t n, uint64_t seed, uint16_t *row, uint32_t rows);
struct bal_rows {
    uint16_t *up, *all; /* of the candidates that are up; of all, or NULL */
    uint32_t count;
};
/* The same by weighted rendezvous: a candidate more or less moves its own rows and no other. */
void bal_rendezvous(const struct bal_candidate *c, uint32_t n, uint64_t seed, const struct bal_rows *rows);

/* ---- a core ---- */

struct bal_counters {
    struct {
        _Atomic uint64_t packets, bytes, opened, live, held, clients;
    } worker[BAL_WORKERS];
    _Atomic uint64_t received, received_bytes, packets, bytes, answered, opened, expired, evicted, moved,
        stateless, live;
    _Atomic uint64_t drop[BAL_DROPS];
};
/* Only its core writes a counter, so that no read-modify-write needs to be atomic. Readers want no order. */
static inline void bal_count(_Atomic uint64_t *c, uint64_t n)
{
    atomic_store_explicit(c, atomic_load_explicit(c, memory_order_relaxed) + n, memory_order_relaxed);
}

enum bal_verdict {
    BAL_SEND,    /* from port, as it is now */
    BAL_DISCARD, /* it has been counted */
    BAL_PASS,    /* give it to another core, unchanged */
};

struct bal_packet {
    uint8_t *data;     /* its Ethernet header; moves when headers are added or taken off */
    uint32_t len;      /* bytes from data */
    uint32_t headroom; /* bytes in front of data that may be written; 64 are enough for everything */
    uint8_t port;      /* in: where it came from; out: where it goes to */
    uint8_t hops;      /* cores that it has been passed to */
    uint8_t core;      /* out, BAL_PASS: the core that has its flow, or may have it */
    uint8_t verdict;   /* out: enum bal_verdict */
};

struct bal_frame { /* one that the balancer itself sends */
    uint8_t port;
    uint8_t len;
    uint8_t data[110];
};

enum {
    BAL_BURST = 64,
    BAL_OUTBOX = 64,
    BAL_RING = 8192,
    BAL_QPNS = 16384,
    BAL_SEQS = 16384,
    BAL_DUE_ROWS = 1024
};

/* A queue with one writer and one reader. */
struct bal_ring {
    _Atomic uint32_t head, tail;
    struct bal_record record[BAL_RING];
};

struct bal_choice {                /* what a core remembers for choosing */
    uint32_t next[BAL_SERVICES];   /* rr; where lc begins to look */
    int64_t credit[BAL_WORKERS];   /* wrr */
    uint64_t seen_ns[BAL_WORKERS]; /* the telemetry's time when `since` began */
    uint32_t since[BAL_WORKERS];   /* flows opened since then */
    uint64_t bytes[BAL_WORKERS];   /* bytes forwarded since then; without telemetry: of late */
    uint64_t random;
};

enum { BAL_CLASSES = 512 };

/* What happened to the tables in this burst: what was found before may have moved, or be in another state. */
struct bal_burst {
    bool inserted, any_changed;
    uint64_t packets, bytes;            /* forwarded: counted at its end */
    uint64_t changed[BAL_CLASSES / 64]; /* a bit for each class of keys */
};

struct bal_core {
    struct bal *bal;
    const struct bal_snapshot *snap;
    struct gw_flow_table *narrow, *wide; /* keys of 8 bytes, and of BAL_WIDE_KEY */
    const uint32_t *count[2];            /* of their flows, by worker */
    struct bal_counters *counters;
    uint32_t index;
    uint64_t now_ns, kept_ns, fed_ns;
    uint64_t due_ns[BAL_DUE_ROWS], due_all_ns; /* refuse.c: when senders may be told more */
    uint64_t probed_ns;                        /* when a worker was last asked about a RST */
    struct bal_burst burst;
    struct bal_choice choice;
    struct bal_frame outbox[BAL_OUTBOX];
    uint32_t outbox_used;
    struct bal_ring *feed, *inbox;
    struct bal_clients *clients; /* persist.h */
    /* VIPs: the publication, how many ports times services are left, and which one is next */
    uint64_t announced, announce_left, announce_at;
    uint64_t scan_at[2]; /* cursors of the feed's rounds over both tables */
    struct {
        uint32_t tag, qpn;
    } qpn_of[BAL_QPNS]; /* CM's communication IDs: the worker's queue pair. Newer ones take the place of older
                           ones */
    struct {
        uint32_t tag, seq;
    } seq_of[BAL_SEQS]; /* sequence.h */
};

struct bal {
    struct bal_attr attr;
    _Atomic(struct bal_snapshot *) snap;
    struct bal_snapshot *old; /* not yet freed */
    uint64_t seed[2];         /* of this start: strangers cannot aim at a place of a hash */
    uint64_t generation;
    _Atomic uint64_t seen[BAL_CORES]; /* the publication that a core looks at; BAL_OFFLINE */
    _Atomic bool stop, feeding;
    struct bal_neighbours *neighbours;
    _Atomic uint64_t port_mac[BAL_PORTS]; /* in its first six bytes */
    _Atomic bool any_mac[BAL_PORTS];      /* frames to other MACs are taken, too */
    struct {
        _Atomic uint64_t when_ns, bytes;
        _Atomic uint32_t queue_depth;
    } load[BAL_WORKERS];
    struct bal_core *core[BAL_CORES];
};
#define BAL_OFFLINE UINT64_MAX

/* The MAC of a port, which is known when its device is open. Frames to others are dropped, unless `any`: a
 * file of packets has no MAC. */
void bal_set_port_mac(struct bal *bal, uint32_t port, const uint8_t mac[6], bool any);
static inline void bal_port_mac(const struct bal *bal, uint32_t port, uint8_t mac[6])
{
    uint64_t v = atomic_load_explicit(&bal->port_mac[port], memory_order_relaxed);
    __builtin_memcpy(mac, &v, 6);
}

/* A core begins and ends: between these one thread calls the functions below. */
struct bal_core *bal_core_begin(struct bal *bal, uint32_t index);
void bal_core_end(struct bal_core *core);

/* Before a core goes on to another publication: forgets flows of workers whose numbers others have there. */
void bal_purge(struct bal_core *core, const struct bal_snapshot *next);

/* Looks at the time and the newest publication; the one before is not read any more. The two below do so. */
void bal_core_look(struct bal_core *core, uint64_t now_ns);

/*
 * Takes n packets from parsing to forwarding. Each gets its verdict. now_ns: CLOCK_MONOTONIC, or a simulated
 * clock that does not go back.
 */
void gw_balance_burst(struct bal_core *core, struct bal_packet *packets, size_t n, uint64_t now_ns);
/* What the core wants to send by itself: moves up to n frames out. Call it after each burst, and when there
 * is none. */
size_t bal_core_frames(struct bal_core *core, struct bal_frame *out, size_t n);
/* Housekeeping, after each burst and when there is none: frees flows, resolves next hops, tells the feed. */
void bal_core_keep(struct bal_core *core, uint64_t now_ns);

/* ---- choosing (choose.c) ---- */

/* The row of a client in Maglev's tables. */
uint32_t bal_row(const struct bal_snapshot *s, uint32_t service, const uint8_t *addr, bool ipv6,
                 uint16_t port);
/* The worker of a new flow, or BAL_NO_WORKER. */
uint16_t bal_choose(struct bal_core *core, uint32_t service, uint32_t row);
/* Below n, from what no stranger knows. */
uint32_t bal_random_below(struct bal_choice *c, uint32_t n);
/* Tells the choice that a flow was opened. */
void bal_chosen(struct bal_core *core, uint16_t worker);

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
