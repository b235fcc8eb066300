/* SPDX-License-Identifier: Apache-2.0 */
/* Options of sockets of the host's: what ours say is what the host's own say, and what is set the host's own
 * have. */
#include "tests/socket/proxy_rig.h"

/* Options of sockets of every kind, and names that they were not given: the host's own results. */
static void test_as_the_host(void **state)
{
    static const int kinds[][2] = {{AF_INET, SOCK_STREAM},
                                   {AF_INET6, SOCK_STREAM},
                                   {AF_INET, SOCK_DGRAM},
                                   {AF_UNIX, SOCK_STREAM},
                                   {AF_UNIX, SOCK_DGRAM}};
    static const int options[][2] = {
        {SOL_SOCKET, SO_KEEPALIVE},  {SOL_SOCKET, SO_REUSEADDR},   {SOL_SOCKET, SO_REUSEPORT},
        {SOL_SOCKET, SO_TYPE},       {SOL_SOCKET, SO_DOMAIN},      {SOL_SOCKET, SO_PROTOCOL},
        {SOL_SOCKET, SO_ACCEPTCONN}, {SOL_SOCKET, SO_ERROR},       {IPPROTO_TCP, TCP_NODELAY},
        {IPPROTO_TCP, TCP_KEEPIDLE}, {IPPROTO_TCP, TCP_KEEPINTVL}, {IPPROTO_TCP, TCP_KEEPCNT}};

    (void)state;
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        int s = gw_sock_open_thread(net, kinds[i][0], kinds[i][1], 0, soon()),
            fd = socket(kinds[i][0], kinds[i][1], 0);
        struct sockaddr_storage mine, its;
        socklen_t n = sizeof(mine), m = sizeof(its);

        assert_int_equal(gw_sock_name_thread(net, s, (struct sockaddr *)&mine, &n), 0);
        assert_int_equal(getsockname(fd, (struct sockaddr *)&its, &m), 0);
        assert_int_equal(n, m);
        assert_memory_equal(&mine, &its, n);
        for (size_t j = 0; j < sizeof(options) / sizeof(options[0]); j++) {
            int level = options[j][0], name = options[j][1], v = 1, w = 1, err;

            for (int set_it = 0; set_it < 2; set_it++) {
                if (set_it && setsockopt(fd, level, name, &v, sizeof(v)))
                    assert_int_equal(gw_sock_setsockopt_thread(net, s, level, name, &v, sizeof(v)), -errno);
                else if (set_it)
                    assert_int_equal(gw_sock_setsockopt_thread(net, s, level, name, &v, sizeof(v)), 0);
                n = m = sizeof(v);
                err = getsockopt(fd, level, name, &w, &m) ? -EOPNOTSUPP : 0; /* some say -ENOPROTOOPT */
                assert_int_equal(gw_sock_getsockopt_thread(net, s, level, name, &v, &n), err);
                assert_true(n == m && v == w);
                v = w = 1;
            }
        }
        close(fd);
        close_ours(s);
    }
}

/* The proxy's end of a connection whose other end is `peer`: it is in this process. */
static int host_end(int peer)
{
    struct sockaddr_in at, name;
    socklen_t len = sizeof(at);

    assert_int_equal(getsockname(peer, (struct sockaddr *)&at, &len), 0);
    for (int fd = 3; fd < 1000; fd++) {
        len = sizeof(name);
        memset(&name, 0, sizeof(name));
        if (getpeername(fd, (struct sockaddr *)&name, &len) || len != sizeof(name)) continue;
        if (name.sin_family == AF_INET && name.sin_port == at.sin_port) return fd;
    }
    fail_msg("the proxy's socket is not to be found");
    return -1;
}

/* Of a connected socket, and of one that was accepted from a socket that had them. */
static void test_host_has_them(void **state)
{
    static const int options[][3] = {{SOL_SOCKET, SO_KEEPALIVE, 1},
                                     {IPPROTO_TCP, TCP_NODELAY, 1},
                                     {IPPROTO_TCP, TCP_KEEPIDLE, 17},
                                     {IPPROTO_TCP, TCP_KEEPINTVL, 19},
                                     {IPPROTO_TCP, TCP_KEEPCNT, 3}};
    struct sockaddr_in at;
    int peer, s = join(&peer), l = listen_ours(&at, 1), t, other, fds[2];

    (void)state;
    for (size_t i = 0; i < sizeof(options) / sizeof(options[0]); i++) {
        const int *o = options[i];

        assert_int_equal(gw_sock_setsockopt_thread(net, s, o[0], o[1], &o[2], sizeof(int)), 0);
        assert_int_equal(gw_sock_setsockopt_thread(net, l, o[0], o[1], &o[2], sizeof(int)), 0);
    }
    other = connect_host(&at);
    t = gw_sock_accept_thread(net, l, NULL, NULL, soon());
    assert_true(t >= 0);
    fds[0] = host_end(peer);
    fds[1] = host_end(other);
    for (size_t i = 0; i < sizeof(options) / sizeof(options[0]); i++)
        for (int k = 0; k < 2; k++) {
            int v = -1;
            socklen_t len = sizeof(v);

            assert_int_equal(getsockopt(fds[k], options[i][0], options[i][1], &v, &len), 0);
            assert_int_equal(v, options[i][2]);
        }
    close_ours(s);
    close_ours(t);
    close_ours(l);
    close(peer);
    close(other);
}

/* One more listener at a port; port 0: any. */
static int share_port(struct sockaddr_in *at, int shared)
{
    int s = gw_sock_open_thread(net, AF_INET, SOCK_STREAM, 0, soon());
    socklen_t len = sizeof(*at);

    assert_int_equal(gw_sock_setsockopt_thread(net, s, SOL_SOCKET, SO_REUSEPORT, &shared, sizeof(shared)), 0);
    if (gw_sock_bind_thread(net, s, (struct sockaddr *)at, sizeof(*at), soon())) {
        close_ours(s);
        return -1;
    }
    assert_int_equal(gw_sock_listen_thread(net, s, 64, soon()), 0);
    assert_int_equal(gw_sock_name_thread(net, s, (struct sockaddr *)at, &len), 0);
    return s;
}

/* Two listeners at one port both get connections; one that does not ask for it gets no port. */
static void test_shared_port(void **state)
{
    enum { CLIENTS = 40 };
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int l[2], clients[CLIENTS], accepted[2] = {0};

    (void)state;
    l[0] = share_port(&at, 1);
    l[1] = share_port(&at, 1);
    assert_true(l[0] >= 0 && l[1] >= 0);
    assert_int_equal(share_port(&at, 0), -1);
    for (int i = 0; i < CLIENTS; i++) clients[i] = connect_host(&at);
    while (accepted[0] + accepted[1] < CLIENTS) {
        struct pollfd fds[2] = {{.fd = l[0], .events = POLLIN}, {.fd = l[1], .events = POLLIN}};

        assert_true(gw_sock_poll_thread(net, fds, 2, soon()) > 0);
        for (int i = 0; i < 2; i++) {
            int s = fds[i].revents ? gw_sock_accept_thread(net, l[i], NULL, NULL, soon()) : -1;

            if (s < 0) continue;
            accepted[i]++;
            close_ours(s);
        }
    }
    assert_true(accepted[0] && accepted[1]);
    for (int i = 0; i < CLIENTS; i++) close(clients[i]);
    close_ours(l[0]);
    close_ours(l[1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_SET(test_as_the_host),
        WITH_SET(test_host_has_them),
        WITH_SET(test_shared_port),
    };

    return proxy_tests("options", tests, sizeof(tests) / sizeof(tests[0]));
}
