/* SPDX-License-Identifier: Apache-2.0 */
/* Ethernet, IP and UDP headers, ARP and neighbour discovery, and what is remembered of neighbours. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "softnic/config/addr.h"
#include "softnic/wire/eth_frame.h"
#include "softnic/wire/eth_neigh.h"
#include "src/roce/hdr.h"
#include "src/roce/icrc.h"
#include "tests/rnd.h"

enum { A, B, STATIONS, SPORT = 0xc123 };

static struct sn_station v4[STATIONS], v6[STATIONS];

static struct sn_station station(const char *ip, uint8_t last)
{
    struct sn_station s = {.mac = {2, 0, 0, 0, 0, last}};
    struct sn_addr addr;

    assert_int_equal(sn_addr_parse(ip, &addr), 0);
    memcpy(s.gid, addr.gid, 16);
    return s;
}

static int setup(void **state)
{
    (void)state;
    v4[A] = station("192.0.2.1", 1);
    v4[B] = station("192.0.2.2", 2);
    v6[A] = station("2001:db8::a:1", 1);
    v6[B] = station("2001:db8::b:2", 2);
    return 0;
}

/* A whole frame from a to b. Returns its length. */
static uint32_t whole(uint8_t *p, const struct sn_station *a, const struct sn_station *b, uint32_t len,
                      uint8_t ecn)
{
    static uint8_t payload[SN_FRAME_MAX];
    struct sn_frame frame = {.data = payload, .len = len, .ecn = ecn};
    uint32_t at;

    for (uint32_t i = 0; i < len; i++) payload[i] = (uint8_t)(i * 7);
    memcpy(frame.dst_gid, b->gid, 16);
    at = sn_eth_pack(p, a, b->mac, SPORT, &frame);
    memcpy(p + at, payload, len);
    return at + len;
}

static void check_round_trip(const struct sn_station s[STATIONS], uint32_t len, uint32_t padding)
{
    uint8_t p[SN_ETH_FRAME + 64] = {0};
    uint32_t n = whole(p, &s[A], &s[B], len, 3);
    struct roce_path path;
    struct sn_frame f;
    struct sn_station peer;
    size_t payload;

    assert_int_equal(sn_eth_parse(p, n + padding, &s[B], &f, &peer), SN_ETH_ROCE);
    assert_memory_equal(f.src_gid, s[A].gid, 16);
    assert_memory_equal(f.dst_gid, s[B].gid, 16);
    assert_memory_equal(&peer, &s[A], sizeof(peer));
    assert_int_equal(f.sport, SPORT);
    assert_int_equal(f.len, len);
    assert_int_equal(f.ecn, 3);
    assert_true(f.has_ip_id && f.ip_id == 0);
    for (uint32_t i = 0; i < len; i++) assert_int_equal(f.data[i], (uint8_t)(i * 7));
    /* Another program's reading of the same headers. */
    assert_int_equal(roce_path_of_packet(p + SN_ETH_HDR, n - SN_ETH_HDR, &path, &payload),
                     (int)(n - len - SN_ETH_HDR));
    assert_int_equal(payload, len);
    assert_true(path.sport == SPORT && path.dport == ROCE_UDP_PORT && path.ip_id == 0);
    if (!path.ipv6) assert_int_equal(path.frag_off, ROCE_IP_DF);
    assert_int_equal(sn_eth_parse(p, n, &s[A], &f, &peer), SN_ETH_OTHER);
    assert_int_equal(sn_eth_parse(p, n - 1, &s[B], &f, &peer), SN_ETH_OTHER);
}

static void frames_come_out_as_they_went_in(void **state)
{
    (void)state;
    for (uint32_t len = ROCE_MIN_PACKET; len <= SN_FRAME_MAX; len += 4) {
        check_round_trip(v4, len, 0);
        check_round_trip(v6, len, 0);
    }
    check_round_trip(v4, ROCE_MIN_PACKET, 2); /* an Ethernet frame has at least 60 bytes */
    check_round_trip(v6, ROCE_MIN_PACKET, 40);
}

static void the_ipv4_checksum_is_right(void **state)
{
    uint8_t p[SN_ETH_FRAME];
    uint32_t sum = 0;

    (void)state;
    whole(p, &v4[A], &v4[B], 1024, 1);
    for (int i = SN_ETH_HDR; i < SN_ETH_HDR + SN_IPV4_HDR; i += 2) sum += (uint32_t)(p[i] << 8 | p[i + 1]);
    assert_int_equal((sum & 0xffff) + (sum >> 16), 0xffff);
}

/* One changed byte of the headers, and it is nothing for this station. */
static void only_what_is_for_the_station_is_taken(void **state)
{
    static const struct {
        uint8_t at, value;
    } bad[] = {{5, 9},  {12, 9}, {14, 0x46}, {20, 0x20}, {21, 1},
               {23, 6}, {33, 9}, {37, 0xb8}, {39, 1},    {16, 0xff}};
    uint8_t p[SN_ETH_FRAME];
    struct sn_frame f;
    struct sn_station peer;

    (void)state;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        uint32_t n = whole(p, &v4[A], &v4[B], 64, 0);

        p[bad[i].at] = bad[i].value;
        assert_int_equal(sn_eth_parse(p, n, &v4[B], &f, &peer), SN_ETH_OTHER);
    }
}

static void who_has_and_is_at(const struct sn_station s[STATIONS], const struct sn_station *third)
{
    uint8_t p[SN_NEIGH_MESSAGE];
    struct sn_station peer, impostor = s[B];
    struct sn_frame f;
    uint32_t n = sn_neigh_ask(p, &s[A], s[B].gid);

    assert_int_equal(sn_eth_parse(p, n, &s[B], &f, &peer), SN_ETH_WHO_HAS);
    assert_memory_equal(&peer, &s[A], sizeof(peer));
    assert_int_equal(sn_eth_parse(p, n, third, &f, &peer), SN_ETH_OTHER);
    n = sn_neigh_answer(p, &s[B], &s[A]);
    assert_int_equal(sn_eth_parse(p, n, &s[A], &f, &peer), SN_ETH_IS_AT);
    assert_memory_equal(&peer, &s[B], sizeof(peer));
    assert_int_equal(sn_eth_parse(p, n, third, &f, &peer), SN_ETH_OTHER);
    impostor.mac[5] = 77;
    n = sn_neigh_announce(p, &impostor);
    assert_int_equal(sn_eth_parse(p, n, &s[B], &f, &peer), SN_ETH_CONFLICT);
    assert_int_equal(sn_eth_parse(p, n, &impostor, &f, &peer), SN_ETH_OTHER);
}

static void stations_find_each_other(void **state)
{
    struct sn_station c4 = station("192.0.2.3", 3), c6 = station("2001:db8::c:3", 3), nobody = {.mac = {2}};
    uint8_t p[SN_NEIGH_MESSAGE];
    struct sn_frame f;
    struct sn_station peer;
    uint32_t n;

    (void)state;
    who_has_and_is_at(v4, &c4);
    who_has_and_is_at(v6, &c6);
    /* A station without an address asks whether one is free. All learn that it is not. */
    n = sn_neigh_answer(p, &v6[B], &nobody);
    assert_int_equal(sn_eth_parse(p, n, &v6[A], &f, &peer), SN_ETH_OTHER);
    assert_int_equal(p[0], 0x33);
    /* From beyond a router, or damaged. */
    n = sn_neigh_ask(p, &v6[A], v6[B].gid);
    p[SN_ETH_HDR + 7] = 254;
    assert_int_equal(sn_eth_parse(p, n, &v6[B], &f, &peer), SN_ETH_OTHER);
    p[SN_ETH_HDR + 7] = 255;
    p[n - 1] ^= 1;
    assert_int_equal(sn_eth_parse(p, n, &v6[B], &f, &peer), SN_ETH_OTHER);
}

/* In memory of exactly their length, so that a sanitizer sees every byte too far. */
static void any_bytes_are_survived(void **state)
{
    struct rnd rnd = {1};

    (void)state;
    for (int round = 0; round < 40000; round++) {
        const struct sn_station *s = round & 1 ? v6 : v4;
        uint8_t p[SN_ETH_FRAME], *exact;
        uint32_t n = round & 2   ? whole(p, &s[A], &s[B], 16 + round % 60 * 4u, 0)
                     : round & 4 ? sn_neigh_ask(p, &s[A], s[B].gid)
                                 : sn_neigh_answer(p, &s[A], &s[B]);
        struct sn_frame f;
        struct sn_station peer;

        for (uint32_t k = rnd_below(&rnd, 4); k; k--) p[rnd_below(&rnd, n)] = (uint8_t)rnd64(&rnd);
        n = rnd_below(&rnd, n + 1);
        exact = malloc(n ? n : 1);
        assert_non_null(exact);
        memcpy(exact, p, n);
        if (sn_eth_parse(exact, n, &s[B], &f, &peer) == SN_ETH_ROCE) assert_true(f.data + f.len <= exact + n);
        free(exact);
    }
}

/* ---- neighbours ---------------------------------------------------------------------------------------- */

static void neighbours_are_asked_for_and_forgotten(void **state)
{
    static struct sn_neigh n;
    uint64_t now = 1000;
    bool ask;

    (void)state;
    assert_null(sn_neigh_find(&n, v4[B].gid, now, &ask));
    assert_true(ask);
    assert_null(sn_neigh_find(&n, v4[B].gid, now += 1000, &ask));
    assert_false(ask);
    assert_null(sn_neigh_find(&n, v4[B].gid, now += SN_NEIGH_ASK_NS, &ask));
    assert_true(ask);
    assert_true(sn_neigh_learn(&n, v4[B].gid, v4[B].mac, now, false));
    assert_false(sn_neigh_learn(&n, v4[B].gid, v4[B].mac, now, false));
    assert_memory_equal(sn_neigh_find(&n, v4[B].gid, now += SN_NEIGH_STALE_NS, &ask), v4[B].mac, 6);
    assert_false(ask);
    sn_neigh_confirm(&n, v4[B].gid, v4[A].mac, now); /* another one's packets prove nothing */
    assert_memory_equal(sn_neigh_find(&n, v4[B].gid, now += 1, &ask), v4[B].mac, 6);
    assert_true(ask);
    sn_neigh_confirm(&n, v4[B].gid, v4[B].mac, now);
    assert_memory_equal(sn_neigh_find(&n, v4[B].gid, now += SN_NEIGH_STALE_NS, &ask), v4[B].mac, 6);
    assert_false(ask);
    assert_null(sn_neigh_find(&n, v4[B].gid, now += SN_NEIGH_DEAD_NS, &ask));
    assert_true(ask);
}

static void a_flood_does_not_drive_out_who_is_used(void **state)
{
    static struct sn_neigh n;
    struct sn_station other = v4[B];
    uint64_t now = 1;
    bool ask;

    (void)state;
    assert_false(sn_neigh_learn(&n, v4[A].gid, v4[A].mac, now, false)); /* it was not asked for */
    assert_null(sn_neigh_find(&n, v4[A].gid, now, &ask));
    sn_neigh_learn(&n, v4[A].gid, v4[A].mac, now, true);
    for (uint32_t i = 0; i < 100000; i++) {
        memcpy(other.gid + 12, &i, 4);
        sn_neigh_learn(&n, other.gid, other.mac, ++now, true);
        if (i % SN_NEIGH_WAYS == 0) assert_non_null(sn_neigh_find(&n, v4[A].gid, ++now, &ask));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(frames_come_out_as_they_went_in),
        cmocka_unit_test(the_ipv4_checksum_is_right),
        cmocka_unit_test(only_what_is_for_the_station_is_taken),
        cmocka_unit_test(stations_find_each_other),
        cmocka_unit_test(any_bytes_are_survived),
        cmocka_unit_test(neighbours_are_asked_for_and_forgotten),
        cmocka_unit_test(a_flood_does_not_drive_out_who_is_used),
    };
    return cmocka_run_group_tests(tests, setup, NULL);
}
