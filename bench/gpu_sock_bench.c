/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sockets of kernels on a GPU beside what lies under them, both in one run:
 *
 *     gpu_sock_bench stream|latency|many N|tcp_latency|tcp_stream [--exec gpu|cpu]
 *
 *     stream       256 KiB sends over RDMA, kernel to kernel : puts of 256 KiB, the same memory and NIC
 *     latency      64 bytes there and back over RDMA, kernel to kernel : puts of 64 bytes there and back
 *     many N       256 KiB sends on N connections in turn : on one
 *     tcp_latency  64 bytes there and back between a CPU thread's TCP socket and a kernel : and an epoll echo
 *     tcp_stream   64 KiB sends by a kernel over TCP to a CPU thread : by a CPU thread
 *
 * One line: ours, the other, the ratio and what is aimed at; medians of 5 rounds in turn. Exit code 0; 1: something
 * failed; 77: no such executor, or memory that the NIC does not reach.
 */
#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include <gpuwire/verbs.h>

#include "bench/gpu_sock_kernels.h"

enum { ROUNDS = 5, GPU_THREADS = 256, BLOCKS = 32, BIG = 256 << 10, SMALL = 64, TCP = 64 << 10 };
#define LIMIT_NS 60000000000u

GW_KERNEL_DECLARE(listen_kernel);
GW_KERNEL_DECLARE(accept_kernel);
GW_KERNEL_DECLARE(dial_kernel);
GW_KERNEL_DECLARE(send_kernel);
GW_KERNEL_DECLARE(sink_kernel);
GW_KERNEL_DECLARE(ask_kernel);
GW_KERNEL_DECLARE(echo_kernel);
GW_KERNEL_DECLARE(raw_stream_kernel);
GW_KERNEL_DECLARE(raw_ask_kernel);
GW_KERNEL_DECLARE(raw_echo_kernel);

static const char *exec_name = "gpu";

static void check(int rc, const char *what)
{
    if (!rc) return;
    fprintf(stderr, "gpu_sock_bench: %s: %s\n", what, gw_last_error());
    exit(1);
}

/* In memory of the host, where kernels see it, too. */
struct shared {
    struct sockaddr_storage name;
    socklen_t len;
    int32_t listener;
    int64_t err[BLOCKS];
    int32_t sock[];
};

struct side {
    struct gw_exec *exec;
    struct gw_device *dev;
    struct gw_sockets *set;
    struct gw_mem shared, bytes;
    uint32_t threads;
    struct side_args args;
};

/* Each side has a NIC of its own, if there are two, of the addresses 127.0.0.1 and 127.0.0.2. What it is reached by. */
static const char *nic_open(struct side *s)
{
    static int other;
    int second = other && !gw_device_open("mlx5_1", s->exec, &s->dev);

    other = !other;
    if (!second) check(gw_device_open(NULL, s->exec, &s->dev), "network device");
    return second ? "127.0.0.2" : "127.0.0.1";
}

static void side_open(struct side *s, uint32_t conns, uint64_t size, int rdma)
{
    struct gw_exec_opts opts = {.blocks = 2};
    struct gw_sockets_attr a = {
        .count = conns + 66, .rdma = rdma ? GW_RDMA_ONLY : GW_RDMA_OFF, .busy = !rdma};
    const char *ip = "127.0.0.1";
    struct shared *there;

    memset(s, 0, sizeof(*s));
    if (gw_exec_create(exec_name, &opts, &s->exec)) {
        fprintf(stderr, "gpu_sock_bench: %s\n", gw_last_error());
        exit(77);
    }
    a.exec = s->exec;
    a.rbuf = a.wbuf = conns > 1 || size < BIG ? 64 << 10 : 1 << 20;
    if (!rdma) a.rbuf = a.wbuf = 1 << 20;
    s->threads = gw_exec_kind(s->exec) == GW_EXEC_GPU ? GPU_THREADS : 1;
    if (rdma) ip = nic_open(s);
    check(gw_mem_alloc(s->exec, GW_MEM_HOST, sizeof(struct shared) + conns * sizeof(int32_t), &s->shared),
          "memory");
    check(gw_mem_alloc(s->exec, GW_MEM_DEVICE, size * BLOCKS, &s->bytes), "memory");
    check(gw_sockets_create(s->dev, &a, &s->set), "sockets");
    there = s->shared.dev;
    ((struct shared *)s->shared.host)->len = sizeof(there->name);
    s->args = (struct side_args){.net = gw_sockets_net(s->set),
                                 .len = sizeof(struct sockaddr_in),
                                 .conns = conns,
                                 .size = size,
                                 .bytes = s->bytes.dev,
                                 .patience_ns = LIMIT_NS,
                                 .listener = &there->listener,
                                 .sock = there->sock,
                                 .name = (struct sockaddr *)&there->name,
                                 .name_len = &there->len,
                                 .err = there->err};
    ((struct sockaddr_in *)&s->args.own)->sin_family = AF_INET;
    inet_pton(AF_INET, ip, &((struct sockaddr_in *)&s->args.own)->sin_addr);
    s->args.addr = s->args.own;
}

static void side_close(struct side *s)
{
    check(gw_sockets_destroy(s->set), "ending the sockets");
    gw_mem_free(&s->shared);
    gw_mem_free(&s->bytes);
    if (s->dev) check(gw_device_close(s->dev), "closing the device");
    check(gw_exec_destroy(s->exec), "ending the executor");
}

static void start(struct side *s, const struct gw_kernel *k, uint32_t blocks)
{
    memset(((struct shared *)s->shared.host)->err, 0, sizeof(((struct shared *)0)->err));
    check(gw_launch(s->exec, k, blocks, s->threads, &s->args), "launch");
}

static void finish(struct side *s, const char *what)
{
    const struct shared *here = s->shared.host;

    check(gw_exec_sync(s->exec, gw_deadline(2 * (uint64_t)LIMIT_NS)), what);
    for (int i = 0; i < BLOCKS; i++)
        if (here->err[i]) check(gw_error((int)here->err[i], "%s", strerror((int)-here->err[i])), what);
}

static uint16_t listening(struct side *s)
{
    start(s, &listen_kernel, 1);
    finish(s, "listening");
    return ((struct sockaddr_in *)&((struct shared *)s->shared.host)->name)->sin_port;
}

/* Connects all of them. */
static void meet(struct side *from, struct side *to)
{
    uint16_t port = listening(to);

    from->args.addr = to->args.own;
    ((struct sockaddr_in *)&from->args.addr)->sin_port = port;
    start(to, &accept_kernel, 1);
    start(from, &dial_kernel, 1);
    finish(from, "connecting");
    finish(to, "accepting");
}

/* One round of both; ns. */
static double both(struct side *from, const struct gw_kernel *k, struct side *to, const struct gw_kernel *l,
                   uint32_t blocks, uint64_t count)
{
    uint64_t since;

    from->args.count = to->args.count = count;
    since = gw_clock_ns();
    start(to, l, blocks);
    start(from, k, blocks);
    finish(from, "the kernel that began");
    finish(to, "the other kernel");
    return (double)(gw_clock_ns() - since);
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static double median(double *v)
{
    qsort(v, ROUNDS, sizeof(*v), by_value);
    return v[ROUNDS / 2];
}

static void report(const char *what, const char *unit, double *ours, double *other, int more, double aim)
{
    double x = median(ours), y = median(other), ratio = x / y;

    printf("%10.3f %-7s %10.3f %8.2fx  %s  [aim %s %.1fx]%s\n", x, unit, y, ratio, what,
           more ? ">=" : "<=", aim, (more ? ratio >= aim : ratio <= aim) ? "" : "  LOSES");
}

/* ---- the same without streams -------------------------------------------------------------------------- */

struct raw {
    struct gw_pd *pd;
    struct gw_cq *cq;
    struct gw_qp *qp;
    struct gw_mem mem, err;
    struct gw_mr *mr;
};

static void raw_open(struct raw *r, struct side *s)
{
    struct gw_cq_attr ca = {.cqe = 256, .flags = GW_CQ_ONE_POLLER};
    struct gw_qp_attr qa = {.max_send_wr = 128, .max_recv_wr = 1, .flags = GW_QP_ONE_POSTER};
    struct gw_device_info info;

    gw_device_query(s->dev, &info);
    if (info.gpu_reach == GW_REACH_NONE) exit(77);
    check(gw_pd_create(s->dev, &r->pd) || gw_cq_create(s->dev, &ca, &r->cq), "completion queue");
    qa.send_cq = qa.recv_cq = r->cq;
    check(gw_qp_create(r->pd, &qa, &r->qp), "queue pair");
    check(gw_mem_alloc(s->exec, GW_MEM_DEVICE, 2 * BIG, &r->mem), "memory");
    check(gw_mem_alloc(s->exec, GW_MEM_HOST, sizeof(int64_t), &r->err), "memory");
    check(gw_mr_register(r->pd, r->mem.host ? r->mem.host : r->mem.dev, 2 * BIG, 0, &r->mr), "memory region");
}

static void raw_close(struct raw *r)
{
    check(gw_qp_destroy(r->qp) || gw_cq_destroy(r->cq) || gw_mr_free(r->mr) || gw_pd_destroy(r->pd), "end");
    gw_mem_free(&r->mem);
    gw_mem_free(&r->err);
}

/* Balls are thrown from the first half, and arrive in the second. Fresh ones are 0. */
static void raw_start(struct side *s, struct raw *r, const struct raw *peer, const struct gw_kernel *k,
                      uint32_t len, uint64_t count)
{
    uint8_t *mine = r->mem.dev;
    uint64_t none = 0;
    struct raw_args a = {.qp = gw_qp_handle(r->qp),
                         .laddr = r->mr->addr,
                         .raddr = peer->mr->addr + BIG,
                         .out = (uint64_t *)(void *)(mine + len - 8),
                         .in = (uint64_t *)(void *)(mine + BIG + len - 8),
                         .lkey = r->mr->lkey,
                         .rkey = peer->mr->rkey,
                         .len = len,
                         .count = count,
                         .limit_ns = LIMIT_NS,
                         .err = r->err.dev};

    check(gw_copy_in(s->exec, mine + BIG + len - 8, &none, sizeof(none)), "memory");
    check(gw_launch(s->exec, k, 1, 1, &a), "launch");
}

static void raw_finish(struct side *s, const struct raw *r)
{
    int64_t err;

    check(gw_exec_sync(s->exec, gw_deadline(2 * (uint64_t)LIMIT_NS)), "kernel");
    err = *(int64_t *)r->err.host;
    check(err ? gw_error((int)err, "%s", strerror((int)-err)) : 0, "puts");
}

static void raw_connect(struct raw *a, struct raw *b)
{
    struct gw_endpoint ea, eb;

    gw_qp_endpoint(a->qp, &ea);
    gw_qp_endpoint(b->qp, &eb);
    check(gw_qp_connect(a->qp, &eb, NULL) || gw_qp_connect(b->qp, &ea, NULL), "connecting");
}

/* ---- over RDMA ----------------------------------------------------------------------------------------- */

static void stream(void)
{
    enum { COUNT = 2000 };
    double ours[ROUNDS], other[ROUNDS], gbit = 8.0 * BIG * COUNT;
    struct side from, to;
    struct raw a, b;

    side_open(&from, 1, BIG, 1);
    side_open(&to, 1, BIG, 1);
    raw_open(&a, &from);
    raw_open(&b, &to);
    raw_connect(&a, &b);
    meet(&from, &to);
    both(&from, &send_kernel, &to, &sink_kernel, 1, COUNT / 10);
    for (int i = 0; i < ROUNDS; i++) {
        uint64_t since;

        ours[i] = gbit / both(&from, &send_kernel, &to, &sink_kernel, 1, COUNT);
        since = gw_clock_ns();
        raw_start(&from, &a, &b, &raw_stream_kernel, BIG, COUNT);
        raw_finish(&from, &a);
        other[i] = gbit / (double)(gw_clock_ns() - since);
    }
    report("stream, 256 KiB, kernel to kernel : puts", "Gbit/s", ours, other, 1, 0.9);
    raw_close(&a);
    raw_close(&b);
    side_close(&from);
    side_close(&to);
}

static void latency(void)
{
    enum { COUNT = 5000 };
    double ours[ROUNDS], other[ROUNDS];
    struct side from, to;
    struct raw a, b;

    side_open(&from, 1, SMALL, 1);
    side_open(&to, 1, SMALL, 1);
    raw_open(&a, &from);
    raw_open(&b, &to);
    raw_connect(&a, &b);
    meet(&from, &to);
    both(&from, &ask_kernel, &to, &echo_kernel, 1, COUNT / 10);
    for (int i = 0; i < ROUNDS; i++) {
        uint64_t since;

        ours[i] = both(&from, &ask_kernel, &to, &echo_kernel, 1, COUNT) / COUNT / 1e3;
        since = gw_clock_ns();
        raw_start(&to, &b, &a, &raw_echo_kernel, SMALL, COUNT);
        raw_start(&from, &a, &b, &raw_ask_kernel, SMALL, COUNT);
        raw_finish(&from, &a);
        raw_finish(&to, &b);
        other[i] = (double)(gw_clock_ns() - since) / COUNT / 1e3;
    }
    report("64 bytes there and back, kernel to kernel : puts", "us", ours, other, 0, 1.5);
    raw_close(&a);
    raw_close(&b);
    side_close(&from);
    side_close(&to);
}

static void many_of(uint32_t conns, double *gbit)
{
    uint32_t blocks = conns < BLOCKS ? conns : BLOCKS;
    uint64_t count = conns > 2000 ? 1 : 2000 / conns;
    struct side from, to;

    side_open(&from, conns, BIG, 1);
    side_open(&to, conns, BIG, 1);
    if (gw_exec_kind(from.exec) == GW_EXEC_CPU && blocks > 2) blocks = 2;
    meet(&from, &to);
    for (int i = 0; i < ROUNDS; i++)
        gbit[i] =
            8.0 * BIG * (double)count * conns / both(&from, &send_kernel, &to, &sink_kernel, blocks, count);
    side_close(&from);
    side_close(&to);
}

static void many(uint32_t conns)
{
    double ours[ROUNDS], other[ROUNDS];
    char what[80];

    many_of(1, other);
    many_of(conns, ours);
    snprintf(what, sizeof(what), "256 KiB sends, %u connections : one", conns);
    report(what, "Gbit/s", ours, other, 1, 0.9);
}

/* ---- over TCP, with a CPU thread at the other end ------------------------------------------------------ */

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

static void tcp_latency(void)
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

static void tcp_stream(void)
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

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "";
    uint32_t conns = 0;

    for (int i = 2; i < argc; i++) {
        if (!strcmp(argv[i], "--exec") && i + 1 < argc)
            exec_name = argv[++i];
        else
            conns = (uint32_t)atoi(argv[i]);
    }
    if (!strcmp(what, "stream")) return stream(), 0;
    if (!strcmp(what, "latency")) return latency(), 0;
    if (!strcmp(what, "many") && conns > 0 && conns <= 8000) return many(conns), 0;
    if (!strcmp(what, "tcp_latency")) return tcp_latency(), 0;
    if (!strcmp(what, "tcp_stream")) return tcp_stream(), 0;
    fprintf(stderr, "gpu_sock_bench stream|latency|many N|tcp_latency|tcp_stream [--exec gpu|cpu]\n");
    return 2;
}
