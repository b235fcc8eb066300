/* SPDX-License-Identifier: Apache-2.0 */
/* CPU threads that poll sleep while nothing happens, and are woken by what they wait for, over RDMA and TCP alike. */
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
    struct pollfd f;
    int got;
};

static void *wait_for(void *arg)
{
    struct waiter *w = arg;

    w->got = gw_sock_poll_thread(net, &w->f, 1, soon());
    return NULL;
}

/* Someone polls, long since asleep, when `happens` happens. */
static void woken(int s, short events, void (*happens)(int s), int where)
{
    struct waiter w = {.f = {.fd = s, .events = events}};
    pthread_t thread;

    assert_int_equal(pthread_create(&thread, NULL, wait_for, &w), 0);
    usleep(30000);
    happens(where);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(w.got, 1);
    assert_true(w.f.revents & events);
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_idle, begin_poll, finish_set),
        cmocka_unit_test_setup_teardown(test_wakes, begin_poll, finish_set),
    };

    take_nic();
    return proxy_tests("polling many sockets", tests, sizeof(tests) / sizeof(tests[0]));
}
