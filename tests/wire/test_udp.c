/* SPDX-License-Identifier: Apache-2.0 */
/* Slots, sharing an address, and passing on, with processes that come and are killed. */
#include <arpa/inet.h>
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "src/roce/hdr.h"
#include "tests/wire/peers.h"

#define HERE  "127.0.77.1"
#define THERE "127.0.77.2"

static void processes_share_an_address(void **state)
{
    struct child a = start_child(HERE, 5), b = start_child(HERE, 5);
    struct sn_udp *udp = open_wire(HERE, 5);
    struct sn_frame rx;

    (void)state;
    assert_int_not_equal(a.slot, b.slot);
    assert_int_not_equal(sn_udp_slot(udp), a.slot);
    for (int i = 0; i < 200; i++) {
        assert_true(echo_works(udp, HERE, a.slot, 64 + 4 * (uint32_t)i, &rx));
        assert_true(echo_works(udp, HERE, b.slot, SN_UDP_FRAME, &rx));
        assert_int_equal(rx.sport, SN_SLOT_PORT + b.slot);
        assert_int_equal(rx.data[12] << 8 | rx.data[13], sn_udp_port(udp));
    }
    assert_int_equal(stats_of(udp).rx_frames, 400);
    assert_int_equal(stats_of(udp).rx_dropped, 0);
    assert_null(strstr(sn_udp_note(udp), "4791"));
    sn_udp_close(udp);
    kill_child(&a);
    kill_child(&b);
}

static void a_process_reaches_itself(void **state)
{
    struct sn_udp *udp = open_wire(HERE, 1);
    uint8_t frame[64];
    struct sn_frame tx = frame_to(sn_udp_addr(udp), frame, sizeof(frame));
    struct sn_frame rx;

    (void)state;
    make_frame(frame, sizeof(frame), sn_udp_slot(udp), 0, 1);
    assert_int_equal(sn_udp_send(udp, &tx, 1), 1);
    assert_true(wait_frame(udp, &rx, 1000));
    assert_memory_equal(rx.data, frame, sizeof(frame));
    sn_udp_close(udp);
}

/* The IP header's mark of congestion goes along: with frames by themselves, and with many in a message. */
static void congestion_marks_go_along(void **state)
{
    static const char *const at[] = {HERE, "::1"};
    uint8_t frame[4][64];
    struct sn_frame tx[4], rx;

    (void)state;
    for (int i = 0; i < 2 * 4; i++) {
        struct sn_udp *udp = open_wire(at[i / 4], 1);
        uint8_t ecn = (uint8_t)(i % 4);

        if (!udp) continue; /* no IPv6 here */
        sn_udp_mark(udp, ecn);
        for (uint32_t k = 0; k < 4; k++) {
            tx[k] = frame_to(sn_udp_addr(udp), frame[k], sizeof(frame[k]));
            make_frame(frame[k], sizeof(frame[k]), sn_udp_slot(udp), 0, k);
        }
        assert_int_equal(sn_udp_send(udp, tx, i % 2 ? 4 : 1), i % 2 ? 4 : 1);
        for (int k = 0; k < (i % 2 ? 4 : 1); k++) {
            assert_true(wait_frame(udp, &rx, 1000));
            assert_int_equal(rx.ecn, ecn);
        }
        sn_udp_close(udp);
    }
}

static unsigned refused_frames, refused_slot;

static void note_refused(const uint8_t gid[16], const uint8_t *frame, size_t len)
{
    struct sn_addr here;

    assert_int_equal(sn_addr_parse(HERE, &here), 0);
    assert_memory_equal(gid, here.gid, 16);
    assert_int_equal(len, 64);
    assert_int_equal(frame[5], refused_slot); /* the frame that was sent, not another */
    refused_frames++;
}

static void killing_one_disturbs_no_other(void **state)
{
    struct child a = start_child(HERE, 5), b = start_child(HERE, 5);
    struct sn_udp *udp = open_wire(HERE, 77);
    struct sn_frame rx;
    unsigned slot = a.slot;

    (void)state;
    refused_slot = slot;
    sn_udp_on_refused(udp, note_refused);
    for (int i = 0; i < 100; i++) {
        uint8_t frame[64];
        struct sn_frame tx = frame_to(sn_udp_addr(udp), frame, sizeof(frame));

        if (i == 30) kill_child(&a);
        if (i > 30) { /* to a closed port: refused and counted, and never in the way of others */
            make_frame(frame, sizeof(frame), slot, 0, 0);
            assert_int_equal(sn_udp_send(udp, &tx, 1), 1);
        }
        assert_true(echo_works(udp, HERE, b.slot, 512, &rx));
    }
    assert_true(stats_of(udp).refused > 0);
    assert_int_equal(stats_of(udp).refused, refused_frames);
    assert_int_equal(stats_of(udp).rx_frames, 100);

    /* The slot is free again at once, for the first that looks there. */
    struct child c = start_child(HERE, slot);
    assert_int_equal(c.slot, slot);
    assert_true(echo_works(udp, HERE, c.slot, 512, &rx));
    sn_udp_close(udp);
    kill_child(&b);
    kill_child(&c);
}

/* The kernel gives each flow from THERE to one of the processes; the owner gets all of them, as they were
 * sent. */
static void frames_from_elsewhere_are_passed_on(void **state)
{
    enum { CHILDREN = 4, FLOWS = 12 };
    struct child child[CHILDREN];
    struct sn_udp *member, *flow; /* opened after the forks: a child would keep the sockets open */
    struct sn_frame rx;
    bool more;

    (void)state;
    for (int i = 0; i < CHILDREN; i++) {
        child[i] = start_child(HERE, (uint64_t)i * 10);
        assert_true(child[i].shared);
    }
    member = open_wire(HERE, 200);
    sn_udp_close(member); /* leaves the group: flows that were its are others' now */
    for (int i = 0; i < FLOWS; i++) {
        flow = open_wire(THERE, (uint64_t)i * 7);
        for (int k = 0; k < 2 * CHILDREN; k++) {
            unsigned slot = child[k % CHILDREN].slot;

            assert_true(echo_from_afar_works(flow, HERE, slot, k & 1 ? SN_UDP_FRAME : 256, &rx));
            assert_int_equal(rx.data[12] << 8 | rx.data[13], sn_udp_port(flow));
            assert_int_equal(rx.sport, SN_SLOT_PORT + slot);
            assert_int_equal(rx.data[14] << 8 | rx.data[15], rx.sport);
        }
        sn_udp_close(flow);
    }
    /* One that is the only member passes all on. */
    for (int i = 1; i < CHILDREN; i++) kill_child(&child[i]);
    flow = open_wire(THERE, 0);
    assert_true(echo_from_afar_works(flow, HERE, child[0].slot, 256, &rx));
    uint8_t frame[64];
    struct sn_frame tx = frame_to(sn_udp_addr(flow), frame, sizeof(frame));
    make_frame(frame, sizeof(frame), child[1].slot, sn_udp_slot(flow), 5);
    struct sn_addr here;
    assert_int_equal(sn_addr_parse(HERE, &here), 0);
    tx = frame_to(&here, frame, sizeof(frame));
    for (int i = 0; i < 50; i++) assert_true(send_from_afar(flow, &tx)); /* to a dead slot, through child 0 */
    assert_true(echo_from_afar_works(flow, HERE, child[0].slot, 256, &rx));
    assert_int_equal(sn_udp_recv(flow, &rx, 1, &more), 0);
    sn_udp_close(flow);
    kill_child(&child[0]);
}

static void what_was_passed_on_is_counted(void **state)
{
    struct sn_udp *a = open_wire(HERE, 0), *b = open_wire(HERE, 9), *flow;
    struct sn_frame rx;
    uint64_t unwrapped, passed;
    uint8_t frame[128];
    bool more;

    (void)state;
    for (int i = 0; i < 32; i++) {
        struct sn_frame tx = frame_to(sn_udp_addr(a), frame, sizeof(frame));

        flow = open_wire(THERE, (uint64_t)i * 5);
        make_frame(frame, sizeof(frame), sn_udp_slot(b), 0, (uint32_t)i);
        assert_true(send_from_afar(flow, &tx));
        for (int k = 0; k < 3; k++) assert_int_equal(sn_udp_recv(a, &rx, 1, &more), 0);
        assert_true(wait_frame(b, &rx, 1000));
        assert_memory_equal(rx.src_gid, sn_udp_addr(flow)->gid, 16);
        assert_int_equal(rx.sport, sn_udp_port(flow));
        assert_memory_equal(rx.data, frame, sizeof(frame));
        sn_udp_close(flow);
    }
    unwrapped = stats_of(b).rx_unwrapped;
    passed = stats_of(a).passed_on;
    printf("%lu of 32 flows came through the other process\n", (unsigned long)unwrapped);
    assert_true(unwrapped > 0 && unwrapped < 32);
    assert_int_equal(unwrapped, passed);
    sn_udp_close(a);
    sn_udp_close(b);
}

/* Between two addresses of a host, too, whatever the kernel would do with the flow. */
static void who_stands_still_holds_up_no_other(void **state)
{
    enum { FLOWS = 32 };
    struct sn_udp *still = open_wire(HERE, 0), *other = open_wire(HERE, 9), *flow;
    uint8_t frame[3][128];
    struct sn_frame tx[3], rx;

    (void)state;
    for (uint32_t i = 0; i < FLOWS; i++) {
        flow = open_wire(THERE, i * 5);
        for (uint32_t k = 0; k < 3; k++) {
            make_frame(frame[k], sizeof(frame[k]), sn_udp_slot(k == 1 ? still : other), 0, i);
            tx[k] = frame_to(sn_udp_addr(other), frame[k], sizeof(frame[k]));
        }
        assert_int_equal(sn_udp_send(flow, tx, 3), 3);
        for (int k = 0; k < 2; k++) {
            assert_true(wait_frame(other, &rx, 1000));
            assert_memory_equal(rx.src_gid, sn_udp_addr(flow)->gid, 16);
            assert_int_equal(rx.sport, sn_udp_port(flow));
            assert_true(rx.has_ip_id); /* however the kernel numbers what it takes apart */
            assert_memory_equal(rx.data, frame[2 * k], sizeof(frame[0]));
        }
        sn_udp_close(flow);
    }
    for (int i = 0; i < FLOWS; i++) assert_true(wait_frame(still, &rx, 1000)); /* nothing of it is lost */
    assert_int_equal(stats_of(still).passed_on + stats_of(other).passed_on, 0);
    assert_int_equal(stats_of(still).rx_dropped + stats_of(other).rx_dropped, 0);
    sn_udp_close(still);
    sn_udp_close(other);
}

static int plain_socket(const char *ip, uint16_t port)
{
    struct sockaddr_in sin = {
        .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = inet_addr(ip)};
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0), on = sn_is_slot_port(port);

    /* A slot at another address holds its port everywhere, but for its user's slots. */
    setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &on, sizeof(on));
    if (bind(fd, (struct sockaddr *)&sin, sizeof(sin)) == 0) return fd;
    close(fd);
    return -1;
}

static void send_plain(int fd, const char *ip, uint16_t port, const void *data, size_t len)
{
    struct sockaddr_in sin = {
        .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = inet_addr(ip)};

    assert_int_equal(sendto(fd, data, len, 0, (struct sockaddr *)&sin, sizeof(sin)), len);
}

/* A wrapper pretends another sender, so it must come from a slot at the own address; a frame from some NIC's
 * slot of this host. */
static void wrappers_from_strangers_are_dropped(void **state)
{
    struct sn_udp *udp = open_wire(HERE, 3);
    uint8_t wrapper[SN_UDP_WRAPPER + 64] = {0xff, 'g', 'w', 1};
    uint16_t port = sn_udp_port(udp);
    int stranger = plain_socket(THERE, SN_SLOT_PORT + 4);
    int local = plain_socket(HERE, SN_SLOT_PORT + SN_SLOTS); /* one that the kernel chose may be a slot's */
    int slot = plain_socket(HERE, SN_SLOT_PORT + 4);
    struct sn_frame rx;

    (void)state;
    wrapper[6] = 0xc0;
    memcpy(wrapper + 8, sn_udp_addr(udp)->gid, 16);
    wrapper[8 + 15] = 99;
    memcpy(wrapper + 24, sn_udp_addr(udp)->gid, 16);
    make_frame(wrapper + SN_UDP_WRAPPER, 64, sn_udp_slot(udp), 0, 1);
    send_plain(stranger, HERE, port, wrapper, sizeof(wrapper));
    send_plain(local, HERE, port, wrapper, sizeof(wrapper));
    send_plain(local, HERE, port, wrapper + SN_UDP_WRAPPER, 64);
    assert_false(wait_frame(udp, &rx, 20));
    assert_int_equal(stats_of(udp).rx_dropped, 3);
    send_plain(stranger, HERE, port, wrapper + SN_UDP_WRAPPER, 64); /* a frame, from a slot of this host */
    assert_true(wait_frame(udp, &rx, 1000));
    assert_int_equal(rx.src_gid[15], 2);

    send_plain(slot, HERE, port, wrapper, sizeof(wrapper)); /* as it should be: taken */
    assert_true(wait_frame(udp, &rx, 1000));
    assert_int_equal(rx.len, 64);
    assert_int_equal(rx.src_gid[15], 99);

    wrapper[24 + 15] ^= 1; /* was sent to another address */
    send_plain(slot, HERE, port, wrapper, sizeof(wrapper));
    wrapper[24 + 15] ^= 1;
    wrapper[SN_UDP_WRAPPER + 5] ^= 1; /* another's slot: not passed on a second time */
    send_plain(slot, HERE, port, wrapper, sizeof(wrapper));
    wrapper[3] = 2; /* another version's */
    send_plain(slot, HERE, port, wrapper, sizeof(wrapper));
    send_plain(slot, HERE, port, wrapper, SN_UDP_WRAPPER + 3);
    send_plain(slot, HERE, port, wrapper, 3);
    send_plain(slot, HERE, port, wrapper, 0);
    assert_false(wait_frame(udp, &rx, 20));
    assert_int_equal(stats_of(udp).passed_on, 0);
    assert_int_equal(stats_of(udp).rx_dropped, 9);
    close(stranger);
    close(local);
    close(slot);
    sn_udp_close(udp);
}

/* Whatever follows the beginning of a wrapper, or of a question for a name. */
static void any_bytes_behind_a_magic_do_no_harm(void **state)
{
    struct sn_udp *udp = open_wire(HERE, 3);
    int slot = plain_socket(HERE, SN_SLOT_PORT + 4);
    uint8_t bytes[256];
    struct sn_frame rx;
    uint64_t seen = 0;

    (void)state;
    srandom(5);
    for (int i = 0; i < 5000; i++) {
        size_t len = (size_t)random() % sizeof(bytes);

        for (size_t k = 0; k < sizeof(bytes); k++) bytes[k] = (uint8_t)random();
        memcpy(bytes, i % 2 ? "\xffgw\1" : "\xffgh\1", 4);
        bytes[4] = (uint8_t)(random() % 4);
        if (random() % 2) memcpy(bytes + 24, sn_udp_addr(udp)->gid, 16);
        send_plain(slot, HERE, sn_udp_port(udp), bytes, len);
        while (wait_frame(udp, &rx, 0)) seen += rx.data[rx.len - 1]; /* all of it can be read */
    }
    assert_true(stats_of(udp).rx_dropped > 1000);
    assert_true(seen != 1);
    sn_udp_close(udp);
    close(slot);
}

/* The same for IPv6; whose the child's slot is, and that it is free afterwards. */
static void the_owner_of_a_slot_is_known(void **state)
{
    static const char *const at[] = {HERE, "::1"};

    (void)state;
    for (int i = 0; i < 2; i++) {
        struct sn_udp *udp = open_wire(at[i], 1);
        struct child child = start_child(at[i], 90);
        struct sn_owner own, owner;

        if (!udp) continue; /* no IPv6 here */
        own = sn_udp_owner(udp, sn_udp_addr(udp)->gid, sn_udp_slot(udp));
        owner = sn_udp_owner(udp, sn_udp_addr(udp)->gid, child.slot);
        assert_int_equal(own.kind, SN_OWNER_PROCESS);
        assert_int_equal(owner.kind, SN_OWNER_PROCESS);
        assert_int_equal(owner.uid, geteuid());
        assert_true(own.id != owner.id);
        kill_child(&child);
        usleep(20000);
        assert_int_equal(sn_udp_owner(udp, sn_udp_addr(udp)->gid, child.slot).kind, SN_OWNER_NOBODY);
        sn_udp_close(udp);
    }
}

static void too_long_is_dropped(void **state)
{
    static uint8_t frame[9000];
    struct sn_udp *udp = open_wire(HERE, 3);
    struct sn_frame tx = frame_to(sn_udp_addr(udp), frame, sizeof(frame));
    struct sn_frame rx;

    (void)state;
    make_frame(frame, sizeof(frame), sn_udp_slot(udp), 0, 1);
    assert_int_equal(sn_udp_send(udp, &tx, 1), 1);
    assert_false(wait_frame(udp, &rx, 20));
    assert_int_equal(stats_of(udp).rx_dropped, 1);
    sn_udp_close(udp);
}

static void all_slots_taken_is_said(void **state)
{
    static struct sn_slot slots[SN_SLOTS + 1];
    static bool seen[SN_SLOTS];
    struct sn_addr addr;
    unsigned n = 0;
    int err;
    char why[256];

    (void)state;
    assert_int_equal(sn_addr_parse("127.0.77.3", &addr), 0);
    /* Not quite all, where other programs have some of the ports, at whatever address. */
    while ((err = sn_slot_claim(&addr, n * 3, &slots[n], why)) == 0) {
        assert_false(seen[slots[n].slot]);
        seen[slots[n++].slot] = true;
    }
    assert_int_equal(err, -EADDRINUSE);
    assert_in_range(n, SN_SLOTS / 2, SN_SLOTS);
    assert_non_null(strstr(why, "256 slots at 127.0.77.3"));
    while (n) sn_slot_release(&slots[--n]);
}

static void a_foreign_address_is_said(void **state)
{
    struct sn_addr addr;
    struct sn_udp *udp;
    char why[256];

    (void)state;
    assert_int_equal(sn_addr_parse("198.51.100.7", &addr), 0);
    assert_int_equal(sn_udp_open(&addr, 0, &udp, why), -EADDRNOTAVAIL);
    assert_non_null(strstr(why, "198.51.100.7 is no address of this host"));
}

/* Another program has port 4791: local peers work, and a note tells what does not. */
static void without_the_shared_port_local_peers_work(void **state)
{
    int fd = plain_socket(HERE, ROCE_UDP_PORT), fds[2];
    struct child a = start_child(HERE, 5);
    struct sn_udp *udp = open_wire(HERE, 5);
    struct sn_frame rx;

    (void)state;
    assert_true(fd >= 0);
    assert_int_equal(sn_udp_fds(udp, fds), 1);
    assert_non_null(strstr(sn_udp_note(udp), "4791"));
    assert_true(echo_works(udp, HERE, a.slot, 100, &rx));
    sn_udp_close(udp);
    kill_child(&a);
    close(fd);
}

static void batches_longer_than_a_call_go_through(void **state)
{
    enum { N = 300 };
    static uint8_t frames[N][64];
    struct sn_udp *udp = open_wire(HERE, 3);
    struct sn_frame tx[N];
    struct sn_frame rx;

    (void)state;
    for (uint32_t i = 0; i < N; i++) {
        make_frame(frames[i], 64, sn_udp_slot(udp), 0, i);
        tx[i] = frame_to(sn_udp_addr(udp), frames[i], 64);
    }
    assert_int_equal(sn_udp_send(udp, tx, N), N);
    for (uint32_t i = 0; i < N; i++) {
        assert_true(wait_frame(udp, &rx, 1000));
        assert_memory_equal(rx.data, frames[i], 64);
    }
    sn_udp_close(udp);
}

/* Frames of one length leave as one message; whatever the lengths and the receivers, they arrive as they were
 * sent. */
static void any_mixture_of_frames_arrives(void **state)
{
    enum { N = 40 }; /* fits the smallest receive buffer that systems have */
    static uint8_t frames[N][SN_UDP_FRAME];
    struct sn_udp *from = open_wire(HERE, 3),
                  *to[3] = {open_wire(HERE, 30), open_wire(HERE, 60), open_wire(THERE, 1)};
    uint32_t next[3] = {0}, lens[N], owner[N];
    struct sn_frame tx[N], rx;

    (void)state;
    srandom(99);
    for (int round = 0; round < 200; round++) {
        uint32_t len = 64, who = 0;

        for (uint32_t i = 0; i < N; i++) {
            if (random() % 8 == 0) len = 16 + (uint32_t)random() % (SN_UDP_FRAME - 16);
            if (random() % 12 == 0) who = (uint32_t)random() % 3;
            owner[i] = who;
            lens[i] = len - (random() % 6 == 0);
            if (lens[i] < 16) lens[i] = 16;
            make_frame(frames[i], lens[i], sn_udp_slot(to[who]), 0, i);
            tx[i] = frame_to(sn_udp_addr(to[who]), frames[i], lens[i]);
        }
        assert_int_equal(sn_udp_send(from, tx, N), N);
        for (int k = 0; k < 3; k++) {
            for (next[k] = 0; next[k] < N; next[k]++) {
                uint32_t i = next[k];

                if (owner[i] != (uint32_t)k) continue;
                assert_true(wait_frame(to[k], &rx, 1000));
                assert_int_equal(rx.len, lens[i]);
                assert_memory_equal(rx.data, frames[i], lens[i]);
                assert_int_equal(rx.sport, sn_udp_port(from));
            }
        }
    }
    assert_int_equal(stats_of(from).tx_errors, 0);
    for (int k = 0; k < 3; k++) sn_udp_close(to[k]);
    sn_udp_close(from);
}

static void ipv6_works(void **state)
{
    struct sn_udp *udp = open_wire("::1", 3);
    struct child a;
    struct sn_frame rx;

    (void)state;
    if (!udp) {
        printf("no IPv6 here\n");
        skip();
    }
    a = start_child("::1", 5);
    assert_true(echo_works(udp, "::1", a.slot, 1000, &rx));
    sn_udp_close(udp);
    kill_child(&a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(processes_share_an_address),
        cmocka_unit_test(a_process_reaches_itself),
        cmocka_unit_test(congestion_marks_go_along),
        cmocka_unit_test(killing_one_disturbs_no_other),
        cmocka_unit_test(frames_from_elsewhere_are_passed_on),
        cmocka_unit_test(what_was_passed_on_is_counted),
        cmocka_unit_test(who_stands_still_holds_up_no_other),
        cmocka_unit_test(wrappers_from_strangers_are_dropped),
        cmocka_unit_test(any_bytes_behind_a_magic_do_no_harm),
        cmocka_unit_test(the_owner_of_a_slot_is_known),
        cmocka_unit_test(too_long_is_dropped),
        cmocka_unit_test(all_slots_taken_is_said),
        cmocka_unit_test(a_foreign_address_is_said),
        cmocka_unit_test(without_the_shared_port_local_peers_work),
        cmocka_unit_test(batches_longer_than_a_call_go_through),
        cmocka_unit_test(any_mixture_of_frames_arrives),
        cmocka_unit_test(ipv6_works),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
