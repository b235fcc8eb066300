/* SPDX-License-Identifier: Apache-2.0 */
/* step.h: one packet on its way through a core; shared by the files that do a part of the way. */
#ifndef GW_SRC_BALANCE_STEP_H
#define GW_SRC_BALANCE_STEP_H

#include "src/balance/balance.h"

enum bal_wide_kind {
    BAL_W_FLOW = 1, /* TCP and UDP: client, x: its port << 16 | the VIP's */
    BAL_W_QP,       /* client, x: the destination's queue pair */
    BAL_W_PEER,     /* client: where it is connecting to, when answers cannot be seen */
    BAL_W_CM,       /* client, x: the communication ID that it chose */
    BAL_W_DATAGRAM, /* client */
    BAL_W_FRAGMENT, /* source, y: destination, x: number of the packet, more: protocol */
};

struct bal_wide {
    uint8_t client[16], y[16];
    uint32_t x;
    uint16_t service;
    uint8_t kind;
    uint8_t more;
};
_Static_assert(sizeof(struct bal_wide) == GW_FLOW_KEY_MAX, "a wide key fills the table's");

/* An IPv4 client's address, its port, and the service: together as wide as a table's short key. */
static inline uint64_t bal_narrow_key(const uint8_t addr[4], uint16_t port, uint32_t service)
{
    uint32_t a;
    __builtin_memcpy(&a, addr, 4);
    return (uint64_t)a << 32 | (uint64_t)port << 16 | service;
}
static inline struct bal_wide bal_wide_key(enum bal_wide_kind kind, const uint8_t *addr, bool ipv6,
                                           uint32_t service, uint32_t x)
{
    struct bal_wide k = {.kind = (uint8_t)kind, .service = (uint16_t)service, .x = x};
    __builtin_memcpy(k.client, addr, ipv6 ? 16 : 4);
    return k;
}

enum bal_where { BAL_NOWHERE, BAL_NARROW, BAL_WIDE };

/* One in so many packets proves a flow whose answers nobody sees. A stranger would have to send as many. */
enum { BAL_LOT = 16 };

struct bal_work {
    struct bal_packet *p;
    struct bal_meta m;
    uint8_t where; /* enum bal_where: the table of its key; BAL_NOWHERE: its verdict stands */
    uint8_t side;  /* enum bal_side */
    bool roce;     /* for a RoCE service: rdma.c takes it */
    uint16_t service;
    uint16_t back; /* BAL_FROM_WORKER: the first worker at its address */
    uint16_t client_port;
    const uint8_t *client; /* its address, in the packet */
    uint64_t narrow;
    struct bal_wide wide;
    struct gw_flow found;
};

/*
 * Some entries of a table are not connections: a connection that CM is still opening, a fragment whose rest
 * is on its way. They are counted for another worker of the table's, so that they are no live connections.
 */
static inline uint32_t bal_beside(uint16_t worker)
{
    return (uint32_t)worker + BAL_WORKERS;
}
static inline uint16_t bal_worker_of(uint16_t entry)
{
    return entry % BAL_WORKERS;
}
_Static_assert(2 * BAL_WORKERS <= GW_FLOW_WORKERS, "a table has room for both kinds");

static inline struct gw_flow_table *bal_table_of(const struct bal_core *c, const struct bal_work *w)
{
    return w->where == BAL_NARROW ? c->narrow : c->wide;
}
static inline const void *bal_key_of(const struct bal_work *w)
{
    return w->where == BAL_NARROW ? (const void *)&w->narrow : &w->wide;
}

/* Is the table of the packet's key nearly full? */
bool bal_is_crowded(const struct bal_core *core, const struct bal_work *w);
/* A frame of the balancer's own, to be filled; NULL: too many wait. */
struct bal_frame *bal_new_frame(struct bal_core *core, uint8_t port);
/* A flow was opened: counts it. */
void bal_opened(struct bal_core *core, uint16_t worker);
/* Ends a packet's way: it is dropped, and counted. */
void bal_drop(struct bal_core *core, struct bal_work *w, enum bal_drop why);
/* Sends the packet to a worker as the service says. */
void bal_to_worker(struct bal_core *core, struct bal_work *w, uint16_t worker);
/* Sends a worker's packet to its client, as if it came from the VIP. */
void bal_to_client(struct bal_core *core, struct bal_work *w, uint16_t worker);
/* Later fragments of this packet go to the same worker. */
void bal_note_fragment(struct bal_core *core, struct bal_work *w, uint16_t worker);

/* Is it an address of the balancer's on the port, or of a service? */
bool bal_is_ours(const struct bal_core *core, uint32_t port, const struct bal_addr *addr);
/* What is for the balancer itself: ARP, neighbour discovery, ping. */
void bal_for_us(struct bal_core *core, struct bal_work *w);
/* Asks who has the address of an entry, if it is time to. */
void bal_ask(struct bal_core *core, uint32_t neighbour);

/* RoCE: which key a packet is looked up by; then its way. */
void bal_roce_key(struct bal_core *core, struct bal_work *w);
void bal_roce(struct bal_core *core, struct bal_work *w);

/* Which core has the flows of a client that more than one core may see. */
uint32_t bal_owner(const struct bal_core *core, const uint8_t *client, bool ipv6, uint16_t port);

/* Tells the feed of a flow. */
void bal_tell(struct bal_core *core, enum bal_where where, const void *key, uint16_t worker, uint8_t state);
enum { BAL_ENDED = 0xff };

#endif
