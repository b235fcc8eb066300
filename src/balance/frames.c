/* SPDX-License-Identifier: Apache-2.0 */
/* The balancer's own packets: ARP, neighbour discovery, ICMP. */
#include "src/balance/frames.h"

#include <string.h>

#include "src/balance/checksum.h"

static void frames_swap(uint8_t *a, uint8_t *b, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        uint8_t t = a[i];
        a[i] = b[i];
        b[i] = t;
    }
}

static void turn_round(struct bal_packet *p, const struct bal_meta *m)
{
    uint8_t *ip = p->data + m->l3;
    frames_swap(p->data, p->data + 6, 6);
    frames_swap(ip + (m->ipv6 ? 8 : 12), ip + (m->ipv6 ? 24 : 16), m->ipv6 ? 16 : 4);
}

void bal_echo(struct bal_packet *p, const struct bal_meta *m)
{
    uint8_t *ip = p->data + m->l3, *icmp = p->data + m->l4, before[2] = {icmp[0], icmp[1]};
    turn_round(p, m);
    icmp[0] = m->ipv6 ? 129 : 0;
    bal_checksum_patch(icmp + 2, bal_sum_change(before, icmp, 2));
    uint8_t word[2] = {ip[8], ip[9]};
    ip[m->ipv6 ? 7 : 8] = 64;
    if (!m->ipv6) bal_checksum_patch(ip + 10, bal_sum_change(word, ip + 8, 2));
    p->len = (uint32_t)m->l3 + m->ip_len;
}

/* ---- errors ---- */

enum { IP4 = 20, IP6 = 40, ICMP = 8, TCP = 20, QUOTE4 = 548, QUOTE6 = 1280 - IP6 - ICMP };

static uint64_t pseudo_sum(const uint8_t *ip, uint32_t len)
{
    return bal_sum(ip + 8, 32) + len + BAL_IP_ICMP6;
}

/* An IPv4 or IPv6 header of the balancer's own. */
static void write_header(uint8_t *ip, uint8_t proto, const struct bal_addr *from, const struct bal_addr *to,
                         uint32_t len)
{
    if (from->family == 6) {
        memset(ip, 0, IP6);
        ip[0] = 0x60;
        bal_put16(ip + 4, len);
        ip[6] = proto;
        ip[7] = 64;
        memcpy(ip + 8, from->byte, 16);
        memcpy(ip + 24, to->byte, 16);
        return;
    }
    memset(ip, 0, IP4);
    ip[0] = 0x45;
    bal_put16(ip + 2, IP4 + len);
    ip[8] = 64;
    ip[9] = proto;
    memcpy(ip + 12, from->byte, 4);
    memcpy(ip + 16, to->byte, 4);
    bal_checksum_write(ip + 10, bal_sum(ip, IP4));
}

bool bal_error(struct bal_packet *p, const struct bal_meta *m, enum bal_error_kind kind, uint32_t mtu,
               const struct bal_addr *from)
{
    static const uint8_t type[][2][2] = {{{3, 4}, {2, 0}}, {{3, 3}, {1, 4}}, {{11, 0}, {3, 0}}};
    uint32_t extra = (m->ipv6 ? IP6 : IP4) + ICMP, most = m->ipv6 ? QUOTE6 : QUOTE4;
    uint32_t quote = m->ip_len < most ? m->ip_len : most;
    if (p->headroom < extra) return false;
    uint8_t eth[BAL_ETH_LEN + BAL_VLAN_LEN], *ip = p->data + m->l3 - extra, *icmp = ip + extra - ICMP;
    struct bal_addr to = bal_addr_of(bal_src(p->data, m), m->ipv6);
    memcpy(eth, p->data, m->l3);
    frames_swap(eth, eth + 6, 6);
    write_header(ip, m->ipv6 ? BAL_IP_ICMP6 : BAL_IP_ICMP, from, &to, ICMP + quote);
    memset(icmp, 0, ICMP);
    memcpy(icmp, type[kind][m->ipv6], 2);
    if (m->ipv6) bal_put16(icmp + 4, mtu >> 16);
    bal_put16(icmp + 6, mtu);
    bal_checksum_write(icmp + 2, (m->ipv6 ? pseudo_sum(ip, ICMP + quote) : 0) + bal_sum(icmp, ICMP + quote));
    p->data -= extra;
    p->headroom -= extra;
    p->len = m->l3 + extra + quote;
    memcpy(p->data, eth, m->l3);
    return true;
}

void bal_reset(struct bal_packet *p, const struct bal_meta *m)
{
    uint8_t *ip = p->data + m->l3, *tcp = ip + (m->ipv6 ? IP6 : IP4), was[TCP];
    const struct bal_addr from = bal_addr_of(bal_dst(p->data, m), m->ipv6),
                          to = bal_addr_of(bal_src(p->data, m), m->ipv6);
    memcpy(was, p->data + m->l4, TCP);
    uint32_t header = (uint32_t)(was[12] >> 4) * 4, length = (uint32_t)(m->l3 + m->ip_len - m->l4);
    uint32_t end = bal_get32(was + 4) + (length > header ? length - header : 0) + !!(m->flags & BAL_SYN) +
                   !!(m->flags & BAL_FIN);
    frames_swap(p->data, p->data + 6, 6);
    write_header(ip, BAL_IP_TCP, &from, &to, TCP);
    memset(tcp, 0, TCP);
    memcpy(tcp, was + 2, 2);
    memcpy(tcp + 2, was, 2);
    /* As TCP says: by the number that the other side waits for, or else by acknowledging what it sent. */
    if (m->flags & BAL_ACK)
        memcpy(tcp + 4, was + 8, 4);
    else
        bal_put32(tcp + 8, end);
    tcp[12] = TCP / 4 << 4;
    tcp[13] = m->flags & BAL_ACK ? BAL_RST : BAL_RST | BAL_ACK;
    uint64_t sum = BAL_IP_TCP + TCP + bal_sum(ip + (m->ipv6 ? 8 : 12), m->ipv6 ? 32 : 8);
    bal_checksum_write(tcp + 16, sum + bal_sum(tcp, TCP));
    p->len = (uint32_t)(tcp + TCP - p->data);
}

/* ---- ARP and neighbour discovery ---- */

static uint8_t ethernet(uint8_t *frame, const struct bal_link *link, const uint8_t to[6], uint16_t type)
{
    uint8_t at = 12;
    memcpy(frame, to, 6);
    memcpy(frame + 6, link->mac, 6);
    if (link->vlan) {
        bal_put16(frame + 12, BAL_ETH_VLAN);
        bal_put16(frame + 14, link->vlan);
        at = 16;
    }
    bal_put16(frame + at, type);
    return (uint8_t)(at + 2);
}

static uint8_t frames_arp(uint8_t *frame, const struct bal_link *link, const uint8_t *to_mac,
                          const uint8_t target[4], bool answer)
{
    static const uint8_t all[6] = {255, 255, 255, 255, 255, 255}, none[6];
    uint8_t at = ethernet(frame, link, to_mac ? to_mac : all, BAL_ETH_ARP), *p = frame + at;
    memcpy(p, (uint8_t[]){0, 1, 8, 0, 6, 4, 0, answer ? 2 : 1}, 8);
    memcpy(p + 8, link->mac, 6);
    memcpy(p + 14, link->own.byte, 4);
    memcpy(p + 18, to_mac ? to_mac : none, 6);
    memcpy(p + 24, target, 4);
    return (uint8_t)(at + 28);
}

/* A neighbour solicitation (135) or advertisement (136) from link->own to `to`. */
static uint8_t frames_nd(uint8_t *frame, const struct bal_link *link, const uint8_t to_mac[6],
                         const uint8_t to[16], const uint8_t head[8], const uint8_t target[16])
{
    uint8_t at = ethernet(frame, link, to_mac, BAL_ETH_IP6), *ip = frame + at, *icmp = ip + IP6;
    memset(ip, 0, IP6 + 32);
    ip[0] = 0x60;
    bal_put16(ip + 4, 32);
    ip[6] = BAL_IP_ICMP6;
    ip[7] = 255;
    memcpy(ip + 8, link->own.byte, 16);
    memcpy(ip + 24, to, 16);
    memcpy(icmp, head, 8);
    memcpy(icmp + 8, target, 16);
    icmp[24] = head[0] == 135 ? 1 : 2; /* the sender's MAC, the target's MAC */
    icmp[25] = 1;
    memcpy(icmp + 26, link->mac, 6);
    bal_checksum_write(icmp + 2, pseudo_sum(ip, 32) + bal_sum(icmp, 32));
    return (uint8_t)(at + IP6 + 32);
}

uint8_t bal_ask_frame(uint8_t frame[110], const struct bal_link *link, const struct bal_addr *who)
{
    if (who->family == 4) return frames_arp(frame, link, NULL, who->byte, false);
    /* to the group of all addresses that end like this one */
    uint8_t group[16] = {0xff, 2, [11] = 1, [12] = 0xff}, mac[6] = {0x33, 0x33, 0xff};
    memcpy(group + 13, who->byte + 13, 3);
    memcpy(mac + 3, who->byte + 13, 3);
    return frames_nd(frame, link, mac, group, (uint8_t[8]){135}, who->byte);
}

uint8_t bal_answer_frame(uint8_t frame[110], const struct bal_link *link, const uint8_t *to_mac,
                         const struct bal_addr *to)
{
    static const uint8_t everybody[16] = {0xff, 2, [15] = 1}, group_mac[6] = {0x33, 0x33, [5] = 1};
    if (link->own.family == 4)
        return frames_arp(frame, link, to_mac, to ? to->byte : link->own.byte, to != NULL);
    if (!to)
        return frames_nd(frame, link, group_mac, everybody, (uint8_t[8]){136, [4] = 0x20}, link->own.byte);
    return frames_nd(frame, link, to_mac, to->byte, (uint8_t[8]){136, [4] = 0x60}, link->own.byte);
}
