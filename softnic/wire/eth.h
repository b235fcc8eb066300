/* SPDX-License-Identifier: Apache-2.0 */
/*
 * eth.h: RoCEv2 frames as whole Ethernet frames: a NIC that is a station of its own on the link.
 *
 * There are two ways to the link. One is an interface of this host, by a packet socket (CAP_NET_RAW). The
 * other is UDP datagrams that hold one Ethernet frame each, which QEMU's `-netdev dgram` speaks, and which
 * needs no privilege.
 *
 * The address belongs to the NIC and must not be the host's: the kernel would answer for it too. The NIC
 * answers ARP and neighbour solicitations for it, and finds its peers' MAC addresses the same way. It takes
 * only what is sent to its MAC address, its IP address and UDP port 4791. One process per address and
 * interface.
 *
 * The IP header is seen whole, both ways, so the ICRC is exact: IPv4 ID and DF as they are, congestion marks
 * read and written. VLAN tags, IP options, extension headers and fragments are not taken.
 *
 * One thread at a time (the engine's lock), except the functions marked "any thread".
 */
#ifndef SOFTNIC_WIRE_ETH_H
#define SOFTNIC_WIRE_ETH_H

#include <stdbool.h>
#include <stdint.h>

#include "softnic/config/addr.h"
#include "softnic/config/eth_config.h"
#include "softnic/nic/nic.h"
#include "softnic/wire/udp.h"

struct sn_eth;

/*
 * Opens the wire. Returns 0 or a negative errno with one line in why. With -EPERM there is no right to packet
 * sockets, with -ENODEV no such interface, with -EINVAL it is no Ethernet. With -EADDRINUSE another process's
 * NIC or the host has the address. The seed is for the slot bits in queue pair numbers.
 */
int sn_eth_open(const struct sn_addr *addr, const struct sn_eth_config *config, uint64_t seed,
                struct sn_eth **eth, char why[256]);
void sn_eth_close(struct sn_eth *eth);

/* Any thread. */
unsigned sn_eth_slot(const struct sn_eth *eth);
uint16_t sn_eth_port(const struct sn_eth *eth);
int sn_eth_fd(const struct sn_eth *eth);
/* The fd that holds the address at the interface; -1: the socket itself does. */
int sn_eth_claim_fd(const struct sn_eth *eth);
uint32_t sn_eth_room(const struct sn_eth *eth); /* bytes of frames that wait to be received at most */
void sn_eth_stats(const struct sn_eth *eth, struct sn_udp_stats *stats);

/*
 * Sends frames in order. Returns how many were taken: fewer than n when the system's buffer is full. While an
 * address's MAC address is being asked for, the last 16 frames there are kept until the answer comes. Others
 * count as taken and lost, like frames that the system refuses.
 */
int sn_eth_send(struct sn_eth *eth, const struct sn_frame *tx, int n);

/* Receives up to max frames without waiting, valid until the next receive, and answers what is asked of a
 * station. *more: there may be more waiting. */
int sn_eth_recv(struct sn_eth *eth, struct sn_frame *rx, int max, bool *more);

#endif
