/* SPDX-License-Identifier: Apache-2.0 */
/* Sockets between kernels: what a call does that is told by its flags, by shutdown, or by options of how long
 * it may wait. */
#include "tests/socket/rig.h"

/* Every flag. With a deadline that is far off, MSG_DONTWAIT is what does not wait. */
static void flags_of(struct rig *r, enum gw_group g)
{
    bytes(r, 0, SK_RECV_ONE, g, 1, 10, 0, 0)->flags = MSG_DONTWAIT;
    bytes(r, 0, SK_RECV_ONE, g, 1, 10, 0, 0)->limit_ns = 20000000;
    bytes(r, 0, SK_SEND_ONE, g, 2, 0, 0, 0);
    bytes(r, 0, SK_SEND_ONE, g, 2, 100, 0, 5)->flags = MSG_NOSIGNAL;
    add(r, 0, SK_POLL, g, 1, POLLIN);
    bytes(r, 0, SK_RECV_ONE, g, 1, 40, 0, 5)->flags = MSG_PEEK;
    bytes(r, 0, SK_RECV_ONE, g, 1, 200, 0, 5)->flags = MSG_PEEK | MSG_WAITALL;
    bytes(r, 0, SK_RECV_ONE, g, 1, 40, 0, 5)->flags = MSG_DONTWAIT;
    bytes(r, 0, SK_RECV_ONE, g, 1, 200, 0, 5)->at = 40;
    bytes(r, 0, SK_RECV_ONE, g, 1, 10, 0, 0)->flags = MSG_OOB;
    bytes(r, 0, SK_RECV_ONE, g, 1, 10, 0, 0)->flags = MSG_TRUNC;
    bytes(r, 0, SK_SEND_ONE, g, 2, 10, 0, 0)->flags = MSG_OOB;
    bytes(r, 0, SK_SEND_ONE, g, 2, 10, 0, 0)->flags = MSG_MORE;
    bytes(r, 0, SK_RECV_ONE, g, 1, 0, 0, 0);
    run(r);
    EXPECT(r, 0, -EAGAIN, -ETIMEDOUT, 0, 100, POLLIN, 40, 100, 40, 60, -EOPNOTSUPP, -EOPNOTSUPP, -EOPNOTSUPP,
           -EOPNOTSUPP, 0);
    bytes(r, 0, SK_SEND, g, 2, 50000, 999, 6);
    bytes(r, 1, SK_RECV_ONE, g, 1, 50000, 0, 6)->flags = MSG_WAITALL;
    run(r);
    EXPECT(r, 0, 50000);
    EXPECT(r, 1, 50000);
}

static void test_flags(void **state)
{
    static const enum gw_group forms[] = {GW_WARP, GW_THREAD, GW_BLOCK};
    struct gw_sockets_attr a = {.count = 4};
    struct rig r;

    (void)state;
    rig_make(&r, &a);
    for (uint32_t i = 0; i < 3; i++) {
        join(&r, forms[i]);
        flags_of(&r, forms[i]);
        part(&r, forms[i]);
    }
    rig_free(&r);
}

/* Without a receiver: a sender that does not wait fills the peer's buffer and says how far it came. Of that
 * the first half, of which 50100 bytes have been read, has not been given back. */
static void full_for(enum gw_group g)
{
    enum { MUCH = 70000 };
    struct gw_sockets_attr a = {.count = 4};
    struct rig r;

    rig_make(&r, &a);
    join(&r, g);
    bytes(&r, 0, SK_SEND_ONE, g, 2, 50100, 0, 5);
    bytes(&r, 0, SK_RECV_ONE, g, 1, 50100, 0, 5)->flags = MSG_WAITALL;
    bytes(&r, 0, SK_SEND_ONE, g, 2, MUCH, 0, 0);
    bytes(&r, 0, SK_SEND_ONE, g, 2, MUCH, 0, 0)->flags = MSG_DONTWAIT;
    bytes(&r, 0, SK_SEND_ONE, g, 2, MUCH, 0, 0)->flags = MSG_DONTWAIT;
    bytes(&r, 0, SK_SEND_ONE, g, 2, MUCH, 0, 0)->limit_ns = 20000000;
    run(&r);
    EXPECT(&r, 0, 50100, 50100, MUCH, (128 << 10) - 50100 - MUCH, -EAGAIN, -ETIMEDOUT);
    part(&r, g);
    rig_free(&r);
}

static void test_full(void **state)
{
    (void)state;
    full_for(GW_BLOCK);
    full_for(GW_WARP);
    full_for(GW_THREAD);
}

/* This side reads no more: its calls see the end at once, and the peer knows nothing of it. */
static void test_shut_for_reading(void **state)
{
    static const enum gw_group forms[] = {GW_BLOCK, GW_WARP, GW_THREAD};
    struct gw_sockets_attr a = {.count = 4};
    struct rig r;

    (void)state;
    rig_make(&r, &a);
    for (uint32_t i = 0; i < 3; i++) {
        enum gw_group g = forms[i];

        join(&r, g);
        bytes(&r, 0, SK_RECV_ONE, g, 1, 10, 0, 0)->limit_ns = 0;
        add(&r, 0, SK_SHUTDOWN, g, 1, SHUT_RD);
        bytes(&r, 0, SK_RECV_ONE, g, 1, 10, 0, 0);
        bytes(&r, 0, SK_BORROW, g, 1, 0, 0, 0);
        add(&r, 0, SK_POLL, g, 1, POLLIN | POLLOUT);
        bytes(&r, 0, SK_SEND_ONE, g, 1, 50, 0, i);
        bytes(&r, 0, SK_RECV_ONE, g, 2, 50, 0, i)->flags = MSG_WAITALL;
        add(&r, 0, SK_SHUTDOWN, g, 1, SHUT_WR);
        add(&r, 0, SK_POLL, g, 1, POLLIN);
        bytes(&r, 0, SK_RECV_ONE, g, 2, 10, 0, 0);
        bytes(&r, 0, SK_SEND_ONE, g, 1, 1, 0, 0);
        run(&r);
        EXPECT(&r, 0, -EAGAIN, 0, 0, 0, POLLIN | POLLOUT, 50, 50, 0, POLLIN | POLLHUP, 0, -EPIPE);
        part(&r, g);
    }
    rig_free(&r);
}

/* A socket that does not wait, and one whose calls wait less than their deadline says: whatever they wait
 * for. */
static void limits_of(enum gw_group g)
{
    struct gw_sockets_attr a = {.count = 4, .rbuf = 4096, .wbuf = 4096};
    struct rig r;

    rig_make(&r, &a);
    join(&r, g);
    opt(&r, SK_SETOPT, g, 1, GW_SOL_SOCKET, GW_SO_NONBLOCK, 1);
    opt(&r, SK_SETOPT, g, 2, GW_SOL_SOCKET, GW_SO_NONBLOCK, 7);
    opt(&r, SK_GETOPT, g, 2, GW_SOL_SOCKET, GW_SO_NONBLOCK, 0);
    bytes(&r, 0, SK_RECV_ONE, g, 1, 10, 0, 0);
    bytes(&r, 0, SK_READV, g, 1, 10, 1, 0);
    bytes(&r, 0, SK_BORROW, g, 1, 0, 0, 0);
    bytes(&r, 0, SK_SEND_ONE, g, 2, 300, 0, 1);
    add(&r, 0, SK_POLL, g, 1, POLLIN); /* waits */
    bytes(&r, 0, SK_RECV_ONE, g, 1, 300, 0, 1);
    bytes(&r, 0, SK_RECV_ONE, g, 1, 10, 0, 0)->flags = MSG_WAITALL;
    run(&r);
    EXPECT(&r, 0, 0, 0, 1, -EAGAIN, -EAGAIN, -EAGAIN, 300, POLLIN, 300, -EAGAIN);
    opt(&r, SK_SETOPT, g, 1, GW_SOL_SOCKET, GW_SO_NONBLOCK, 0);
    opt(&r, SK_SETOPT, g, 2, GW_SOL_SOCKET, GW_SO_NONBLOCK, 0);
    opt(&r, SK_SETOPT, g, 1, SOL_SOCKET, SO_RCVTIMEO, 19001);
    opt(&r, SK_GETOPT, g, 1, SOL_SOCKET, SO_RCVTIMEO, 0);
    opt(&r, SK_GETOPT, g, 1, SOL_SOCKET, SO_SNDTIMEO, 0);
    opt(&r, SK_SETOPT, g, 2, SOL_SOCKET, SO_SNDTIMEO, 500000);
    bytes(&r, 0, SK_RECV_ONE, g, 1, 10, 0, 0);
    bytes(&r, 0, SK_RECV_ONE, g, 1, 10, 0, 0)->limit_ns = 0;
    bytes(&r, 0, SK_SEND_ONE, g, 2, 10, 0, 2);
    add(&r, 0, SK_POLL, g, 1, POLLIN);
    bytes(&r, 0, SK_RECV_ONE, g, 1, 20, 0, 2)->flags = MSG_WAITALL;
    for (uint32_t i = 0; i < 2 && carrier; i++) bytes(&r, 0, SK_SEND, g, 2, 100000, 50000, 0);
    run(&r);
    EXPECT(&r, 0, 0, 0, 0, 20000, 0, 0, -ETIMEDOUT, -EAGAIN, 10, POLLIN, 10);
    if (carrier) assert_int_equal(r.result[0][12], -ETIMEDOUT); /* there is no reader, and nothing between */
    part(&r, g);
    rig_free(&r);
}

static void limits_of_setup(enum gw_group g)
{
    struct gw_sockets_attr a = {.count = 4, .rbuf = 4096, .wbuf = 4096};
    struct rig r;

    rig_make(&r, &a);
    open_at(&r, 0, g, 0);
    add(&r, 0, SK_BIND, g, 0, 0);
    add(&r, 0, SK_LISTEN, g, 0, 4);
    opt(&r, SK_SETOPT, g, 0, SOL_SOCKET, SO_RCVTIMEO, 20000);
    add(&r, 0, SK_ACCEPT, g, 0, 1);
    opt(&r, SK_SETOPT, g, 0, GW_SOL_SOCKET, GW_SO_NONBLOCK, 1);
    add(&r, 0, SK_ACCEPT, g, 0, 1);
    open_at(&r, 0, g, 2);
    opt(&r, SK_SETOPT, g, 2, GW_SOL_SOCKET, GW_SO_NONBLOCK, 1);
    add(&r, 0, SK_CONNECT, g, 2, 0);
    add(&r, 0, SK_POLL, g, 0, POLLIN);
    add(&r, 0, SK_ACCEPT, g, 0, 1);
    opt(&r, SK_GETOPT, g, 1, GW_SOL_SOCKET, GW_SO_NONBLOCK, 0); /* not the listener's; but */
    opt(&r, SK_GETOPT, g, 1, SOL_SOCKET, SO_RCVTIMEO, 0);
    bytes(&r, 0, SK_RECV_ONE, g, 1, 10, 0, 0);
    bytes(&r, 0, SK_RECV_ONE, g, 2, 10, 0, 0);
    run(&r);
    EXPECT(&r, 0, 0, 0, 0, 0, -ETIMEDOUT, 0, -EAGAIN, 0, 0, -EINPROGRESS, POLLIN, 0, 0, 20000, -ETIMEDOUT,
           -EAGAIN);
    part(&r, g);
    rig_free(&r);
}

static void test_limits(void **state)
{
    static const enum gw_group forms[] = {GW_BLOCK, GW_WARP, GW_THREAD};
    uint64_t start = gw_clock_ns();

    (void)state;
    for (uint32_t i = 0; i < 3; i++) {
        limits_of(forms[i]);
        limits_of_setup(forms[i]);
    }
    assert_true(gw_clock_ns() - start < LIMIT / 2); /* no call has waited for its own deadline */
}

int main(int argc, char **argv)
{
    const struct CMUnitTest rdma[] = {
        cmocka_unit_test(test_flags),
        cmocka_unit_test(test_full),
        cmocka_unit_test(test_shut_for_reading),
        cmocka_unit_test(test_limits),
    };
    const struct CMUnitTest tcp[] = {
        cmocka_unit_test_setup(test_flags, over_tcp),
        cmocka_unit_test_setup(test_shut_for_reading, over_tcp),
        cmocka_unit_test_setup(test_limits, over_tcp),
    };

    rig_begin(argc, argv);
    return cmocka_run_group_tests_name("RDMA", rdma, open_dev, close_all) +
           cmocka_run_group_tests_name("TCP", tcp, open_dev, close_all);
}
