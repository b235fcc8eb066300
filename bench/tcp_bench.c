/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tcp_bench [ROUNDS [TEXT]]: a CPU thread uses kernels' calls over TCP, through the proxy. Beside it, one
 * uses the host's own sockets. The peer of both is a process with plain blocking sockets. Medians of ROUNDS
 * (5), of the rows whose names have TEXT in them.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <gpuwire/socket.h>
#include <gpuwire/verbs.h>

#define PIECE  65536u
#define BYTES  (512u << 20)
#define PINGS  5000u
#define PING   64u
#define CONNS  2000u
#define LIMIT  (gw_clock_ns() + 60000000000u)
#define ROUNDS 25

enum way { HOST, OURS, BUSY, WAYS };
enum what { IN, OUT, ROUND_TRIP, ACCEPT };

static struct gw_net *net;
static char buffer[PIECE];

static void stop(const char *what)
{
    fprintf(stderr, "tcp_bench: %s: %s\n", what, errno ? strerror(errno) : gw_last_error());
    exit(1);
}

/* ---- the peer ------------------------------------------------------------------------------------------ */

static int reach(const struct sockaddr_in *at)
{
    int fd = socket(AF_INET, SOCK_STREAM, 0), one = 1;

    if (fd < 0 || setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one)) ||
        connect(fd, (const struct sockaddr *)at, sizeof(*at)))
        stop("the peer cannot connect");
    return fd;
}

static void move_all(int fd, int out, uint64_t n)
{
    while (n) {
        ssize_t got = out ? send(fd, buffer, PIECE, MSG_NOSIGNAL) : recv(fd, buffer, PIECE, 0);

        if (got <= 0) stop("the peer");
        n -= (uint64_t)got < n ? (uint64_t)got : n;
    }
}

static void peer(enum what what, const struct sockaddr_in *at)
{
    int fd = what == ACCEPT ? -1 : reach(at);

    if (what == IN) move_all(fd, 1, BYTES);
    if (what == OUT) move_all(fd, 0, BYTES);
    for (uint32_t i = 0; what == ROUND_TRIP && i < PINGS; i++) {
        if (send(fd, buffer, PING, 0) != PING || recv(fd, buffer, PING, MSG_WAITALL) != PING)
            stop("the peer");
    }
    for (uint32_t i = 0; what == ACCEPT && i < CONNS; i++) close(reach(at));
    _exit(0);
}

/* ---- the two ways -------------------------------------------------------------------------------------- */

static int wait_one(int ep, struct epoll_event *e)
{
    int n;

    while ((n = epoll_wait(ep, e, 1, -1)) < 0 && errno == EINTR) continue;
    return n;
}

static void host_echo(int fd)
{
    struct epoll_event e = {.events = EPOLLIN};
    int ep = epoll_create1(0);

    if (ep < 0 || epoll_ctl(ep, EPOLL_CTL_ADD, fd, &e)) stop("epoll");
    for (uint32_t i = 0; i < PINGS; i++)
        if (wait_one(ep, &e) != 1 || recv(fd, buffer, PING, 0) != PING || send(fd, buffer, PING, 0) != PING)
            stop("echo");
    close(ep);
}

static void host_side(enum what what, int l)
{
    int fd = what == ACCEPT ? -1 : accept(l, NULL, NULL), one = 1;

    if (what == IN) move_all(fd, 0, BYTES);
    if (what == OUT) move_all(fd, 1, BYTES);
    if (what == ROUND_TRIP) {
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
        host_echo(fd);
    }
    for (uint32_t i = 0; what == ACCEPT && i < CONNS; i++) close(accept(l, NULL, NULL));
    if (fd >= 0) close(fd);
}

static void our_side(enum what what, int l)
{
    int s = what == ACCEPT ? -1 : gw_sock_accept_thread(net, l, NULL, NULL, LIMIT);
    int64_t got;

    for (uint64_t n = 0; what <= OUT && n < BYTES; n += (uint64_t)got) {
        got = what == IN ? gw_sock_recv_thread(net, s, buffer, PIECE, 0, LIMIT)
                         : gw_sock_send_thread(net, s, buffer, PIECE, 0, LIMIT);
        if (got <= 0) stop("our side");
    }
    for (uint32_t i = 0; what == ROUND_TRIP && i < PINGS; i++)
        if (gw_sock_recv_thread(net, s, buffer, PING, MSG_WAITALL, LIMIT) != PING ||
            gw_sock_send_thread(net, s, buffer, PING, 0, LIMIT) != PING)
            stop("our echo");
    for (uint32_t i = 0; what == ACCEPT && i < CONNS; i++)
        (void)gw_sock_close_thread(net, gw_sock_accept_thread(net, l, NULL, NULL, LIMIT), LIMIT);
    if (s >= 0) (void)gw_sock_close_thread(net, s, LIMIT);
}

/* ---- one measurement ----------------------------------------------------------------------------------- */

static int listen_at(enum way way, struct sockaddr_in *at)
{
    socklen_t len = sizeof(*at);
    int l, one = 1, err;

    *at = (struct sockaddr_in){.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    if (way == HOST) {
        l = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        if (bind(l, (struct sockaddr *)at, len) || listen(l, CONNS) ||
            getsockname(l, (struct sockaddr *)at, &len))
            stop("listen");
        return l;
    }
    l = gw_sock_open_thread(net, AF_INET, SOCK_STREAM, 0, LIMIT);
    err = gw_sock_setsockopt_thread(net, l, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
    if (!err) err = gw_sock_bind_thread(net, l, (struct sockaddr *)at, len, LIMIT);
    if (!err) err = gw_sock_listen_thread(net, l, CONNS, LIMIT);
    if (!err) err = gw_sock_name_thread(net, l, (struct sockaddr *)at, &len);
    if (err) stop("our listen");
    return l;
}

static double once(enum what what, enum way way)
{
    struct sockaddr_in at;
    int l = listen_at(way, &at), status;
    uint64_t begin = gw_clock_ns();
    pid_t pid = fork();

    if (pid < 0) stop("fork");
    if (!pid) peer(what, &at);
    if (way == HOST)
        host_side(what, l);
    else
        our_side(what, l);
    if (waitpid(pid, &status, 0) != pid || status) stop("the peer's end");
    begin = gw_clock_ns() - begin;
    if (way == HOST)
        close(l);
    else
        (void)gw_sock_close_thread(net, l, LIMIT);
    return (double)begin;
}

static int ascending(const void *a, const void *b)
{
    return *(const double *)a < *(const double *)b ? -1 : 1;
}

static void make_set(enum way way, struct gw_exec *exec, struct gw_sockets **set)
{
    struct gw_sockets_attr attr = {
        .count = 16, .rbuf = 1 << 20, .wbuf = 1 << 20, .exec = exec, .busy = way == BUSY};

    *set = NULL;
    if (way != HOST && gw_sockets_create(NULL, &attr, set)) stop("gw_sockets_create");
    if (*set) net = gw_sockets_net(*set);
}

/* Medians, nanoseconds. The ways take turns: whatever else runs is in the way of all of them. */
static void measure(enum what what, uint32_t rounds, struct gw_exec *exec, double median[WAYS])
{
    double ns[WAYS][ROUNDS];
    struct gw_sockets *set;

    for (uint32_t i = 0; i < rounds; i++)
        for (int way = HOST; way < WAYS; way++) {
            make_set((enum way)way, exec, &set);
            ns[way][i] = once(what, (enum way)way);
            gw_sockets_destroy(set);
        }
    for (int way = HOST; way < WAYS; way++) {
        qsort(ns[way], rounds, sizeof(ns[way][0]), ascending);
        median[way] = ns[way][rounds / 2];
    }
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        double unit; /* of what a measurement takes: how many things it does */
        int rate;
    } row[] = {
        {"64 KiB pieces in, one connection, Gbit/s", 8.0 * BYTES, 1},
        {"64 KiB pieces out, one connection, Gbit/s", 8.0 * BYTES, 1},
        {"64 bytes there and back, us", PINGS * 1000.0, 0},
        {"accepts, thousands a second", CONNS * 1e6, 1},
    };
    uint32_t rounds = argc > 1 ? (uint32_t)atoi(argv[1]) : 5;
    struct gw_exec *exec;

    if (!rounds || rounds > ROUNDS) rounds = 5;
    signal(SIGPIPE, SIG_IGN);
    if (gw_exec_create("cpu", NULL, &exec)) stop("executor");
    setvbuf(stdout, NULL, _IOLBF, 0); /* children must not find lines that were not written yet */
    printf("%-42s %10s %10s %6s %10s %6s\n", "", "host", "proxy", "ratio", "busy", "ratio");
    for (int what = IN; what <= ACCEPT; what++) {
        double v[WAYS];

        if (argc > 2 && !strstr(row[what].name, argv[2])) continue;
        measure((enum what)what, rounds, exec, v);
        for (int way = HOST; way < WAYS; way++)
            v[way] = row[what].rate ? row[what].unit / v[way] : v[way] / row[what].unit;
        printf("%-42s %10.2f %10.2f %6.2f %10.2f %6.2f\n", row[what].name, v[HOST], v[OURS],
               v[OURS] / v[HOST], v[BUSY], v[BUSY] / v[HOST]);
    }
    return gw_exec_destroy(exec) != 0;
}
