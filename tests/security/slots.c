/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Another user of the host attacks slots and their ports. It forges sources and wrappers, takes the slot of a
 * dead process, and uses names of another host. test_slots.sh runs this as root in its own network namespace.
 * There packets for 198.51.100.7, another host's address, leave by the loopback interface.
 */
#include <errno.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <net/if.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>

#include "softnic/base/name.h"
#include "softnic/nic/frame.h"
#include "softnic/port/port.h"
#include "softnic/wire/udp_state.h"
#include "src/roce/hdr.h"
#include "tests/security/stranger.h"
#include "tests/wire/peers.h"

#define HERE     "127.0.81.1"
#define PEER     "127.0.81.2"
#define ELSEBODY "127.0.81.9"
#define FAR      "198.51.100.7"

/* The victim, at HERE, and the peer that the stranger would like to be, at PEER. */
struct scene {
    struct sn_udp *udp, *peer;
    uint16_t port, peer_port;
    bool connects; /* the stranger does */
    uint8_t frame[64], wrapped[SN_UDP_WRAPPER + 64];
};

static void wrapper_for(struct scene *s, const char *source, uint16_t sport)
{
    static const uint8_t magic[4] = {SN_UDP_WRAPPED, 'g', 'w', 1};
    struct sn_addr addr;

    assert_int_equal(sn_addr_parse(source, &addr), 0);
    memset(s->wrapped, 0, SN_UDP_WRAPPER);
    memcpy(s->wrapped, magic, 4);
    s->wrapped[6] = (uint8_t)(sport >> 8);
    s->wrapped[7] = (uint8_t)sport;
    memcpy(s->wrapped + 8, addr.gid, 16);
    memcpy(s->wrapped + 24, sn_udp_addr(s->udp)->gid, 16);
    memcpy(s->wrapped + SN_UDP_WRAPPER, s->frame, sizeof(s->frame));
}

static void set(struct scene *s)
{
    s->connects = false;
    s->udp = open_wire(HERE, 20);
    s->peer = open_wire(PEER, 30);
    assert_non_null(s->udp);
    assert_non_null(s->peer);
    s->port = sn_udp_port(s->udp);
    s->peer_port = sn_udp_port(s->peer);
    make_frame(s->frame, sizeof(s->frame), sn_udp_slot(s->udp), 0, 1);
    wrapper_for(s, PEER, s->peer_port);
}

static void clear(struct scene *s)
{
    sn_udp_close(s->udp);
    sn_udp_close(s->peer);
}

/* ---- forged sources ------------------------------------------------------------------------------------ */

/* The peer's port, anywhere at all. Returns how often that worked. */
static int take_peers_port(int fd, const void *arg)
{
    static const char *const at[] = {PEER, HERE, ELSEBODY, "127.0.0.1", "0.0.0.0", "127.0.0.2"};
    const struct scene *s = arg;
    int taken = 0;

    (void)fd;
    for (int i = 0; i < 12; i++) taken += port_at(at[i / 2], s->peer_port, i % 2) >= 0;
    return taken;
}

static void nobody_else_has_a_slots_port_anywhere(void **state)
{
    struct scene s;

    (void)state;
    set(&s);
    assert_int_equal(stranger_does(take_peers_port, &s), 0);
    clear(&s);
}

/* With a slot of its own, and ports that are no slot's: from the peer's address to both of the victim's. */
static int forge_address(int fd, const void *arg)
{
    const struct scene *s = arg;
    int slot = port_at(ELSEBODY, SN_SLOT_PORT + 77, false), any = port_at("0.0.0.0", 40123, false);

    (void)fd;
    if (slot < 0 || any < 0) return 1;
    if (!send_as(any, PEER, HERE, s->port, s->frame, sizeof(s->frame))) return 2;
    if (!send_as(any, PEER, HERE, ROCE_UDP_PORT, s->frame, sizeof(s->frame))) return 3;
    if (!send_as(any, HERE, HERE, s->port, s->frame, sizeof(s->frame))) return 4;
    return send_as(slot, PEER, HERE, s->port, s->frame, sizeof(s->frame)) ? 0 : 5;
}

static void a_forged_address_does_not_come_from_the_peers_slot(void **state)
{
    struct scene s;
    struct sn_frame rx;

    (void)state;
    set(&s);
    assert_int_equal(stranger_does(forge_address, &s), 0);
    assert_true(wait_frame(s.udp, &rx, 1000));
    assert_int_equal(sn_frame_slot(&rx), 77); /* which is not the peer's: the engine drops it */
    assert_false(wait_frame(s.udp, &rx, 50));
    assert_int_equal(stats_of(s.udp).rx_dropped, 3);
    clear(&s);
}

/* ---- wrappers ------------------------------------------------------------------------------------------ */

static int send_wrapped(int fd, const void *arg)
{
    static int slot = -1;
    const struct scene *s = arg;

    (void)fd;
    if (slot < 0) slot = port_at(HERE, SN_SLOT_PORT + 77, false);
    if (slot < 0) return 1;
    return send_as(slot, HERE, HERE, s->port, s->wrapped, sizeof(s->wrapped)) ? 0 : 2;
}

/* A stranger that sends what it is told, and stays. arg: first it takes port 4791, and so gets what other
 * hosts send. */
static int send_on(int fd, const void *arg)
{
    char byte = !*(const bool *)arg || port_at(HERE, ROCE_UDP_PORT, true) >= 0;
    struct scene s;

    if (write(fd, &byte, 1) != 1) return 1;
    while (read(fd, &s, sizeof(s)) == sizeof(s)) {
        byte = (char)send_wrapped(fd, &s);
        if (write(fd, &byte, 1) != 1) return 1;
    }
    return 0;
}

static pid_t start_sender(bool with_4791, int *fd)
{
    pid_t pid = stranger_start(send_on, &with_4791, fd);
    char byte = 0;

    assert_int_equal(read(*fd, &byte, 1), 1);
    assert_int_equal(byte, 1);
    return pid;
}

/* Does the victim take a wrapper of that stranger's which says that its frame is from there? */
static bool is_believed(struct scene *s, int fd, const char *source, struct sn_frame *rx)
{
    char byte = 1;

    wrapper_for(s, source, s->peer_port);
    assert_int_equal(write(fd, s, sizeof(*s)), sizeof(*s));
    assert_int_equal(read(fd, &byte, 1), 1);
    assert_int_equal(byte, 0);
    return wait_frame(s->udp, rx, 50);
}

static void a_strangers_wrapper_is_not_believed(void **state)
{
    static const char *const sources[] = {PEER, HERE, FAR};
    struct scene s;
    struct sn_frame rx;
    int fd;
    pid_t pid = start_sender(false, &fd);

    (void)state;
    set(&s);
    for (int i = 0; i < 3; i++) assert_false(is_believed(&s, fd, sources[i], &rx));
    assert_int_equal(stats_of(s.udp).rx_dropped, 3);
    clear(&s);
    stranger_end(pid, fd, true);
}

static void from_who_has_port_4791_it_is_for_other_hosts_only(void **state)
{
    struct scene s;
    struct sn_frame rx;
    int fd;
    pid_t pid = start_sender(true, &fd);

    (void)state;
    set(&s);
    assert_false(is_believed(&s, fd, PEER, &rx));
    assert_false(is_believed(&s, fd, HERE, &rx));
    assert_true(is_believed(&s, fd, FAR, &rx));
    assert_false(rx.same_host);
    clear(&s);
    stranger_end(pid, fd, true);
}

/* ---- a slot whose process has ended -------------------------------------------------------------------- */

/* Connected to the victim or not: then the kernel gives the socket nothing else. */
static int take_port(int fd, const void *arg)
{
    const struct scene *s = arg;
    struct sockaddr_in victim = at_port(HERE, s->port);
    int sock = port_at(PEER, s->peer_port, false);
    char byte = sock >= 0;

    if (s->connects && connect(sock, (struct sockaddr *)&victim, sizeof(victim))) byte = 0;
    if (write(fd, &byte, 1) != 1) return 1;
    return read(fd, &byte, 1) != 0;
}

static void whoever_takes_a_slot_is_another_owner(struct scene *s)
{
    struct sn_owner before, after;
    const uint8_t *gid = sn_udp_addr(s->peer)->gid;
    uint8_t there[16];
    unsigned slot = sn_udp_slot(s->peer);
    char byte;
    int fd;
    pid_t pid;

    memcpy(there, gid, 16);
    before = sn_udp_owner(s->udp, there, slot);
    assert_int_equal(before.kind, SN_OWNER_PROCESS);
    assert_int_equal(before.uid, 0);
    sn_udp_close(s->peer);
    usleep(20000);
    assert_int_equal(sn_udp_owner(s->udp, there, slot).kind, SN_OWNER_NOBODY);
    pid = stranger_start(take_port, s, &fd);
    assert_int_equal(read(fd, &byte, 1), 1);
    assert_int_equal(byte, 1);
    usleep(20000);
    after = sn_udp_owner(s->udp, there, slot);
    assert_int_equal(after.kind, SN_OWNER_PROCESS);
    assert_int_equal(after.uid, STRANGER);
    assert_false(sn_same_owner(before, after));
    stranger_end(pid, fd, true);
    s->peer = NULL;
}

static void a_slot_that_was_taken_is_noticed(void **state)
{
    struct scene s;

    (void)state;
    set(&s);
    assert_int_equal(s.udp->owners.by, SN_OWNERS_BY_DIAG);
    whoever_takes_a_slot_is_another_owner(&s);
    clear(&s);
    set(&s);
    s.connects = true;
    whoever_takes_a_slot_is_another_owner(&s);
    clear(&s);
}

static void also_without_netlink(void **state)
{
    struct scene s;

    (void)state;
    set(&s);
    s.udp->owners.by = SN_OWNERS_BY_PROC;
    whoever_takes_a_slot_is_another_owner(&s);
    clear(&s);
}

/* ---- names --------------------------------------------------------------------------------------------- */

/* As if the slots of another host were here. */
static int bind_names(int fd, const void *arg)
{
    struct sn_addr addr;
    char text[33], byte = 0;

    (void)arg;
    if (sn_addr_parse(FAR, &addr)) return 1;
    for (unsigned slot = 0; slot < SN_SLOTS; slot++) {
        struct sn_name name = sn_name("%s/slot/%u", sn_name_of_gid(addr.gid, text), slot);

        if (sn_name_bind(socket(AF_UNIX, SOCK_DGRAM, 0), &name)) return 2;
    }
    if (write(fd, &byte, 1) != 1) return 3;
    return read(fd, &byte, 1) != 0;
}

/* The UDP port that a packet to FAR leaves for. */
static int port_of_packet(int capture)
{
    struct pollfd p = {.fd = capture, .events = POLLIN};
    uint8_t ip[2048];

    while (poll(&p, 1, 2000) == 1) {
        ssize_t n = recv(capture, ip, sizeof(ip), 0);

        if (n >= 28 && ip[0] == 0x45 && ip[9] == IPPROTO_UDP && ip[19] == 7) return ip[22] << 8 | ip[23];
    }
    return -1;
}

static void names_cut_off_no_other_host(void **state)
{
    struct sockaddr_ll ll = {.sll_family = AF_PACKET, .sll_protocol = htons(ETH_P_ALL)};
    struct sn_udp *udp;
    struct sn_addr far;
    uint8_t frame[64];
    struct sn_frame tx;
    char byte;
    int fd, capture;
    pid_t pid = stranger_start(bind_names, NULL, &fd);

    (void)state;
    assert_int_equal(read(fd, &byte, 1), 1);
    udp = open_wire(HERE, 3);
    ll.sll_ifindex = (int)if_nametoindex("lo");
    capture = socket(AF_PACKET, SOCK_DGRAM | SOCK_CLOEXEC, htons(ETH_P_ALL));
    assert_int_equal(bind(capture, (struct sockaddr *)&ll, sizeof(ll)), 0);
    assert_int_equal(sn_addr_parse(FAR, &far), 0);
    make_frame(frame, sizeof(frame), 5, 0, 1);
    tx = frame_to(&far, frame, sizeof(frame));
    assert_int_equal(sn_udp_send(udp, &tx, 1), 1);
    assert_int_equal(port_of_packet(capture), ROCE_UDP_PORT);
    assert_int_equal(sn_udp_owner(udp, far.gid, 5).kind, SN_OWNER_UNKNOWN);
    close(capture);
    sn_udp_close(udp);
    stranger_end(pid, fd, true);
}

/* ---- shared memory ------------------------------------------------------------------------------------- */

static void no_lock(struct sn_nic *nic)
{
    (void)nic;
}

static const struct sn_local_guard guard = {no_lock, no_lock, NULL};

static struct sn_port *open_whole_wire(void)
{
    struct sn_config config;
    struct sn_port *port = NULL;
    char why[SN_CONFIG_WHY];

    assert_int_equal(sn_config_nth("addr=" HERE, 0, &config, why), 0);
    assert_int_equal(sn_port_open(&config, &port, why), 0);
    assert_non_null(sn_port_local(port));
    return port;
}

/* Names that could be foreseen: user, address and slot. */
static int bind_meeting_names(int fd, const void *arg)
{
    struct sn_addr addr;
    char text[33], byte = 0;

    (void)arg;
    if (sn_addr_parse(HERE, &addr)) return 1;
    for (unsigned slot = 0; slot < SN_SLOTS; slot++) {
        struct sn_name name = sn_name("0/%s/%u", sn_name_of_gid(addr.gid, text), slot);

        if (sn_name_bind(socket(AF_UNIX, SOCK_SEQPACKET, 0), &name)) return 2;
    }
    if (write(fd, &byte, 1) != 1) return 3;
    return read(fd, &byte, 1) != 0;
}

static void pump(struct sn_port *port)
{
    struct sn_frame f[4];
    bool more;

    sn_port_wire_ops.recv(port, f, 4, &more);
    sn_local_serve(sn_port_local(port), &guard);
}

static void names_do_not_part_processes(void **state)
{
    struct sn_port *a, *b;
    struct sn_addr here;
    uint32_t qpn;
    bool met = false;
    char byte;
    int fd;
    pid_t pid = stranger_start(bind_meeting_names, NULL, &fd);

    (void)state;
    assert_int_equal(read(fd, &byte, 1), 1);
    assert_int_equal(sn_addr_parse(HERE, &here), 0);
    a = open_whole_wire();
    b = open_whole_wire();
    qpn = (uint32_t)sn_port_slot(b) << 16 | 5;
    for (int i = 0; i < 100 && !met; i++) {
        met = sn_local_peer_ops.in_memory(sn_port_local(a), here.gid, qpn);
        pump(a);
        pump(b);
        usleep(1000);
    }
    assert_true(met);
    sn_port_close(a);
    sn_port_close(b);
    stranger_end(pid, fd, true);
}

/* The name stands in /proc/net/unix, where everybody can read it. */
static struct sn_name only_meeting_name(void)
{
    FILE *f = fopen("/proc/net/unix", "re");
    char line[512], *at, name[128] = "";

    while (f && fgets(line, sizeof(line), f))
        if ((at = strstr(line, "@gpuwire/"))) sscanf(at, "@gpuwire/%100s", name);
    if (f) fclose(f);
    return sn_name("%s", name);
}

enum { CROWD = 200 };

/* Connects very often, and says how often it was shown the door so far, when it is asked. */
static int crowd(int fd, const void *arg)
{
    struct sn_name name = only_meeting_name();
    struct pollfd p[CROWD];
    uint8_t gone = 0;

    (void)arg;
    for (int i = 0; i < CROWD; i++) {
        p[i] = (struct pollfd){.fd = socket(AF_UNIX, SOCK_SEQPACKET, 0), .events = POLLRDHUP};
        if (sn_name_connect(p[i].fd, &name)) return 1;
    }
    do {
        poll(p, CROWD, 0);
        gone = 0;
        for (int i = 0; i < CROWD; i++) gone += p[i].revents != 0;
    } while (write(fd, &gone, 1) == 1 && read(fd, &gone, 1) == 1);
    return 0;
}

static void a_crowd_at_the_door_holds_up_nobody(void **state)
{
    struct sn_port *port = open_whole_wire();
    struct sn_local *local = sn_port_local(port);
    uint8_t gone = 1;
    int fd;
    pid_t pid = stranger_start(crowd, NULL, &fd);

    (void)state;
    assert_int_equal(read(fd, &gone, 1), 1);
    assert_int_equal(gone, 0);
    sn_local_serve(local, &guard);
    assert_int_equal(write(fd, "", 1), 1);
    assert_int_equal(read(fd, &gone, 1), 1);
    assert_in_range(gone, 1, CROWD / 2); /* the others have to wait */
    assert_false(sn_local_doze(local));  /* and are not forgotten */
    sn_local_wake(local);
    for (int i = 0; i < CROWD; i++) sn_local_serve(local, &guard);
    assert_int_equal(write(fd, "", 1), 1);
    assert_int_equal(read(fd, &gone, 1), 1);
    assert_int_equal(gone, CROWD);
    assert_true(sn_local_doze(local));
    assert_int_equal(sn_local_senders(local), 0);
    stranger_end(pid, fd, true);
    sn_port_close(port);
}

/* Another user asks for the name by which a process is met. */
static int ask_for_name(int fd, const void *arg)
{
    static const uint8_t hello[40] = {0xff, 'g', 'h', 1, 1};
    const uint16_t *port = arg;
    int slot = port_at(HERE, SN_SLOT_PORT + 77, false);
    struct pollfd p = {.fd = slot, .events = POLLIN};
    char byte = 0;

    if (slot < 0 || !send_as(slot, HERE, HERE, *port, hello, sizeof(hello))) return 1;
    if (write(fd, &byte, 1) != 1) return 2;
    return poll(&p, 1, 300) ? 3 : 0;
}

static void the_name_is_not_told_to_others(void **state)
{
    struct sn_port *port = open_whole_wire();
    uint16_t udp_port = sn_port_udp_port(port);
    char byte;
    int fd;
    pid_t pid = stranger_start(ask_for_name, &udp_port, &fd);

    (void)state;
    assert_int_equal(read(fd, &byte, 1), 1);
    for (int i = 0; i < 10; i++) pump(port);
    assert_int_equal(stranger_end(pid, fd, false), 0);
    sn_port_close(port);
}

/* ---- ports --------------------------------------------------------------------------------------------- */

/* All slots' ports: their owners are named. */
static int take_all(int fd, const void *arg)
{
    char byte = 0;

    (void)arg;
    for (int i = 0; i < SN_SLOTS; i++)
        if (port_at(ELSEBODY, (uint16_t)(SN_SLOT_PORT + i), false) < 0) return 1;
    if (write(fd, &byte, 1) != 1) return 2;
    return read(fd, &byte, 1) != 0;
}

static void who_has_taken_all_slots_is_said(void **state)
{
    struct sn_addr addr;
    struct sn_udp *udp;
    char why[256] = "", byte;
    int fd;
    pid_t pid = stranger_start(take_all, NULL, &fd);

    (void)state;
    assert_int_equal(read(fd, &byte, 1), 1);
    assert_int_equal(sn_addr_parse(HERE, &addr), 0);
    assert_int_equal(sn_udp_open(&addr, 9, &udp, why), -EADDRINUSE);
    if (!strstr(why, "user 65534 (256 sockets)")) fail_msg("%s", why);
    stranger_end(pid, fd, true);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nobody_else_has_a_slots_port_anywhere),
        cmocka_unit_test(a_forged_address_does_not_come_from_the_peers_slot),
        cmocka_unit_test(a_strangers_wrapper_is_not_believed),
        cmocka_unit_test(from_who_has_port_4791_it_is_for_other_hosts_only),
        cmocka_unit_test(a_slot_that_was_taken_is_noticed),
        cmocka_unit_test(also_without_netlink),
        cmocka_unit_test(names_cut_off_no_other_host),
        cmocka_unit_test(names_do_not_part_processes),
        cmocka_unit_test(a_crowd_at_the_door_holds_up_nobody),
        cmocka_unit_test(the_name_is_not_told_to_others),
        cmocka_unit_test(who_has_taken_all_slots_is_said),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
