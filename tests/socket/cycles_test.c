/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Connections made, used and ended in every way, over and over on the same few sockets, over RDMA, TCP and
 * whichever of them works. The sets of sockets are made again every few hundred connections. Nothing may be
 * left of any of them.
 *
 *     test_socket_cycles [CYCLES]
 */
#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <gpuwire/socket.h>
#include <gpuwire/verbs.h>

#include "tests/rnd.h"
#include "tests/socket/own_nic.h"

#define COUNT   12
#define BACKLOG 8
#define ROUND   250 /* connections of one set */

static struct gw_device *dev;
static struct gw_sockets *set;
static struct gw_net *net;
static struct sockaddr_in addr, nobody;
static uint64_t cycle;

static uint64_t soon(void)
{
    return gw_clock_ns() + 60000000000u;
}

static int64_t want(const char *what, int64_t got, int64_t wanted)
{
    if (got == wanted) return got;
    fprintf(stderr, "cycle %llu: %s: %lld, not %lld\n", (unsigned long long)cycle, what, (long long)got,
            (long long)wanted);
    exit(1);
}

static int number(const char *what, int got)
{
    return got >= 0 ? got : (int)want(what, got, 0);
}

static int fresh(void)
{
    return number("socket", gw_sock_open_thread(net, AF_INET, SOCK_STREAM, 0, soon()));
}

static void linger(int s, int seconds)
{
    struct linger l = {1, seconds};

    want("SO_LINGER", gw_sock_setsockopt_thread(net, s, SOL_SOCKET, SO_LINGER, &l, sizeof(l)), 0);
}

/* n bytes from one socket to another, in pieces that fit into the buffers on the way. */
static void transfer(int from, int to, uint32_t n, uint8_t seed)
{
    uint8_t out[4096], in[4096];
    uint32_t part;

    for (; n; n -= part, seed++) {
        part = n < sizeof(out) ? n : sizeof(out);
        memset(out, seed, part);
        want("send", gw_sock_send_thread(net, from, out, part, 0, soon()), part);
        want("recv", gw_sock_recv_thread(net, to, in, part, MSG_WAITALL, soon()), part);
        want("the bytes", memcmp(in, out, part), 0);
    }
}

/* How a connection ends. */
static void end(struct rnd *r, int s[2])
{
    uint8_t bytes[100];
    uint32_t how = rnd_below(r, 6);
    int first = (int)rnd_below(r, 2);

    switch (how) {
    case 0: /* orderly, one side first */
        want("shutdown", gw_sock_shutdown_thread(net, s[first], SHUT_WR, soon()), 0);
        want("the end", gw_sock_recv_thread(net, s[!first], bytes, 100, 0, soon()), 0);
        break;
    case 1: /* with bytes under way that are not read */
        want("send", gw_sock_send_thread(net, s[first], bytes, 100, 0, soon()), 100);
        break;
    case 2: linger(s[first], 0); break; /* at once */
    case 3: linger(s[first], 1); break;
    case 4: /* one is told by poll */
        want("close", gw_sock_close_thread(net, s[first], soon()), 0);
        want("poll", gw_sock_poll_thread(net, &(struct pollfd){.fd = s[!first], .events = POLLIN}, 1, soon()),
             1);
        want("close", gw_sock_close_thread(net, s[!first], soon()), 0);
        return;
    default: break;
    }
    want("close", gw_sock_close_thread(net, s[first], soon()), 0);
    want("close", gw_sock_close_thread(net, s[!first], soon()), 0);
}

/* The other end of s. A connection that was given up while it was made may come to the listener late, and
 * first. */
static int taken(int l, int s)
{
    struct sockaddr_in mine, theirs;
    socklen_t len = sizeof(mine);
    int got;

    want("getsockname", gw_sock_name_thread(net, s, (struct sockaddr *)&mine, &len), 0);
    for (;;) {
        got = number("accept", gw_sock_accept_thread(net, l, (struct sockaddr *)&theirs, &len, soon()));
        if (theirs.sin_port == mine.sin_port) return got;
        want("close", gw_sock_close_thread(net, got, soon()), 0);
    }
}

/* A connection that is made, with everything that sockets do. */
static void met(struct rnd *r, int l)
{
    int s[2] = {fresh(), 0}, n;

    if (rnd_below(r, 2)) /* begun without waiting, waited for then */
        want("begun", gw_sock_connect_thread(net, s[0], (struct sockaddr *)&addr, sizeof(addr), 0),
             -EINPROGRESS);
    want("connect", gw_sock_connect_thread(net, s[0], (struct sockaddr *)&addr, sizeof(addr), soon()), 0);
    s[1] = taken(l, s[0]);
    n = (int)rnd_below(r, 3) ? (int)rnd_below(r, 100) : (int)rnd_below(r, 60000);
    transfer(s[0], s[1], (uint32_t)n, (uint8_t)cycle);
    if (rnd_below(r, 2)) transfer(s[1], s[0], rnd_below(r, 3000), (uint8_t)~cycle);
    end(r, s);
}

/* No peer listens; a connection that is given up while it is made; one that is not accepted. */
static void missed(struct rnd *r, int l)
{
    uint64_t limit = soon();
    int s = fresh(), n;

    switch (rnd_below(r, 3)) {
    case 0:
        want("refused", gw_sock_connect_thread(net, s, (struct sockaddr *)&nobody, sizeof(nobody), soon()),
             -ECONNREFUSED);
        break;
    case 1:
        want("begun", gw_sock_connect_thread(net, s, (struct sockaddr *)&addr, sizeof(addr), 0),
             -EINPROGRESS);
        break;
    default:
        want("connect", gw_sock_connect_thread(net, s, (struct sockaddr *)&addr, sizeof(addr), soon()), 0);
        break;
    }
    want("close", gw_sock_close_thread(net, s, soon()), 0);
    /* The listener accepts the connection if it comes, and ends it; or it goes by itself. */
    while (gw_sockets_open(set) > 1) {
        n = gw_sock_accept_thread(net, l, NULL, NULL, gw_clock_ns() + 3000000);
        if (n >= 0)
            want("close", gw_sock_close_thread(net, n, soon()), 0);
        else
            want("accept", n, -ETIMEDOUT);
        if (gw_clock_ns() > limit) want("sockets open", gw_sockets_open(set), 1);
    }
}

/* ---- what may not grow --------------------------------------------------------------------------------- */

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED 1
size_t __sanitizer_get_current_allocated_bytes(void);
#else
#define SANITIZED 0
#endif

struct use {
    uint64_t heap;         /* bytes allocated, by the NIC too, which is a library of this process */
    uint64_t resident_kib; /* with what is mapped beside the heap, and what sanitizers keep of freed memory */
    uint32_t descriptors;
};

static uint64_t heap_bytes(void)
{
#if SANITIZED
    return __sanitizer_get_current_allocated_bytes();
#else
    struct mallinfo2 m = mallinfo2();

    return m.uordblks + m.hblkhd;
#endif
}

static uint64_t resident_kib(void)
{
    unsigned long long pages = 0, rss = 0;
    FILE *f = fopen("/proc/self/statm", "r");

    if (f && fscanf(f, "%llu %llu", &pages, &rss) != 2) rss = 0;
    if (f) fclose(f);
    return rss * (uint64_t)sysconf(_SC_PAGESIZE) / 1024;
}

static uint32_t descriptors(void)
{
    DIR *d = opendir("/proc/self/fd");
    uint32_t n = 0;

    while (d && readdir(d)) n++;
    if (d) closedir(d);
    return n;
}

static struct use in_use(void)
{
    return (struct use){heap_bytes(), resident_kib(), descriptors()};
}

static void print_use(const char *when, const struct use *u)
{
    printf("%llu cycles, %s: %llu bytes of heap, %llu KiB resident, %u descriptors\n",
           (unsigned long long)cycle, when, (unsigned long long)u->heap, (unsigned long long)u->resident_kib,
           u->descriptors);
    fflush(stdout);
}

/* The test allows for memory of a connection that the NIC has not taken back yet, and for memory that
 * allocators keep. An allocation that every cycle leaves is seen in `make check`; one in fifty cycles,
 * in `make soak`. */
static void compare(const struct use *before, const struct use *after)
{
    if (after->heap > before->heap + 49152)
        want("bytes of heap", (int64_t)after->heap, (int64_t)before->heap);
    if (!SANITIZED && after->resident_kib > before->resident_kib + 2048)
        want("KiB resident", (int64_t)after->resident_kib, (int64_t)before->resident_kib);
    if (after->descriptors > before->descriptors)
        want("descriptors", after->descriptors, before->descriptors);
}

/* ---- rounds -------------------------------------------------------------------------------------------- */

static int listen_here(void)
{
    socklen_t len = sizeof(addr);
    int l = fresh();

    addr.sin_port = 0;
    want("bind", gw_sock_bind_thread(net, l, (struct sockaddr *)&addr, sizeof(addr), soon()), 0);
    want("listen", gw_sock_listen_thread(net, l, BACKLOG, soon()), 0);
    want("name", gw_sock_name_thread(net, l, (struct sockaddr *)&addr, &len), 0);
    return l;
}

static int run_round(struct rnd *r, uint32_t rdma, uint64_t until)
{
    struct gw_sockets_attr attr = {.count = COUNT, .rbuf = 16384, .wbuf = 16384, .rdma = rdma};
    int err = gw_sockets_create(dev, &attr, &set), l;

    if (err) return err;
    net = gw_sockets_net(set);
    l = listen_here();
    for (; cycle < until; cycle++) {
        if (rnd_below(r, 8))
            met(r, l);
        else
            missed(r, l);
    }
    want("close", gw_sock_close_thread(net, l, soon()), 0);
    want("sockets open", gw_sockets_open(set), 0);
    /* All sockets can be used again: none lost its queue pair. They are open when the set is destroyed. */
    for (int i = 0; i < COUNT; i++) (void)fresh();
    return gw_sockets_destroy(set);
}

static int run(uint64_t cycles)
{
    static const uint32_t carriers[] = {GW_RDMA_ONLY, GW_RDMA_OFF, GW_RDMA_TRY};
    uint64_t rounds = (cycles + ROUND - 1) / ROUND, warm = rounds / 4 > 3 ? rounds / 4 : 3;
    struct use before = {0}, after;
    struct rnd r = {1};
    uint64_t until;

    for (uint64_t i = 0; i < rounds; i++) {
        until = cycle + ROUND < cycles ? cycle + ROUND : cycles;
        if (run_round(&r, carriers[i % 3], until)) return -1;
        if (i + 1 == warm) {
            before = in_use();
            print_use("warm", &before);
        }
    }
    after = in_use();
    print_use("at the end", &after);
    if (rounds > warm) compare(&before, &after);
    return 0;
}

int main(int argc, char **argv)
{
    uint64_t cycles = argc > 1 ? strtoull(argv[1], NULL, 0) : 3000;
    struct gw_exec *exec;

    addr = own_addr(1, 0);
    nobody = own_addr(1, 1);
    own_nic(&addr, ",hostile=1");
    if (gw_exec_create("cpu", NULL, &exec) || gw_device_open("softnic", exec, &dev) || run(cycles)) {
        fprintf(stderr, "%s\n", gw_last_error());
        return 1;
    }
    gw_device_close(dev);
    gw_exec_destroy(exec);
    return 0;
}
