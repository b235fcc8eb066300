/* SPDX-License-Identifier: Apache-2.0 */
/*
 * neighbour.h: which MAC an IP address has on a link.
 *
 * Next hops of the configuration have places of their own, which nothing else takes. Clients on the link have
 * others: an address whose MAC is not known yet waits among the asked ones, where newer ones take the place
 * of older ones. When it answers it becomes a known one. So addresses that no host has displace no client.
 * Cores look addresses up without a lock.
 */
#ifndef GW_SRC_BALANCE_NEIGHBOUR_H
#define GW_SRC_BALANCE_NEIGHBOUR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "src/balance/objects.h"

enum { BAL_CLIENTS_KNOWN = 16384, BAL_CLIENTS_ASKED = 4096 };
#define BAL_NO_NEIGHBOUR UINT32_MAX

struct bal_neighbours;

/* `seed`: two words that no stranger knows. NULL: no memory. */
struct bal_neighbours *bal_neighbours_new(const uint64_t seed[2]);
void bal_neighbours_free(struct bal_neighbours *n);

/* ---- next hops of the configuration ---- */

/* The place of an address on a port. It is its own until each hold has been released. BAL_NO_NEIGHBOUR: all
 * places are taken. For the thread that publishes. */
uint32_t bal_neighbour_hold(struct bal_neighbours *n, uint8_t port, const struct bal_addr *addr);
void bal_neighbour_release(struct bal_neighbours *n, uint32_t place);
/* Writes the MAC; false: it is not known. */
bool bal_neighbour_mac(const struct bal_neighbours *n, uint32_t place, uint8_t mac[6]);
/* Is it time to ask for the MAC? Then the caller asks; no other caller does for a while. */
bool bal_neighbour_ask(struct bal_neighbours *n, uint32_t place, uint64_t now_ns);
/* The meaning of a place. */
void bal_neighbour_name(const struct bal_neighbours *n, uint32_t place, uint8_t *port, struct bal_addr *addr);

/* ---- clients on the link ---- */

enum { BAL_MAC_KNOWN = 1, BAL_MAC_ASK = 2 /* it is time to ask for it, as above */ };
/* Writes the MAC of an address if it is known. Returns these bits. */
unsigned bal_client_mac(struct bal_neighbours *n, uint8_t port, const struct bal_addr *addr, uint64_t now_ns,
                        uint8_t mac[6]);

/* ---- both ---- */

/* An address has told its MAC. Ignored unless it was asked for: strangers make no entries. */
void bal_neighbour_told(struct bal_neighbours *n, uint8_t port, const struct bal_addr *addr,
                        const uint8_t mac[6], uint64_t now_ns);

struct bal_neighbour_counts {
    uint64_t known;     /* clients whose MAC was told within the last minute */
    uint64_t displaced; /* entries that made room before their time: more addresses than places */
};
void bal_neighbours_count(const struct bal_neighbours *n, uint64_t now_ns, struct bal_neighbour_counts *out);

#endif
