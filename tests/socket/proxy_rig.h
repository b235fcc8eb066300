/* SPDX-License-Identifier: Apache-2.0 */
/* Tests of sockets of the host's own: CPU threads that use the kernels' calls, and peers that use the
 * host's. */
#ifndef GW_TESTS_SOCKET_PROXY_RIG_H
#define GW_TESTS_SOCKET_PROXY_RIG_H

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/un.h>
#include <unistd.h>

#include <cmocka.h>

#include <gpuwire/socket.h>
#include <gpuwire/verbs.h>

#define COUNT  8
#define MS     1000000u
#define SECOND 1000000000u

static struct gw_exec *exec;
static struct gw_sockets *set;
static struct gw_net *net;

static inline uint64_t soon(void)
{
    return gw_clock_ns() + 60u * (uint64_t)SECOND;
}

static inline void make_set(uint32_t count, uint32_t buffer)
{
    struct gw_sockets_attr attr = {.count = count, .rbuf = buffer, .wbuf = buffer, .exec = exec};

    if (gw_sockets_create(NULL, &attr, &set)) fail_msg("gw_sockets_create: %s", gw_last_error());
    net = gw_sockets_net(set);
}

static inline int begin(void **state)
{
    (void)state;
    make_set(COUNT, 8192);
    return 0;
}

static inline int finish(void **state)
{
    (void)state;
    return gw_sockets_destroy(set);
}

/* ---- both sides ---------------------------------------------------------------------------------------- */

static inline struct sockaddr_in loopback(uint16_t port)
{
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};

    a.sin_port = htons(port);
    return a;
}

static inline int open_ours(void)
{
    int s = gw_sock_open_thread(net, AF_INET, SOCK_STREAM, 0, soon());

    assert_true(s >= 0);
    return s;
}

/* A listening socket of ours, and where. */
static inline int listen_ours(struct sockaddr_in *at, int backlog)
{
    int s = open_ours();
    socklen_t len = sizeof(*at);

    *at = loopback(0);
    assert_int_equal(gw_sock_bind_thread(net, s, (struct sockaddr *)at, sizeof(*at), soon()), 0);
    assert_int_equal(gw_sock_listen_thread(net, s, backlog, soon()), 0);
    assert_int_equal(gw_sock_name_thread(net, s, (struct sockaddr *)at, &len), 0);
    assert_int_equal(len, sizeof(*at));
    return s;
}

static inline int connect_host(const struct sockaddr_in *to)
{
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    assert_true(fd >= 0);
    assert_int_equal(connect(fd, (const struct sockaddr *)to, sizeof(*to)), 0);
    return fd;
}

/* A connection: ours, and the host's end of it. */
static inline int join(int *fd)
{
    struct sockaddr_in at, from, name;
    socklen_t len = sizeof(from), len2 = sizeof(name);
    int l = listen_ours(&at, 1), s;

    *fd = connect_host(&at);
    s = gw_sock_accept_thread(net, l, (struct sockaddr *)&from, &len, soon());
    assert_true(s >= 0);
    assert_int_equal(getsockname(*fd, (struct sockaddr *)&name, &len2), 0);
    assert_memory_equal(&from, &name, sizeof(name));
    assert_int_equal(gw_sock_close_thread(net, l, soon()), 0);
    return s;
}

static inline int64_t recv_ours(int s, void *p, size_t n)
{
    return gw_sock_recv_thread(net, s, p, n, 0, soon());
}

static inline int64_t send_ours(int s, const void *p, size_t n)
{
    return gw_sock_send_thread(net, s, p, n, 0, soon());
}

static inline void close_ours(int s)
{
    assert_int_equal(gw_sock_close_thread(net, s, soon()), 0);
}

/* Until poll tells one of the events: what a peer did takes a moment. */
static inline int await(int s, short events)
{
    struct pollfd f = {.fd = s, .events = events};

    assert_int_equal(gw_sock_poll_thread(net, &f, 1, soon()), 1);
    return f.revents;
}

#define WITH_SET(name) cmocka_unit_test_setup_teardown(name, begin, finish)

static inline int proxy_tests(const char *name, const struct CMUnitTest *tests, size_t n)
{
    signal(SIGPIPE, SIG_IGN);
    if (gw_exec_create("cpu", NULL, &exec)) {
        fprintf(stderr, "%s\n", gw_last_error());
        return 1;
    }
    return _cmocka_run_group_tests(name, tests, n, NULL, NULL) || gw_exec_destroy(exec);
}

#endif
