/* SPDX-License-Identifier: Apache-2.0 */
/* eth_nd.h: neighbour discovery, the part of eth_frame.h that IPv6 has to itself (RFC 4861). */
#ifndef SOFTNIC_WIRE_ETH_ND_H
#define SOFTNIC_WIRE_ETH_ND_H

#include "softnic/wire/eth_frame.h"

/* Headers, written to p. Each returns where the next one goes. */
uint8_t *sn_eth_header(uint8_t *p, const uint8_t to[6], const uint8_t from[6], uint16_t type);
struct sn_ipv6 {
    const uint8_t *src, *dst; /* 16 bytes each */
    uint32_t len;             /* of what follows */
    uint8_t proto, hops, ecn;
};
uint8_t *sn_ipv6_header(uint8_t *p, const struct sn_ipv6 *h);

uint32_t sn_nd_ask(uint8_t *p, const struct sn_station *self, const uint8_t gid[16]);
uint32_t sn_nd_answer(uint8_t *p, const struct sn_station *self, const struct sn_station *peer);
uint32_t sn_nd_announce(uint8_t *p, const struct sn_station *self);

/* An ICMPv6 packet of len bytes, at least an IPv6 header's. */
enum sn_eth_kind sn_nd_parse(const uint8_t *ip, size_t len, const struct sn_station *self,
                             struct sn_station *peer);

#endif
