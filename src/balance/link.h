/* SPDX-License-Identifier: Apache-2.0 */
/* link.h: the balancer on its links: its MACs and addresses, and the owners of addresses there. */
#ifndef GW_SRC_BALANCE_LINK_H
#define GW_SRC_BALANCE_LINK_H

#include "src/balance/balance.h"
#include "src/balance/frames.h"

/* The MAC of a port, which is known when its device is open. Frames to others are dropped, unless `any`: a
 * file of packets has no MAC. */
void bal_set_port_mac(struct bal *bal, uint32_t port, const uint8_t mac[6], bool any);
static inline void bal_port_mac(const struct bal *bal, uint32_t port, uint8_t mac[6])
{
    uint64_t v = atomic_load_explicit(&bal->port_mac[port], memory_order_relaxed);
    __builtin_memcpy(mac, &v, 6);
}

/* The balancer on a port, in an address of that kind; its MAC goes to `mac`. false: it has no such one. */
bool bal_link_on(const struct bal_core *core, uint32_t port, uint8_t family, struct bal_link *link,
                 uint8_t mac[6]);
/* Is it an address of the balancer's on the port, or of a service? */
bool bal_is_ours(const struct bal_core *core, uint32_t port, const struct bal_addr *addr);
/* Asks on a port for an address's MAC. */
void bal_ask_on(struct bal_core *core, uint8_t port, const struct bal_addr *who);
/* Asks for the MAC of an entry's address, if it is time to. */
void bal_ask(struct bal_core *core, uint32_t neighbour);

#endif
