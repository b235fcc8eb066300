/* SPDX-License-Identifier: Apache-2.0 */
/* Streams of the host's: how they end. */
#include <sys/wait.h>

#include "tests/socket/proxy_rig.h"

static void test_half_closed(void **state)
{
    char b[32] = "";
    int fd, s = join(&fd);

    (void)state;
    assert_int_equal(write(fd, "question", 8), 8);
    assert_int_equal(shutdown(fd, SHUT_WR), 0);
    assert_int_equal(gw_sock_recv_thread(net, s, b, 8, MSG_WAITALL, soon()), 8);
    assert_memory_equal(b, "question", 8);
    assert_int_equal(recv_ours(s, b, sizeof(b)), 0);
    assert_int_equal(recv_ours(s, b, sizeof(b)), 0);
    assert_int_equal(send_ours(s, "answer", 6), 6);
    assert_int_equal(gw_sock_shutdown_thread(net, s, SHUT_WR, soon()), 0);
    assert_int_equal(send_ours(s, "more", 4), -EPIPE);
    assert_int_equal(recv(fd, b, 32, MSG_WAITALL), 6);
    assert_memory_equal(b, "answer", 6);
    assert_int_equal(await(s, POLLIN), POLLIN | POLLHUP);
    close_ours(s);
    close(fd);
}

/* Bytes that came before a reset are received. Then each call reports the reset. Others are not harmed. */
static void test_reset(void **state)
{
    struct linger now = {1, 0};
    char b[32];
    int fd, other, s = join(&fd), t = join(&other);

    (void)state;
    assert_int_equal(write(fd, "last", 4), 4);
    assert_int_equal(await(s, POLLIN), POLLIN);
    assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_LINGER, &now, sizeof(now)), 0);
    close(fd);
    assert_true(await(s, 0) & POLLERR);
    assert_int_equal(recv_ours(s, b, sizeof(b)), 4);
    assert_int_equal(recv_ours(s, b, sizeof(b)), -ECONNRESET);
    assert_int_equal(send_ours(s, b, 1), -ECONNRESET);
    assert_int_equal(recv_ours(s, b, sizeof(b)), -ECONNRESET);
    close_ours(s);
    assert_int_equal(write(other, "x", 1), 1);
    assert_int_equal(recv_ours(t, b, sizeof(b)), 1);
    close_ours(t);
    close(other);
}

/* A poll sees a reset after the end of what came in, too. */
static void test_reset_after_the_end(void **state)
{
    struct linger now = {1, 0};
    char b[32];
    int fd, s = join(&fd);

    (void)state;
    assert_int_equal(shutdown(fd, SHUT_WR), 0);
    assert_int_equal(recv_ours(s, b, sizeof(b)), 0);
    assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_LINGER, &now, sizeof(now)), 0);
    close(fd);
    assert_true(await(s, 0) & POLLERR);
    assert_true(send_ours(s, b, 1) < 0);
    close_ours(s);
}

static void test_silent(void **state)
{
    struct pollfd f = {.events = POLLIN};
    char b[32];
    int fd, s = join(&fd);

    (void)state;
    f.fd = s;
    assert_int_equal(gw_sock_recv_thread(net, s, b, 1, 0, gw_clock_ns() + 20 * MS), -ETIMEDOUT);
    assert_int_equal(gw_sock_recv_thread(net, s, b, 1, 0, 0), -EAGAIN);
    assert_int_equal(gw_sock_poll_thread(net, &f, 1, gw_clock_ns() + 20 * MS), 0);
    close_ours(s);
    close(fd);
}

/* Without a reader at the other end: sending stops, closing gives up at its deadline, and what is missing is
 * lost. */
static void test_nobody_reads(void **state)
{
    static uint8_t much[1 << 20];
    int fd, s = join(&fd), small = 4096;
    int64_t n, sent = 0;

    (void)state;
    assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &small, sizeof(small)), 0);
    while ((n = gw_sock_send_thread(net, s, much, sizeof(much), 0, gw_clock_ns() + 200 * MS)) > 0) sent += n;
    assert_int_equal(n, -ETIMEDOUT);
    assert_true(sent > 0 && sent < 64 << 20);
    assert_int_equal(gw_sock_send_thread(net, s, much, 1, MSG_DONTWAIT, soon()), -EAGAIN);
    assert_int_equal(gw_sock_close_thread(net, s, gw_clock_ns() + 20 * MS), -ETIMEDOUT);
    assert_int_equal(gw_sockets_open(set), 0);
    close(fd);
}

/* Unread bytes make the goodbye a reset, as Linux does it. */
static void test_closed_unread(void **state)
{
    char b[8];
    int fd, s = join(&fd);

    (void)state;
    assert_int_equal(write(fd, "unread", 6), 6);
    assert_int_equal(await(s, POLLIN), POLLIN);
    close_ours(s);
    assert_int_equal(read(fd, b, sizeof(b)), -1);
    assert_int_equal(errno, ECONNRESET);
    close(fd);
}

static void test_killed_peer(void **state)
{
    struct sockaddr_in at;
    int l = listen_ours(&at, 1), s;
    char b[8];
    pid_t pid = fork();

    (void)state;
    if (!pid) {
        int fd = socket(AF_INET, SOCK_STREAM, 0);

        if (!connect(fd, (struct sockaddr *)&at, sizeof(at)) && write(fd, "alive", 5) == 5) pause();
        _exit(1);
    }
    s = gw_sock_accept_thread(net, l, NULL, NULL, soon());
    assert_true(s >= 0);
    assert_int_equal(gw_sock_recv_thread(net, s, b, 5, MSG_WAITALL, soon()), 5);
    kill(pid, SIGKILL);
    assert_int_equal(recv_ours(s, b, sizeof(b)), 0);
    waitpid(pid, NULL, 0);
    close_ours(s);
    close_ours(l);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_SET(test_half_closed), WITH_SET(test_reset),        WITH_SET(test_reset_after_the_end),
        WITH_SET(test_silent),      WITH_SET(test_nobody_reads), WITH_SET(test_closed_unread),
        WITH_SET(test_killed_peer),
    };

    return proxy_tests("ends", tests, sizeof(tests) / sizeof(tests[0]));
}
