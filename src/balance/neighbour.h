/* SPDX-License-Identifier: Apache-2.0 */
/*
 * neighbour.h: which MAC an IP address has on a link. Cores look addresses up without a lock; an entry stays
 * where it is as long as the table lives.
 */
#ifndef GW_SRC_BALANCE_NEIGHBOUR_H
#define GW_SRC_BALANCE_NEIGHBOUR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "src/balance/services.h"

enum { BAL_NEIGHBOURS = 16384 };
#define BAL_NO_NEIGHBOUR UINT32_MAX

struct bal_neighbours;

struct bal_neighbours *bal_neighbours_new(void);
void bal_neighbours_free(struct bal_neighbours *n);

/* The entry of an address on a port, which is made when there is none. BAL_NO_NEIGHBOUR: the table is full.
 */
uint32_t bal_neighbour(struct bal_neighbours *n, uint8_t port, const struct bal_addr *addr);

/* Writes the MAC; false: it is not known. */
bool bal_neighbour_mac(const struct bal_neighbours *n, uint32_t entry, uint8_t mac[6]);
/* Is it time to ask for the entry's MAC? Then the caller asks; nobody else does for a while. */
bool bal_neighbour_ask(struct bal_neighbours *n, uint32_t entry, uint64_t now_ns);
/* An address has told its MAC. Ignored unless somebody needs it: strangers make no entries. */
void bal_neighbour_told(struct bal_neighbours *n, uint8_t port, const struct bal_addr *addr,
                        const uint8_t mac[6], uint64_t now_ns);
/* What an entry stands for. */
void bal_neighbour_name(const struct bal_neighbours *n, uint32_t entry, uint8_t *port, struct bal_addr *addr);

#endif
