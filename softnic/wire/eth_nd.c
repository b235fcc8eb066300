/* SPDX-License-Identifier: Apache-2.0 */
/* Packs and parses IPv6's neighbour discovery. */
#include "softnic/wire/eth_nd.h"

#include <string.h>

enum {
    TYPE_IPV6 = 0x86dd,
    PROTO_ICMPV6 = 58,
    HOPS_ON_LINK = 255, /* a router would have taken one off: proof that the sender is on the link */
    SOLICITATION = 135,
    ADVERTISEMENT = 136,
    OPTION_SOURCE = 1, /* link-layer address of the sender, of the target */
    OPTION_TARGET = 2,
    FLAG_SOLICITED = 0x40,
    FLAG_OVERRIDE = 0x20,
    FIXED = 24,        /* type, code, checksum, flags, target */
    LENGTH = FIXED + 8 /* and one link-layer address */
};

static const struct sn_station all_nodes = {.gid = {[0] = 0xff, 2, [15] = 1},
                                            .mac = {0x33, 0x33, 0, 0, 0, 1}};

static uint32_t eth_nd_add(uint32_t sum, const uint8_t *p, size_t len)
{
    for (size_t i = 0; i < len; i++) sum += i & 1 ? p[i] : (uint32_t)p[i] << 8;
    return sum;
}

/* The one's complement sum over addresses, length, protocol and message; ffff when its checksum is right. */
static uint32_t sum_of(const uint8_t *ip, const uint8_t *icmp, size_t len)
{
    uint32_t sum = eth_nd_add((uint32_t)len + PROTO_ICMPV6, ip + 8, 32);

    sum = eth_nd_add(sum, icmp, len);
    while (sum >> 16) sum = (sum & 0xffff) + (sum >> 16);
    return sum;
}

void sn_solicited_mac(const uint8_t gid[16], uint8_t mac[6])
{
    mac[0] = mac[1] = 0x33;
    mac[2] = 0xff;
    memcpy(mac + 3, gid + 13, 3);
}

static uint32_t message(uint8_t *p, const struct sn_station *to, const struct sn_station *self, uint8_t type,
                        uint8_t flags, const uint8_t target[16])
{
    const struct sn_ipv6 header = {self->gid, to->gid, LENGTH, PROTO_ICMPV6, HOPS_ON_LINK, 0};
    uint8_t *ip = sn_eth_header(p, to->mac, self->mac, TYPE_IPV6), *icmp = sn_ipv6_header(ip, &header);
    uint32_t sum;

    memset(icmp, 0, LENGTH);
    icmp[0] = type;
    icmp[4] = flags;
    memcpy(icmp + 8, target, 16);
    icmp[FIXED] = type == SOLICITATION ? OPTION_SOURCE : OPTION_TARGET;
    icmp[FIXED + 1] = 1; /* times 8 bytes */
    memcpy(icmp + FIXED + 2, self->mac, 6);
    sum = ~sum_of(ip, icmp, LENGTH);
    icmp[2] = (uint8_t)(sum >> 8);
    icmp[3] = (uint8_t)sum;
    return SN_NEIGH_MESSAGE;
}

uint32_t sn_nd_ask(uint8_t *p, const struct sn_station *self, const uint8_t gid[16])
{
    struct sn_station to = {.gid = {0xff, 2, [11] = 1, 0xff}};

    memcpy(to.gid + 13, gid + 13, 3);
    sn_solicited_mac(gid, to.mac);
    return message(p, &to, self, SOLICITATION, 0, gid);
}

uint32_t sn_nd_answer(uint8_t *p, const struct sn_station *self, const struct sn_station *peer)
{
    static const uint8_t nobody[16];

    /* A station that asks without an address of its own wants to know whether this one is taken. */
    if (memcmp(peer->gid, nobody, 16) == 0) return sn_nd_announce(p, self);
    return message(p, peer, self, ADVERTISEMENT, FLAG_SOLICITED | FLAG_OVERRIDE, self->gid);
}

uint32_t sn_nd_announce(uint8_t *p, const struct sn_station *self)
{
    return message(p, &all_nodes, self, ADVERTISEMENT, FLAG_OVERRIDE, self->gid);
}

/* The MAC address in an option, NULL if there is none; *good: the options are well formed. */
static const uint8_t *find_option(const uint8_t *p, size_t len, uint8_t type, bool *good)
{
    const uint8_t *found = NULL;

    *good = true;
    while (len) {
        size_t size = len < 8 ? 0 : p[1] * 8u;

        if (!size || size > len) {
            *good = false;
            return NULL;
        }
        if (p[0] == type && size == 8) found = p + 2;
        p += size;
        len -= size;
    }
    return found;
}

enum sn_eth_kind sn_nd_parse(const uint8_t *ip, size_t len, const struct sn_station *self,
                             struct sn_station *peer)
{
    const uint8_t *icmp = ip + SN_IPV6_HDR, *target = icmp + 8, *mac;
    bool asks, good;

    len -= SN_IPV6_HDR;
    if (len < FIXED || ip[7] != HOPS_ON_LINK || icmp[1] || sum_of(ip, icmp, len) != 0xffff)
        return SN_ETH_OTHER;
    asks = icmp[0] == SOLICITATION;
    if (!asks && icmp[0] != ADVERTISEMENT) return SN_ETH_OTHER;
    mac = find_option(icmp + FIXED, len - FIXED, asks ? OPTION_SOURCE : OPTION_TARGET, &good);
    if (!good || (mac && (mac[0] & 1))) return SN_ETH_OTHER;
    if (mac) memcpy(peer->mac, mac, 6);
    memcpy(peer->gid, asks ? ip + 8 : target, 16);
    if (asks) {
        if (memcmp(target, self->gid, 16) != 0) return SN_ETH_OTHER;
        return SN_ETH_WHO_HAS;
    }
    if (!mac) return SN_ETH_OTHER;
    if (memcmp(target, self->gid, 16) == 0) return memcmp(mac, self->mac, 6) ? SN_ETH_CONFLICT : SN_ETH_OTHER;
    return memcmp(ip + 24, self->gid, 16) == 0 ? SN_ETH_IS_AT : SN_ETH_OTHER;
}
