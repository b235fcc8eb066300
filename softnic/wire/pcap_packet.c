/* SPDX-License-Identifier: Apache-2.0 */
/* The headers that a frame had, or would have had, on a network. */
#include <string.h>

#include "softnic/base/bits.h"
#include "softnic/config/addr.h"
#include "softnic/wire/pcap.h"
#include "src/roce/hdr.h"
#include "src/roce/icrc.h"

enum { IPV4 = 20, IPV6 = 40, UDP = 8, TTL = 64 };

/* The Internet checksum's sum (RFC 1071), not folded. */
static uint64_t pcap_packet_sum(uint64_t s, const uint8_t *p, uint32_t len)
{
    uint32_t i;

    for (i = 0; i + 1 < len; i += 2) s += (uint32_t)p[i] << 8 | p[i + 1];
    return i < len ? s + ((uint32_t)p[i] << 8) : s;
}

static uint16_t fold(uint64_t s)
{
    while (s >> 16) s = (s & 0xffff) + (s >> 16);
    return (uint16_t)~s;
}

/* The ID that the sender counted with. For a damaged packet there is none: 0 is as good as any. */
static uint16_t ip_id(const struct sn_frame *f)
{
    struct roce_path path = {.sport = f->sport, .dport = ROCE_UDP_PORT, .frag_off = ROCE_IP_DF};
    uint16_t id;

    if (f->has_ip_id) return f->ip_id;
    memcpy(path.src, f->src_gid + 12, 4);
    memcpy(path.dst, f->dst_gid + 12, 4);
    if (f->len < ROCE_MIN_PACKET || roce_icrc_ok(&path, f->data, f->len)) return 0;
    return roce_icrc_match_ipv4_any_id(&path, f->data, f->len, &id) ? id : 0;
}

static void put_ipv4(uint8_t *p, const struct sn_frame *f)
{
    memset(p, 0, IPV4);
    p[0] = 0x45;
    p[1] = f->ecn & 3;
    sn_put16_be(p + 2, IPV4 + UDP + f->len);
    sn_put16_be(p + 4, ip_id(f));
    sn_put16_be(p + 6, ROCE_IP_DF);
    p[8] = TTL;
    p[9] = IPPROTO_UDP;
    memcpy(p + 12, f->src_gid + 12, 4);
    memcpy(p + 16, f->dst_gid + 12, 4);
    sn_put16_be(p + 10, fold(pcap_packet_sum(0, p, IPV4)));
}

static void put_ipv6(uint8_t *p, const struct sn_frame *f)
{
    memset(p, 0, IPV6);
    p[0] = 0x60;
    p[1] = (uint8_t)((f->ecn & 3) << 4);
    sn_put16_be(p + 4, UDP + f->len);
    p[6] = IPPROTO_UDP;
    p[7] = TTL;
    memcpy(p + 8, f->src_gid, 16);
    memcpy(p + 24, f->dst_gid, 16);
}

/* addresses: both, as they stand in the IP header, which the checksum covers together with protocol and
 * length. */
static void put_udp(uint8_t *p, const struct sn_frame *f, const uint8_t *addresses, uint32_t address_bytes)
{
    uint64_t s;
    uint16_t check;

    sn_put16_be(p, f->sport);
    sn_put16_be(p + 2, ROCE_UDP_PORT);
    sn_put16_be(p + 4, UDP + f->len);
    sn_put16_be(p + 6, 0);
    s = pcap_packet_sum(IPPROTO_UDP + UDP + f->len, addresses, address_bytes);
    check = fold(pcap_packet_sum(pcap_packet_sum(s, p, UDP), f->data, f->len));
    sn_put16_be(p + 6, check ? check : 0xffff); /* 0 would mean "none" */
}

uint32_t sn_pcap_headers(const struct sn_frame *f, uint8_t p[SN_PCAP_HEADERS])
{
    if (sn_gid_is_ipv4(f->src_gid) && sn_gid_is_ipv4(f->dst_gid)) {
        put_ipv4(p, f);
        put_udp(p + IPV4, f, p + 12, 8);
        return IPV4 + UDP;
    }
    put_ipv6(p, f);
    put_udp(p + IPV6, f, p + 8, 32);
    return IPV6 + UDP;
}
