/* SPDX-License-Identifier: Apache-2.0 */
/* Streams of the host's whose network falls silent: a network of this test's own, which is taken down under
 * them. */
#include <net/if.h>
#include <sched.h>
#include <sys/ioctl.h>

#include "tests/socket/proxy_rig.h"

#define TEN_TIMES (30u * (uint64_t)SECOND) /* of what the options say: 1 s, and twice 1 s */

/* The loopback interface of this network: up or down. */
static void link_up(bool up)
{
    struct ifreq r = {.ifr_name = "lo", .ifr_flags = (short)(up ? IFF_UP | IFF_LOOPBACK : IFF_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

    assert_int_equal(ioctl(fd, SIOCSIFFLAGS, &r), 0);
    close(fd);
}

static void option(int s, int level, int name, int value)
{
    assert_int_equal(gw_sock_setsockopt_thread(net, s, level, name, &value, sizeof(value)), 0);
}

/* A connection by UNIX sockets, which needs no network: ours, and the host's end. */
static int join_unix(int *fd)
{
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    int l = gw_sock_open_thread(net, AF_UNIX, SOCK_STREAM, 0, soon()), s;

    snprintf(at.sun_path, sizeof(at.sun_path), "/tmp/gpuwire-test.%d", getpid());
    assert_int_equal(gw_sock_bind_thread(net, l, (struct sockaddr *)&at, sizeof(at), soon()), 0);
    assert_int_equal(gw_sock_listen_thread(net, l, 1, soon()), 0);
    *fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(connect(*fd, (struct sockaddr *)&at, sizeof(at)), 0);
    s = gw_sock_accept_thread(net, l, NULL, NULL, soon());
    assert_true(s >= 0);
    unlink(at.sun_path);
    close_ours(l);
    return s;
}

static void works(int s, int fd)
{
    char b[8];

    assert_int_equal(send_ours(s, "to", 2), 2);
    assert_int_equal(recv(fd, b, 2, MSG_WAITALL), 2);
    assert_int_equal(write(fd, "and fro", 7), 7);
    assert_int_equal(gw_sock_recv_thread(net, s, b, 7, MSG_WAITALL, soon()), 7);
}

static void test_keep_alive(void **state)
{
    struct sockaddr_in to = loopback(7);
    socklen_t len = sizeof(int);
    uint64_t begin;
    int64_t got;
    int fd, local, err = 0, s, u;
    char b[8];

    (void)state;
    link_up(true);
    s = join(&fd);
    u = join_unix(&local);
    option(s, SOL_SOCKET, SO_KEEPALIVE, 1);
    option(s, IPPROTO_TCP, TCP_KEEPIDLE, 1);
    option(s, IPPROTO_TCP, TCP_KEEPINTVL, 1);
    option(s, IPPROTO_TCP, TCP_KEEPCNT, 2);
    works(s, fd);
    link_up(false);
    begin = gw_clock_ns();
    got = recv_ours(s, b, 1);
    assert_true(gw_clock_ns() - begin < TEN_TIMES);
    /* The host's TCP names the error by what it received last. */
    if (got != -ETIMEDOUT && got != -ENETUNREACH && got != -EHOSTUNREACH) fail_msg("%lld", (long long)got);
    assert_int_equal(gw_sock_getsockopt_thread(net, s, SOL_SOCKET, SO_ERROR, &err, &len), 0);
    assert_int_equal(err, -got);
    assert_int_equal(send_ours(s, b, 1), got);
    works(u, local);
    close_ours(s);
    close(fd);
    /* A connection to nowhere, while there is no network: it is refused, or its deadline comes. */
    s = open_ours();
    got = gw_sock_connect_thread(net, s, (struct sockaddr *)&to, sizeof(to), gw_clock_ns() + 300 * MS);
    assert_true(got == -ETIMEDOUT || got == -ENETUNREACH);
    close_ours(s);
    link_up(true);
    s = join(&fd);
    works(s, fd);
    works(u, local);
    close_ours(s);
    close_ours(u);
    close(fd);
    close(local);
}

int main(void)
{
    const struct CMUnitTest tests[] = {WITH_SET(test_keep_alive)};

    /* Before there are threads: those have it, too. */
    if (unshare(CLONE_NEWNET) && unshare(CLONE_NEWUSER | CLONE_NEWNET)) {
        fprintf(stderr, "skipped: no right to make a network of its own\n");
        return 77;
    }
    return proxy_tests("silence", tests, 1);
}
