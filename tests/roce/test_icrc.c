/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "src/roce/hdr.h"
#include "src/roce/icrc.h"
#include "tests/rnd.h"

/* A congestion notification as a ConnectX-4 Lx sent it, from the IP header on (published with scapy's tests).
 */
static const uint8_t connectx_cnp[] = {
    0x45, 0xc2, 0x00, 0x3c, 0x71, 0x8c, 0x40, 0x00, 0x40, 0x11, 0x91, 0x61, 0x0a, 0x00, 0x11,
    0x01, 0x0a, 0x00, 0x12, 0x01, 0x00, 0x00, 0x12, 0xb7, 0x00, 0x28, 0x00, 0x00, 0x81, 0x00,
    0xff, 0xff, 0x40, 0x00, 0x01, 0x18, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
    0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x82, 0xfd, 0x00, 0x2a,
};

/* An unreliable-connection SEND between two loop-backed NICs, from the same place. */
static const uint8_t uc_send[] = {
    0x45, 0x01, 0x00, 0x40, 0x04, 0x78, 0x40, 0x00, 0x40, 0x11, 0xb4, 0xd5, 0xc0, 0xa8, 0x00, 0x07,
    0xc0, 0xa8, 0x00, 0x07, 0xc0, 0x00, 0x12, 0xb7, 0x00, 0x2c, 0xac, 0xa2, 0x24, 0x60, 0xff, 0xff,
    0x00, 0x00, 0x00, 0xd3, 0x00, 0xcf, 0x17, 0x10, 0x46, 0x30, 0x81, 0x8b, 0xe2, 0x89, 0x35, 0xd9,
    0x0e, 0x9a, 0x95, 0x50, 0x54, 0x01, 0xbe, 0x88, 0x5e, 0x50, 0x00, 0x00, 0x78, 0xf3, 0x53, 0xf3,
};

static void check_golden(const uint8_t *ip, size_t len, uint16_t id)
{
    struct roce_path path;
    size_t n;
    uint16_t found = 0;
    int at = roce_path_of_packet(ip, len, &path, &n);

    assert_int_equal(at, 28);
    assert_int_equal(n, len - 28);
    assert_int_equal(path.ip_id, id);
    assert_true(roce_icrc_ok(&path, ip + at, n));
    path.ip_id = 0;
    assert_false(roce_icrc_ok(&path, ip + at, n));
    assert_true(roce_icrc_match_ipv4_any_id(&path, ip + at, n, &found));
    assert_int_equal(found, id);
    path.frag_off = 0;
    assert_false(roce_icrc_ok(&path, ip + at, n));
}

static void golden(void **state)
{
    struct roce_hdr h;
    uint32_t len;

    (void)state;
    check_golden(connectx_cnp, sizeof(connectx_cnp), 0x718c);
    check_golden(uc_send, sizeof(uc_send), 1144);
    assert_int_equal(roce_parse(connectx_cnp + 28, sizeof(connectx_cnp) - 28, &h, &len), 12);
    assert_true(h.opcode == ROCE_CNP && h.becn && h.dqpn == 0x118 && len == 16);
    assert_int_equal(roce_parse(uc_send + 28, sizeof(uc_send) - 28, &h, &len), 12);
    assert_true(h.opcode == (ROCE_UC | ROCE_SEND_ONLY) && h.dqpn == 211 && h.psn == 13571856 && len == 18);
}

/* Bit by bit, straight from the definition. */
static uint32_t slow_crc32(uint32_t crc, const uint8_t *p, size_t len)
{
    crc = ~crc;
    for (size_t i = 0; i < 8 * len; i++) crc = crc >> 1 ^ (0xedb88320u & -((crc ^ p[i / 8] >> i % 8) & 1));
    return ~crc;
}

static void crc32_implementations(void **state)
{
    struct rnd r = {3};
    static uint8_t buf[5000];

    (void)state;
    print_message("CRC-32 by %s\n", roce_crc32_impl());
    assert_int_equal(roce_crc32(0, "123456789", 9), 0xcbf43926); /* the check value of this CRC */
    assert_int_equal(roce_crc32_portable(0, "123456789", 9), 0xcbf43926);
    assert_int_equal(roce_crc32(0x1234, buf, 0), 0x1234);
    for (int i = 0; i < 3000; i++) {
        size_t at = rnd_below(&r, 16), n = rnd_below(&r, i % 10 ? 100 : sizeof(buf) - 16),
               cut = rnd_below(&r, (uint32_t)n + 1);
        uint32_t seed = (uint32_t)rnd64(&r), want;

        rnd_bytes(&r, buf, n + at);
        want = slow_crc32(seed, buf + at, n);
        assert_int_equal(roce_crc32(seed, buf + at, n), want);
        assert_int_equal(roce_crc32_portable(seed, buf + at, n), want);
        assert_int_equal(roce_crc32(roce_crc32(seed, buf + at, cut), buf + at + cut, n - cut), want);
    }
}

static void advance_and_rewind(void **state)
{
    struct rnd r = {4};
    static const uint8_t zeros[70000];

    (void)state;
    for (int i = 0; i < 2000; i++) {
        uint32_t reg = (uint32_t)rnd64(&r);
        size_t n = rnd_below(&r, i % 20 ? 600 : sizeof(zeros));

        assert_int_equal(roce_crc_advance(reg, n), ~roce_crc32_portable(~reg, zeros, n));
        assert_int_equal(roce_crc_rewind(roce_crc_advance(reg, n), n), reg);
    }
    assert_int_equal(roce_crc_rewind(roce_crc_advance(0xdeadbeef, 10000000), 10000000), 0xdeadbeef);
}

static struct roce_path random_path(struct rnd *r)
{
    struct roce_path p = {.dport = ROCE_UDP_PORT, .frag_off = rnd64(r) & 1 ? ROCE_IP_DF : 0};

    p.ipv6 = rnd_below(r, 3) == 0;
    p.sport = (uint16_t)(0xc000 | rnd64(r));
    p.ip_id = (uint16_t)rnd64(r);
    rnd_bytes(r, p.src, p.ipv6 ? 16 : 4);
    rnd_bytes(r, p.dst, p.ipv6 ? 16 : 4);
    return p;
}

/* A whole packet as a router may leave it: everything that the ICRC masks is random. Returns the UDP
 * payload's start. */
static size_t whole_packet(struct rnd *r, const struct roce_path *path, uint8_t *ip, size_t payload)
{
    size_t addr = path->ipv6 ? 16 : 4, hdr = path->ipv6 ? 40 : 20, total = hdr + 8 + payload;

    rnd_bytes(r, ip, total);
    if (path->ipv6) {
        ip[0] = (uint8_t)(0x60 | (ip[0] & 0xf));
        ip[4] = (uint8_t)((payload + 8) >> 8), ip[5] = (uint8_t)(payload + 8);
        ip[6] = 17;
    } else {
        ip[0] = 0x45;
        ip[2] = (uint8_t)(total >> 8), ip[3] = (uint8_t)total;
        ip[4] = (uint8_t)(path->ip_id >> 8), ip[5] = (uint8_t)path->ip_id;
        ip[6] = (uint8_t)(path->frag_off >> 8), ip[7] = (uint8_t)path->frag_off;
        ip[9] = 17;
    }
    memcpy(ip + hdr - 2 * addr, path->src, addr);
    memcpy(ip + hdr - addr, path->dst, addr);
    ip[hdr] = (uint8_t)(path->sport >> 8), ip[hdr + 1] = (uint8_t)path->sport;
    ip[hdr + 2] = (uint8_t)(path->dport >> 8), ip[hdr + 3] = (uint8_t)path->dport;
    ip[hdr + 4] = (uint8_t)((payload + 8) >> 8), ip[hdr + 5] = (uint8_t)(payload + 8);
    roce_icrc_end(roce_icrc(path, ip + hdr + 8, payload), ip + total - 4);
    return hdr + 8;
}

/* Every bit that a router may not touch is covered; every bit that it may touch is not. */
static void coverage(void **state)
{
    struct rnd r = {5};
    uint8_t ip[300];

    (void)state;
    for (int round = 0; round < 20; round++) {
        struct roce_path path = random_path(&r), seen;
        size_t at = whole_packet(&r, &path, ip, 40), total = at + 40, n;

        for (size_t bit = 0; bit < 8 * total; bit++) {
            size_t byte = bit / 8;
            bool masked =
                path.ipv6 ? byte < 4 || byte == 7 : byte == 1 || byte == 8 || byte == 10 || byte == 11;

            masked = masked || byte == at - 2 || byte == at - 1 || byte == at + 4;
            ip[byte] ^= (uint8_t)(1 << bit % 8);
            if (roce_path_of_packet(ip, total, &seen, &n) == (int)at)
                assert_int_equal(roce_icrc_ok(&seen, ip + at, n), masked);
            else
                assert_true(!masked || (path.ipv6 && byte == 0)); /* version, lengths, protocol, fragments */
            ip[byte] ^= (uint8_t)(1 << bit % 8);
        }
    }
}

static void incremental(void **state)
{
    struct rnd r = {6};
    static uint8_t p[ROCE_MAX_HDR + ROCE_MAX_MTU + 4];

    (void)state;
    for (int i = 0; i < 2000; i++) {
        struct roce_path path = random_path(&r);
        size_t len = 16 + rnd_below(&r, i % 10 ? 200 : sizeof(p) - 16), hdr = 12 + rnd_below(&r, 29), cut;
        uint32_t s;

        if (hdr > len - 4) hdr = len - 4;
        rnd_bytes(&r, p, len);
        cut = hdr + rnd_below(&r, (uint32_t)(len - 4 - hdr) + 1);
        s = roce_icrc_begin(&path, (uint32_t)len, p, hdr);
        s = roce_icrc_add(s, p + hdr, cut - hdr);
        s = roce_icrc_add(s, p + cut, len - 4 - cut);
        assert_int_equal(s, roce_icrc(&path, p, len));
        roce_icrc_end(s, p + len - 4);
        assert_true(roce_icrc_ok(&path, p, len));
        assert_int_equal(roce_icrc_carried(p, len), s);
    }
    assert_false(roce_icrc_ok(&(struct roce_path){0}, p, 15));
}

/* Any ID is found, and only it; damage passes about once in 65536. */
static void unknown_id(void **state)
{
    struct rnd r = {7};
    static uint8_t p[4200];
    int passed = 0, rounds = 30000;
    uint16_t id;

    (void)state;
    for (int i = 0; i < rounds; i++) {
        struct roce_path path = random_path(&r), any;
        size_t len = 16 + 4 * rnd_below(&r, i % 50 ? 30 : 1040), bit;

        path.ipv6 = false;
        rnd_bytes(&r, p, len);
        roce_icrc_end(roce_icrc(&path, p, len), p + len - 4);
        any = path;
        any.ip_id = (uint16_t)rnd64(&r); /* ignored */
        id = (uint16_t)~path.ip_id;
        assert_true(roce_icrc_match_ipv4_any_id(&any, p, len, &id));
        assert_int_equal(id, path.ip_id);
        bit = rnd_below(&r, (uint32_t)len * 8);
        if (bit / 8 == 4) continue; /* the masked byte */
        p[bit / 8] ^= (uint8_t)(1 << bit % 8);
        for (size_t k = rnd_below(&r, 8); k; k--)
            p[5 + rnd_below(&r, (uint32_t)len - 5)] ^= (uint8_t)rnd64(&r);
        if (roce_icrc_ok(&path, p, len)) continue; /* the damage undid itself */
        passed += roce_icrc_match_ipv4_any_id(&any, p, len, &id);
    }
    print_message("%d of %d damaged packets had a matching ID (1 in 65536 expected)\n", passed, rounds);
    assert_true(passed <= 3);
    struct roce_path v6 = {.ipv6 = true};
    assert_false(roce_icrc_match_ipv4_any_id(&v6, p, 100, &id));
    assert_false(roce_icrc_match_ipv4_any_id(&(struct roce_path){0}, p, 15, &id));
}

/* Of many packets of one length, what stands before them was reckoned once. They stay as they were. */
static void started(void **state)
{
    struct rnd r = {9};
    static uint8_t p[1200], was[1200];

    (void)state;
    for (int i = 0; i < 500; i++) {
        struct roce_path path = random_path(&r);
        size_t len = 16 + rnd_below(&r, sizeof(p) - 16);
        uint32_t start = roce_icrc_start(&path, (uint32_t)len);

        for (int k = 0; k < 3; k++) {
            rnd_bytes(&r, p, len);
            memcpy(was, p, len);
            assert_int_equal(roce_icrc_from(start, p, len), roce_icrc(&path, p, len));
            assert_memory_equal(p, was, len);
        }
    }
}

/* Rewriting a destination QPN and PSN, as a load balancer does, without the payload. */
static void patch(void **state)
{
    struct rnd r = {8};
    static uint8_t p[1200], q[1200];

    (void)state;
    for (int i = 0; i < 5000; i++) {
        struct roce_path path = random_path(&r), moved = path;
        size_t len = 16 + rnd_below(&r, sizeof(p) - 16), at = 5 + rnd_below(&r, (uint32_t)len - 9), n;
        uint32_t icrc = roce_icrc(&path, p, len);

        rnd_bytes(&r, p, len);
        icrc = roce_icrc(&path, p, len);
        memcpy(q, p, len);
        n = rnd_below(&r, (uint32_t)(len - 4 - at) + 1);
        rnd_bytes(&r, q + at, n);
        assert_int_equal(roce_icrc_patch(icrc, p + at, q + at, n, len - 4 - at - n),
                         roce_icrc(&path, q, len));
        /* the destination address is followed by the UDP header and the payload */
        rnd_bytes(&r, moved.dst, path.ipv6 ? 16 : 4);
        assert_int_equal(roce_icrc_patch(icrc, path.dst, moved.dst, path.ipv6 ? 16 : 4, 8 + len - 4),
                         roce_icrc(&moved, p, len));
    }
}

static void not_a_packet(void **state)
{
    uint8_t ip[sizeof(uc_send)];
    struct roce_path path;
    size_t n;

    (void)state;
    for (size_t len = 0; len < sizeof(uc_send); len++)
        assert_int_equal(roce_path_of_packet(uc_send, len, &path, &n), -1);
#define BROKEN(byte, value)                                                                                  \
    memcpy(ip, uc_send, sizeof(ip)), ip[byte] = (value),                                                     \
                                     assert_int_equal(roce_path_of_packet(ip, sizeof(ip), &path, &n), -1)
    BROKEN(0, 0x46);  /* options */
    BROKEN(0, 0x55);  /* no IP version */
    BROKEN(3, 0x41);  /* longer than the buffer */
    BROKEN(3, 0x1b);  /* shorter than its headers */
    BROKEN(6, 0x60);  /* more fragments */
    BROKEN(7, 1);     /* a later fragment */
    BROKEN(9, 6);     /* TCP */
    BROKEN(25, 0x2d); /* the UDP length disagrees */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(golden),
        cmocka_unit_test(crc32_implementations),
        cmocka_unit_test(advance_and_rewind),
        cmocka_unit_test(coverage),
        cmocka_unit_test(incremental),
        cmocka_unit_test(unknown_id),
        cmocka_unit_test(started),
        cmocka_unit_test(patch),
        cmocka_unit_test(not_a_packet),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
