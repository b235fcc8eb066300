/* SPDX-License-Identifier: Apache-2.0 */
/* Other addresses, another header in front: the bytes that change, and the checksums that follow. */
#include "src/balance/rewrite.h"

#include <string.h>

#include "src/balance/checksum.h"
#include "src/roce/hdr.h"
#include "src/roce/icrc.h"

bool bal_ethernet(struct bal_packet *p, const struct bal_port *port, uint16_t l3, uint32_t ip_len,
                  const uint8_t from[6], const uint8_t to[6])
{
    uint8_t *ip = p->data + l3;
    uint32_t hdr = BAL_ETH_LEN + (port->vlan ? BAL_VLAN_LEN : 0);
    if (p->headroom + l3 < hdr) return false;
    uint8_t *eth = ip - hdr;
    uint16_t type = ip[0] >> 4 == 6 ? BAL_ETH_IP6 : BAL_ETH_IP4;
    memcpy(eth, to, 6);
    memcpy(eth + 6, from, 6);
    if (port->vlan) {
        bal_put16(eth + 12, BAL_ETH_VLAN);
        bal_put16(eth + 14, port->vlan);
    }
    bal_put16(ip - 2, type);
    p->headroom = (uint32_t)(p->headroom + l3 - hdr);
    p->data = eth;
    p->len = hdr + ip_len;
    return true;
}

bool bal_hop(uint8_t *frame, const struct bal_meta *m)
{
    uint8_t *ip = frame + m->l3, *ttl = ip + (m->ipv6 ? 7 : 8);
    if (*ttl <= 1) return false;
    uint8_t before[2] = {*ttl, ip[9]};
    --*ttl;
    if (!m->ipv6) bal_checksum_patch(ip + 10, bal_sum_change(before, ip + 8, 2));
    return true;
}

/* ---- NAT ---- */

static void patch_udp(uint8_t *sum, uint64_t change)
{
    if (!bal_get16(sum)) return; /* the sender made none */
    bal_checksum_patch(sum, change);
    if (!bal_get16(sum)) bal_put16(sum, 0xffff);
}

/* Writes bytes, and returns what that adds to a checksum. */
static uint64_t overwrite(uint8_t *at, const void *to, size_t n)
{
    uint64_t change = bal_sum_change(at, to, n);
    memcpy(at, to, n);
    return change;
}

/* An IP header's address, with IPv4's checksum; what that adds to the transport's. */
static uint64_t change_address(uint8_t *ip, bool ipv6, bool destination, const struct bal_addr *to)
{
    size_t n = ipv6 ? 16 : 4;
    uint8_t *at = ip + (ipv6 ? 8 : 12) + (destination ? n : 0);
    uint64_t change = overwrite(at, to->byte, n);
    if (!ipv6) bal_checksum_patch(ip + 10, change);
    return change;
}

static uint64_t change_port(uint8_t *l4, bool destination, uint16_t port)
{
    uint8_t to[2];
    bal_put16(to, port);
    return port ? overwrite(l4 + (destination ? 2 : 0), to, 2) : 0;
}

static void change_inside(uint8_t *frame, const struct bal_meta *m, uint32_t end, bool destination,
                          const struct bal_addr *to, uint16_t port)
{
    uint8_t *ip = frame + m->in_l3, *l4 = frame + m->in_l4;
    uint64_t change = change_address(ip, m->ipv6, destination, to) + change_port(l4, destination, port);
    if (m->in_proto == BAL_IP_TCP && m->in_l4 + 18u <= end) bal_checksum_patch(l4 + 16, change);
    if (m->in_proto == BAL_IP_UDP) patch_udp(l4 + 6, change);
}

static void nat_error(uint8_t *frame, const struct bal_meta *m, bool destination, const struct bal_addr *to,
                      uint16_t port)
{
    uint32_t end = (uint32_t)m->l3 + m->ip_len, covered = end - m->in_l3;
    uint8_t *sum = frame + m->l4 + 2;
    uint64_t change = change_address(frame + m->l3, m->ipv6, destination, to);
    if (!m->ipv6) change = 0; /* ICMP's checksum covers no addresses, ICMPv6's does */
    uint64_t before = bal_sum_fold(bal_sum(frame + m->in_l3, covered));
    change_inside(frame, m, end, !destination, to, port);
    change += (uint16_t)~before + bal_sum_fold(bal_sum(frame + m->in_l3, covered));
    bal_checksum_patch(sum, change);
}

static uint8_t *rewrite_icrc(uint8_t *frame, const struct bal_meta *m)
{
    return frame + m->l4 + bal_get16(frame + m->l4 + 4) - ROCE_ICRC_LEN;
}

/* The ICRC after covered bytes changed, of which `from` is a copy; what that adds to UDP's checksum. */
static uint64_t patch_icrc(uint8_t *icrc, const uint8_t *from, const uint8_t *at, size_t n)
{
    uint8_t before[4];
    uint32_t value = icrc[0] | (uint32_t)icrc[1] << 8 | (uint32_t)icrc[2] << 16 | (uint32_t)icrc[3] << 24;
    memcpy(before, icrc, 4);
    roce_icrc_end(roce_icrc_patch(value, from, at, n, (size_t)(icrc - at) - n), icrc);
    return bal_sum_change(before, icrc, 4);
}

static void nat_roce(uint8_t *frame, const struct bal_meta *m, bool destination, const struct bal_addr *to)
{
    uint8_t before[16], *at = (uint8_t *)(destination ? bal_dst(frame, m) : bal_src(frame, m));
    size_t n = m->ipv6 ? 16 : 4;
    memcpy(before, at, n);
    uint64_t change = change_address(frame + m->l3, m->ipv6, destination, to);
    patch_udp(frame + m->l4 + 6, change + patch_icrc(rewrite_icrc(frame, m), before, at, n));
}

void bal_nat(uint8_t *frame, const struct bal_meta *m, bool destination, const struct bal_addr *to,
             uint16_t port)
{
    uint8_t *l4 = frame + m->l4;
    if (m->kind == BAL_K_ERROR) {
        nat_error(frame, m, destination, to, port);
    } else if (m->kind == BAL_K_ROCE) {
        nat_roce(frame, m, destination, to);
    } else {
        uint64_t change = change_address(frame + m->l3, m->ipv6, destination, to);
        if (m->kind == BAL_K_LATER) return; /* the checksum is in the first fragment */
        change += change_port(l4, destination, port);
        if (m->proto == BAL_IP_TCP) bal_checksum_patch(l4 + 16, change);
        if (m->proto == BAL_IP_UDP) patch_udp(l4 + 6, change);
    }
}

bool bal_nat_quickly(uint8_t *frame, const struct bal_meta *m, const struct bal_way *way)
{
    enum { HOP = 0xffff - 0x100 /* what one less in the upper half of a word adds */ };
    uint8_t *ip = frame + m->l3, *l4 = frame + m->l4;
    if (ip[8] <= 1) return false;
    ip[8]--;
    memcpy(ip + 16, way->addr, 4);
    bal_checksum_patch(ip + 10, way->addr_change + HOP);
    memcpy(l4 + 2, way->port, 2);
    if (m->proto == BAL_IP_TCP)
        bal_checksum_patch(l4 + 16, way->all_change);
    else
        patch_udp(l4 + 6, way->all_change);
    return true;
}

void bal_roce_change(uint8_t *frame, const struct bal_meta *m, uint32_t at, const void *to, size_t n)
{
    uint8_t before[16], *p = frame + m->l4 + 8 + at;
    memcpy(before, p, n);
    uint64_t change = overwrite(p, to, n);
    patch_udp(frame + m->l4 + 6, change + patch_icrc(rewrite_icrc(frame, m), before, p, n));
}

/* ---- tunnels ---- */

enum { IP4 = 20, IP6 = 40, UDP = 8, GUE = 4 };

uint32_t bal_tunnel_overhead(uint8_t forward, uint8_t family)
{
    if (forward != BAL_IPIP && forward != BAL_GUE) return 0;
    return (family == 6 ? IP6 : IP4) + (forward == BAL_GUE ? UDP + GUE : 0);
}

static uint8_t traffic_class(const uint8_t *ip)
{
    return ip[0] >> 4 == 6 ? (uint8_t)(ip[0] << 4 | ip[1] >> 4) : ip[1];
}

static void rewrite_ip4_header(uint8_t *ip, const uint8_t *inner, uint32_t len, uint8_t proto,
                               const struct bal_tunnel *t)
{
    bool whole = inner[0] >> 4 == 6 || inner[6] & 0x40; /* as the inner packet says, it may not be cut */
    memset(ip, 0, IP4);
    ip[0] = 0x45;
    ip[1] = traffic_class(inner);
    bal_put16(ip + 2, len);
    /* The number tells fragments apart, and no more; the inner one, or its like, is as good as any. */
    if (!whole) memcpy(ip + 4, inner + 4, 2);
    ip[6] = whole ? 0x40 : 0;
    ip[8] = 64;
    ip[9] = proto;
    memcpy(ip + 12, t->from->byte, 4);
    memcpy(ip + 16, t->to->byte, 4);
    bal_checksum_write(ip + 10, bal_sum(ip, IP4));
}

static void rewrite_ip6_header(uint8_t *ip, const uint8_t *inner, uint32_t len, uint8_t proto,
                               const struct bal_tunnel *t)
{
    uint8_t class = traffic_class(inner);
    ip[0] = (uint8_t)(0x60 | class >> 4);
    ip[1] = (uint8_t)(class << 4);
    ip[2] = ip[3] = 0;
    bal_put16(ip + 4, len - IP6);
    ip[6] = proto;
    ip[7] = 64;
    memcpy(ip + 8, t->from->byte, 16);
    memcpy(ip + 24, t->to->byte, 16);
}

uint32_t bal_encapsulate(struct bal_packet *p, const struct bal_meta *m, const struct bal_tunnel *t,
                         uint16_t *l3)
{
    bool ipv6 = t->to->family == 6, gue = t->forward == BAL_GUE;
    uint32_t extra = bal_tunnel_overhead(t->forward, t->to->family), len = m->ip_len + extra;
    uint8_t next = m->ipv6 ? 41 : 4, *inner = p->data + m->l3, *ip = inner - extra;
    if (len > UINT16_MAX || p->headroom + m->l3 < extra + BAL_ETH_LEN + BAL_VLAN_LEN) return 0;
    if (ipv6)
        rewrite_ip6_header(ip, inner, len, gue ? BAL_IP_UDP : next, t);
    else
        rewrite_ip4_header(ip, inner, len, gue ? BAL_IP_UDP : next, t);
    if (gue) {
        uint8_t *udp = inner - GUE - UDP;
        bal_put16(udp, t->port);
        bal_put16(udp + 2, t->to_port);
        bal_put16(udp + 4, len - (ipv6 ? IP6 : IP4));
        memset(udp + 6, 0, 2);
        memcpy(inner - GUE, (uint8_t[GUE]){0, next, 0, 0}, GUE);
        /* IPv6 has no UDP without a checksum, so this one payload is read. */
        if (ipv6) {
            uint32_t udp_len = len - IP6;
            uint64_t sum = bal_sum(ip + 8, 32) + BAL_IP_UDP + udp_len + bal_sum(udp, udp_len);
            bal_checksum_write(udp + 6, sum);
            if (!bal_get16(udp + 6)) bal_put16(udp + 6, 0xffff);
        }
    }
    /* The outer header may lie in front of what was data: the packet's beginning moves there. */
    if (extra > m->l3) {
        uint32_t by = extra - m->l3;
        p->data -= by;
        p->headroom -= by;
        p->len += by;
        *l3 = 0;
    } else {
        *l3 = (uint16_t)(m->l3 - extra);
    }
    return len;
}
