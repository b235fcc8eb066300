/* SPDX-License-Identifier: Apache-2.0 */
/* Over TCP, with a CPU thread at the other end. */
#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "bench/gpu_sock_side.h"

GW_KERNEL_DECLARE(accept_kernel);
GW_KERNEL_DECLARE(dial_kernel);
GW_KERNEL_DECLARE(send_kernel);
GW_KERNEL_DECLARE(echo_kernel);

static int tcp_socket(struct sockaddr_in *at)
{
    int fd = socket(AF_INET, SOCK_STREAM, 0), one = 1;

    if (fd < 0 || setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one))) exit(1);
    at->sin_family = AF_INET;
    at->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return fd;
}

static int tcp_dial(uint16_t port_be)
{
    struct sockaddr_in at = {.sin_port = port_be};
    int fd = tcp_socket(&at);
    struct hello hello = {0};

    if (connect(fd, (struct sockaddr *)&at, sizeof(at)) ||
        send(fd, &hello, sizeof(hello), 0) != sizeof(hello)) {
        perror("gpu_sock_bench: connect");
        exit(1);
    }
    return fd;
}

static int tcp_listen(uint16_t *port_be)
{
    struct sockaddr_in at = {.sin_port = 0};
    socklen_t len = sizeof(at);
    int fd = tcp_socket(&at);

    if (bind(fd, (struct sockaddr *)&at, sizeof(at)) || listen(fd, 8) ||
        getsockname(fd, (struct sockaddr *)&at, &len)) {
        perror("gpu_sock_bench: listen");
        exit(1);
    }
    *port_be = at.sin_port;
    return fd;
}

static void take(int fd, void *to, size_t n)
{
    if (recv(fd, to, n, MSG_WAITALL) == (ssize_t)n) return;
    fprintf(stderr, "gpu_sock_bench: the other end has gone\n");
    exit(1);
}

static int tcp_accept(int l)
{
    int fd = accept(l, NULL, NULL), one = 1;
    struct hello hello;

    if (fd < 0) exit(1);
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
    take(fd, &hello, sizeof(hello));
    return fd;
}

static double round_trips(int fd, uint32_t count)
{
    uint64_t since = gw_clock_ns();
    char ball[SMALL] = "";

    for (uint32_t i = 0; i < count; i++) {
        if (send(fd, ball, sizeof(ball), MSG_NOSIGNAL) != sizeof(ball)) exit(1);
        take(fd, ball, sizeof(ball));
    }
    return (double)(gw_clock_ns() - since) / count / 1e3;
}

/* A server as most are written: it waits for what is ready. Until its client has gone. */
static void *epoll_echo(void *arg)
{
    int l = *(int *)arg, fd = tcp_accept(l), ep = epoll_create1(0);
    struct epoll_event ev = {.events = EPOLLIN};
    char ball[SMALL];
    ssize_t n = 1;

    if (ep < 0 || epoll_ctl(ep, EPOLL_CTL_ADD, fd, &ev)) exit(1);
    while (n > 0) {
        if (epoll_wait(ep, &ev, 1, -1) != 1) continue;
        n = recv(fd, ball, sizeof(ball), 0);
        if (n > 0 && send(fd, ball, (size_t)n, MSG_NOSIGNAL) != n) break;
    }
    close(ep);
    close(fd);
    return NULL;
}

void tcp_latency(void)
{
    enum { COUNT = 5000 };
    double ours[ROUNDS], other[ROUNDS];
    struct side to;
    pthread_t thread;
    uint16_t port;
    int l = tcp_listen(&port), host, kernel;

    side_open(&to, 1, SMALL, 0);
    check(pthread_create(&thread, NULL, epoll_echo, &l) ? -EAGAIN : 0, "thread");
    host = tcp_dial(port);
    port = listening(&to);
    start(&to, &accept_kernel, 1);
    kernel = tcp_dial(port);
    finish(&to, "accepting");
    to.args.count = COUNT;
    for (int i = 0; i < ROUNDS; i++) {
        start(&to, &echo_kernel, 1);
        ours[i] = round_trips(kernel, COUNT);
        finish(&to, "echo");
        other[i] = round_trips(host, COUNT);
    }
    report("64 bytes over TCP there and back, a kernel, busy proxy : an epoll echo", "us", ours, other, 0,
           1.5);
    close(host);
    close(kernel);
    pthread_join(thread, NULL);
    close(l);
    side_close(&to);
}

static void *host_sender(void *arg)
{
    const uint64_t *job = arg; /* the socket, how many sends */
    char *bytes = calloc(1, TCP), ack;

    for (uint64_t i = 0; i < job[1]; i++)
        for (size_t at = 0; at < TCP;) {
            ssize_t n = send((int)job[0], bytes + at, TCP - at, MSG_NOSIGNAL);

            if (n <= 0) exit(1);
            at += (size_t)n;
        }
    take((int)job[0], &ack, 1);
    free(bytes);
    return NULL;
}

static void drain(int fd, uint64_t n)
{
    static char bytes[TCP];

    for (; n; n -= TCP) take(fd, bytes, TCP);
    if (send(fd, bytes, 1, MSG_NOSIGNAL) != 1) exit(1);
}

void tcp_stream(void)
{
    enum { COUNT = 10000 };
    double ours[ROUNDS], other[ROUNDS], bits = 8.0 * TCP * COUNT;
    struct side from;
    uint16_t port;
    int l = tcp_listen(&port), kernel, host, sender;

    side_open(&from, 1, TCP, 0);
    ((struct sockaddr_in *)&from.args.addr)->sin_port = port;
    start(&from, &dial_kernel, 1);
    kernel = tcp_accept(l);
    finish(&from, "connecting");
    sender = tcp_dial(port);
    host = tcp_accept(l);
    from.args.count = COUNT;
    for (int i = 0; i < ROUNDS; i++) {
        uint64_t job[2] = {(uint64_t)sender, COUNT}, since = gw_clock_ns();
        pthread_t thread;

        start(&from, &send_kernel, 1);
        drain(kernel, (uint64_t)TCP * COUNT);
        finish(&from, "sending");
        ours[i] = bits / (double)(gw_clock_ns() - since);
        since = gw_clock_ns();
        check(pthread_create(&thread, NULL, host_sender, job) ? -EAGAIN : 0, "thread");
        drain(host, (uint64_t)TCP * COUNT);
        pthread_join(thread, NULL);
        other[i] = bits / (double)(gw_clock_ns() - since);
    }
    report("64 KiB sends over TCP to a CPU thread, a kernel, busy proxy : a CPU thread", "Gbit/s", ours,
           other, 1, 0.5);
    close(kernel);
    close(host);
    close(sender);
    close(l);
    side_close(&from);
}
