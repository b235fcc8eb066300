/* SPDX-License-Identifier: Apache-2.0 */
/* step.h: one packet on its way through a core, and what every part of that way shares. */
#ifndef GW_SRC_BALANCE_STEP_H
#define GW_SRC_BALANCE_STEP_H

#include "src/balance/balance.h"
#include "src/balance/choose.h"
#include "src/balance/parse.h"
#include "src/balance/states.h"

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

/* One in this number of packets proves a flow whose answers we do not see. A stranger would have to send as
 * many. */
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

static inline struct gw_flow_table *bal_table_of(const struct bal_core *c, const struct bal_work *w)
{
    return w->where == BAL_NARROW ? c->narrow : c->wide;
}
static inline const void *bal_key_of(const struct bal_work *w)
{
    return w->where == BAL_NARROW ? (const void *)&w->narrow : &w->wide;
}

/* ---- how a packet's way ends here ---- */

/* It is dropped, and counted. */
void bal_drop(struct bal_core *core, struct bal_work *w, enum bal_drop why);
/* Another core has its flow, or may have it. */
void bal_pass(struct bal_work *w, uint32_t core);
/* Which core has the flows of a client that more than one core may see. */
uint32_t bal_owner(const struct bal_core *core, const uint8_t *client, bool ipv6, uint16_t port);

/* ---- the tables ---- */

/* Is the table of the packet's key nearly full? */
bool bal_is_crowded(const struct bal_core *core, const struct bal_work *w);
/* A flow was opened: counts it. */
static inline void bal_opened(struct bal_core *core, uint16_t worker)
{
    bal_count(&core->counters->opened, 1);
    bal_count(&core->counters->worker[worker].opened, 1);
    bal_chosen(core, worker);
}

/* Packets of a burst are looked up all at once, and one may change another's flow. So keys have classes, and
 * a core notes in which classes a flow has changed. */
static inline uint32_t bal_class_of(const struct bal_work *w)
{
    uint64_t h = w->where == BAL_NARROW ? w->narrow : w->wide.x + ((uint64_t)w->wide.service << 32);
    return (uint32_t)((h ^ h >> 32) * 0x9e3779b97f4a7c15u >> 32) % BAL_CLASSES;
}
/* The packet's flow has changed. */
static inline void bal_mark_changed(struct bal_core *core, const struct bal_work *w)
{
    uint32_t c = bal_class_of(w);
    core->burst.any_changed = true;
    core->burst.changed[c / 64] |= UINT64_C(1) << c % 64;
}
/* Any flow may have changed. */
void bal_mark_all_changed(struct bal_core *core);
/* Looks again where an earlier packet of the burst may have changed this one's flow. `slot`: also where it
 * may have moved the flow. */
static inline void bal_refresh(struct bal_core *core, struct bal_work *w, bool slot)
{
    uint32_t c = core->burst.any_changed ? bal_class_of(w) : 0;
    bool changed = core->burst.changed[c / 64] >> c % 64 & 1;
    if (!changed && !(slot && core->burst.inserted)) return;
    gw_flow_lookup_bulk(bal_table_of(core, w), bal_key_of(w), 1, &w->found);
}

/* ---- frames of the balancer's own ---- */

/* One to be filled; NULL: too many wait. */
struct bal_frame *bal_new_frame(struct bal_core *core, uint8_t port);
/* Frames that the core sends by itself: moves up to n of them out. Call it after each burst, and when there
 * is none. */
size_t bal_core_frames(struct bal_core *core, struct bal_frame *out, size_t n);

#endif
