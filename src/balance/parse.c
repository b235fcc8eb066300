/* SPDX-License-Identifier: Apache-2.0 */
/* From the Ethernet header to the ports. Nearly all frames take a short way, which sees the same. */
#include "src/balance/parse.h"

#include <string.h>

#include "src/balance/checksum.h"
#include "src/roce/hdr.h"

enum { MAX_EXTENSIONS = 8, TCP_LEN = 20, UDP_LEN = 8, ICMP_LEN = 8 };

/* A packet's transport header, wherever it stands: in a frame, or inside an ICMP error. */
struct l4 {
    uint8_t proto;
    size_t at;        /* from the IP header */
    bool more, later; /* fragments */
    uint32_t id;
};

static int parse_ip4_header(const uint8_t *ip, size_t len, struct l4 *l4)
{
    size_t hdr = (size_t)(ip[0] & 15) * 4;
    if (len < 20 || ip[0] >> 4 != 4 || hdr < 20 || hdr > len) return -1;
    uint16_t fragment = bal_get16(ip + 6);
    *l4 = (struct l4){ip[9], hdr, fragment & 0x2000, (fragment & 0x1fff) != 0, bal_get16(ip + 4)};
    return 0;
}

static bool is_extension(uint8_t next)
{
    return next == 0 || next == 43 || next == 44 || next == 51 || next == 60;
}

static int parse_ip6_header(const uint8_t *ip, size_t len, struct l4 *l4)
{
    if (len < 40 || ip[0] >> 4 != 6) return -1;
    *l4 = (struct l4){.proto = ip[6], .at = 40};
    for (int i = 0; is_extension(l4->proto) && !l4->later; i++) {
        const uint8_t *ext = ip + l4->at;
        if (i == MAX_EXTENSIONS || len < l4->at + 8) return -1;
        size_t size = l4->proto == 51 ? (size_t)(ext[1] + 2) * 4 : (size_t)(ext[1] + 1) * 8;
        if (l4->proto == 44) {
            size = 8;
            l4->later = bal_get16(ext + 2) >> 3;
            l4->more = ext[3] & 1;
            l4->id = (uint32_t)bal_get16(ext + 4) << 16 | bal_get16(ext + 6);
        }
        if (len < l4->at + size) return -1;
        l4->proto = ext[0];
        l4->at += size;
    }
    return 0;
}

/* ---- what is inside ---- */

static int parse_roce(const uint8_t *p, size_t len, struct bal_meta *m)
{
    if (len < ROCE_MIN_PACKET || p[1] & 15) return 0; /* then it is UDP like any other */
    m->kind = BAL_K_ROCE;
    m->opcode = p[0];
    m->dqpn = bal_get24(p + 5);
    if (roce_flags(p[0]) & ROCE_F_DETH && len >= ROCE_BTH_LEN + ROCE_DETH_LEN + ROCE_ICRC_LEN)
        m->sqpn = bal_get24(p + ROCE_BTH_LEN + 5);
    return 0;
}

static int parse_error(const uint8_t *frame, size_t at, size_t end, struct bal_meta *m)
{
    const uint8_t *ip = frame + at;
    size_t len = end - at;
    struct l4 in;
    if (!len || (m->ipv6 ? parse_ip6_header(ip, len, &in) : parse_ip4_header(ip, len, &in))) return -1;
    m->kind = BAL_K_ERROR;
    m->in_l3 = (uint16_t)at;
    m->in_l4 = (uint16_t)(at + in.at);
    m->in_proto = in.proto;
    bool ports = (in.proto == BAL_IP_TCP || in.proto == BAL_IP_UDP) && !in.later;
    if (!ports || len < in.at + 8) { /* its flow cannot be told */
        m->kind = BAL_K_OTHER;
        return 0;
    }
    m->in_sport = bal_get16(ip + in.at);
    m->in_dport = bal_get16(ip + in.at + 2);
    return 0;
}

static bool is_error(uint8_t proto, uint8_t type)
{
    if (proto == BAL_IP_ICMP6) return type >= 1 && type <= 4;
    return type == 3 || type == 4 || type == 11 || type == 12;
}

static int parse_icmp(const uint8_t *frame, size_t end, struct bal_meta *m)
{
    const uint8_t *p = frame + m->l4;
    if (end < (size_t)m->l4 + ICMP_LEN) return -1;
    if ((m->proto == BAL_IP_ICMP6) != m->ipv6) return 0;
    if (is_error(m->proto, p[0])) return parse_error(frame, m->l4 + ICMP_LEN, end, m);
    if (p[0] == (m->ipv6 ? 128 : 8) && p[1] == 0 && !m->first) m->kind = BAL_K_ECHO;
    /* Neighbour discovery comes from the link itself: its hop limit is 255. */
    if (m->ipv6 && (p[0] == 135 || p[0] == 136) && m->ttl == 255 && p[1] == 0 && !m->first) {
        if (end < (size_t)m->l4 + 24) return -1;
        m->kind = p[0] == 135 ? BAL_K_SOLICIT : BAL_K_ADVERTISE;
    }
    return 0;
}

static int parse_l4(const uint8_t *frame, size_t end, struct bal_meta *m)
{
    const uint8_t *p = frame + m->l4;
    size_t left = end - m->l4;
    if (m->proto == BAL_IP_ICMP || m->proto == BAL_IP_ICMP6) return parse_icmp(frame, end, m);
    if (m->proto != BAL_IP_TCP && m->proto != BAL_IP_UDP) return 0;
    bool tcp = m->proto == BAL_IP_TCP;
    if (left < (tcp ? TCP_LEN : UDP_LEN)) return -1;
    m->kind = tcp ? BAL_K_TCP : BAL_K_UDP;
    m->sport = bal_get16(p);
    m->dport = bal_get16(p + 2);
    if (tcp) {
        m->flags = p[13];
        size_t hdr = (size_t)(p[12] >> 4) * 4;
        return hdr < TCP_LEN || (!m->first && hdr > left) ? -1 : 0;
    }
    size_t udp = bal_get16(p + 4);
    if (udp < UDP_LEN || (!m->first && udp > left)) return -1;
    return m->dport == ROCE_UDP_PORT && !m->first ? parse_roce(p + UDP_LEN, udp - UDP_LEN, m) : 0;
}

static int parse_ip(const uint8_t *frame, size_t len, struct bal_meta *m)
{
    const uint8_t *ip = frame + m->l3;
    size_t left = len - m->l3, total;
    struct l4 l4;
    if (left < (m->ipv6 ? 40u : 20u)) return -1;
    total = m->ipv6 ? 40u + bal_get16(ip + 4) : bal_get16(ip + 2);
    if (total > left || total > UINT16_MAX) return -1;
    if (m->ipv6 ? parse_ip6_header(ip, total, &l4) : parse_ip4_header(ip, total, &l4)) return -1;
    if (!m->ipv6 && !bal_header_ok(ip, l4.at)) return -1;
    m->ip_len = (uint16_t)total;
    m->ttl = m->ipv6 ? ip[7] : ip[8];
    m->proto = l4.proto;
    m->l4 = (uint16_t)(m->l3 + l4.at);
    m->id = l4.id;
    if (l4.later) {
        m->kind = BAL_K_LATER;
        return 0;
    }
    m->first = l4.more;
    return parse_l4(frame, m->l3 + total, m);
}

static void parse_ip4_arp(const uint8_t *frame, size_t len, struct bal_meta *m)
{
    static const uint8_t ip_over_ethernet[] = {0, 1, 8, 0, 6, 4, 0};
    const uint8_t *p = frame + m->l3;
    if (len < m->l3 + 28u || memcmp(p, ip_over_ethernet, sizeof(ip_over_ethernet))) return;
    if (p[7] == 1 || p[7] == 2) m->kind = BAL_K_ARP;
}

int bal_parse_any(const uint8_t *frame, size_t len, struct bal_meta *m)
{
    memset(m, 0, sizeof(*m));
    if (len < BAL_ETH_LEN || len > UINT16_MAX) return -1;
    uint16_t type = bal_get16(frame + 12);
    m->l3 = BAL_ETH_LEN;
    if (type == BAL_ETH_VLAN) {
        if (len < BAL_ETH_LEN + BAL_VLAN_LEN) return -1;
        m->vlan = bal_get16(frame + 14) & 0xfff;
        type = bal_get16(frame + 16);
        m->l3 += BAL_VLAN_LEN;
    }
    m->ipv6 = type == BAL_ETH_IP6;
    if (type == BAL_ETH_IP4 || m->ipv6) return parse_ip(frame, len, m);
    if (type == BAL_ETH_ARP) parse_ip4_arp(frame, len, m);
    return 0;
}

/* ---- the usual frame ---- */

/* Takes TCP and UDP over IPv4, without a tag, options and fragments, and says what bal_parse_any says of it.
 * false: it is another frame, or something about it is wrong. */
static bool parse_usual(const uint8_t *frame, size_t len, struct bal_meta *m)
{
    enum { IP = BAL_ETH_LEN, L4 = IP + 20 };
    const uint8_t *ip = frame + IP, *p = frame + L4;
    if (len < L4 + UDP_LEN || len > UINT16_MAX || bal_get16(frame + 12) != BAL_ETH_IP4 || ip[0] != 0x45)
        return false;
    uint32_t total = bal_get16(ip + 2), left = total - 20;
    if (bal_get16(ip + 6) & 0x3fff || total > len - IP || total < 20 + UDP_LEN || !bal_header_ok(ip, 20))
        return false;
    uint16_t sport = bal_get16(p), dport = bal_get16(p + 2);
    bool tcp = ip[9] == BAL_IP_TCP;
    if (tcp) {
        uint32_t hdr = left < TCP_LEN ? 0 : (uint32_t)(p[12] >> 4) * 4;
        if (hdr < TCP_LEN || hdr > left) return false;
    } else {
        uint32_t udp = bal_get16(p + 4);
        if (ip[9] != BAL_IP_UDP || udp < UDP_LEN || udp > left || dport == ROCE_UDP_PORT) return false;
    }
    *m = (struct bal_meta){.kind = tcp ? BAL_K_TCP : BAL_K_UDP,
                           .proto = ip[9],
                           .ttl = ip[8],
                           .flags = tcp ? p[13] : 0,
                           .l3 = IP,
                           .l4 = L4,
                           .ip_len = (uint16_t)total,
                           .sport = sport,
                           .dport = dport,
                           .id = bal_get16(ip + 4)};
    return true;
}

int bal_parse(const uint8_t *frame, size_t len, struct bal_meta *m)
{
    return parse_usual(frame, len, m) ? 0 : bal_parse_any(frame, len, m);
}
