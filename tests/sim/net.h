/* SPDX-License-Identifier: Apache-2.0 */
/*
 * net.h: a network on virtual time between simulated NICs. By seeded chance it delays, loses, doubles,
 * reorders and damages frames, and adds forged ones. A connection that gets stuck is the NICs' fault, since
 * seven retries always get through. The network harms no request more than NET_HARM times, with its
 * repetitions, and at most NET_HARM answers to a queue pair in a row. (To bound what befalls each answer is
 * not enough: one acknowledgement stands for several requests, so that each repetition may get a new one.)
 */
#ifndef TESTS_SIM_NET_H
#define TESTS_SIM_NET_H

#include <stdbool.h>
#include <stdint.h>

#include "softnic/nic/nic.h"
#include "tests/rnd.h"

enum {
    NET_FORGED = 77,
    /* last byte of the address that forged frames come from */ NET_NODES = 4,
    NET_POOL = 2048,
    NET_HARM = 3,
    NET_HARM_KEYS = 4096,
    NET_ROWS = 256,
    NET_HELD = 256
};

struct net_params {
    /* Per 10,000 frames. */
    uint32_t loss, dup, reorder, corrupt, forge, refuse, ecn;
    uint64_t latency, jitter; /* ns */
    uint64_t behind;          /* the most that a frame that is overtaken, or a second copy, is late */
    bool has_ip_id, odd_ip_id, ipv6;
};

struct net_frame {
    struct sn_frame f;
    uint8_t data[SN_FRAME_MAX];
};

struct net_due {
    uint64_t due, seq;
    struct net_frame *frame;
};

struct net_port {
    struct net *net;
    uint32_t node;
    bool dead;                     /* takes frames, and nothing reaches it */
    struct net_due heap[NET_POOL]; /* frames on their way to this node, the earliest first */
    uint32_t count;
    struct net_frame *held[NET_HELD]; /* handed out by the last receive */
    uint32_t held_count;
    uint64_t last_due[NET_NODES]; /* by source: what is not reordered stays in order */
};

struct net_row { /* answers to a queue pair that were harmed, one after the other */
    uint32_t to, qpn, harmed;
};

struct net {
    struct net_params params;
    struct rnd rnd;
    const uint64_t *now;
    uint64_t seq;
    struct net_port port[NET_NODES];
    uint8_t gid[NET_NODES][16];
    struct net_frame pool[NET_POOL];
    uint16_t unused[NET_POOL]; /* a stack, so that only frames that are used are touched */
    uint32_t unused_count;
    uint8_t harm[NET_HARM_KEYS];
    struct net_row row[NET_ROWS];
    uint32_t rows;
    bool inject_offers; /* what net_inject makes are some */
    uint64_t sent, lost, doubled, reordered, corrupted, forged;
};

extern const struct sn_wire_ops net_wire_ops; /* context: a struct net_port */

/* Makes it new. now points at the clock. */
void net_reset(struct net *net, const struct net_params *params, uint64_t seed, const uint64_t *now);
/* When the next frame is due at a node; UINT64_MAX if none is under way. */
uint64_t net_next(const struct net *net, uint32_t node);
/* Puts a frame on its way to a node at once and unharmed: for tests that play a peer. fix: give it the right
 * ICRC. */
void net_inject(struct net *net, uint32_t to, const uint8_t src_gid[16], const void *data, uint32_t len,
                bool fix);

#endif
