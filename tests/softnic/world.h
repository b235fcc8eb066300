/* SPDX-License-Identifier: Apache-2.0 */
/*
 * world.h: several NICs in one thread, on virtual time and a simulated wire that loses, repeats, delays,
 * reorders and damages frames as a seed says. Nothing here is random but by that seed, so a run can be
 * repeated.
 */
#ifndef TESTS_SOFTNIC_WORLD_H
#define TESTS_SOFTNIC_WORLD_H

#include <stdbool.h>

#include "softnic/nic/nic.h"
#include "tests/rnd.h"

enum { WORLD_NICS = 4, WORLD_INBOX = 4096 };

struct world_faults {
    uint32_t loss, dup, reorder, corrupt; /* per 10,000 frames */
    uint32_t mark;                        /* those that may be: congestion experienced */
    uint32_t refuse;                      /* per 10,000 offers: the wire takes only a part */
    uint64_t delay_ns;                    /* the time that every frame takes */
    uint64_t jitter_ns;                   /* and at most this much more */
    uint64_t reorder_ns;                  /* and at most this much more when it is reordered */
};

struct fake_peers;
struct world;

/* A frame on its way, in a heap by time of arrival. */
struct flight {
    uint64_t at, order;
    struct sn_frame frame;
    struct flight *next; /* in an inbox, or in the list of free ones */
    uint8_t data[SN_FRAME_MAX];
};

struct world_nic {
    struct world *world;
    unsigned index;
    struct sn_nic *nic;
    uint8_t gid[16];
    struct flight *inbox, **inbox_end;
    struct flight *lent; /* what the last receive gave out */
    uint64_t next;       /* when it wants to run */
};

struct world {
    struct rnd rnd;
    uint64_t now, sent;
    struct world_faults faults;
    struct world_nic nics[WORLD_NICS];
    struct flight **heap;
    uint32_t flights, room;
    struct flight *unused;
    bool cut;              /* nothing arrives any more */
    bool inject_offers;    /* what world_inject makes are some */
    bool inject_same_host; /* what world_inject makes comes from this host */
    /* The owner of the slots of all other NICs; unknown at first. */
    struct sn_owner owner;
    unsigned owner_looks;

    /* What callbacks saw. */
    void (*cq_event)(void *cq_user);
    bool (*mad)(unsigned nic, const uint8_t sgid[16],
                uint8_t mad[SN_MAD_LEN]); /* as in struct sn_nic_config */
    unsigned events[32];                  /* by enum ibv_event_type */
    void *event_user;                     /* of the last */
    unsigned reports, warnings;           /* of the reports: such as everybody sees */
    char report[4096];                    /* the last ones, each with a newline */
    bool verbose;                         /* reports go to stdout */
};

struct world_options {
    uint64_t seed;
    struct fake_peers *peers; /* what they are to each other on one host, or NULL */
    bool hostile, same_address, loop_on_wire, no_ecn;
    uint32_t window_packets, window_bytes, budget, max_mtu, rndv_min;
    uint64_t probe_ns;
    int (*secret)(void *to, size_t len); /* as in struct sn_nic_config */
    unsigned only;                       /* 1 + a NIC: of the others there are but the addresses */
};

void world_up(struct world *w, const struct world_options *o);
void world_down(struct world *w); /* all objects are destroyed already */

/* Runs NIC i once, now. */
void world_run(struct world *w, unsigned i);
/* Has some NIC something to do before time moves on? */
bool world_busy(const struct world *w);
/* Moves time to where the next frame arrives or timer runs out, by max_ns at most. false: nothing is pending
 * at all. */
bool world_advance(struct world *w, uint64_t max_ns);
/* Runs all until nothing is left to do, or that time has passed. For tests without faults. */
void world_settle(struct world *w, uint64_t max_ns);

/* Frames as they would come from elsewhere: garbage goes straight to NIC i. src may be NULL: NIC 0's address.
 */
void world_inject(struct world *w, unsigned i, const uint8_t *src_gid, uint16_t sport, const void *data,
                  uint32_t len);

uint32_t world_below(struct world *w, uint32_t n);
bool world_chance(struct world *w, uint32_t of_10000);

#endif
