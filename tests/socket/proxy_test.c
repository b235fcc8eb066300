/* SPDX-License-Identifier: Apache-2.0 */
/* Streams of the host's: ports that both share, many connections, a proxy that fails, and what idleness
 * costs. */
#include <dirent.h>
#include <fcntl.h>

#include "tests/socket/proxy_rig.h"

/* ---- set-up -------------------------------------------------------------------------------------------- */

/* One port space for both. */
static void test_ports(void **state)
{
    struct sockaddr_in at, taken = loopback(0);
    socklen_t len = sizeof(taken);
    int l = listen_ours(&at, 1), fd = socket(AF_INET, SOCK_STREAM, 0),
        other = socket(AF_INET, SOCK_STREAM, 0), s;

    (void)state;
    assert_int_equal(bind(fd, (struct sockaddr *)&at, sizeof(at)), -1);
    assert_int_equal(errno, EADDRINUSE);
    assert_int_equal(bind(other, (struct sockaddr *)&taken, sizeof(taken)), 0);
    assert_int_equal(getsockname(other, (struct sockaddr *)&taken, &len), 0);
    s = open_ours();
    assert_int_equal(gw_sock_bind_thread(net, s, (struct sockaddr *)&taken, sizeof(taken), soon()),
                     -EADDRINUSE);
    assert_int_equal(gw_sock_connect_thread(net, s, (struct sockaddr *)&taken, sizeof(taken), soon()),
                     -ECONNREFUSED);
    assert_int_equal(await(s, 0), POLLERR | POLLHUP);
    assert_int_equal(gw_sock_connect_thread(net, s, (struct sockaddr *)&taken, sizeof(taken), soon()),
                     -ECONNABORTED);
    close_ours(s);
    close_ours(l);
    assert_int_equal(bind(fd, (struct sockaddr *)&at, sizeof(at)), 0);
    close(fd);
    close(other);
}

static void test_senseless(void **state)
{
    struct sockaddr_in6 six = {.sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT};
    struct sockaddr_un un = {.sun_family = AF_UNIX, .sun_path = "/nowhere/at/all"};
    struct sockaddr_in at = loopback(9);
    int fd, s = join(&fd), t = open_ours(), on = 1;
    char b[8];

    (void)state;
    assert_int_equal(gw_sock_open_thread(net, AF_NETLINK, SOCK_STREAM, 0, soon()), -EAFNOSUPPORT);
    assert_int_equal(gw_sock_open_thread(net, AF_INET, SOCK_SEQPACKET, 0, soon()), -EINVAL);
    assert_int_equal(gw_sock_open_thread(net, AF_UNIX, SOCK_STREAM, IPPROTO_TCP, soon()), -EPROTONOSUPPORT);
    assert_int_equal(gw_sock_bind_thread(net, t, (struct sockaddr *)&six, sizeof(six), soon()),
                     -EAFNOSUPPORT);
    assert_int_equal(gw_sock_connect_thread(net, t, (struct sockaddr *)&six, sizeof(six), soon()),
                     -EAFNOSUPPORT);
    assert_int_equal(gw_sock_connect_thread(net, t, (struct sockaddr *)&un, sizeof(un), soon()),
                     -EAFNOSUPPORT);
    assert_int_equal(gw_sock_connect_thread(net, t, (struct sockaddr *)&at, 3, soon()), -EINVAL);
    assert_int_equal(gw_sock_connect_thread(net, t, NULL, 0, soon()), -EINVAL);
    assert_int_equal(gw_sock_connect_thread(net, s, (struct sockaddr *)&at, sizeof(at), soon()), -EISCONN);
    assert_int_equal(gw_sock_listen_thread(net, s, 1, soon()), -EINVAL);
    assert_int_equal(gw_sock_accept_thread(net, s, NULL, NULL, soon()), -EINVAL);
    assert_int_equal(gw_sock_setsockopt_thread(net, t, GW_SOL_SOCKET, GW_SO_RDMA, &on, sizeof(on)),
                     -EOPNOTSUPP);
    assert_int_equal(gw_sock_shutdown_thread(net, s, 7, soon()), -EINVAL);
    assert_int_equal(send_ours(s, b, 0), 0);
    assert_int_equal(recv_ours(s, b, 0), 0);
    assert_int_equal(write(fd, "few", 3), 3);
    assert_int_equal(recv_ours(s, b, (size_t)1 << 60), 3);
    assert_int_equal(gw_sock_give_back_thread(net, COUNT, 1), -EBADF);
    close_ours(s);
    assert_int_equal(gw_sock_close_thread(net, s, soon()), -EBADF);
    assert_int_equal(gw_sock_close_thread(net, -1, soon()), -EBADF);
    assert_int_equal(gw_sock_close_thread(net, COUNT, soon()), -EBADF);
    close_ours(t);
    close(fd);
}

/* No socket is free: a waiting client goes on waiting, and is accepted when there is one. */
static void test_no_socket_free(void **state)
{
    struct sockaddr_in at;
    int l = listen_ours(&at, 4), fd = connect_host(&at), s[COUNT - 1], got;

    (void)state;
    /* A call that cannot return the address loses no connection, either. */
    assert_int_equal(gw_sock_accept_thread(net, l, (struct sockaddr *)&at, NULL, soon()), -EINVAL);
    assert_int_equal(gw_sockets_open(set), 1);
    for (int i = 0; i < COUNT - 1; i++) s[i] = open_ours();
    assert_int_equal(gw_sock_open_thread(net, AF_INET, SOCK_STREAM, 0, soon()), -EMFILE);
    assert_int_equal(gw_sock_accept_thread(net, l, NULL, NULL, soon()), -EMFILE);
    close_ours(s[3]);
    got = gw_sock_accept_thread(net, l, NULL, NULL, soon());
    assert_int_equal(got, s[3]);
    assert_int_equal(gw_sock_accept_thread(net, l, NULL, NULL, 0), -EAGAIN);
    for (int i = 0; i < COUNT - 1; i++) close_ours(s[i]);
    close_ours(l);
    close(fd);
}

/* The backlog is the host's own, which lets one more in than it is told. Later clients wait until one was
 * accepted. */
static void test_backlog(void **state)
{
    struct pollfd f[5];
    struct sockaddr_in at;
    int l = listen_ours(&at, 1), there = 0, s;

    (void)state;
    for (int i = 0; i < 5; i++) {
        f[i] = (struct pollfd){.fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0), .events = POLLOUT};
        if (connect(f[i].fd, (struct sockaddr *)&at, sizeof(at))) assert_int_equal(errno, EINPROGRESS);
    }
    while (there < 2) { /* who is there is not asked again */
        assert_true(poll(f, 5, 60000) > 0);
        for (int i = 0; i < 5; i++)
            if (f[i].revents) f[i].fd = ~f[i].fd, there++;
    }
    assert_int_equal(there, 2);
    assert_int_equal(poll(f, 5, 100), 0);
    s = gw_sock_accept_thread(net, l, NULL, NULL, soon());
    assert_true(s >= 0);
    assert_true(poll(f, 5, 60000) > 0);
    close_ours(s);
    close_ours(l);
    for (int i = 0; i < 5; i++) close(f[i].fd < 0 ? ~f[i].fd : f[i].fd);
}

/* Without waiting: connecting and accepting go on by themselves, and poll tells when they are done. */
static void test_nonblocking(void **state)
{
    struct sockaddr_in at;
    int l = listen_ours(&at, 4), s = open_ours(), t;
    const struct sockaddr *to = (const struct sockaddr *)&at;

    (void)state;
    assert_int_equal(gw_sock_accept_thread(net, l, NULL, NULL, 0), -EAGAIN);
    assert_int_equal(gw_sock_connect_thread(net, s, to, sizeof(at), 0), -EINPROGRESS);
    assert_int_equal(await(s, POLLOUT), POLLOUT);
    assert_int_equal(gw_sock_connect_thread(net, s, to, sizeof(at), 0), 0);
    assert_int_equal(gw_sock_connect_thread(net, s, to, sizeof(at), 0), -EISCONN);
    assert_int_equal(await(l, POLLIN), POLLIN);
    t = gw_sock_accept_thread(net, l, NULL, NULL, 0);
    assert_true(t >= 0);
    close_ours(l);
    close_ours(s);
    assert_int_equal(await(t, POLLIN), POLLIN);
    close_ours(t);
}

/* UNIX sockets by path, with both sides' names. */
static void test_unix(void **state)
{
    struct sockaddr_un at = {.sun_family = AF_UNIX}, name;
    socklen_t len = sizeof(name);
    int l = gw_sock_open_thread(net, AF_UNIX, SOCK_STREAM, 0, soon()), fd = socket(AF_UNIX, SOCK_STREAM, 0),
        s;
    char b[8];

    (void)state;
    snprintf(at.sun_path, sizeof(at.sun_path), "/tmp/gpuwire-test.%d", getpid());
    assert_int_equal(gw_sock_bind_thread(net, l, (struct sockaddr *)&at, sizeof(at), soon()), 0);
    assert_int_equal(gw_sock_listen_thread(net, l, 1, soon()), 0);
    assert_int_equal(gw_sock_name_thread(net, l, (struct sockaddr *)&name, &len), 0);
    assert_string_equal(name.sun_path, at.sun_path);
    assert_int_equal(connect(fd, (struct sockaddr *)&at, sizeof(at)), 0);
    len = sizeof(name);
    s = gw_sock_accept_thread(net, l, (struct sockaddr *)&name, &len, soon());
    assert_true(s >= 0);
    assert_int_equal(len, sizeof(sa_family_t)); /* the peer has no name */
    assert_int_equal(write(fd, "local", 5), 5);
    assert_int_equal(recv_ours(s, b, sizeof(b)), 5);
    assert_int_equal(send_ours(s, b, 5), 5);
    assert_int_equal(read(fd, b, sizeof(b)), 5);
    close(fd);
    assert_int_equal(recv_ours(s, b, sizeof(b)), 0);
    assert_int_equal(send_ours(s, b, 1), 1); /* the proxy takes it, and learns then that the peer does not */
    assert_true(await(s, 0) & POLLERR);
    assert_int_equal(send_ours(s, b, 1), -EPIPE);
    close_ours(s);
    close_ours(l);
    unlink(at.sun_path);
}

/* ---- many ---------------------------------------------------------------------------------------------- */

#define MANY 300

static void echo(int s)
{
    char b[64];
    int64_t n = recv_ours(s, b, sizeof(b));

    assert_true(n > 0);
    assert_int_equal(send_ours(s, b, (size_t)n), n);
}

/* Hundreds at a time, each with bytes of its own; one thread serves them all by poll. */
static void test_many(void **state)
{
    static struct pollfd f[MANY];
    static int fd[MANY];
    struct sockaddr_in at;
    int l, left = MANY;
    char b[64], want[64];

    (void)state;
    make_set(MANY + 1, 4096);
    l = listen_ours(&at, MANY);
    for (int i = 0; i < MANY; i++) {
        fd[i] = connect_host(&at);
        f[i].fd = gw_sock_accept_thread(net, l, NULL, NULL, soon());
        f[i].events = POLLIN;
        assert_true(f[i].fd >= 0);
    }
    for (int i = MANY - 1; i >= 0; i--) assert_true(dprintf(fd[i], "I am %d", i) > 0);
    while (left) {
        assert_true(gw_sock_poll_thread(net, f, MANY, soon()) > 0);
        for (int i = 0; i < MANY; i++) {
            if (!f[i].revents) continue;
            echo(f[i].fd);
            close_ours(f[i].fd);
            f[i].fd = -1;
            left--;
        }
    }
    for (int i = 0; i < MANY; i++) {
        int n = snprintf(want, sizeof(want), "I am %d", i);

        assert_int_equal(recv(fd[i], b, sizeof(b), MSG_WAITALL), n);
        assert_memory_equal(b, want, (size_t)n);
        close(fd[i]);
    }
    close_ours(l);
    assert_int_equal(gw_sockets_open(set), 0);
    assert_int_equal(gw_sockets_destroy(set), 0);
}

/* ---- the proxy ----------------------------------------------------------------------------------------- */

/* How often the proxy's thread has gone to sleep; -1: there is no such thread. */
static long naps(void)
{
    char path[300], line[200];
    struct dirent *e;
    DIR *d = opendir("/proc/self/task");
    bool ours = false;
    long n = -1;

    while (n < 0 && (e = readdir(d))) {
        FILE *f;

        snprintf(path, sizeof(path), "/proc/self/task/%s/status", e->d_name);
        f = fopen(path, "r");
        while (f && fgets(line, sizeof(line), f)) {
            if (!strncmp(line, "Name:", 5)) ours = strstr(line, "gw-sockets") != NULL;
            if (ours) sscanf(line, "voluntary_ctxt_switches: %ld", &n);
        }
        if (f) fclose(f);
    }
    closedir(d);
    return n;
}

static void test_idle(void **state)
{
    int fd, s = join(&fd);
    long before = naps();
    char b[8];

    (void)state;
    assert_true(before >= 0); /* on a machine that is busy it may not have slept yet */
    assert_int_equal(gw_sock_recv_thread(net, s, b, 1, 0, gw_clock_ns() + 500 * MS), -ETIMEDOUT);
    assert_in_range(naps() - before, 0, 5);
    close_ours(s);
    close(fd);
}

/* Puts something else in the place of the proxy's ring. */
static void break_ring(void)
{
    char path[64], what[64];
    int null = open("/dev/null", O_RDWR | O_CLOEXEC), broken = 0;
    ssize_t n;

    for (int fd = 3; fd < 1000; fd++) {
        snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
        n = readlink(path, what, sizeof(what) - 1);
        if (n <= 0) continue;
        what[n] = 0;
        if (!strstr(what, "io_uring")) continue;
        assert_int_equal(dup3(null, fd, O_CLOEXEC), fd);
        broken++;
    }
    close(null);
    assert_int_equal(broken, 1);
}

/* The proxy's ring does not work any more: an error for each of its sockets, and nothing hangs. */
static void ring_fails(void)
{
    struct sockaddr_in at;
    int l = listen_ours(&at, 1), fd, s = join(&fd), last;
    char b[8];

    break_ring();
    last = gw_sock_open_thread(net, AF_INET, SOCK_STREAM, 0, soon()); /* wakes the proxy */
    assert_true(last >= 0 || last == -ENETDOWN);                      /* it finds out before, or then */
    assert_int_equal(recv_ours(s, b, sizeof(b)), -ENETDOWN);
    assert_int_equal(gw_sock_open_thread(net, AF_INET, SOCK_STREAM, 0, soon()), -ENETDOWN);
    assert_int_equal(send_ours(s, b, 1), -ENETDOWN);
    assert_int_equal(gw_sock_accept_thread(net, l, NULL, NULL, soon()), -ENETDOWN);
    assert_true(await(l, 0) & POLLERR);
    close_ours(s);
    close_ours(l);
    assert_int_equal(gw_sockets_open(set), last >= 0);
    close(fd);
}

static void test_proxy_fails(void **state)
{
    (void)state;
    ring_fails();
}

/* One that is awake then finds its requests cancelled before it finds that it cannot make others. */
static void test_busy_proxy_fails(void **state)
{
    struct gw_sockets_attr attr = {.count = COUNT, .rbuf = 8192, .wbuf = 8192, .exec = exec, .busy = 1};

    (void)state;
    for (int i = 0; i < 20; i++) {
        if (gw_sockets_create(NULL, &attr, &set)) fail_msg("gw_sockets_create: %s", gw_last_error());
        net = gw_sockets_net(set);
        ring_fails();
        assert_int_equal(gw_sockets_destroy(set), 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_SET(test_ports),          WITH_SET(test_senseless),
        WITH_SET(test_no_socket_free), WITH_SET(test_backlog),
        WITH_SET(test_nonblocking),    WITH_SET(test_unix),
        cmocka_unit_test(test_many),   WITH_SET(test_idle),
        WITH_SET(test_proxy_fails),    cmocka_unit_test(test_busy_proxy_fails),
    };

    return proxy_tests("proxy", tests, sizeof(tests) / sizeof(tests[0]));
}
