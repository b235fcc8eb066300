/* SPDX-License-Identifier: Apache-2.0 */
/*
 * eth_neigh.h: which MAC address stations have, as far as known. No I/O; bounded memory, whatever arrives. It
 * forgets the longest unused neighbour first. Times are nanoseconds on a clock that never goes back. One
 * thread at a time.
 */
#ifndef SOFTNIC_WIRE_ETH_NEIGH_H
#define SOFTNIC_WIRE_ETH_NEIGH_H

#include <stdbool.h>
#include <stdint.h>

enum { SN_NEIGH_SETS = 64, SN_NEIGH_WAYS = 4 };

#define SN_NEIGH_ASK_NS 250000000u /* not asked for again within */
#define SN_NEIGH_STALE_NS                                                                                    \
    30000000000u /* asked for again when used later than this after it was confirmed   \
                                        */
#define SN_NEIGH_DEAD_NS (2 * SN_NEIGH_STALE_NS) /* not believed any more */

struct sn_neigh_entry {
    uint8_t gid[16], mac[6];
    bool used;
    bool known;                        /* mac is valid; else it is being asked for */
    uint64_t confirmed, asked, at_use; /* when */
};

struct sn_neigh {
    uint64_t salt; /* so that strangers cannot choose addresses that drive each other out */
    struct sn_neigh_entry entry[SN_NEIGH_SETS][SN_NEIGH_WAYS];
};

/* The MAC address of gid, NULL if it is not known. *ask: now is the time to ask for it, also when it is
 * known. */
const uint8_t *sn_neigh_find(struct sn_neigh *n, const uint8_t gid[16], uint64_t now, bool *ask);

/* gid said that it is at mac. create: remember it although it was not asked for. Returns true if it was being
 * waited for. */
bool sn_neigh_learn(struct sn_neigh *n, const uint8_t gid[16], const uint8_t mac[6], uint64_t now,
                    bool create);

/* A packet came from there: what is believed of it, if the same, is still true. */
void sn_neigh_confirm(struct sn_neigh *n, const uint8_t gid[16], const uint8_t mac[6], uint64_t now);

#endif
