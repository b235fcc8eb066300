/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/balance/rig.h"

#include <string.h>

#include "src/roce/hdr.h"
#include "src/roce/icrc.h"

/* ---- checksums, by themselves: nothing here is the balancer's ---- */

static uint32_t words(const uint8_t *p, uint32_t n)
{
    uint32_t sum = 0;
    for (uint32_t i = 0; i < n; i++) sum += i % 2 ? p[i] : (uint32_t)p[i] << 8;
    return sum;
}

static uint16_t complement(uint32_t sum)
{
    while (sum > 0xffff) sum = (sum >> 16) + (sum & 0xffff);
    return (uint16_t)~sum;
}

static void put16(uint8_t *p, uint32_t v)
{
    p[0] = (uint8_t)(v >> 8);
    p[1] = (uint8_t)v;
}

static uint32_t get16(const uint8_t *p)
{
    return (uint32_t)(p[0] << 8 | p[1]);
}

struct ip {
    bool ipv6, fragment;
    uint8_t proto;
    uint32_t hdr, total;
};

static struct ip ip_of(const uint8_t *p)
{
    if (p[0] >> 4 == 6) return (struct ip){true, false, p[6], 40, 40 + get16(p + 4)};
    return (struct ip){false, get16(p + 6) & 0x3fff, p[9], (p[0] & 15u) * 4, get16(p + 2)};
}

static uint16_t transport_sum(const uint8_t *p, const struct ip *ip)
{
    uint32_t n = ip->total - ip->hdr;
    uint32_t sum = ip->ipv6 ? words(p + 8, 32) : words(p + 12, 8);
    return complement(sum + ip->proto + n + words(p + ip->hdr, n));
}

/* ---- packets ---- */

struct bal_addr rig_ip4(uint32_t addr)
{
    struct bal_addr a = {.family = 4};
    put16(a.byte, addr >> 16);
    put16(a.byte + 2, addr);
    return a;
}

struct bal_addr rig_ip6(uint32_t which)
{
    struct bal_addr a = {.family = 6, .byte = {0xfd}};
    put16(a.byte + 12, which >> 16);
    put16(a.byte + 14, which);
    return a;
}

static uint8_t *begin(struct rig_packet *out, bool ipv6)
{
    static const uint8_t macs[12] = {2, 1, 1, 1, 1, 1, 2, 9, 9, 9, 9, 9};
    out->p = (struct bal_packet){.data = out->buffer + RIG_ROOM, .headroom = RIG_ROOM};
    memcpy(out->p.data, macs, 12);
    put16(out->p.data + 12, ipv6 ? BAL_ETH_IP6 : BAL_ETH_IP4);
    return out->p.data + BAL_ETH_LEN;
}

/* The IP header in front of n bytes, and the frame's length. Returns where the n bytes begin. */
static uint8_t *ip_header(struct rig_packet *out, const struct bal_addr *from, const struct bal_addr *to,
                          uint8_t proto, uint32_t n)
{
    bool ipv6 = from->family == 6;
    uint8_t *ip = begin(out, ipv6);
    memset(ip, 0, 40);
    if (ipv6) {
        ip[0] = 0x60;
        put16(ip + 4, n);
        ip[6] = proto;
        ip[7] = 64;
        memcpy(ip + 8, from->byte, 16);
        memcpy(ip + 24, to->byte, 16);
    } else {
        ip[0] = 0x45;
        put16(ip + 2, 20 + n);
        put16(ip + 4, 0x1234);
        ip[6] = 0x40;
        ip[8] = 64;
        ip[9] = proto;
        memcpy(ip + 12, from->byte, 4);
        memcpy(ip + 16, to->byte, 4);
        put16(ip + 10, complement(words(ip, 20)));
    }
    out->p.len = BAL_ETH_LEN + (ipv6 ? 40 : 20) + n;
    return ip + (ipv6 ? 40 : 20);
}

static void pattern(uint8_t *p, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) p[i] = (uint8_t)(i * 37 + 11);
}

static void seal(struct rig_packet *out, uint32_t sum_at)
{
    uint8_t *ip = out->p.data + BAL_ETH_LEN;
    struct ip h = ip_of(ip);
    uint16_t sum = transport_sum(ip, &h);
    put16(ip + h.hdr + sum_at, !sum && h.proto == 17 ? 0xffff : sum);
}

void rig_tcp(struct rig_packet *out, struct rig_end from, struct rig_end to, uint8_t flags, uint32_t payload)
{
    uint8_t *tcp = ip_header(out, &from.addr, &to.addr, 6, 20 + payload);
    memset(tcp, 0, 20);
    put16(tcp, from.port);
    put16(tcp + 2, to.port);
    tcp[12] = 0x50;
    tcp[13] = flags;
    pattern(tcp + 20, payload);
    seal(out, 16);
}

void rig_tcp_numbers(struct rig_packet *out, uint32_t seq, uint32_t ack)
{
    uint8_t *ip = out->p.data + BAL_ETH_LEN, *tcp = ip + ip_of(ip).hdr;
    put16(tcp + 4, seq >> 16);
    put16(tcp + 6, seq);
    put16(tcp + 8, ack >> 16);
    put16(tcp + 10, ack);
    put16(tcp + 16, 0);
    seal(out, 16);
}

void rig_udp(struct rig_packet *out, struct rig_end from, struct rig_end to, uint32_t payload)
{
    uint8_t *udp = ip_header(out, &from.addr, &to.addr, 17, 8 + payload);
    put16(udp, from.port);
    put16(udp + 2, to.port);
    put16(udp + 4, 8 + payload);
    put16(udp + 6, 0);
    pattern(udp + 8, payload);
    seal(out, 6);
}

void rig_roce(struct rig_packet *out, struct bal_addr from, struct bal_addr to, const void *bytes,
              uint32_t len)
{
    uint8_t *udp = ip_header(out, &from, &to, 17, 8 + len + 4);
    struct roce_path path;
    size_t n;
    put16(udp, 0xc123);
    put16(udp + 2, ROCE_UDP_PORT);
    put16(udp + 4, 8 + len + 4);
    put16(udp + 6, 0);
    memcpy(udp + 8, bytes, len);
    roce_path_of_packet(out->p.data + BAL_ETH_LEN, out->p.len - BAL_ETH_LEN, &path, &n);
    roce_icrc_end(roce_icrc(&path, udp + 8, n), udp + 8 + len);
    uint8_t last = from.byte[from.family == 6 ? 15 : 3] ^ to.byte[to.family == 6 ? 15 : 3];
    if (last & 1) seal(out, 6); /* hardware leaves UDP's checksum out, software does not */
}

void rig_error(struct rig_packet *out, struct bal_addr router, const struct rig_packet *about)
{
    const uint8_t *ip = about->p.data + BAL_ETH_LEN;
    struct rig_end from, to;
    rig_ends(about, &from, &to);
    uint32_t n = about->p.len - BAL_ETH_LEN < 200 ? about->p.len - BAL_ETH_LEN : 200;
    bool ipv6 = router.family == 6;
    uint8_t *icmp = ip_header(out, &router, &from.addr, ipv6 ? 58 : 1, 8 + n);
    memset(icmp, 0, 8);
    icmp[0] = ipv6 ? 1 : 3;
    icmp[1] = ipv6 ? 0 : 1;
    memcpy(icmp + 8, ip, n);
    if (ipv6)
        seal(out, 2);
    else
        put16(icmp + 2, complement(words(icmp, 8 + n)));
}

void rig_fragment(struct rig_packet *out, const struct rig_packet *whole, uint32_t from, uint32_t bytes)
{
    const uint8_t *ip = whole->p.data + BAL_ETH_LEN;
    uint32_t all = get16(ip + 2) - 20;
    rig_arrive(out, whole->p.data, BAL_ETH_LEN + 20);
    uint8_t *to = out->p.data + BAL_ETH_LEN;
    memcpy(to + 20, ip + 20 + from, bytes);
    out->p.len += bytes;
    put16(to + 2, 20 + bytes);
    put16(to + 6, from / 8 | (from + bytes < all ? 0x2000u : 0));
    put16(to + 10, 0);
    put16(to + 10, complement(words(to, 20)));
}

void rig_arrive(struct rig_packet *p, const uint8_t *frame, uint32_t len)
{
    uint8_t copy[RIG_LEN]; /* the frame may be in the packet itself */
    memcpy(copy, frame, len);
    p->p = (struct bal_packet){.data = p->buffer + RIG_ROOM, .headroom = RIG_ROOM, .len = len};
    memcpy(p->p.data, copy, len);
}

/* ---- what comes out ---- */

static bool sound_udp(const uint8_t *ip, const struct ip *h, uint32_t len)
{
    const uint8_t *udp = ip + h->hdr;
    if (get16(udp + 4) != h->total - h->hdr) return false;
    if (get16(udp + 6) && transport_sum(ip, h)) return false;
    if (!get16(udp + 6) && h->ipv6 && get16(udp + 2) != ROCE_UDP_PORT) return false;
    if (get16(udp + 2) == 6080)
        return udp[8] == 0 && (udp[9] == 4 || udp[9] == 41) && rig_sound(udp + 12, len - h->hdr - 12);
    if (get16(udp + 2) != ROCE_UDP_PORT) return true;
    struct roce_path path;
    size_t n;
    int at = roce_path_of_packet(ip, len, &path, &n);
    return at > 0 && roce_icrc_ok(&path, ip + at, n);
}

/* The packet inside an error, as far as its bytes go. */
static bool sound_inside(const uint8_t *ip, uint32_t len)
{
    struct ip h = ip_of(ip);
    if (!h.ipv6 && complement(words(ip, h.hdr))) return false;
    if (h.total > len) return true;
    return rig_sound(ip, h.total);
}

bool rig_sound(const uint8_t *ip, uint32_t len)
{
    struct ip h = ip_of(ip);
    if (h.total > len || (!h.ipv6 && complement(words(ip, h.hdr)))) return false;
    if (h.fragment) return true;
    switch (h.proto) {
    case 4:
    case 41: return rig_sound(ip + h.hdr, len - h.hdr);
    case 6: return !transport_sum(ip, &h);
    case 17: return sound_udp(ip, &h, len);
    case 1:
        return !complement(words(ip + h.hdr, h.total - h.hdr)) &&
               (ip[h.hdr] != 3 || sound_inside(ip + h.hdr + 8, h.total - h.hdr - 8));
    case 58:
        return !transport_sum(ip, &h) && (ip[h.hdr] > 4 || sound_inside(ip + h.hdr + 8, h.total - h.hdr - 8));
    default: return true;
    }
}

bool rig_same_meta(const struct bal_meta *a, const struct bal_meta *b)
{
#define SAME(what) (a->what == b->what)
    return SAME(kind) && SAME(ipv6) && SAME(first) && SAME(proto) && SAME(ttl) && SAME(flags) &&
           SAME(opcode) && SAME(vlan) && SAME(l3) && SAME(l4) && SAME(ip_len) && SAME(sport) && SAME(dport) &&
           SAME(id) && SAME(dqpn) && SAME(sqpn) && SAME(in_l3) && SAME(in_l4) && SAME(in_proto) &&
           SAME(in_sport) && SAME(in_dport);
#undef SAME
}

void rig_ends(const struct rig_packet *p, struct rig_end *from, struct rig_end *to)
{
    const uint8_t *ip = p->p.data + BAL_ETH_LEN;
    struct ip h = ip_of(ip);
    from->addr = bal_addr_of(ip + (h.ipv6 ? 8 : 12), h.ipv6);
    to->addr = bal_addr_of(ip + (h.ipv6 ? 24 : 16), h.ipv6);
    from->port = (uint16_t)get16(ip + h.hdr);
    to->port = (uint16_t)get16(ip + h.hdr + 2);
}

/* ---- a balancer ---- */

int rig_open(struct rig *r, const struct bal_attr *attr)
{
    struct bal_attr a = *attr;
    memset(r, 0, sizeof(*r));
    r->now = 1000000000000;
    if (!a.cores) a.cores = 1;
    if (!a.flows) a.flows = 10000;
    if (!a.wide_flows) a.wide_flows = 10000;
    r->config.port[0] =
        (struct bal_port){.used = true, .addr = {rig_ip4(0x0a000001), rig_ip6(1)}, .prefix = {8, 64}};
    int error = bal_create(&a, &r->bal);
    if (error) return error;
    bal_set_port_mac(r->bal, 0, (const uint8_t[6]){2, 1, 1, 1, 1, 1}, false);
    r->core = bal_core_begin(r->bal, 0);
    return 0;
}

int rig_open_three(struct rig *r, uint8_t proto)
{
    const struct bal_attr attr = {0};
    int error = rig_open(r, &attr);
    rig_service(r, 1, false, proto)->scheduler = BAL_RR;
    for (uint32_t w = 1; w <= 3; w++) rig_worker(r, w, 1);
    return error ? error : rig_publish(r);
}

void rig_close(struct rig *r)
{
    bal_core_end(r->core);
    bal_destroy(r->bal);
}

struct bal_service *rig_service(struct rig *r, uint32_t i, bool ipv6, uint8_t proto)
{
    r->config.service[i] =
        (struct bal_service){.used = true,
                             .proto = proto,
                             .vip = ipv6 ? rig_ip6(0x1000000 + i) : rig_ip4(0x0a010000 + i),
                             .port = 80};
    return &r->config.service[i];
}

struct bal_worker *rig_worker(struct rig *r, uint32_t w, uint32_t service)
{
    bool ipv6 = r->config.service[service].vip.family == 6;
    r->config.worker[w] =
        (struct bal_worker){.used = true,
                            .state = BAL_UP,
                            .mac_known = true,
                            .mac = {2, 0, 0, 0, (uint8_t)(w >> 8), (uint8_t)w},
                            .service = (uint16_t)service,
                            .weight = 100,
                            .addr = ipv6 ? rig_ip6(0x2000000 + w) : rig_ip4(0x0a020000 + w)};
    return &r->config.worker[w];
}

int rig_publish(struct rig *r)
{
    char error[256] = "";
    int rc = bal_publish(r->bal, &r->config, error, sizeof(error));
    return rc;
}

void rig_ask(struct rig *r, const struct bal_addr *client)
{
    uint8_t mac[6];
    bal_client_mac(r->bal->neighbours, 0, client, r->now, mac);
}

int rig_send(struct rig *r, struct rig_packet *p)
{
    gw_balance_burst(r->core, &p->p, 1, r->now += 1000);
    return p->p.verdict;
}

uint32_t rig_went_to(const struct rig_packet *p)
{
    return (uint32_t)(p->p.data[4] << 8 | p->p.data[5]);
}
