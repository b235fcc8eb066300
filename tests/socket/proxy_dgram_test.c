/* SPDX-License-Identifier: Apache-2.0 */
/* Datagrams of the host's: UDP and UNIX sockets, and where they part from streams. */
#include "tests/socket/proxy_rig.h"
#include "tests/rnd.h"

#include "tests/socket/limits.h"

static int open_dgram(int domain)
{
    int s = gw_sock_open_thread(net, domain, SOCK_DGRAM, 0, soon());

    assert_true(s >= 0);
    return s;
}

/* A UDP socket of ours that is bound, and where; and one of the host's. */
static int bind_ours(struct sockaddr_in *at)
{
    socklen_t len = sizeof(*at);
    int s = open_dgram(AF_INET);

    *at = loopback(0);
    assert_int_equal(gw_sock_bind_thread(net, s, (struct sockaddr *)at, sizeof(*at), soon()), 0);
    assert_int_equal(gw_sock_name_thread(net, s, (struct sockaddr *)at, &len), 0);
    return s;
}

static int bind_host(struct sockaddr_in *at)
{
    socklen_t len = sizeof(*at);
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

    *at = loopback(0);
    assert_int_equal(bind(fd, (struct sockaddr *)at, sizeof(*at)), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)at, &len), 0);
    return fd;
}

static int64_t send_to(int s, const void *p, size_t n, const struct sockaddr_in *to)
{
    return gw_sock_sendto_thread(net, s, p, n, 0, (const struct sockaddr *)to, sizeof(*to), soon());
}

/* Each way, datagrams of many sizes keep their bounds, bytes and addresses; more of them than the rings
 * hold. */
static void test_both_ways(void **state)
{
    static uint8_t b[2000], want[2000];
    struct sockaddr_in ours, host, from;
    socklen_t len;
    int s = bind_ours(&ours), fd = bind_host(&host);
    struct rnd r = {7};

    (void)state;
    for (uint32_t i = 0; i < 300; i++) {
        uint32_t n = rnd_below(&r, sizeof(b) + 1);

        memset(want, (int)i, n);
        len = sizeof(from);
        if (i & 1) {
            assert_int_equal(send_to(s, want, n, &host), n);
            assert_int_equal(recvfrom(fd, b, sizeof(b), 0, (struct sockaddr *)&from, &len), n);
            assert_memory_equal(&from, &ours, sizeof(from));
        } else {
            assert_int_equal(sendto(fd, want, n, 0, (struct sockaddr *)&ours, sizeof(ours)), n);
            assert_int_equal(
                gw_sock_recvfrom_thread(net, s, b, sizeof(b), 0, (struct sockaddr *)&from, &len, soon()), n);
            assert_memory_equal(&from, &host, sizeof(from));
        }
        assert_int_equal(len, sizeof(from));
        assert_memory_equal(b, want, n);
    }
    close_ours(s);
    close(fd);
}

/* Bytes without room are lost, and MSG_TRUNC tells of it. MSG_PEEK leaves the datagram. An empty datagram is
 * one, too. */
static void test_flags(void **state)
{
    struct sockaddr_in ours, host;
    int s = bind_ours(&ours), fd = bind_host(&host);
    const struct sockaddr *to = (const struct sockaddr *)&ours;
    char b[100];

    (void)state;
    assert_int_equal(gw_sock_recv_thread(net, s, b, 10, 0, 0), -EAGAIN);
    assert_int_equal(gw_sock_recv_thread(net, s, b, 10, 0, gw_clock_ns() + 20 * MS), -ETIMEDOUT);
    waits_as_told(s);
    assert_int_equal(sendto(fd, "0123456789", 10, 0, to, sizeof(ours)), 10);
    assert_int_equal(sendto(fd, "", 0, 0, to, sizeof(ours)), 0);
    assert_int_equal(sendto(fd, "abc", 3, 0, to, sizeof(ours)), 3);
    assert_int_equal(sendto(fd, "last", 4, 0, to, sizeof(ours)), 4);
    assert_int_equal(await(s, POLLIN), POLLIN);
    assert_int_equal(gw_sock_recv_thread(net, s, b, 4, MSG_PEEK | MSG_TRUNC, soon()), 10);
    assert_int_equal(gw_sock_recv_thread(net, s, b, 4, 0, soon()), 4);
    assert_memory_equal(b, "0123", 4);
    assert_int_equal(gw_sock_recv_thread(net, s, b, 10, 0, soon()), 0);
    assert_int_equal(gw_sock_recv_thread(net, s, b, 2, MSG_TRUNC, soon()), 3);
    assert_int_equal(gw_sock_recv_thread(net, s, b, 0, 0, soon()), 0);
    assert_int_equal(gw_sock_recv_thread(net, s, b, 10, MSG_DONTWAIT, soon()), -EAGAIN);
    assert_int_equal(await(s, POLLIN | POLLOUT), POLLOUT);
    close_ours(s);
    close(fd);
}

/* The host's own results for the same calls. */
static void test_as_the_host(void **state)
{
    static uint8_t big[70000];
    struct sockaddr_in nobody, peer;
    int gone = bind_host(&nobody), s = open_dgram(AF_INET), fd = socket(AF_INET, SOCK_DGRAM, 0);
    socklen_t len = sizeof(peer);
    int64_t got;

    (void)state;
    close(gone);
    assert_int_equal(send(fd, big, 1, 0) < 0 ? -errno : 0, -EDESTADDRREQ);
    assert_int_equal(gw_sock_send_thread(net, s, big, 1, 0, soon()), -EDESTADDRREQ);
    assert_int_equal(sendto(fd, big, 65508, 0, (struct sockaddr *)&nobody, len) < 0 ? -errno : 0, -EMSGSIZE);
    assert_int_equal(send_to(s, big, 65508, &nobody), -EMSGSIZE);
    assert_int_equal(send_to(s, big, 8192 / 2, &nobody), -EMSGSIZE); /* the ring's own limit */
    assert_int_equal(gw_sock_listen_thread(net, s, 1, soon()), -EOPNOTSUPP);
    assert_int_equal(gw_sock_accept_thread(net, s, NULL, NULL, soon()), -EOPNOTSUPP);
    assert_int_equal(gw_sock_shutdown_thread(net, s, SHUT_WR, soon()), -ENOTCONN);
    assert_int_equal(gw_sock_peer_thread(net, s, (struct sockaddr *)&peer, &len), -ENOTCONN);
    assert_int_equal(gw_sock_borrow_thread(net, s, (const void **)&state, 0), -EOPNOTSUPP);
    assert_int_equal(gw_sock_open_thread(net, AF_INET, SOCK_DGRAM, IPPROTO_TCP, soon()), -EPROTONOSUPPORT);
    /* Connected to a closed port: the first send goes, the refusal comes back and is told once. */
    assert_int_equal(gw_sock_connect_thread(net, s, (struct sockaddr *)&nobody, sizeof(nobody), soon()), 0);
    assert_int_equal(gw_sock_peer_thread(net, s, (struct sockaddr *)&peer, &len), 0);
    assert_memory_equal(&peer, &nobody, sizeof(peer));
    assert_int_equal(gw_sock_send_thread(net, s, big, 1, 0, soon()), 1);
    got = gw_sock_recv_thread(net, s, big, 1, 0, soon());
    assert_int_equal(got, -ECONNREFUSED);
    assert_int_equal(gw_sock_recv_thread(net, s, big, 1, 0, 0), -EAGAIN);
    assert_int_equal(gw_sock_shutdown_thread(net, s, SHUT_RDWR, soon()), 0);
    assert_int_equal(gw_sock_recv_thread(net, s, big, 1, 0, soon()), 0);
    assert_int_equal(gw_sock_send_thread(net, s, big, 1, 0, soon()), -EPIPE);
    close_ours(s);
    close(fd);
}

/* Without a receiver: what the proxy keeps is bounded, and what comes later is the host's to drop. */
static void test_bounded(void **state)
{
    static uint8_t b[1000];
    struct sockaddr_in ours, host;
    int s = bind_ours(&ours), fd = bind_host(&host), got = 0;
    uint64_t limit = soon();
    int64_t n;

    (void)state;
    for (uint32_t i = 0; i < 2000; i++)
        assert_int_equal(sendto(fd, b, sizeof(b), 0, (struct sockaddr *)&ours, sizeof(ours)), sizeof(b));
    /* It goes on: what is said when nothing more comes is heard, at some time. */
    while ((n = gw_sock_recv_thread(net, s, b, sizeof(b), 0, gw_clock_ns() + 100 * MS)) != 5) {
        if (n == -ETIMEDOUT) n = sendto(fd, b, 5, 0, (struct sockaddr *)&ours, sizeof(ours)) == 5 ? 0 : -1;
        assert_true((n == 0 || n == sizeof(b)) && gw_clock_ns() < limit);
        got += n != 0;
    }
    assert_in_range(got, 4, 1500);
    close_ours(s);
    close(fd);
}

/* A client whose server is not there yet asks again whenever it is refused. It is answered when the server is
 * there. */
static void test_refused_until_there(void **state)
{
    struct sockaddr_in at, from;
    int s = open_dgram(AF_INET), refused = 0, asked = 0, fd = bind_host(&at);
    socklen_t len = sizeof(from);
    char c = 'x';

    (void)state;
    close(fd);
    assert_int_equal(gw_sock_connect_thread(net, s, (struct sockaddr *)&at, sizeof(at), soon()), 0);
    while (refused < 100) {
        int64_t n = gw_sock_send_thread(net, s, &c, 1, 0, soon());

        if (n == 1) n = gw_sock_recv_thread(net, s, &c, 1, 0, soon());
        assert_int_equal(n, -ECONNREFUSED);
        refused++;
    }
    fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&at, sizeof(at)), 0);
    while (gw_sock_send_thread(net, s, &c, 1, 0, soon()) != 1)
        assert_true(++asked < 10); /* the last refusal */
    assert_int_equal(recvfrom(fd, &c, 1, 0, (struct sockaddr *)&from, &len), 1);
    assert_int_equal(sendto(fd, "y", 1, 0, (struct sockaddr *)&from, len), 1);
    assert_int_equal(gw_sock_recv_thread(net, s, &c, 1, 0, soon()), 1);
    assert_int_equal(c, 'y');
    close(fd);
    close_ours(s);
}

static void test_unix(void **state)
{
    struct sockaddr_un at[2] = {{.sun_family = AF_UNIX}, {.sun_family = AF_UNIX}}, from;
    int s = open_dgram(AF_UNIX), fd = socket(AF_UNIX, SOCK_DGRAM, 0);
    socklen_t len = sizeof(from);
    char b[100];

    (void)state;
    for (int i = 0; i < 2; i++)
        snprintf(at[i].sun_path, sizeof(at[i].sun_path), "/tmp/gpuwire-test.%d.%d", getpid(), i);
    assert_int_equal(gw_sock_bind_thread(net, s, (struct sockaddr *)&at[0], sizeof(at[0]), soon()), 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&at[1], sizeof(at[1])), 0);
    assert_int_equal(gw_sock_send_thread(net, s, b, 1, 0, soon()), -ENOTCONN);
    assert_int_equal(sendto(fd, "local", 5, 0, (struct sockaddr *)&at[0], sizeof(at[0])), 5);
    assert_int_equal(gw_sock_recvfrom_thread(net, s, b, sizeof(b), 0, (struct sockaddr *)&from, &len, soon()),
                     5);
    assert_string_equal(from.sun_path, at[1].sun_path);
    assert_int_equal(gw_sock_sendto_thread(net, s, b, 5, 0, (struct sockaddr *)&from, len, soon()), 5);
    assert_int_equal(recv(fd, b, sizeof(b), 0), 5);
    close(fd);
    assert_int_equal(gw_sock_sendto_thread(net, s, b, 5, 0, (struct sockaddr *)&from, len, soon()), 5);
    assert_true(await(s, 0) & POLLERR); /* the proxy was refused: the next send says so, once */
    assert_int_equal(gw_sock_sendto_thread(net, s, b, 5, 0, (struct sockaddr *)&from, len, soon()),
                     -ECONNREFUSED);
    close_ours(s);
    unlink(at[0].sun_path);
    unlink(at[1].sun_path);
}

/* Where docs/sockets.md says that these sockets are not as the host's. */
static void test_not_as_the_host(void **state)
{
    struct sockaddr_in all = {.sin_family = AF_INET,
                              .sin_addr.s_addr = htonl(INADDR_BROADCAST),
                              .sin_port = htons(9)},
                       to = loopback(9), at;
    struct sockaddr none = {.sa_family = AF_UNSPEC};
    int s = open_dgram(AF_INET), l = listen_ours(&at, 0), v = 8192;
    struct iovec empty = {.iov_base = &v, .iov_len = 0};

    (void)state;
    assert_int_equal(gw_sock_open_thread(net, AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0, soon()), -EINVAL);
    assert_int_equal(gw_sock_open_thread(net, AF_UNIX, SOCK_SEQPACKET, 0, soon()), -EINVAL);
    assert_int_equal(gw_sock_setsockopt_thread(net, s, SOL_SOCKET, SO_RCVBUF, &v, sizeof(v)), -EISCONN);
    assert_int_equal(gw_sock_setsockopt_thread(net, s, SOL_SOCKET, SO_BROADCAST, &v, sizeof(v)),
                     -ENOPROTOOPT);
    assert_int_equal(gw_sock_sendto_thread(net, s, &v, 1, 0, (struct sockaddr *)&all, sizeof(all), soon()),
                     1);
    assert_true(await(s, 0) & POLLERR);
    assert_int_equal(send_to(s, &v, 1, &to), -EACCES);
    assert_int_equal(gw_sock_connect_thread(net, s, (struct sockaddr *)&to, sizeof(to), soon()), 0);
    assert_int_equal(gw_sock_writev_thread(net, s, &empty, 1, soon()), 0);
    assert_int_equal(gw_sock_connect_thread(net, s, &none, sizeof(none), soon()), -EAFNOSUPPORT);
    assert_int_equal(gw_sock_bind_thread(net, s, NULL, 0, soon()), -EINVAL);
    assert_int_equal(gw_sock_connect_thread(net, l, (struct sockaddr *)&at, sizeof(at), soon()), -EOPNOTSUPP);
    assert_int_equal(gw_sock_shutdown_thread(net, l, SHUT_RD, soon()), -ENOTCONN);
    close_ours(l);
    assert_int_equal(gw_sock_accept_thread(net, l, NULL, NULL, soon()), -EBADF);
    close_ours(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_SET(test_both_ways),           WITH_SET(test_flags),
        WITH_SET(test_as_the_host),         WITH_SET(test_bounded),
        WITH_SET(test_refused_until_there), WITH_SET(test_unix),
        WITH_SET(test_not_as_the_host),
    };

    return proxy_tests("datagrams", tests, sizeof(tests) / sizeof(tests[0]));
}
