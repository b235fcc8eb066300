/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Our frames as the kernel sends them, seen on the interface: IPv4 ID 0 and "don't fragment", so that the
 * ICRC computed beforehand is right. Needs permission to capture; else it is skipped.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <net/if.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "src/roce/cm.h"
#include "src/roce/hdr.h"
#include "src/roce/icrc.h"
#include "tests/wire/peers.h"

#define HERE  "127.0.79.1"
#define THERE "127.0.79.2"

static int capture;

static int open_capture(void **state)
{
    struct sockaddr_ll ll = {.sll_family = AF_PACKET, .sll_protocol = htons(ETH_P_ALL)};

    (void)state;
    ll.sll_ifindex = (int)if_nametoindex("lo");
    capture = socket(AF_PACKET, SOCK_DGRAM | SOCK_CLOEXEC, htons(ETH_P_ALL));
    if (capture >= 0 && bind(capture, (struct sockaddr *)&ll, sizeof(ll))) return -1;
    if (capture >= 0) setsockopt(capture, SOL_SOCKET, SO_RCVBUFFORCE, &(int){4 << 20}, sizeof(int));
    if (capture < 0) printf("no permission to capture (%s): skipped\n", strerror(errno));
    return 0;
}

static int close_capture(void **state)
{
    (void)state;
    if (capture >= 0) close(capture);
    return 0;
}

/* The next packet from HERE's or THERE's net to `port`, from its IP header on. */
static size_t captured(uint8_t *ip, size_t room, uint16_t port)
{
    struct pollfd p = {.fd = capture, .events = POLLIN};

    while (poll(&p, 1, 2000) == 1) {
        ssize_t n = recv(capture, ip, room, 0);

        if (n < 28 || ip[0] != 0x45 || ip[9] != IPPROTO_UDP || ip[12] != 127 || ip[14] != 79) continue;
        if ((ip[22] << 8 | ip[23]) == port) return (size_t)n;
    }
    return 0;
}

static struct roce_path path_between(const struct sn_udp *from, const struct sn_addr *to)
{
    struct roce_path path = {.sport = sn_udp_port(from), .dport = ROCE_UDP_PORT, .frag_off = ROCE_IP_DF};

    memcpy(path.src, sn_udp_addr(from)->gid + 12, 4);
    memcpy(path.dst, to->gid + 12, 4);
    return path;
}

/* Sends frames, several per call, and looks at every packet: the second of a batch must not be numbered
 * either. */
static void send_and_look(struct sn_udp *from, const struct sn_addr *to, unsigned slot, uint16_t port,
                          int batch)
{
    enum { N = 20, LEN = 4096 + 28 };
    static const uint8_t anybody[3] = {0, 0, ROCE_GSI_QPN};
    static uint8_t data[N][LEN], ip[9000];
    struct sn_frame frames[N];
    struct roce_path path = path_between(from, to), seen;
    size_t len, payload;

    for (uint32_t i = 0; i < N; i++) {
        uint32_t n = i % 4 ? LEN : 32;

        make_frame(data[i], n, slot, 0, i);
        if (port == ROCE_UDP_PORT) memcpy(data[i] + 5, anybody, 3);
        roce_icrc_end(roce_icrc(&path, data[i], n), data[i] + n - 4);
        frames[i] = frame_to(to, data[i], n);
    }
    for (int i = 0; i < N; i += batch) assert_int_equal(sn_udp_send(from, frames + i, batch), batch);
    /* Loopback shows each packet twice, going out and coming in. */
    for (uint32_t i = 0; i < 2 * N; i++) {
        uint32_t number;

        len = captured(ip, sizeof(ip), port);
        assert_true(len > 0);
        int at = roce_path_of_packet(ip, len, &seen, &payload);
        assert_int_equal(at, 28);
        assert_int_equal(seen.ip_id, 0);
        assert_int_equal(seen.frag_off, ROCE_IP_DF);
        assert_int_equal(seen.sport, sn_udp_port(from));
        memcpy(&number, ip + at + 8, 4);
        assert_true(number < N);
        assert_int_equal(payload, frames[number].len);
        seen.dport = ROCE_UDP_PORT; /* what the ICRC counts it as sent to */
        assert_true(roce_icrc_ok(&seen, ip + at, payload));
    }
}

/* Frames to another host go to port 4791. So do frames to another address here that name no slot. */
static void frames_to_other_hosts_are_roce_packets(void **state)
{
    struct sn_udp *a = open_wire(HERE, 1);
    struct sn_addr there;

    (void)state;
    if (capture < 0) skip();
    assert_int_equal(sn_addr_parse(THERE, &there), 0);
    send_and_look(a, &there, 2, ROCE_UDP_PORT, 20);
    sn_udp_close(a);
}

static void frames_to_slots_of_this_host_count_as_such(void **state)
{
    static const char *const at[] = {HERE, THERE};

    (void)state;
    if (capture < 0) skip();
    for (int i = 0; i < 2; i++) {
        struct sn_udp *a = open_wire(HERE, 1), *b = open_wire(at[i], 2);

        send_and_look(a, sn_udp_addr(b), sn_udp_slot(b), sn_udp_port(b), 1);
        sn_udp_close(a);
        sn_udp_close(b);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(frames_to_other_hosts_are_roce_packets, open_capture, close_capture),
        cmocka_unit_test_setup_teardown(frames_to_slots_of_this_host_count_as_such, open_capture,
                                        close_capture),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
