/* SPDX-License-Identifier: Apache-2.0 */
/*
 * frames.h: what the balancer itself says, byte by byte: ARP, neighbour discovery, ICMP, RST. Any thread.
 */
#ifndef GW_SRC_BALANCE_FRAMES_H
#define GW_SRC_BALANCE_FRAMES_H

#include "src/balance/address.h"
#include "src/balance/packet.h"
#include "src/balance/parse.h"

/* Makes the packet an ICMP or ICMPv6 error to its own sender, from that address. `mtu`: what would fit, or 0.
 * false: no room. The Ethernet header goes back to where it came from. */
enum bal_error_kind { BAL_TOO_BIG, BAL_NO_PORT, BAL_NO_HOPS };
bool bal_error(struct bal_packet *p, const struct bal_meta *m, enum bal_error_kind kind, uint32_t mtu,
               const struct bal_addr *from);
/* Makes a TCP segment the RST that answers it. */
void bal_reset(struct bal_packet *p, const struct bal_meta *m);
/* Makes an echo request its own answer. */
void bal_echo(struct bal_packet *p, const struct bal_meta *m);

/* Frames of the balancer's own: each returns its length. An ARP or ND question for an address; the answer. */
struct bal_link {
    uint16_t vlan;
    const uint8_t *mac;  /* the balancer's */
    struct bal_addr own; /* who asks, or who answers */
};
uint8_t bal_ask_frame(uint8_t frame[110], const struct bal_link *link, const struct bal_addr *who);
/* `to` NULL: everybody, an announcement. */
uint8_t bal_answer_frame(uint8_t frame[110], const struct bal_link *link, const uint8_t *to_mac,
                         const struct bal_addr *to);

#endif
