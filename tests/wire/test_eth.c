/* SPDX-License-Identifier: Apache-2.0 */
/* Two stations on a link of UDP datagrams, and a stranger who puts what he likes on it. */
#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include <cmocka.h>

#include "softnic/config/config.h"
#include "softnic/wire/eth.h"
#include "softnic/wire/eth_frame.h"
#include "src/roce/hdr.h"

enum { LEN = 64, WAIT_MS = 5000 };

struct link {
    struct sn_eth *a, *b;
};

/* Two free ports, found by binding and closing. */
static void free_ports(uint16_t ports[2])
{
    int fd[2];

    for (int i = 0; i < 2; i++) {
        struct sockaddr_in sa = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
        socklen_t len = sizeof(sa);

        fd[i] = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
        assert_int_equal(bind(fd[i], (struct sockaddr *)&sa, sizeof(sa)), 0);
        assert_int_equal(getsockname(fd[i], (struct sockaddr *)&sa, &len), 0);
        ports[i] = ntohs(sa.sin_port);
    }
    close(fd[0]);
    close(fd[1]);
}

static struct sn_eth *open_eth(const char *rest, uint16_t own, uint16_t peer)
{
    struct sn_config config;
    struct sn_eth *eth = NULL;
    char text[256], why[SN_CONFIG_WHY];

    snprintf(text, sizeof(text), "wire=eth,bind=127.0.0.1:%d,peer=127.0.0.1:%d,%s", own, peer, rest);
    assert_int_equal(sn_config_parse(text, &config, why), 0);
    assert_int_equal(sn_eth_open(&config.addr, &config.eth, own, &eth, why), 0);
    return eth;
}

static struct link open_link(const char *a, const char *b)
{
    struct link link;
    uint16_t ports[2];

    free_ports(ports);
    link.a = open_eth(a, ports[0], ports[1]);
    link.b = open_eth(b, ports[1], ports[0]);
    return link;
}

static void close_link(struct link *link)
{
    sn_eth_close(link->a);
    sn_eth_close(link->b);
}

/* Receives at `to`, and serves the other station at the same time, until `want` frames are there. */
static int receive(struct sn_eth *to, struct sn_eth *other, struct sn_frame *rx, int want, int ms)
{
    struct pollfd p[2] = {{.fd = sn_eth_fd(to), .events = POLLIN},
                          {.fd = sn_eth_fd(other), .events = POLLIN}};
    struct sn_frame ignored[8];
    int n = 0;
    bool more;

    while (n < want && poll(p, 2, ms) > 0) {
        sn_eth_recv(other, ignored, 8, &more);
        n += sn_eth_recv(to, rx, want - n, &more);
    }
    return n;
}

static struct sn_frame frame_for(const char *ip, uint8_t *data, uint32_t len)
{
    struct sn_frame frame = {.data = data, .len = len};
    struct sn_addr addr;

    assert_int_equal(sn_addr_parse(ip, &addr), 0);
    memcpy(frame.dst_gid, addr.gid, 16);
    return frame;
}

static void both_ways(const char *a, const char *b, const char *a_ip, const char *b_ip)
{
    struct link link = open_link(a, b);
    uint8_t data[LEN] = {4, 1, 2, 3};
    struct sn_frame rx, tx = frame_for(b_ip, data, LEN);

    tx.ecn = 2;
    assert_int_equal(sn_eth_send(link.a, &tx, 1), 1); /* it waits for the answer to "who has" */
    assert_int_equal(receive(link.b, link.a, &rx, 1, WAIT_MS), 1);
    assert_int_equal(rx.len, LEN);
    assert_memory_equal(rx.data, data, LEN);
    assert_int_equal(rx.ecn, 2);
    assert_int_equal(rx.sport, sn_eth_port(link.a));
    assert_memory_equal(rx.dst_gid, tx.dst_gid, 16);
    tx = frame_for(a_ip, data, LEN);
    assert_memory_equal(rx.src_gid, tx.dst_gid, 16);
    assert_int_equal(sn_eth_send(link.b, &tx, 1), 1);
    assert_int_equal(receive(link.a, link.b, &rx, 1, WAIT_MS), 1);
    close_link(&link);
}

static void stations_reach_each_other(void **state)
{
    (void)state;
    both_ways("addr=192.0.2.1", "addr=192.0.2.2", "192.0.2.1", "192.0.2.2");
    both_ways("addr=192.0.2.1/24", "addr=192.0.2.2/24,mac=02:00:00:00:00:09", "192.0.2.1", "192.0.2.2");
    both_ways("addr=2001:db8::1/64", "addr=2001:db8::2/64", "2001:db8::1", "2001:db8::2");
}

static void other_subnets_are_behind_the_gateway(void **state)
{
    /* B stands for the gateway: it gets what is for 198.51.100.7, whose address is not its own. */
    struct link link = open_link("addr=192.0.2.1/24,gw=192.0.2.254", "addr=192.0.2.254/24");
    struct sn_udp_stats stats;
    uint8_t data[LEN] = {4};
    struct sn_frame rx[2],
        tx[2] = {frame_for("198.51.100.7", data, LEN), frame_for("192.0.2.254", data, LEN)};

    (void)state;
    assert_int_equal(sn_eth_send(link.a, tx, 2), 2);
    assert_int_equal(receive(link.b, link.a, rx, 1, WAIT_MS), 1);
    assert_memory_equal(rx[0].dst_gid, tx[1].dst_gid, 16);
    sn_eth_stats(link.b, &stats);
    assert_int_equal(stats.rx_frames, 1);
    assert_true(stats.rx_dropped >= 1);
    close_link(&link);
}

/* Frames keep their order, also after one that waits for its address; a station that is not there costs no
 * other. */
static void many_frames_arrive_in_order(void **state)
{
    enum { N = 100 };
    struct link link = open_link("addr=192.0.2.1", "addr=192.0.2.2");
    static uint8_t data[N][LEN];
    struct sn_frame tx[N], rx[N];
    int got = 0, sent = 0;

    (void)state;
    for (int i = 0; i < N; i++) {
        data[i][0] = 4;
        data[i][12] = (uint8_t)i;
        tx[i] = frame_for(i % 10 == 9 ? "192.0.2.77" : "192.0.2.2", data[i], LEN);
    }
    sent = sn_eth_send(link.a, tx, 8);
    assert_int_equal(sent, 8);
    assert_int_equal(receive(link.b, link.a, rx, 8, WAIT_MS), 8);
    for (int i = 0; i < 8; i++) assert_int_equal(rx[i].data[12], i);
    while (sent < N) sent += sn_eth_send(link.a, tx + sent, N - sent);
    for (int expected = 8; got < N - 8 - N / 10; got++, expected++) {
        if (expected % 10 == 9) expected++;
        assert_int_equal(receive(link.b, link.a, rx, 1, WAIT_MS), 1);
        assert_int_equal(rx[0].data[12], expected);
    }
    close_link(&link);
}

static void what_a_stranger_sends_is_dropped(void **state)
{
    struct link link;
    struct sn_station a = {.mac = {2, 0, 0, 0, 0, 1}}, b = {.mac = {2, 0, 0, 0, 0, 2}};
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int stranger = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    uint8_t p[SN_ETH_MAX_HDR + LEN] = {0}, data[LEN] = {4};
    struct sn_frame rx, tx = frame_for("192.0.2.1", data, LEN);
    uint16_t ports[2];
    uint32_t n;
    bool more;

    (void)state;
    free_ports(ports);
    link.a = open_eth("addr=192.0.2.1,mac=02:00:00:00:00:01", ports[0], ports[1]);
    memcpy(a.gid, tx.dst_gid, 16);
    memcpy(b.gid, a.gid, 16);
    b.gid[15] = 2;
    n = sn_eth_pack(p, &b, a.mac, 0xc000, &tx) + LEN;
    to.sin_port = htons(ports[0]);
    sn_eth_recv(link.a, &rx, 1, &more); /* that the peer's port is closed */
    /* Not from the peer's port: the kernel keeps it away. */
    assert_int_equal(sendto(stranger, p, n, 0, (struct sockaddr *)&to, sizeof(to)), (int)n);
    assert_int_equal(poll(&(struct pollfd){.fd = sn_eth_fd(link.a), .events = POLLIN}, 1, 100), 0);
    assert_int_equal(sn_eth_recv(link.a, &rx, 1, &more), 0);
    close(stranger);
    sn_eth_close(link.a);
}

static void a_claimed_port_is_named(void **state)
{
    struct link link = open_link("addr=192.0.2.1", "addr=192.0.2.2");
    struct sockaddr_in sa;
    socklen_t len = sizeof(sa);
    struct sn_config config;
    struct sn_eth *eth;
    char text[200], why[SN_CONFIG_WHY] = "";

    (void)state;
    assert_int_equal(getsockname(sn_eth_fd(link.a), (struct sockaddr *)&sa, &len), 0);
    snprintf(text, sizeof(text), "wire=eth,addr=192.0.2.3,bind=127.0.0.1:%d,peer=127.0.0.1:9",
             ntohs(sa.sin_port));
    assert_int_equal(sn_config_parse(text, &config, why), 0);
    assert_int_equal(sn_eth_open(&config.addr, &config.eth, 1, &eth, why), -EADDRINUSE);
    assert_non_null(strstr(why, "bind=127.0.0.1:"));
    close_link(&link);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(stations_reach_each_other),   cmocka_unit_test(other_subnets_are_behind_the_gateway),
        cmocka_unit_test(many_frames_arrive_in_order), cmocka_unit_test(what_a_stranger_sends_is_dropped),
        cmocka_unit_test(a_claimed_port_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
