/* SPDX-License-Identifier: Apache-2.0 */
/* Frames to a peer of this host begin over UDP and go on through memory: they come in the order in which they
 * were sent. Two wires, served by the test when it likes. */
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

static const struct sn_local_guard guard = {lock, lock, NULL};
static uint8_t gid[16];

static struct sn_port *open_as(const char *settings)
{
    struct sn_config config;
    struct sn_port *port = NULL;
    char why[SN_CONFIG_WHY] = "";

    memset(&config, 0, sizeof(config));
    if (sn_config_parse(settings, &config, why)) fail_msg("%s", why);
    if (sn_port_open(&config, &port, why)) fail_msg("%s", why);
    memcpy(gid, config.addr.gid, sizeof(gid));
    return port;
}

static struct sn_port *open_wire(void)
{
    struct sn_port *port = open_as("addr=127.51.52.56");

    assert_non_null(sn_port_local(port));
    return port;
}

static void serve(struct sn_port *port)
{
    sn_local_serve(sn_port_local(port), &guard);
}

/* The next frame; its number is in its last byte. */
static void send_to(struct sn_port *from, const struct sn_port *to)
{
    static uint8_t number;
    uint8_t data[LEN] = {[5] = (uint8_t)sn_port_slot(to), [7] = 9};
    struct sn_frame f = {.sport = sn_port_udp_port(from), .has_ip_id = true, .len = LEN, .data = data};

    data[LEN - 1] = ++number;
    memcpy(f.src_gid, gid, sizeof(gid));
    memcpy(f.dst_gid, gid, sizeof(gid));
    assert_int_equal(sn_port_wire_ops.send(from, &f, 1), 1);
}

/* Takes what there is, which must be the next ones. */
static void take(struct sn_port *port, int count)
{
    static uint8_t number;
    struct sn_frame f[4];
    bool more;
    int got = 0;

    for (int quiet = 0; quiet < QUIET; quiet++) {
        int n = sn_port_wire_ops.recv(port, f, 4, &more);

        for (int i = 0; i < n; i++) assert_int_equal(f[i].data[LEN - 1], ++number);
        got += n;
        if (n) quiet = 0;
    }
    assert_int_equal(got, count);
}

/* A frame has come over UDP. */
static void wait_packet(const struct sn_port *port)
{
    struct pollfd p[SN_PORT_FDS];
    int fds[SN_PORT_FDS], n = sn_port_sockets(port, fds);

    for (int i = 0; i < n; i++) p[i] = (struct pollfd){.fd = fds[i], .events = POLLIN};
    assert_int_equal(poll(p, (nfds_t)n, PATIENCE_MS), 1);
}

/* It goes on sending packets until it has heard the answer, however long that takes: long after the other one
 * has met it. */
static void nothing_overtakes_on_the_way_into_memory(void **state)
{
    struct sn_port *a = open_wire(), *b = open_wire();

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
    assert_int_equal(sn_local_met(sn_port_local(b)), 1);
    send_to(a, b);
    take(b, 1);
    sn_port_close(a);
    sn_port_close(b);
}

/* Faults may hold back a frame for longer than its process lives. */
static void what_is_under_way_outlives_its_sender(void **state)
{
    struct sn_port *a = open_as("addr=127.51.52.56,tx.delay=1s"), *b = open_wire();

    (void)state;
    send_to(a, b);
    take(b, 0);
    sn_port_close(a);
    wait_packet(b);
    take(b, 1);
    sn_port_close(b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_under_way_outlives_its_sender),
        cmocka_unit_test(nothing_overtakes_on_the_way_into_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
