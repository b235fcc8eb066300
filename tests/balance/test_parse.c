/* SPDX-License-Identifier: Apache-2.0 */
/* The parser's results for frames. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <cmocka.h>

#include "src/balance/devices.h"
#include "src/balance/checksum.h"
#include "tests/balance/rig.h"
#include "tests/rnd.h"

static struct rig_packet p;
static struct bal_meta m;

static struct rig_end end4(uint32_t addr, uint16_t port)
{
    return (struct rig_end){rig_ip4(addr), port};
}
static struct rig_end end6(uint32_t addr, uint16_t port)
{
    return (struct rig_end){rig_ip6(addr), port};
}
static int parse(void)
{
    return bal_parse(p.p.data, p.p.len, &m);
}

static void tcp_and_udp(void **state)
{
    (void)state;
    rig_tcp(&p, end4(0x0a090001, 4000), end4(0x0a010000, 80), BAL_SYN, 10);
    assert_int_equal(parse(), 0);
    assert_int_equal(m.kind, BAL_K_TCP);
    assert_int_equal(m.sport, 4000);
    assert_int_equal(m.dport, 80);
    assert_int_equal(m.flags, BAL_SYN);
    assert_int_equal(m.ip_len, 50);
    rig_udp(&p, end6(5, 4001), end6(6, 53), 3);
    assert_int_equal(parse(), 0);
    assert_int_equal(m.kind, BAL_K_UDP);
    assert_true(m.ipv6);
    assert_int_equal(m.sport, 4001);
    assert_memory_equal(bal_dst(p.p.data, &m), end6(6, 0).addr.byte, 16);
}

static void tags_and_extensions(void **state)
{
    (void)state;
    rig_udp(&p, end6(5, 4001), end6(6, 53), 3);
    /* hop-by-hop options in front of UDP */
    uint8_t frame[200];
    memcpy(frame, p.p.data, 12);
    memcpy(frame + 12, (uint8_t[]){0x81, 0, 0xe0, 7}, 4);
    memcpy(frame + 16, p.p.data + 12, 42);
    memcpy(frame + 58, (uint8_t[8]){17, 0, 1, 4}, 8);
    memcpy(frame + 66, p.p.data + 54, p.p.len - 54);
    frame[18 + 6] = 0;
    frame[18 + 5] = (uint8_t)(frame[18 + 5] + 8);
    assert_int_equal(bal_parse(frame, p.p.len + 12, &m), 0);
    assert_int_equal(m.vlan, 7);
    assert_int_equal(m.kind, BAL_K_UDP);
    assert_int_equal(m.dport, 53);
    /* an endless chain ends */
    for (uint32_t i = 58; i < sizeof(frame); i++) frame[i] = 0;
    bal_put16(frame + 18 + 4, sizeof(frame) - 58);
    assert_int_equal(bal_parse(frame, sizeof(frame), &m), -1);
}

static void fragments(void **state)
{
    struct rig_packet whole;
    (void)state;
    rig_udp(&whole, end4(0x0a090001, 4000), end4(0x0a010000, 80), 100);
    rig_fragment(&p, &whole, 0, 64);
    assert_int_equal(parse(), 0);
    assert_int_equal(m.kind, BAL_K_UDP);
    assert_true(m.first);
    rig_fragment(&p, &whole, 64, 44);
    assert_int_equal(parse(), 0);
    assert_int_equal(m.kind, BAL_K_LATER);
    assert_int_equal(m.id, 0x1234);
}

static void errors_name_the_packet_inside(void **state)
{
    struct rig_packet about;
    (void)state;
    rig_tcp(&about, end4(0x0a010000, 80), end4(0x0a090001, 4000), BAL_ACK, 10);
    rig_error(&p, rig_ip4(0x0a090099), &about);
    assert_int_equal(parse(), 0);
    assert_int_equal(m.kind, BAL_K_ERROR);
    assert_int_equal(m.in_sport, 80);
    assert_int_equal(m.in_dport, 4000);
    rig_tcp(&about, end6(1, 80), end6(2, 4000), BAL_ACK, 10);
    rig_error(&p, rig_ip6(77), &about);
    assert_int_equal(parse(), 0);
    assert_int_equal(m.kind, BAL_K_ERROR);
    assert_int_equal(m.in_dport, 4000);
}

/* Every way to be cut short, or to say another length, is refused or stays inside. */
static void lies_are_refused(void **state)
{
    (void)state;
    rig_tcp(&p, end4(0x0a090001, 4000), end4(0x0a010000, 80), BAL_SYN, 10);
    for (uint32_t len = 0; len < p.p.len; len++) assert_int_equal(bal_parse(p.p.data, len, &m), -1);
    p.p.data[14] = 0x44; /* a header of 16 bytes */
    assert_int_equal(parse(), -1);
    rig_tcp(&p, end4(0x0a090001, 4000), end4(0x0a010000, 80), BAL_SYN, 10);
    p.p.data[24]++; /* the checksum */
    assert_int_equal(parse(), -1);
    rig_tcp(&p, end4(0x0a090001, 4000), end4(0x0a010000, 80), BAL_SYN, 10);
    p.p.data[46] = 0xf0; /* TCP's header is longer than the segment */
    assert_int_equal(parse(), -1);
    rig_udp(&p, end6(5, 4001), end6(6, 53), 3);
    bal_put16(p.p.data + 54 + 4, 12); /* UDP's length */
    assert_int_equal(parse(), -1);
}

/* Nearly all frames take a short way through the parser. It says what the long way says, also of what is
 * damaged. */
static void both_ways_agree(void **state)
{
    struct rnd rnd = {1};
    uint32_t sound = 0;
    (void)state;
    for (uint32_t i = 0; i < 200000; i++) {
        struct bal_meta any;
        uint32_t payload = rnd_below(&rnd, 60);
        if (i % 3)
            rig_tcp(&p, end4(0x0a090001, 4000), end4(0x0a010000, 80), (uint8_t)rnd64(&rnd), payload);
        else
            rig_udp(&p, end4(0x0a090001, 4000), end4(0x0a010000, i % 9 ? 53 : 4791), payload);
        for (uint32_t n = rnd_below(&rnd, 3); n; n--)
            p.p.data[12 + rnd_below(&rnd, 40)] ^= (uint8_t)(1u << rnd_below(&rnd, 8));
        if (!rnd_below(&rnd, 4)) p.p.data[47 - rnd_below(&rnd, 10)] = (uint8_t)rnd64(&rnd);
        if (rnd_below(&rnd, 2)) {
            bal_put16(p.p.data + 24, 0);
            bal_checksum_write(p.p.data + 24, bal_sum(p.p.data + 14, 20));
        }
        uint32_t len = rnd_below(&rnd, 4) ? p.p.len : rnd_below(&rnd, p.p.len);
        int rc = bal_parse(p.p.data, len, &m);
        assert_int_equal(rc, bal_parse_any(p.p.data, len, &any));
        if (rc) continue;
        assert_true(rig_same_meta(&m, &any));
        sound++;
    }
    assert_in_range(sound, 50000, 150000);
}

static void devices_have_names(void **state)
{
    struct bal_device d;
    char error[200] = "";
    (void)state;
    static const struct bal_device_wish one = {0, 1, 1500}, two = {0, 2, 1500}, second = {1, 1, 1500},
                                        jumbo = {0, 1, 9000};
    assert_int_equal(bal_device_parse("af_packet:eth0", &two, &d, error, sizeof(error)), 0);
    assert_string_equal(d.name, "net_af_packet0");
    assert_string_equal(d.args, "iface=eth0,qpairs=2,framecnt=1024,framesz=1984,blocksz=126976");
    assert_string_equal(d.kernel, "eth0");
    assert_int_equal(bal_device_parse("af_packet:eth0", &jumbo, &d, error, sizeof(error)), 0);
    assert_string_equal(d.args, "iface=eth0,qpairs=1,framecnt=1024,framesz=9152,blocksz=585728");
    assert_int_equal(bal_device_parse("pcap-loop:/tmp/a.pcap", &second, &d, error, sizeof(error)), 0);
    assert_string_equal(d.name, "net_pcap1");
    assert_string_equal(d.args, "rx_pcap=/tmp/a.pcap,infinite_rx=1");
    assert_int_equal(bal_device_parse("0000:17:00.0", &second, &d, error, sizeof(error)), 0);
    assert_string_equal(d.bus, "pci");
    static const char *const bad[] = {
        "",        "eth0",           "af_packet:",   "af_packet:eth0,iface=eth1",
        "e1000:x", "pcap:",          "pcap:a,b,c",   "af_packet:averyverylongname",
        "tap:a b", "17:00.0.0.0.00", "pcap-loop:a,b"};
    for (unsigned i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        assert_int_not_equal(bal_device_parse(bad[i], &one, &d, error, sizeof(error)), 0);
        assert_non_null(strstr(error, bad[i]));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tcp_and_udp),        cmocka_unit_test(tags_and_extensions),
        cmocka_unit_test(fragments),          cmocka_unit_test(errors_name_the_packet_inside),
        cmocka_unit_test(lies_are_refused),   cmocka_unit_test(both_ways_agree),
        cmocka_unit_test(devices_have_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
