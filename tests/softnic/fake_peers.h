/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fake_peers.h: direct access between NICs of one test, as if they were processes of one host. The others see
 * at once what a NIC tells, and copies are made in place. It fails the test at an access that is not allowed:
 * outside enter and leave, or without a grant since. And when a copy is under way once the peer was left.
 */
#ifndef TESTS_SOFTNIC_FAKE_PEERS_H
#define TESTS_SOFTNIC_FAKE_PEERS_H

#include <stdbool.h>

#include "softnic/nic/nic.h"
#include "tests/rnd.h"

enum { FAKE_NODES = 4, FAKE_REGIONS = 256, FAKE_QUEUES = 128, FAKE_GRANTS = 1024 };

struct fake_peer {
    struct fake_peers *all;
    struct fake_peer *entered; /* the peer it is inside of, and what it was granted there */
    struct {
        uint64_t addr, length;
    } grant[FAKE_GRANTS];
    unsigned grants;
    bool late; /* it has made copies that may end late */
    struct {
        uint32_t key;
        struct sn_peer_region r;
    } region[FAKE_REGIONS];
    struct {
        uint32_t qpn;
        struct sn_peer_queue q;
    } queue[FAKE_QUEUES];
};

struct fake_peers {
    struct fake_peer node[FAKE_NODES];
    struct rnd rnd;
    /* Per 10,000: peers that are not found, or cannot be entered; copies that stop early; copies refused;
     * looks that find a peer behind, or without room for frames. */
    uint32_t absent, stops, refused, lags, full;
    uint32_t asked_qpn; /* the last whose frames were asked about */
    uint32_t full_qpn;  /* there is none for frames to this queue pair; 0: there is */
    bool counted;       /* the first node's frames find room for this number: */
    unsigned room_left;
    bool memory;                                              /* frames travel in memory */
    bool no_offers;                                           /* no peer is known to be able to fetch */
    bool no_writes;                                           /* no node may write to another */
    struct sn_reach (*reach)(const struct sn_gpu_share *gpu); /* a GPU's memory that was told of */
    bool (*under_way)(void);                                  /* is a copy? NULL: none ever is */
    unsigned copies, quiesced;
    uint64_t bytes;
};

extern const struct sn_peer_ops fake_peer_ops; /* context: a node */

void fake_peers_up(struct fake_peers *f, uint64_t seed);
bool fake_peers_inside(const struct fake_peers *f); /* is anybody inside another's memory? */
struct fake_peer *fake_peers_node(struct fake_peers *f, unsigned i);

#endif
