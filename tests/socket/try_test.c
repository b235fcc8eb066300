/* SPDX-License-Identifier: Apache-2.0 */
/* Streams that use RDMA where both sides can, and TCP else: each kind of socket meets each other kind. */
#include "tests/socket/nic_rig.h"

static int begin_try(void **state)
{
    (void)state;
    return begin_set(8192);
}

static int open_as(int rdma)
{
    int s = open_ours(), got = -1;
    socklen_t len = sizeof(got);

    assert_int_equal(gw_sock_setsockopt_thread(net, s, GW_SOL_SOCKET, GW_SO_RDMA, &rdma, sizeof(rdma)), 0);
    assert_int_equal(gw_sock_getsockopt_thread(net, s, GW_SOL_SOCKET, GW_SO_RDMA, &got, &len), 0);
    assert_int_equal(got, rdma);
    return s;
}

static int listen_as(int rdma, struct sockaddr_in *at)
{
    int s = open_as(rdma), on = GW_RDMA_OFF;
    socklen_t len = sizeof(*at);

    *at = here;
    assert_int_equal(gw_sock_bind_thread(net, s, (struct sockaddr *)at, sizeof(*at), soon()), 0);
    assert_int_equal(gw_sock_listen_thread(net, s, 4, soon()), 0);
    assert_int_equal(gw_sock_name_thread(net, s, (struct sockaddr *)at, &len), 0);
    assert_int_equal(gw_sock_setsockopt_thread(net, s, GW_SOL_SOCKET, GW_SO_RDMA, &on, sizeof(on)),
                     rdma == GW_RDMA_OFF ? 0 : -EISCONN);
    return s;
}

/* Bytes both ways and both ends. */
static void talk(int s, int t)
{
    char b[8];

    assert_int_equal(send_ours(s, "there", 5), 5);
    assert_int_equal(gw_sock_recv_thread(net, t, b, 5, MSG_WAITALL, soon()), 5);
    assert_int_equal(send_ours(t, "back", 4), 4);
    assert_int_equal(gw_sock_recv_thread(net, s, b, 4, MSG_WAITALL, soon()), 4);
    assert_memory_equal(b, "back", 4);
    close_ours(s);
    assert_int_equal(recv_ours(t, b, 1), 0);
    close_ours(t);
}

/* The kind that a socket became: over RDMA the process has no descriptor for it. */
static int over_rdma(int s)
{
    return net->info[s].kind == GW_SOCK_STREAM_;
}

static void test_everybody_meets(void **state)
{
    static const struct {
        int listens, connects, result; /* 1: they meet over RDMA; 0: over TCP */
    } v[] = {
        {GW_RDMA_TRY, GW_RDMA_TRY, 1},
        {GW_RDMA_TRY, GW_RDMA_ONLY, 1},
        {GW_RDMA_TRY, GW_RDMA_OFF, 0},
        {GW_RDMA_ONLY, GW_RDMA_TRY, 1},
        {GW_RDMA_OFF, GW_RDMA_TRY, 0},
        {GW_RDMA_OFF, GW_RDMA_ONLY, -ECONNREFUSED},
        {GW_RDMA_ONLY, GW_RDMA_OFF, -ECONNREFUSED},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(v) / sizeof(v[0]); i++) {
        struct sockaddr_in at;
        int l = listen_as(v[i].listens, &at), s = open_as(v[i].connects), t;
        int err = gw_sock_connect_thread(net, s, (struct sockaddr *)&at, sizeof(at), soon());

        assert_int_equal(err, v[i].result < 0 ? v[i].result : 0);
        if (err) {
            close_ours(s);
        } else {
            t = gw_sock_accept_thread(net, l, NULL, NULL, soon());
            assert_true(t >= 0);
            assert_int_equal(over_rdma(s), v[i].result);
            assert_int_equal(over_rdma(t), v[i].result);
            talk(s, t);
        }
        close_ours(l);
        assert_int_equal(gw_sockets_open(set), 0);
    }
}

/* One listening socket takes both, and the host's own; its port is taken in both spaces. */
static void test_one_listener(void **state)
{
    struct sockaddr_in at;
    int l = listen_as(GW_RDMA_TRY, &at), s = open_as(GW_RDMA_ONLY), other = open_as(GW_RDMA_OFF), fd, t;
    const struct sockaddr *to = (const struct sockaddr *)&at;
    char b[8];

    (void)state;
    assert_int_equal(gw_sock_bind_thread(net, other, to, sizeof(at), soon()), -EADDRINUSE);
    close_ours(other);
    other = open_as(GW_RDMA_ONLY);
    assert_int_equal(gw_sock_bind_thread(net, other, to, sizeof(at), soon()), -EADDRINUSE);
    close_ours(other);
    fd = connect_host(&at);
    assert_int_equal(gw_sock_connect_thread(net, s, to, sizeof(at), soon()), 0);
    for (int i = 0; i < 2; i++) {
        t = gw_sock_accept_thread(net, l, NULL, NULL, soon());
        assert_true(t >= 0);
        if (over_rdma(t)) {
            talk(s, t);
        } else {
            assert_int_equal(write(fd, "host", 4), 4);
            assert_int_equal(gw_sock_recv_thread(net, t, b, 4, MSG_WAITALL, soon()), 4);
            close_ours(t);
            assert_int_equal(read(fd, b, 1), 0);
        }
    }
    assert_int_equal(gw_sock_accept_thread(net, l, NULL, NULL, 0), -EAGAIN);
    close_ours(l);
    close(fd);
    assert_int_equal(gw_sockets_open(set), 0);
}

/* At an address where no NIC is there is TCP alone. */
static void test_without_a_nic(void **state)
{
    struct sockaddr_in at = loopback(0);
    socklen_t len = sizeof(at);
    int l = open_as(GW_RDMA_TRY), s = open_as(GW_RDMA_TRY), t;

    (void)state;
    assert_int_equal(gw_sock_bind_thread(net, l, (struct sockaddr *)&at, sizeof(at), soon()), 0);
    assert_int_equal(gw_sock_listen_thread(net, l, 4, soon()), 0);
    assert_int_equal(gw_sock_name_thread(net, l, (struct sockaddr *)&at, &len), 0);
    assert_int_equal(gw_sock_connect_thread(net, s, (struct sockaddr *)&at, sizeof(at), soon()), 0);
    t = gw_sock_accept_thread(net, l, NULL, NULL, soon());
    assert_true(t >= 0);
    assert_false(over_rdma(s));
    talk(s, t);
    close_ours(l);
}

/* UNIX sockets and datagrams have one way: asking for another is an error, and they stay what they are. */
static void test_no_choice(void **state)
{
    static const int kinds[][2] = {{AF_INET, SOCK_DGRAM}, {AF_UNIX, SOCK_DGRAM}, {AF_UNIX, SOCK_STREAM}};

    (void)state;
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        int s = gw_sock_open_thread(net, kinds[i][0], kinds[i][1], 0, soon()), got = -1;
        socklen_t len = sizeof(got);

        assert_true(s >= 0);
        for (int rdma = GW_RDMA_OFF; rdma <= GW_RDMA_TRY; rdma++)
            assert_int_equal(
                gw_sock_setsockopt_thread(net, s, GW_SOL_SOCKET, GW_SO_RDMA, &rdma, sizeof(rdma)),
                rdma == GW_RDMA_OFF ? 0 : -EOPNOTSUPP);
        assert_int_equal(gw_sock_getsockopt_thread(net, s, GW_SOL_SOCKET, GW_SO_RDMA, &got, &len), 0);
        assert_int_equal(got, GW_RDMA_OFF);
        close_ours(s);
    }
}

/* A kernel that keeps borrowed or reserved bytes keeps the socket open. When it has returned them, the socket
 * is as before. */
static void test_close_while_kept(void **state)
{
    struct sockaddr_in at;
    const void *in;
    int s[2], l;
    void *out;
    char c;

    (void)state;
    for (int rdma = GW_RDMA_OFF; rdma <= GW_RDMA_ONLY; rdma++) {
        l = listen_as(rdma, &at);
        s[0] = open_as(rdma);
        assert_int_equal(gw_sock_connect_thread(net, s[0], (struct sockaddr *)&at, sizeof(at), soon()), 0);
        s[1] = gw_sock_accept_thread(net, l, NULL, NULL, soon());
        assert_int_equal(send_ours(s[0], "ab", 2), 2);
        assert_true(gw_sock_borrow_thread(net, s[1], &in, soon()) > 0);
        assert_true(gw_sock_reserve_thread(net, s[0], &out, soon()) > 0);
        assert_int_equal(gw_sock_close_thread(net, s[rdma == GW_RDMA_OFF], 0), -EBUSY); /* each takes 5 s */
        assert_int_equal(gw_sock_give_back_thread(net, s[1], 1), 0);
        *(char *)out = 'c';
        assert_int_equal(gw_sock_commit_thread(net, s[0], 1, soon()), 0);
        for (int i = 0; i < 2; i++) {
            assert_int_equal(recv_ours(s[1], &c, 1), 1);
            assert_int_equal(c, 'b' + i);
        }
        for (int i = 0; i < 2; i++) close_ours(s[i]);
        close_ours(l);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_everybody_meets, begin_try, finish_set),
        cmocka_unit_test_setup_teardown(test_one_listener, begin_try, finish_set),
        cmocka_unit_test_setup_teardown(test_without_a_nic, begin_try, finish_set),
        cmocka_unit_test_setup_teardown(test_no_choice, begin_try, finish_set),
        cmocka_unit_test_setup_teardown(test_close_while_kept, begin_try, finish_set),
    };

    take_nic();
    return proxy_tests("RDMA or TCP", tests, sizeof(tests) / sizeof(tests[0]));
}
