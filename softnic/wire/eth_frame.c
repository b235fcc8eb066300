/* SPDX-License-Identifier: Apache-2.0 */
/* Packs and parses Ethernet, ARP, IP and UDP headers. */
#include "softnic/wire/eth_frame.h"

#include <string.h>

#include "softnic/base/bits.h"
#include "softnic/config/addr.h"
#include "softnic/wire/eth_nd.h"
#include "src/roce/hdr.h"

enum {
    TYPE_IPV4 = 0x0800,
    TYPE_ARP = 0x0806,
    TYPE_IPV6 = 0x86dd,
    PROTO_UDP = 17,
    PROTO_ICMPV6 = 58,
    HOPS = 64,
    IP_DF = 0x40,         /* of byte 6 */
    IP_FRAGMENT = 0x3fff, /* more fragments, and the offset */
    ARP_LEN = 28,
    ARP_REQUEST = 1,
    ARP_REPLY = 2,
    MIN_FRAME = 60, /* shorter ones are padded, as the standard has it */
};

static const uint8_t everybody[6] = {0xff, 0xff, 0xff, 0xff, 0xff, 0xff};

/* ---- out ----------------------------------------------------------------------------------------------- */

uint8_t *sn_eth_header(uint8_t *p, const uint8_t to[6], const uint8_t from[6], uint16_t type)
{
    memcpy(p, to, 6);
    memcpy(p + 6, from, 6);
    sn_put16_be(p + 12, type);
    return p + SN_ETH_HDR;
}

static uint8_t *ipv4_header(uint8_t *p, const struct sn_frame *frame, const uint8_t *src)
{
    uint32_t sum = 0;

    memset(p, 0, SN_IPV4_HDR);
    p[0] = 0x45;
    p[1] = frame->ecn & 3;
    sn_put16_be(p + 2, SN_IPV4_HDR + SN_UDP_HDR + frame->len);
    p[6] = IP_DF;
    p[8] = HOPS;
    p[9] = PROTO_UDP;
    memcpy(p + 12, src + 12, 4);
    memcpy(p + 16, frame->dst_gid + 12, 4);
    for (int i = 0; i < SN_IPV4_HDR; i += 2) sum += sn_get16_be(p + i);
    sum = (sum & 0xffff) + (sum >> 16);
    sn_put16_be(p + 10, ~(sum + (sum >> 16)));
    return p + SN_IPV4_HDR;
}

uint8_t *sn_ipv6_header(uint8_t *p, const struct sn_ipv6 *h)
{
    p[0] = 0x60;
    p[1] = (uint8_t)((h->ecn & 3) << 4); /* the traffic class's low bits */
    p[2] = p[3] = 0;
    sn_put16_be(p + 4, h->len);
    p[6] = h->proto;
    p[7] = h->hops;
    memcpy(p + 8, h->src, 16);
    memcpy(p + 24, h->dst, 16);
    return p + SN_IPV6_HDR;
}

uint32_t sn_eth_pack(uint8_t hdr[SN_ETH_MAX_HDR], const struct sn_station *self, const uint8_t to[6],
                     uint16_t sport, const struct sn_frame *frame)
{
    bool v4 = sn_gid_is_ipv4(self->gid);
    uint32_t len = SN_UDP_HDR + frame->len;
    uint8_t *p = sn_eth_header(hdr, to, self->mac, v4 ? TYPE_IPV4 : TYPE_IPV6);

    if (v4)
        p = ipv4_header(p, frame, self->gid);
    else
        p = sn_ipv6_header(p, &(struct sn_ipv6){self->gid, frame->dst_gid, len, PROTO_UDP, HOPS, frame->ecn});
    sn_put16_be(p, sport);
    sn_put16_be(p + 2, ROCE_UDP_PORT);
    sn_put16_be(p + 4, len);
    sn_put16_be(p + 6, 0);
    return (uint32_t)(p + SN_UDP_HDR - hdr);
}

/* ---- ARP ----------------------------------------------------------------------------------------------- */

static uint32_t eth_frame_arp(uint8_t *p, const uint8_t to[6], const struct sn_station *self, int op,
                              const uint8_t target_mac[6], const uint8_t target[16])
{
    static const uint8_t ethernet_ipv4[6] = {0, 1, 8, 0, 6, 4};

    memset(p, 0, MIN_FRAME);
    p = sn_eth_header(p, to, self->mac, TYPE_ARP);
    memcpy(p, ethernet_ipv4, 6);
    sn_put16_be(p + 6, (uint32_t)op);
    memcpy(p + 8, self->mac, 6);
    memcpy(p + 14, self->gid + 12, 4);
    if (target_mac) memcpy(p + 18, target_mac, 6);
    memcpy(p + 24, target + 12, 4);
    return MIN_FRAME;
}

/* Requests for our address, also gratuitous ones by others, and replies to us. */
static enum sn_eth_kind eth_frame_parse_arp(const uint8_t *p, size_t len, const struct sn_station *self,
                                            struct sn_station *peer)
{
    static const uint8_t ethernet_ipv4[6] = {0, 1, 8, 0, 6, 4};
    uint32_t op;

    if (len < ARP_LEN || memcmp(p, ethernet_ipv4, 6) || !sn_gid_is_ipv4(self->gid)) return SN_ETH_OTHER;
    op = sn_get16_be(p + 6);
    memcpy(peer->mac, p + 8, 6);
    memcpy(peer->gid, self->gid, 12);
    memcpy(peer->gid + 12, p + 14, 4);
    if (peer->mac[0] & 1) return SN_ETH_OTHER; /* no host is reached at a group's address */
    if (memcmp(peer->gid, self->gid, 16) == 0)
        return memcmp(peer->mac, self->mac, 6) ? SN_ETH_CONFLICT : SN_ETH_OTHER;
    if (memcmp(p + 24, self->gid + 12, 4) != 0) return SN_ETH_OTHER;
    if (op == ARP_REQUEST) return SN_ETH_WHO_HAS;
    return op == ARP_REPLY ? SN_ETH_IS_AT : SN_ETH_OTHER;
}

/* ---- both families ------------------------------------------------------------------------------------- */

uint32_t sn_neigh_ask(uint8_t p[SN_NEIGH_MESSAGE], const struct sn_station *self, const uint8_t gid[16])
{
    if (!sn_gid_is_ipv4(self->gid)) return sn_nd_ask(p, self, gid);
    return eth_frame_arp(p, everybody, self, ARP_REQUEST, NULL, gid);
}

uint32_t sn_neigh_answer(uint8_t p[SN_NEIGH_MESSAGE], const struct sn_station *self,
                         const struct sn_station *peer)
{
    if (!sn_gid_is_ipv4(self->gid)) return sn_nd_answer(p, self, peer);
    return eth_frame_arp(p, peer->mac, self, ARP_REPLY, peer->mac, peer->gid);
}

uint32_t sn_neigh_announce(uint8_t p[SN_NEIGH_MESSAGE], const struct sn_station *self)
{
    if (!sn_gid_is_ipv4(self->gid)) return sn_nd_announce(p, self);
    return eth_frame_arp(p, everybody, self, ARP_REQUEST, NULL, self->gid);
}

/* ---- in ------------------------------------------------------------------------------------------------ */

/* The UDP datagram, of at most len bytes, that the IP header announced. */
static enum sn_eth_kind parse_udp(uint8_t *p, size_t len, struct sn_frame *frame)
{
    uint32_t udp_len;

    if (len < SN_UDP_HDR + ROCE_MIN_PACKET) return SN_ETH_OTHER;
    udp_len = sn_get16_be(p + 4);
    if (udp_len != len || sn_get16_be(p + 2) != ROCE_UDP_PORT) return SN_ETH_OTHER;
    frame->sport = (uint16_t)sn_get16_be(p);
    frame->data = p + SN_UDP_HDR;
    frame->len = udp_len - SN_UDP_HDR;
    return frame->len <= SN_FRAME_MAX ? SN_ETH_ROCE : SN_ETH_OTHER;
}

static enum sn_eth_kind parse_ipv4(uint8_t *p, size_t len, const struct sn_station *self,
                                   struct sn_frame *frame)
{
    uint32_t total;

    if (len < SN_IPV4_HDR || p[0] != 0x45 || p[9] != PROTO_UDP || (sn_get16_be(p + 6) & IP_FRAGMENT))
        return SN_ETH_OTHER;
    total = sn_get16_be(p + 2);
    if (total < SN_IPV4_HDR || total > len) return SN_ETH_OTHER; /* less than len: the link padded it */
    memcpy(frame->src_gid, self->gid, 12);
    memcpy(frame->dst_gid, self->gid, 12);
    memcpy(frame->src_gid + 12, p + 12, 4);
    memcpy(frame->dst_gid + 12, p + 16, 4);
    frame->ecn = p[1] & 3;
    frame->ip_id = (uint16_t)sn_get16_be(p + 4);
    frame->has_ip_id = true;
    return parse_udp(p + SN_IPV4_HDR, total - SN_IPV4_HDR, frame);
}

static enum sn_eth_kind parse_ipv6(uint8_t *p, size_t len, const struct sn_station *self,
                                   struct sn_frame *frame, struct sn_station *peer)
{
    uint32_t payload;

    if (len < SN_IPV6_HDR || p[0] >> 4 != 6) return SN_ETH_OTHER;
    payload = sn_get16_be(p + 4);
    if (payload > len - SN_IPV6_HDR) return SN_ETH_OTHER;
    if (p[6] == PROTO_ICMPV6) return sn_nd_parse(p, SN_IPV6_HDR + payload, self, peer);
    if (p[6] != PROTO_UDP) return SN_ETH_OTHER;
    memcpy(frame->src_gid, p + 8, 16);
    memcpy(frame->dst_gid, p + 24, 16);
    frame->ecn = p[1] >> 4 & 3;
    frame->has_ip_id = true; /* there is none */
    return parse_udp(p + SN_IPV6_HDR, payload, frame);
}

enum sn_eth_kind sn_eth_parse(uint8_t *p, size_t len, const struct sn_station *self, struct sn_frame *frame,
                              struct sn_station *peer)
{
    bool v4 = sn_gid_is_ipv4(self->gid);
    enum sn_eth_kind kind = SN_ETH_OTHER;
    uint32_t type;

    if (len < SN_ETH_HDR || (memcmp(p, self->mac, 6) && !(p[0] & 1))) return SN_ETH_OTHER;
    memset(frame, 0, sizeof(*frame));
    memset(peer, 0, sizeof(*peer));
    memcpy(peer->mac, p + 6, 6);
    type = sn_get16_be(p + 12);
    if (type == TYPE_ARP) return eth_frame_parse_arp(p + SN_ETH_HDR, len - SN_ETH_HDR, self, peer);
    if (type == TYPE_IPV4 && v4) kind = parse_ipv4(p + SN_ETH_HDR, len - SN_ETH_HDR, self, frame);
    if (type == TYPE_IPV6 && !v4) kind = parse_ipv6(p + SN_ETH_HDR, len - SN_ETH_HDR, self, frame, peer);
    if (kind != SN_ETH_ROCE) return kind;
    if (memcmp(p, self->mac, 6) || memcmp(frame->dst_gid, self->gid, 16)) return SN_ETH_OTHER;
    memcpy(peer->gid, frame->src_gid, 16);
    return SN_ETH_ROCE;
}
