/* SPDX-License-Identifier: Apache-2.0 */
/* Packets that leave the balancer: addresses, tunnels, errors, and every checksum as a full computation has
 * it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "src/balance/checksum.h"
#include "src/balance/frames.h"
#include "src/balance/rewrite.h"
#include "tests/balance/rig.h"
#include "tests/rnd.h"

static struct rig r;
static struct rig_packet p, q;

static int open_rig(void **state)
{
    const struct bal_attr attr = {0};
    (void)state;
    return rig_open(&r, &attr);
}
static int close_rig(void **state)
{
    (void)state;
    rig_close(&r);
    return 0;
}

static const uint8_t *ip(void)
{
    return p.p.data + (p.p.data[12] == 0x81 ? 18 : 14);
}
static bool sound(void)
{
    uint32_t l2 = (uint32_t)(ip() - p.p.data);
    return rig_sound(ip(), p.p.len - l2);
}

static struct rig_end client(bool ipv6)
{
    return (struct rig_end){ipv6 ? rig_ip6(0x3000001) : rig_ip4(0x0a800001), 40000};
}

static const struct bal_addr *client_addr(bool ipv6)
{
    static struct bal_addr a;
    a = client(ipv6).addr;
    return &a;
}

static void one_service(bool ipv6, uint8_t proto, uint8_t forward)
{
    memset(r.config.service, 0, sizeof(r.config.service));
    memset(r.config.worker, 0, sizeof(r.config.worker));
    rig_service(&r, 1, ipv6, proto)->forward = forward;
    rig_worker(&r, 1, 1);
    if (forward == BAL_NAT) r.config.worker[1].port = 8080;
    assert_int_equal(rig_publish(&r), 0);
}

static void from_client(bool ipv6, uint8_t proto, uint32_t payload)
{
    struct rig_end vip = {r.config.service[1].vip, 80};
    if (proto == BAL_TCP)
        rig_tcp(&p, client(ipv6), vip, BAL_SYN, payload);
    else
        rig_udp(&p, client(ipv6), vip, payload);
    assert_true(sound());
}

static void direct_routing_changes_macs_alone(void **state)
{
    (void)state;
    one_service(false, BAL_TCP, BAL_DR);
    from_client(false, BAL_TCP, 33);
    memcpy(&q, &p, sizeof(p));
    assert_int_equal(rig_send(&r, &p), BAL_SEND);
    assert_int_equal(p.p.len, q.p.len);
    assert_memory_equal(ip(), q.buffer + RIG_ROOM + 14, p.p.len - 14);
    assert_memory_equal(p.p.data, ((uint8_t[]){2, 0, 0, 0, 0, 1, 2, 1, 1, 1, 1, 1}), 12);
}

static void nat_there_and_back(void **state)
{
    (void)state;
    for (int k = 0; k < 4; k++) {
        bool ipv6 = k & 1;
        uint8_t proto = k & 2 ? BAL_UDP : BAL_TCP;
        struct rig_end from, to;
        one_service(ipv6, proto, BAL_NAT);
        from_client(ipv6, proto, 101);
        assert_int_equal(rig_send(&r, &p), BAL_SEND);
        assert_true(sound());
        rig_ends(&p, &from, &to);
        assert_true(bal_same_addr(&to.addr, &r.config.worker[1].addr) && to.port == 8080);
        assert_true(bal_same_addr(&from.addr, client_addr(ipv6)) && from.port == 40000);
        assert_int_equal(ip()[ipv6 ? 7 : 8], 63);
        /* The answer. The client's MAC has to be asked for first. */
        for (int again = 0; again < 2; again++) {
            if (proto == BAL_TCP)
                rig_tcp(&p, to, from, BAL_SYN | BAL_ACK, 7);
            else
                rig_udp(&p, to, from, 7);
            if (rig_send(&r, &p) == BAL_SEND) break;
            struct bal_frame frame[8];
            assert_int_not_equal(bal_core_frames(r.core, frame, 8), 0);
            rig_ask(&r, &from.addr);
            bal_neighbour_told(r.bal->neighbours, 0, &from.addr, (uint8_t[]){2, 7, 7, 7, 7, 7}, r.now);
        }
        assert_int_equal(p.p.verdict, BAL_SEND);
        assert_true(sound());
        struct rig_end back, dst;
        rig_ends(&p, &back, &dst);
        assert_true(bal_same_addr(&back.addr, &r.config.service[1].vip) && back.port == 80);
        assert_memory_equal(p.p.data, ((uint8_t[]){2, 7, 7, 7, 7, 7}), 6);
        /* An answer to no client */
        dst.port = 1;
        rig_tcp(&p, to, dst, BAL_ACK, 0);
        assert_int_equal(rig_send(&r, &p), BAL_DISCARD);
    }
}

/* Random addresses, ports, lengths and contents: what was patched is what a full computation gives. */
static void patched_is_as_good_as_computed(void **state)
{
    (void)state;
    struct rnd seed = {1};
    for (int i = 0; i < 20000; i++) {
        bool ipv6 = i & 1;
        uint8_t proto = i & 2 ? BAL_UDP : BAL_TCP;
        if (i % 500 < 4) {
            one_service(ipv6, proto, BAL_NAT);
            r.config.worker[1].addr = ipv6 ? rig_ip6((uint32_t)rnd64(&seed))
                                           : rig_ip4(0x0a000002 | (uint32_t)(rnd64(&seed) & 0xffffff));
            r.config.worker[1].port = (uint16_t)(rnd64(&seed) | 1);
            assert_int_equal(rig_publish(&r), 0);
        }
        if (r.config.service[1].proto != proto || (r.config.service[1].vip.family == 6) != ipv6) continue;
        struct rig_end c = {ipv6 ? rig_ip6((uint32_t)rnd64(&seed)) : rig_ip4((uint32_t)rnd64(&seed)),
                            (uint16_t)rnd64(&seed)};
        struct rig_end vip = {r.config.service[1].vip, 80};
        if (proto == BAL_TCP)
            rig_tcp(&p, c, vip, BAL_SYN, (uint32_t)(rnd64(&seed) % 300));
        else
            rig_udp(&p, c, vip, (uint32_t)(rnd64(&seed) % 300));
        assert_int_equal(rig_send(&r, &p), BAL_SEND);
        assert_true(sound());
    }
}

static void tunnels(void **state)
{
    (void)state;
    for (int k = 0; k < 8; k++) {
        bool inner6 = k & 1, outer6 = k & 2;
        uint8_t forward = k & 4 ? BAL_GUE : BAL_IPIP;
        one_service(inner6, BAL_TCP, forward);
        r.config.worker[1].addr = outer6 ? rig_ip6(0x200) : rig_ip4(0x0a020001);
        assert_int_equal(rig_publish(&r), 0);
        from_client(inner6, BAL_TCP, 50);
        uint32_t before = p.p.len, inner = inner6 ? 40 : 20;
        uint8_t segment[70];
        memcpy(segment, ip() + inner, sizeof(segment));
        assert_int_equal(rig_send(&r, &p), BAL_SEND);
        assert_true(sound());
        uint32_t outer = outer6 ? 40 : 20, extra = outer + (forward == BAL_GUE ? 12 : 0);
        assert_int_equal(p.p.len, before + extra);
        assert_int_equal(ip()[0] >> 4, outer6 ? 6 : 4);
        struct rig_end from, to;
        rig_ends(&p, &from, &to);
        assert_true(bal_same_addr(&to.addr, &r.config.worker[1].addr));
        assert_true(bal_same_addr(&from.addr, &r.config.port[0].addr[outer6]));
        /* What is inside is what the client sent, one hop older. */
        assert_int_equal(ip()[extra] >> 4, inner6 ? 6 : 4);
        assert_memory_equal(ip() + extra + inner, segment, sizeof(segment));
        assert_int_equal(ip()[extra + (inner6 ? 7 : 8)], 63);
    }
}

static void tags_come_and_go(void **state)
{
    (void)state;
    r.config.port[1] =
        (struct bal_port){.used = true, .vlan = 77, .addr = {rig_ip4(0x0b000001)}, .prefix = {8}};
    one_service(false, BAL_TCP, BAL_DR);
    r.config.worker[1].via = 1;
    assert_int_equal(rig_publish(&r), 0);
    from_client(false, BAL_TCP, 50);
    assert_int_equal(rig_send(&r, &p), BAL_SEND);
    assert_int_equal(p.p.port, 1);
    assert_memory_equal(p.p.data + 12, ((uint8_t[]){0x81, 0, 0, 77, 8, 0}), 6);
    assert_true(sound());
    /* On the tagged port only packets with its tag are taken. */
    rig_arrive(&q, p.p.data, p.p.len);
    q.p.port = 1;
    assert_int_equal(rig_send(&r, &q), BAL_SEND);
    from_client(false, BAL_TCP, 50);
    p.p.port = 1;
    assert_int_equal(rig_send(&r, &p), BAL_DISCARD);
}

static void errors_find_their_flow(void **state)
{
    (void)state;
    for (int k = 0; k < 2; k++) {
        bool ipv6 = k;
        struct rig_end from, to;
        /* direct routing: an error about what the worker sent in the VIP's name */
        one_service(ipv6, BAL_TCP, BAL_DR);
        from_client(ipv6, BAL_TCP, 0);
        assert_int_equal(rig_send(&r, &p), BAL_SEND);
        rig_tcp(&q, (struct rig_end){r.config.service[1].vip, 80}, client(ipv6), BAL_ACK, 500);
        rig_error(&p, ipv6 ? rig_ip6(0x99) : rig_ip4(0x0a990001), &q);
        assert_int_equal(rig_send(&r, &p), BAL_SEND);
        assert_int_equal(rig_went_to(&p), 1);
        assert_true(sound());
        /* NAT: the worker has to see itself in it */
        one_service(ipv6, BAL_UDP, BAL_NAT);
        from_client(ipv6, BAL_UDP, 0);
        assert_int_equal(rig_send(&r, &p), BAL_SEND);
        rig_udp(&q, (struct rig_end){r.config.service[1].vip, 80}, client(ipv6), 5);
        rig_error(&p, ipv6 ? rig_ip6(0x99) : rig_ip4(0x0a990001), &q);
        assert_int_equal(rig_send(&r, &p), BAL_SEND);
        assert_true(sound());
        rig_ends(&p, &from, &to);
        assert_true(bal_same_addr(&to.addr, &r.config.worker[1].addr));
        const uint8_t *in = ip() + (ipv6 ? 48 : 28);
        assert_memory_equal(in + (ipv6 ? 8 : 12), r.config.worker[1].addr.byte, ipv6 ? 16 : 4);
        /* and the client the VIP, in an error about what it sent */
        rig_ask(&r, client_addr(ipv6));
        bal_neighbour_told(r.bal->neighbours, 0, client_addr(ipv6), (uint8_t[]){2, 7, 7, 7, 7, 7}, r.now);
        rig_udp(&q, client(ipv6), (struct rig_end){r.config.worker[1].addr, 8080}, 5);
        rig_error(&p, r.config.worker[1].addr, &q);
        assert_int_equal(rig_send(&r, &p), BAL_SEND);
        assert_true(sound());
        rig_ends(&p, &from, &to);
        assert_true(bal_same_addr(&from.addr, &r.config.service[1].vip));
        in = ip() + (ipv6 ? 48 : 28);
        assert_memory_equal(in + (ipv6 ? 24 : 16), r.config.service[1].vip.byte, ipv6 ? 16 : 4);
    }
}

static void fragments_stay_together(void **state)
{
    struct rig_packet whole, first, rest;
    (void)state;
    one_service(false, BAL_UDP, BAL_NAT);
    for (uint32_t w = 2; w < 9; w++) rig_worker(&r, w, 1);
    assert_int_equal(rig_publish(&r), 0);
    rig_udp(&whole, client(false), (struct rig_end){r.config.service[1].vip, 80}, 1000);
    rig_fragment(&first, &whole, 0, 512);
    rig_fragment(&rest, &whole, 512, 496);
    assert_int_equal(rig_send(&r, &rest), BAL_DISCARD); /* before the first */
    rig_fragment(&rest, &whole, 512, 496);
    struct bal_packet both[2] = {first.p, rest.p};
    gw_balance_burst(r.core, both, 2, r.now += 1000);
    assert_int_equal(both[0].verdict, BAL_SEND);
    assert_int_equal(both[1].verdict, BAL_SEND);
    assert_memory_equal(both[0].data, both[1].data, 14);
    /* put together again, they are valid: the checksum is the first one's */
    rig_arrive(&p, both[0].data, both[0].len);
    memcpy(p.p.data + p.p.len, both[1].data + 34, 496);
    p.p.len += 496;
    uint8_t *h = p.p.data + 14;
    uint16_t before = (uint16_t)(h[2] << 8 | h[3]), after = 1028;
    h[2] = (uint8_t)(after >> 8), h[3] = (uint8_t)after;
    uint32_t sum = (uint32_t)(uint16_t) ~(h[10] << 8 | h[11]) + (uint16_t)~before + after;
    sum += (uint16_t) ~(h[6] << 8 | h[7]); /* no fragment any more */
    h[6] = h[7] = 0;
    while (sum >> 16) sum = (sum & 0xffff) + (sum >> 16);
    h[10] = (uint8_t)(~sum >> 8), h[11] = (uint8_t)~sum;
    assert_true(rig_sound(h, p.p.len - 14));
}

static void what_does_not_fit_is_told(void **state)
{
    (void)state;
    for (int ipv6 = 0; ipv6 < 2; ipv6++) {
        one_service(ipv6, BAL_TCP, BAL_IPIP);
        from_client(ipv6, BAL_TCP, 1500 - (ipv6 ? 60 : 40));
        assert_int_equal(rig_send(&r, &p), BAL_SEND);
        assert_true(sound());
        struct rig_end from, to;
        rig_ends(&p, &from, &to);
        assert_true(bal_same_addr(&to.addr, client_addr(ipv6)));
        assert_memory_equal(p.p.data, ((uint8_t[]){2, 9, 9, 9, 9, 9}), 6); /* where it came from */
        const uint8_t *icmp = ip() + (ipv6 ? 40 : 20);
        assert_int_equal(icmp[0], ipv6 ? 2 : 3);
        assert_int_equal(icmp[6] << 8 | icmp[7], ipv6 ? 1460 : 1480);
        r.now += 1000000;
    }
}

/* NAT: a worker's answer that is too big for the clients' link. */
static void a_worker_is_told_what_fits(void **state)
{
    (void)state;
    for (int ipv6 = 0; ipv6 < 2; ipv6++) {
        one_service(ipv6, BAL_TCP, BAL_NAT);
        r.config.port[0].mtu = 1400;
        assert_int_equal(rig_publish(&r), 0);
        rig_ask(&r, client_addr(ipv6));
        bal_neighbour_told(r.bal->neighbours, 0, client_addr(ipv6), (uint8_t[]){2, 7, 7, 7, 7, 7}, r.now);
        from_client(ipv6, BAL_TCP, 0);
        assert_int_equal(rig_send(&r, &p), BAL_SEND);
        rig_tcp(&p, (struct rig_end){r.config.worker[1].addr, 8080}, client(ipv6), BAL_ACK, 1441);
        assert_int_equal(rig_send(&r, &p), BAL_SEND);
        assert_true(sound());
        struct rig_end from, to;
        rig_ends(&p, &from, &to);
        assert_true(bal_same_addr(&to.addr, &r.config.worker[1].addr));
        assert_true(bal_same_addr(&from.addr, &r.config.port[0].addr[ipv6]));
        const uint8_t *icmp = ip() + (ipv6 ? 40 : 20);
        assert_int_equal(icmp[0], ipv6 ? 2 : 3);
        assert_int_equal(icmp[6] << 8 | icmp[7], 1400);
        /* what it quotes is what the worker has sent */
        assert_memory_equal(icmp + 8 + (ipv6 ? 24 : 16), client_addr(ipv6)->byte, ipv6 ? 16 : 4);
        r.config.port[0].mtu = 0;
        r.now += 1000000;
    }
}

/* A refused client's answer: `type` of ICMP, or 0 for a RST, from the VIP or from the balancer itself. */
static void is_refused(bool ipv6, int type, bool by_vip)
{
    struct rig_end from, to;
    assert_int_equal(rig_send(&r, &p), BAL_SEND);
    assert_true(sound());
    rig_ends(&p, &from, &to);
    assert_true(bal_same_addr(&to.addr, client_addr(ipv6)));
    assert_true(bal_same_addr(&from.addr, by_vip ? &r.config.service[1].vip : &r.config.port[0].addr[ipv6]));
    const uint8_t *l4 = ip() + (ipv6 ? 40 : 20);
    if (type)
        assert_int_equal(l4[0], type);
    else
        assert_int_equal(l4[13] & 0x14, 0x14);
    assert_memory_equal(p.p.data, ((uint8_t[]){2, 9, 9, 9, 9, 9}), 6);
}

static void nobody_waits_in_vain(void **state)
{
    (void)state;
    for (int ipv6 = 0; ipv6 < 2; ipv6++) {
        r.config.reject = true;
        for (int down = 0; down < 2; down++) {
            one_service(ipv6, BAL_TCP, BAL_NAT);
            if (down) r.config.worker[1].state = BAL_DOWN;
            assert_int_equal(rig_publish(&r), 0);
            struct rig_end vip = {r.config.service[1].vip, down ? 80 : 81};
            rig_tcp(&p, client(ipv6), vip, BAL_SYN, 7);
            rig_tcp_numbers(&p, 0x1000, 0);
            is_refused(ipv6, 0, true);
            const uint8_t *tcp = ip() + (ipv6 ? 40 : 20);
            assert_memory_equal(tcp + 8, ((uint8_t[]){0, 0, 0x10, 8}), 4); /* it acknowledges SYN and data */
            rig_udp(&p, client(ipv6), (struct rig_end){vip.addr, 81}, 9);
            is_refused(ipv6, ipv6 ? 1 : 3, true);
            rig_tcp(&p, client(ipv6), vip, BAL_RST, 0);
            assert_int_equal(rig_send(&r, &p), BAL_DISCARD); /* never about a RST */
        }
        /* the last hop */
        one_service(ipv6, BAL_TCP, BAL_NAT);
        from_client(ipv6, BAL_TCP, 0);
        uint8_t *header = p.p.data + 14;
        header[ipv6 ? 7 : 8] = 1;
        if (!ipv6) {
            bal_put16(header + 10, 0);
            bal_checksum_write(header + 10, bal_sum(header, 20));
        }
        is_refused(ipv6, ipv6 ? 3 : 11, false);
        /* no client gets more than some tens at once */
        uint32_t told = 0;
        for (int i = 0; i < 2000; i++) {
            rig_tcp(&p, client(ipv6), (struct rig_end){r.config.service[1].vip, 81}, BAL_SYN, 0);
            told += rig_send(&r, &p) == BAL_SEND;
        }
        assert_in_range(told, 10, 60);
        r.config.reject = false;
        assert_int_equal(rig_publish(&r), 0);
        r.now += 10000000000;
        rig_tcp(&p, client(ipv6), (struct rig_end){r.config.service[1].vip, 81}, BAL_SYN, 0);
        assert_int_equal(rig_send(&r, &p), BAL_DISCARD);
    }
}

static void other_hosts_frames_are_theirs(void **state)
{
    struct bal_totals t;
    (void)state;
    one_service(false, BAL_TCP, BAL_DR);
    static const uint8_t macs[][6] = {
        {2, 1, 1, 1, 1, 2}, {1, 0, 0x5e, 1, 2, 3}, {255, 255, 255, 255, 255, 255}};
    for (int i = 0; i < 3; i++) {
        from_client(false, BAL_TCP, 0);
        memcpy(p.p.data, macs[i], 6);
        assert_int_equal(rig_send(&r, &p), BAL_DISCARD);
    }
    bal_totals(r.bal, -1, &t);
    assert_int_equal(t.drop[BAL_DROP_OTHER_HOST], 3);
    from_client(false, BAL_TCP, 0);
    assert_int_equal(rig_send(&r, &p), BAL_SEND);
}

static void it_says_who_it_is(void **state)
{
    struct bal_frame f[4];
    (void)state;
    one_service(false, BAL_TCP, BAL_DR);
    /* ARP */
    static const uint8_t arp[] = {255, 255, 255, 255, 255, 255, 2, 9, 9, 9, 9,  9, 8, 6,
                                  0,   1,   8,   0,   6,   4,   0, 1, 2, 9, 9,  9, 9, 9,
                                  10,  128, 0,   1,   0,   0,   0, 0, 0, 0, 10, 1, 0, 1};
    rig_arrive(&p, arp, sizeof(arp));
    assert_int_equal(rig_send(&r, &p), BAL_DISCARD);
    assert_int_equal(bal_core_frames(r.core, f, 4), 1);
    assert_memory_equal(f[0].data, ((uint8_t[]){2, 9, 9, 9, 9, 9, 2, 1, 1, 1, 1, 1, 8, 6}), 14);
    assert_int_equal(f[0].data[21], 2);
    assert_memory_equal(f[0].data + 28, ((uint8_t[]){10, 1, 0, 1}), 4);
    p.p.data[41] = 9; /* another host's address */
    assert_int_equal(rig_send(&r, &p), BAL_DISCARD);
    assert_int_equal(bal_core_frames(r.core, f, 4), 0);
    /* neighbour discovery, which the balancer asks as it answers */
    one_service(true, BAL_TCP, BAL_DR);
    r.config.worker[1].mac_known = false;
    assert_int_equal(rig_publish(&r), 0);
    from_client(true, BAL_TCP, 0);
    assert_int_equal(rig_send(&r, &p), BAL_DISCARD);
    assert_int_equal(bal_core_frames(r.core, f, 4), 1);
    assert_true(rig_sound(f[0].data + 14, f[0].len - 14u));
    memcpy(f[0].data + 14 + 48, r.config.service[1].vip.byte,
           16); /* asks for the VIP instead: the checksum is not looked at */
    rig_arrive(&p, f[0].data, f[0].len);
    assert_int_equal(rig_send(&r, &p), BAL_DISCARD);
    assert_int_equal(bal_core_frames(r.core, f, 4), 1);
    assert_int_equal(f[0].data[54], 136);
    assert_true(rig_sound(f[0].data + 14, f[0].len - 14u));
    /* its worker's answer makes the way known */
    memcpy(f[0].data + 14 + 48, r.config.worker[1].addr.byte, 16);
    rig_arrive(&p, f[0].data, f[0].len);
    rig_send(&r, &p);
    from_client(true, BAL_TCP, 0);
    assert_int_equal(rig_send(&r, &p), BAL_SEND);
}

static void pings_are_answered(void **state)
{
    (void)state;
    one_service(false, BAL_TCP, BAL_DR);
    rig_udp(&q, client(false), (struct rig_end){r.config.service[1].vip, 0}, 40);
    rig_error(&p, client(false).addr, &q); /* an ICMP packet with a right checksum, made an echo request */
    uint8_t *ip_at = p.p.data + 14, *icmp = ip_at + 20;
    uint32_t sum = (uint32_t)(uint16_t) ~(icmp[2] << 8 | icmp[3]) + (uint16_t)~0x0301 + 0x0800;
    while (sum >> 16) sum = (sum & 0xffff) + (sum >> 16);
    icmp[0] = 8, icmp[1] = 0, icmp[2] = (uint8_t)(~sum >> 8), icmp[3] = (uint8_t)~sum;
    uint8_t vip[4], from[4];
    memcpy(from, ip_at + 12, 4);
    memcpy(vip, r.config.service[1].vip.byte, 4);
    memcpy(ip_at + 16, vip, 4); /* from and to: the sum of the header is put right below */
    sum = 0;
    ip_at[10] = ip_at[11] = 0;
    for (int i = 0; i < 20; i += 2) sum += (uint32_t)(ip_at[i] << 8 | ip_at[i + 1]);
    while (sum >> 16) sum = (sum & 0xffff) + (sum >> 16);
    ip_at[10] = (uint8_t)(~sum >> 8), ip_at[11] = (uint8_t)~sum;
    assert_int_equal(rig_send(&r, &p), BAL_SEND);
    assert_int_equal(p.p.data[34], 0);
    assert_true(sound());
    assert_memory_equal(p.p.data + 30, from, 4);
    assert_memory_equal(p.p.data + 26, vip, 4);
}

/* NAT has a short way, too: every byte is what the long way makes. */
static void same_bytes(struct rnd *rnd, uint8_t proto)
{
    const struct bal_worker *to = &r.core->snap->config.worker[1];
    struct bal_meta m;
    from_client(false, proto, rnd_below(rnd, 9));
    p.p.data[22] = (uint8_t)rnd64(rnd); /* hops to live */
    bal_put16(p.p.data + 24, 0);
    bal_checksum_write(p.p.data + 24, bal_sum(p.p.data + 14, 20));
    if (proto == BAL_UDP && !rnd_below(rnd, 8)) bal_put16(p.p.data + 40, 0);
    memcpy(&q, &p, sizeof(p));
    q.p.data = q.buffer + (p.p.data - p.buffer);
    assert_int_equal(bal_parse(p.p.data, p.p.len, &m), 0);
    bool hop = bal_hop(q.p.data, &m);
    if (hop) bal_nat(q.p.data, &m, true, &to->addr, to->port);
    assert_int_equal(bal_nat_quickly(p.p.data, &m, &r.core->snap->way[1]), hop);
    assert_memory_equal(p.buffer, q.buffer, RIG_ROOM + p.p.len);
}

static void both_ways_of_nat_agree(void **state)
{
    struct rnd rnd = {1};
    (void)state;
    for (uint32_t i = 0; i < 20; i++) {
        uint8_t proto = i % 2 ? BAL_TCP : BAL_UDP;
        one_service(false, proto, BAL_NAT);
        r.config.service[1].vip = rig_ip4((uint32_t)rnd64(&rnd) & 0x7fffffff);
        r.config.worker[1].addr = rig_ip4((uint32_t)rnd64(&rnd) & 0x7fffffff);
        r.config.worker[1].port = i % 4 ? (uint16_t)rnd64(&rnd) : 80;
        assert_int_equal(rig_publish(&r), 0);
        bal_core_look(r.core, r.now);
        for (int n = 0; n < 1000; n++) same_bytes(&rnd, proto);
    }
}

#define IN_RIG(test) cmocka_unit_test_setup_teardown(test, open_rig, close_rig)
int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_RIG(direct_routing_changes_macs_alone),
        IN_RIG(nat_there_and_back),
        IN_RIG(patched_is_as_good_as_computed),
        IN_RIG(tunnels),
        IN_RIG(tags_come_and_go),
        IN_RIG(errors_find_their_flow),
        IN_RIG(fragments_stay_together),
        IN_RIG(what_does_not_fit_is_told),
        IN_RIG(a_worker_is_told_what_fits),
        IN_RIG(nobody_waits_in_vain),
        IN_RIG(other_hosts_frames_are_theirs),
        IN_RIG(it_says_who_it_is),
        IN_RIG(pings_are_answered),
        IN_RIG(both_ways_of_nat_agree),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
