/* SPDX-License-Identifier: Apache-2.0 */
/* CPU threads that poll sleep while nothing happens, and are woken by what they wait for, over RDMA and TCP
 * alike. */
#include <pthread.h>
#include <sys/resource.h>

#include "tests/socket/nic_rig.h"

#define IDLE  (300u * MS)
#define WAKES 150 /* while it is idle: it looks a hundred times a second */

static int begin_poll(void **state)
{
    (void)state;
    return begin_set(65536);
}

static long sleeps(void)
{
    struct rusage u;

    assert_int_equal(getrusage(RUSAGE_THREAD, &u), 0);
    return u.ru_nvcsw;
}

/* Two connected sockets and the one that listens. */
static void make(int s[3], int rdma)
{
    struct sockaddr_in at = here;
    socklen_t len = sizeof(at);

    for (int i = 0; i < 3; i += 2) {
        s[i] = open_ours();
        assert_int_equal(gw_sock_setsockopt_thread(net, s[i], GW_SOL_SOCKET, GW_SO_RDMA, &rdma, sizeof(rdma)),
                         0);
    }
    assert_int_equal(gw_sock_bind_thread(net, s[2], (struct sockaddr *)&at, len, soon()), 0);
    assert_int_equal(gw_sock_listen_thread(net, s[2], 1, soon()), 0);
    assert_int_equal(gw_sock_name_thread(net, s[2], (struct sockaddr *)&at, &len), 0);
    assert_int_equal(gw_sock_connect_thread(net, s[0], (struct sockaddr *)&at, len, soon()), 0);
    s[1] = gw_sock_accept_thread(net, s[2], NULL, NULL, soon());
    assert_true(s[1] >= 0);
}

static void end(const int s[3])
{
    for (int i = 0; i < 3; i++) close_ours(s[i]);
}

/* Fills the way to the peer, which does not read. */
static void fill(int s)
{
    static uint8_t bytes[4096];
    struct pollfd f = {.fd = s, .events = POLLOUT};
    uint64_t limit = soon();

    do {
        assert_true(gw_clock_ns() < limit);
        while (gw_sock_send_thread(net, s, bytes, sizeof(bytes), MSG_DONTWAIT, 0) > 0) continue;
    } while (gw_sock_poll_thread(net, &f, 1, gw_clock_ns() + 50 * MS));
}

static void drain(int s)
{
    static uint8_t bytes[65536];

    while (gw_sock_recv_thread(net, s, bytes, sizeof(bytes), 0, gw_clock_ns() + 50 * MS) > 0) continue;
}

static void idle(int rdma)
{
    struct pollfd f[2] = {{.events = POLLIN}, {.events = POLLIN | POLLOUT}};
    long before;
    int s[3];

    make(s, rdma);
    fill(s[1]);
    f[0].fd = s[2];
    f[1].fd = s[1];
    before = sleeps();
    assert_int_equal(gw_sock_poll_thread(net, f, 2, gw_clock_ns() + IDLE), 0);
    assert_true(sleeps() - before < WAKES);
    end(s);
}

static void test_idle(void **state)
{
    (void)state;
    idle(GW_RDMA_ONLY);
    idle(GW_RDMA_OFF);
}

struct waiter {
    struct pollfd *f;
    uint32_t n;
    int got;
};

static void *wait_for(void *arg)
{
    struct waiter *w = arg;

    w->got = gw_sock_poll_thread(net, w->f, w->n, soon());
    return NULL;
}

/* Someone polls n sockets, long since asleep, when `happens` happens; and is told of this one. */
static void woken_of(struct pollfd *f, uint32_t n, uint32_t which, void (*happens)(int s), int where)
{
    struct waiter w = {.f = f, .n = n};
    pthread_t thread;

    assert_int_equal(pthread_create(&thread, NULL, wait_for, &w), 0);
    usleep(30000);
    happens(where);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(w.got, 1);
    for (uint32_t i = 0; i < n; i++) assert_int_equal(!!f[i].revents, i == which);
    assert_true(f[which].revents & f[which].events);
}

static void woken(int s, short events, void (*happens)(int s), int where)
{
    struct pollfd f = {.fd = s, .events = events};

    woken_of(&f, 1, 0, happens, where);
}

static void say(int s)
{
    assert_int_equal(send_ours(s, "x", 1), 1);
}

static void hang_up(int s)
{
    assert_int_equal(gw_sock_shutdown_thread(net, s, SHUT_WR, soon()), 0);
}

static void wakes(int rdma)
{
    int s[3];

    make(s, rdma);
    woken(s[1], POLLIN, say, s[0]);
    fill(s[1]);
    woken(s[1], POLLOUT, drain, s[0]);
    woken(s[0], POLLIN, hang_up, s[1]);
    end(s);
}

static void test_wakes(void **state)
{
    (void)state;
    wakes(GW_RDMA_ONLY);
    wakes(GW_RDMA_OFF);
}

/* ---- all kinds at a time ------------------------------------------------------------------------------- */

enum { RDMA_STREAM, TCP_STREAM, UNIX_STREAM, UDP, UNIX_DGRAM, RDMA_LISTENER, TCP_LISTENER, KINDS };

/* A named socket of the UNIX domain, and one that is connected to it; of streams the two ends. */
static void make_unix(int s[3], int type)
{
    struct sockaddr_un at = {.sun_family = AF_UNIX};

    snprintf(at.sun_path + 1, sizeof(at.sun_path) - 1, "gpuwire-poll.%d.%d", getpid(), type);
    for (int i = 0; i < 3; i += 2) {
        s[i] = gw_sock_open_thread(net, AF_UNIX, type, 0, soon());
        assert_true(s[i] >= 0);
    }
    assert_int_equal(gw_sock_bind_thread(net, s[2], (struct sockaddr *)&at, sizeof(at), soon()), 0);
    if (type == SOCK_STREAM) assert_int_equal(gw_sock_listen_thread(net, s[2], 1, soon()), 0);
    assert_int_equal(gw_sock_connect_thread(net, s[0], (struct sockaddr *)&at, sizeof(at), soon()), 0);
    s[1] = type == SOCK_STREAM ? gw_sock_accept_thread(net, s[2], NULL, NULL, soon()) : s[2];
    assert_true(s[1] >= 0);
}

static void make_udp(int s[2])
{
    struct sockaddr_in at = here;
    socklen_t len = sizeof(at);

    for (int i = 0; i < 2; i++) s[i] = gw_sock_open_thread(net, AF_INET, SOCK_DGRAM, 0, soon());
    assert_true(s[0] >= 0 && s[1] >= 0);
    assert_int_equal(gw_sock_bind_thread(net, s[1], (struct sockaddr *)&at, len, soon()), 0);
    assert_int_equal(gw_sock_name_thread(net, s[1], (struct sockaddr *)&at, &len), 0);
    assert_int_equal(gw_sock_connect_thread(net, s[0], (struct sockaddr *)&at, len, soon()), 0);
}

/* A new connection to a listening socket; who connects is closed before it is accepted. */
static void come_to(int l)
{
    struct sockaddr_in at;
    socklen_t len = sizeof(at);
    int rdma, s = open_ours();

    assert_int_equal(gw_sock_name_thread(net, l, (struct sockaddr *)&at, &len), 0);
    len = sizeof(rdma);
    assert_int_equal(gw_sock_getsockopt_thread(net, l, GW_SOL_SOCKET, GW_SO_RDMA, &rdma, &len), 0);
    assert_int_equal(gw_sock_setsockopt_thread(net, s, GW_SOL_SOCKET, GW_SO_RDMA, &rdma, len), 0);
    assert_int_equal(gw_sock_connect_thread(net, s, (struct sockaddr *)&at, sizeof(at), soon()), 0);
    close_ours(s);
}

static void hear_one(int s)
{
    char c;

    assert_int_equal(recv_ours(s, &c, 1), 1);
}

static void take_one(int l)
{
    int s = gw_sock_accept_thread(net, l, NULL, NULL, soon());

    assert_true(s >= 0);
    close_ours(s);
}

/* One call for sockets of every kind: whichever has something wakes it, and is told of alone. */
static void test_mixture(void **state)
{
    struct gw_sockets_attr attr = {.count = 20, .rbuf = 65536, .wbuf = 65536};
    struct pollfd f[KINDS];
    int s[KINDS][3];

    if (begin_with(&attr)) fail();
    make(s[RDMA_STREAM], GW_RDMA_ONLY);
    make(s[TCP_STREAM], GW_RDMA_OFF);
    make_unix(s[UNIX_STREAM], SOCK_STREAM);
    make_udp(s[UDP]);
    make_unix(s[UNIX_DGRAM], SOCK_DGRAM);
    s[RDMA_LISTENER][1] = s[RDMA_STREAM][2];
    s[TCP_LISTENER][1] = s[TCP_STREAM][2];
    for (int round = 0; round < 2; round++)
        for (int i = 0; i < KINDS; i++) {
            for (int k = 0; k < KINDS; k++) /* in another order the second time */
                f[round ? KINDS - 1 - k : k] = (struct pollfd){.fd = s[k][1], .events = POLLIN};
            woken_of(f, KINDS, (uint32_t)(round ? KINDS - 1 - i : i), i < RDMA_LISTENER ? say : come_to,
                     s[i][i < RDMA_LISTENER ? 0 : 1]);
            (i < RDMA_LISTENER ? hear_one : take_one)(s[i][1]);
        }
    assert_int_equal(finish_set(state), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_idle, begin_poll, finish_set),
        cmocka_unit_test_setup_teardown(test_wakes, begin_poll, finish_set),
        cmocka_unit_test(test_mixture),
    };

    take_nic();
    return proxy_tests("polling many sockets", tests, sizeof(tests) / sizeof(tests[0]));
}
