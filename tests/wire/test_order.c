/* SPDX-License-Identifier: Apache-2.0 */
/* Frames to a peer of this host begin over UDP and go on through memory: they come in the order in which they were
 * sent. Two wires, served by the test when it likes. */
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <cmocka.h>

#include "softnic/port/port.h"
#include "src/roce/hdr.h"

enum { LEN = 64, QUIET = 64, PATIENCE_MS = 10000 };

static void lock(struct sn_nic *nic)
{
    (void)nic;
}

static const struct sn_host_guard guard = {lock, lock, NULL};
static uint8_t gid[16];

static struct sn_wire *open_wire(void)
{
    struct sn_config config;
    struct sn_wire *wire = NULL;
    char why[SN_CONFIG_WHY] = "";

    memset(&config, 0, sizeof(config));
    assert_int_equal(sn_config_parse("addr=127.51.52.56", &config, why), 0);
    if (sn_wire_open(&config, &wire, why)) fail_msg("%s", why);
    assert_non_null(sn_wire_host(wire));
    memcpy(gid, config.addr.gid, sizeof(gid));
    return wire;
}

static void serve(struct sn_wire *wire)
{
    sn_host_serve(sn_wire_host(wire), &guard);
}

/* The next frame; its number is in its last byte. */
static void send_to(struct sn_wire *from, const struct sn_wire *to)
{
    static uint8_t number;
    uint8_t data[LEN] = {[5] = (uint8_t)sn_wire_slot(to), [7] = 9};
    struct sn_frame f = {.sport = sn_wire_port(from), .has_ip_id = true, .len = LEN, .data = data};

    data[LEN - 1] = ++number;
    memcpy(f.src_gid, gid, sizeof(gid));
    memcpy(f.dst_gid, gid, sizeof(gid));
    assert_int_equal(sn_wire_ops.send(from, &f, 1), 1);
}

/* Takes what there is, which must be the next so many. */
static void take(struct sn_wire *wire, int count)
{
    static uint8_t number;
    struct sn_frame f[4];
    bool more;
    int got = 0;

    for (int quiet = 0; quiet < QUIET; quiet++) {
        int n = sn_wire_ops.recv(wire, f, 4, &more);

        for (int i = 0; i < n; i++) assert_int_equal(f[i].data[LEN - 1], ++number);
        got += n;
        if (n) quiet = 0;
    }
    assert_int_equal(got, count);
}

/* A frame has come over UDP. */
static void wait_packet(const struct sn_wire *wire)
{
    struct pollfd p[SN_WIRE_FDS];
    int fds[SN_WIRE_FDS], n = sn_wire_sockets(wire, fds);

    for (int i = 0; i < n; i++) p[i] = (struct pollfd){.fd = fds[i], .events = POLLIN};
    assert_int_equal(poll(p, (nfds_t)n, PATIENCE_MS), 1);
}

/* It goes on sending packets until it has heard the answer, however long that takes: long after the other one
 * has met it. */
static void nothing_overtakes_on_the_way_into_memory(void **state)
{
    struct sn_wire *a = open_wire(), *b = open_wire();

    (void)state;
    send_to(a, b);
    serve(a); /* asks for b's name */
    wait_packet(b);
    take(b, 1); /* and tells it */
    wait_packet(a);
    take(a, 0);
    serve(a); /* says hello */
    serve(b); /* answers */
    serve(b);
    send_to(a, b); /* still a packet */
    wait_packet(b);
    serve(a); /* hears the answer */
    send_to(a, b);
    send_to(a, b);
    take(b, 3);
    assert_int_equal(sn_host_met(sn_wire_host(b)), 1);
    send_to(a, b);
    take(b, 1);
    sn_wire_close(a);
    sn_wire_close(b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_overtakes_on_the_way_into_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
