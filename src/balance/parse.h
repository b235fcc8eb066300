/* SPDX-License-Identifier: Apache-2.0 */
/*
 * parse.h: what a frame is, from its Ethernet header to its ports. Pure functions, any thread. The parser
 * takes any bytes of any length; offsets it gives lie inside the frame.
 */
#ifndef GW_SRC_BALANCE_PARSE_H
#define GW_SRC_BALANCE_PARSE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum bal_kind {
    BAL_K_OTHER, /* well-formed, and nothing the balancer knows */
    BAL_K_TCP,
    BAL_K_UDP,
    BAL_K_ROCE,     /* UDP to port 4791 whose BTH has known bits */
    BAL_K_ERROR,    /* an ICMP or ICMPv6 error, with the packet it is about */
    BAL_K_ECHO,     /* an echo request */
    BAL_K_LATER,    /* a fragment that is not the first */
    BAL_K_ARP,      /* a request or an answer for IPv4 over Ethernet */
    BAL_K_SOLICIT,  /* neighbour solicitation (IPv6) */
    BAL_K_ADVERTISE /* neighbour advertisement */
};

enum {
    BAL_IP_TCP = 6,
    BAL_IP_UDP = 17,
    BAL_IP_ICMP = 1,
    BAL_IP_ICMP6 = 58,
    BAL_ETH_IP4 = 0x0800,
    BAL_ETH_IP6 = 0x86dd,
    BAL_ETH_ARP = 0x0806,
    BAL_ETH_VLAN = 0x8100,
    BAL_ETH_LEN = 14,
    BAL_VLAN_LEN = 4,
    BAL_GSI_QPN = 1
};

enum bal_tcp_flags { BAL_FIN = 1, BAL_SYN = 2, BAL_RST = 4, BAL_ACK = 16 };

struct bal_meta {
    uint8_t kind; /* enum bal_kind */
    bool ipv6;
    bool first;    /* the first fragment of several */
    uint8_t proto; /* of the transport header */
    uint8_t ttl;
    uint8_t flags;         /* TCP */
    uint8_t opcode;        /* RoCE */
    uint16_t vlan;         /* 0: no tag */
    uint16_t l3, l4;       /* offsets in the frame */
    uint16_t ip_len;       /* of the packet, from l3 */
    uint16_t sport, dport; /* host order */
    uint32_t id;           /* of the fragmented packet */
    uint32_t dqpn;         /* RoCE */
    uint32_t sqpn;         /* RoCE, datagrams */
    /* ICMP errors: the packet inside, which the receiver of this one sent. */
    uint16_t in_l3, in_l4;
    uint8_t in_proto;
    uint16_t in_sport, in_dport;
};

/* 0; or -1: the frame is not what its headers say. */
int bal_parse(const uint8_t *frame, size_t len, struct bal_meta *m);
/* The same, without the short way that bal_parse has for nearly all frames. */
int bal_parse_any(const uint8_t *frame, size_t len, struct bal_meta *m);

static inline const uint8_t *bal_src(const uint8_t *frame, const struct bal_meta *m)
{
    return frame + m->l3 + (m->ipv6 ? 8 : 12);
}
static inline const uint8_t *bal_dst(const uint8_t *frame, const struct bal_meta *m)
{
    return frame + m->l3 + (m->ipv6 ? 24 : 16);
}

static inline uint16_t bal_get16(const uint8_t *p)
{
    return (uint16_t)(p[0] << 8 | p[1]);
}
static inline uint32_t bal_get24(const uint8_t *p)
{
    return (uint32_t)p[0] << 16 | (uint32_t)p[1] << 8 | p[2];
}
static inline uint32_t bal_get32(const uint8_t *p)
{
    return (uint32_t)bal_get16(p) << 16 | bal_get16(p + 2);
}
static inline void bal_put16(uint8_t *p, uint32_t v)
{
    p[0] = (uint8_t)(v >> 8);
    p[1] = (uint8_t)v;
}
static inline void bal_put32(uint8_t *p, uint32_t v)
{
    bal_put16(p, v >> 16);
    bal_put16(p + 2, v);
}

#endif
