/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rewrite.h: changing packets so that they go where they should: other addresses, another header in front,
 * another Ethernet header. Checksums and RoCE's ICRC follow from what changed; the payload is not read. Any
 * thread.
 */
#ifndef GW_SRC_BALANCE_REWRITE_H
#define GW_SRC_BALANCE_REWRITE_H

#include "src/balance/packet.h"
#include "src/balance/parse.h"
#include "src/balance/snapshot.h"

/* Puts an Ethernet header, with the port's VLAN, in front of the IP header at l3 of the packet, and cuts the
 * packet to ip_len bytes after it. false: no room. `from` and `to` may not lie in the packet. */
bool bal_ethernet(struct bal_packet *p, const struct bal_port *port, uint16_t l3, uint32_t ip_len,
                  const uint8_t from[6], const uint8_t to[6]);

/* The same on a port without tags: there is room where the packet's own header was. */
static inline void bal_ethernet_untagged(struct bal_packet *p, uint16_t l3, uint32_t ip_len,
                                         const uint8_t from[6], const uint8_t to[6])
{
    uint8_t *ip = p->data + l3, *eth = ip - BAL_ETH_LEN;
    uint16_t type = ip[0] >> 4 == 6 ? BAL_ETH_IP6 : BAL_ETH_IP4;
    __builtin_memcpy(eth, to, 6);
    __builtin_memcpy(eth + 6, from, 6);
    bal_put16(eth + 12, type);
    p->headroom += (uint32_t)(l3 - BAL_ETH_LEN);
    p->data = eth;
    p->len = BAL_ETH_LEN + ip_len;
}

/* One less hop to live. false: there is none left; the packet is unchanged. */
bool bal_hop(uint8_t *frame, const struct bal_meta *m);

/*
 * NAT: another destination (or source), and another port at that end where the packet has ports and `port` is
 * not 0. IPv4's, TCP's and UDP's checksums and the ICRC stay right. For m->kind BAL_K_ERROR the packet inside
 * changes at its other end, and ICMP's checksum stays right as well.
 */
void bal_nat(uint8_t *frame, const struct bal_meta *m, bool destination, const struct bal_addr *to,
             uint16_t port);

/* bal_hop, and bal_nat from a VIP to its worker, for TCP and UDP over IPv4. bal_make_ways has reckoned what
 * checksums change by. false: there is no hop left. Then the packet is unchanged. */
bool bal_nat_quickly(uint8_t *frame, const struct bal_meta *m, const struct bal_way *way);

/* Changes n covered bytes at `at` of a RoCE packet's UDP payload, and its ICRC. */
void bal_roce_change(uint8_t *frame, const struct bal_meta *m, uint32_t at, const void *to, size_t n);

/* Bytes that a tunnel adds. */
uint32_t bal_tunnel_overhead(uint8_t forward, uint8_t family);
/*
 * Puts the tunnel's headers in front of the IP header and moves *l3 to the outer one. `port` is the source
 * port of GUE (the flow's, so that routers spread flows), `to_port` its destination. Returns the new IP
 * length, or 0: no room.
 */
struct bal_tunnel {
    uint8_t forward; /* BAL_IPIP or BAL_GUE */
    const struct bal_addr *from, *to;
    uint16_t port, to_port;
};
uint32_t bal_encapsulate(struct bal_packet *p, const struct bal_meta *m, const struct bal_tunnel *t,
                         uint16_t *l3);

#endif
