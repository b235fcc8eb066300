/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Datagram sockets over RDMA. Kernels are each other's peers (by UDP, too), and a CPU thread makes every
 * call. A test plays other peers by hand, well-behaved and not.
 *
 * test_socket_datagram serve|ask ADDRESS PORT COUNT [block|warp|thread [LANES]]: a kernel as the other end of
 * librdmacm's udpong -T e.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include <gpuwire/verbs.h>

#include "examples/options.h"
#include "tests/socket/datagram_kernels.h"

GW_KERNEL_DECLARE(datagram_kernel);

#define SECOND 1000000000u
#define LIMIT  (60u * (uint64_t)SECOND)

static struct gw_exec *exec;
static struct gw_device *dev;
static struct gw_sockets *set;
static struct gw_net *net;
static char address[16] = "127.0.0.1";

#include "tests/socket/limits.h"

static void must(int rc, const char *what)
{
    if (rc) fail_msg("%s: %d, %s", what, rc, gw_last_error());
}

static uint64_t soon(void)
{
    return gw_clock_ns() + LIMIT;
}

static struct sockaddr_in at_port(uint16_t port)
{
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons(port)};

    inet_pton(AF_INET, address, &a.sin_addr);
    return a;
}

static void make_set(uint32_t mem, uint32_t datagrams)
{
    struct gw_sockets_attr a = {
        .count = 6, .rbuf = 65536, .wbuf = 16384, .rdma = GW_RDMA_ONLY, .mem = mem, .datagrams = datagrams};

    must(gw_sockets_create(dev, &a, &set), "gw_sockets_create");
    net = gw_sockets_net(set);
}

/* ---- kernels ------------------------------------------------------------------------------------------ */

static void run(struct datagram_args *a, uint32_t blocks, struct datagram_out *out)
{
    struct datagram_out none[2] = {{.err = -ECANCELED}, {.err = -ECANCELED}};
    struct gw_mem mem;

    must(gw_mem_alloc(exec, GW_MEM_DEVICE, sizeof(none), &mem), "gw_mem_alloc");
    must(gw_copy_in(exec, mem.dev, none, sizeof(none)), "gw_copy_in");
    a->net = net;
    a->limit_ns = LIMIT;
    if (!a->silence_ns) a->silence_ns = LIMIT;
    a->out = mem.dev;
    must(gw_launch(exec, &datagram_kernel, blocks, 64, a), "gw_launch");
    must(gw_exec_sync(exec, gw_deadline(4 * LIMIT)), "gw_exec_sync");
    must(gw_copy_out(exec, out, mem.dev, sizeof(none)), "gw_copy_out");
    gw_mem_free(&mem);
}

/* Over RDMA most of it goes without the helper: it is asked until it knows where the peer is. */
static void echo(uint16_t port, enum gw_group form, uint32_t connect, uint32_t posted)
{
    struct datagram_args a = {
        .addr = at_port(port), .roles = 0x21, .form = form, .connect = connect, .count = 60};
    struct datagram_out out[2];

    run(&a, 2, out);
    assert_int_equal(out[0].err, 0);
    assert_int_equal(out[1].err, 0);
    assert_int_equal(out[1].done, 61);
    assert_true(out[0].done >= 61 && out[0].posted >= posted && out[1].posted >= posted);
    assert_int_equal(out[0].dropped + out[1].dropped, 0);
    assert_int_equal(gw_sockets_open(set), 0);
}

/* In every form, connected and not. */
static void echoes(uint16_t port, uint32_t posted)
{
    for (uint32_t i = 0; i < 4; i++)
        echo(port++, i == 0 ? GW_WARP : i == 1 ? GW_THREAD : GW_BLOCK, i % 2, posted);
}

/* Several of these may run at a time. */
static uint16_t own_port(void)
{
    return (uint16_t)(10000 + getpid() % 2500 * 8);
}

static void test_kernels(void **state)
{
    struct gw_device_info info;

    (void)state;
    gw_device_query(dev, &info);
    for (uint32_t mem = GW_MEM_HOST; mem <= GW_MEM_DEVICE; mem++) {
        if (mem == GW_MEM_DEVICE && info.gpu_reach == GW_REACH_NONE) continue;
        make_set(mem, 2);
        echoes((uint16_t)(own_port() + (mem == GW_MEM_DEVICE) * 4), 30);
        must(gw_sockets_destroy(set), "gw_sockets_destroy");
    }
}

/* The same kernels on the host's UDP sockets: nothing is posted. */
static void test_kernels_udp(void **state)
{
    struct gw_sockets_attr a = {.count = 6, .rbuf = 65536, .wbuf = 16384, .exec = exec};

    (void)state;
    must(gw_sockets_create(NULL, &a, &set), "gw_sockets_create");
    net = gw_sockets_net(set);
    echoes(own_port(), 0);
    must(gw_sockets_destroy(set), "gw_sockets_destroy");
}

/* ---- calls -------------------------------------------------------------------------------------------- */

/* The test itself calls what kernels call: on a set that lies in a GPU's memory it cannot. */
static void needs_cpu(void)
{
    if (gw_exec_kind(exec) != GW_EXEC_CPU) skip();
}

static int open_ours(void)
{
    int s = gw_sock_open_thread(net, AF_INET, SOCK_DGRAM, 0, soon());

    assert_true(s >= 0);
    return s;
}

static int bound(struct sockaddr_in *at)
{
    int s = open_ours();
    socklen_t len = sizeof(*at);

    *at = at_port(0);
    must(gw_sock_bind_thread(net, s, (struct sockaddr *)at, sizeof(*at), soon()), "bind");
    must(gw_sock_name_thread(net, s, (struct sockaddr *)at, &len), "name");
    assert_true(len == sizeof(*at) && at->sin_port);
    return s;
}

static int64_t send_to(int s, const void *bytes, size_t n, const struct sockaddr_in *to)
{
    return gw_sock_sendto_thread(net, s, bytes, n, 0, (const struct sockaddr *)to, to ? sizeof(*to) : 0,
                                 soon());
}

static void close_ours(int s)
{
    assert_int_equal(gw_sock_close_thread(net, s, soon()), 0);
}

static int now(int s, short events)
{
    struct pollfd f = {.fd = s, .events = events};

    return gw_sock_poll_thread(net, &f, 1, 0) ? f.revents : 0;
}

static void test_calls(void **state)
{
    struct sockaddr_in a, b, from, name, six = at_port(9);
    socklen_t len = sizeof(from);
    char bytes[3000] = "hello", got[3000];
    int s, t, rdma = GW_RDMA_OFF;

    (void)state;
    needs_cpu();
    make_set(0, 2);
    s = bound(&a);
    t = bound(&b);
    assert_int_equal(gw_sock_open_thread(net, AF_INET, SOCK_DGRAM, 0, soon()), -EMFILE);
    assert_int_equal(gw_sock_open_thread(net, AF_INET6, SOCK_DGRAM, 0, soon()), -EAFNOSUPPORT);
    assert_int_equal(gw_sock_setsockopt_thread(net, s, GW_SOL_SOCKET, GW_SO_RDMA, &rdma, sizeof(rdma)),
                     -EOPNOTSUPP);
    assert_int_equal(gw_sock_bind_thread(net, s, (struct sockaddr *)&a, sizeof(a), soon()), -EINVAL);
    assert_int_equal(gw_sock_listen_thread(net, s, 1, soon()), -EOPNOTSUPP);
    assert_int_equal(gw_sock_peer_thread(net, s, (struct sockaddr *)&from, &len), -ENOTCONN);
    assert_int_equal(send_to(s, bytes, 5, NULL), -EDESTADDRREQ);
    assert_int_equal(send_to(s, bytes, GW_DATAGRAM_MESSAGE - 7, &b), -EMSGSIZE);
    six.sin_family = AF_UNIX;
    assert_int_equal(send_to(s, bytes, 5, &six), -EAFNOSUPPORT);
    assert_int_equal(gw_sock_recv_thread(net, s, got, 10, MSG_DONTWAIT, 0), -EAGAIN);
    waits_as_told(s);
    assert_int_equal(now(s, POLLIN | POLLOUT), POLLOUT);
    /* There and back; looked at, cut, and its whole length told. */
    for (uint32_t i = 0; i < 20; i++) {
        assert_int_equal(send_to(s, bytes, GW_DATAGRAM_MESSAGE - 8 - i, &b), GW_DATAGRAM_MESSAGE - 8 - i);
        assert_int_equal(gw_sock_recv_thread(net, t, got, 4, MSG_PEEK | MSG_TRUNC, soon()),
                         GW_DATAGRAM_MESSAGE - 8 - i);
        assert_int_equal(now(t, POLLIN), POLLIN);
        len = sizeof(from);
        assert_int_equal(gw_sock_recvfrom_thread(net, t, got, 4, 0, (struct sockaddr *)&from, &len, soon()),
                         4);
        assert_memory_equal(&from, &a, sizeof(a));
        assert_memory_equal(got, bytes, 4);
        assert_int_equal(now(t, POLLIN), 0);
        assert_int_equal(send_to(t, got, 0, &from), 0);
        assert_int_equal(gw_sock_recv_thread(net, s, got, sizeof(got), 0, soon()), 0);
    }
    /* Connected it hears its peer alone. */
    assert_int_equal(gw_sock_connect_thread(net, t, (struct sockaddr *)&b, sizeof(b), soon()), 0);
    len = sizeof(name);
    assert_int_equal(gw_sock_peer_thread(net, t, (struct sockaddr *)&name, &len), 0);
    assert_memory_equal(&name, &b, sizeof(b));
    assert_int_equal(send_to(s, bytes, 3, &b), 3);
    assert_int_equal(gw_sock_send_thread(net, t, "itself", 6, 0, soon()), 6);
    assert_int_equal(gw_sock_recv_thread(net, t, got, sizeof(got), 0, soon()), 6);
    assert_memory_equal(got, "itself", 6);
    assert_int_equal(gw_sock_shutdown_thread(net, t, SHUT_WR, soon()), 0);
    assert_int_equal(gw_sock_send_thread(net, t, bytes, 1, 0, soon()), -EPIPE);
    assert_int_equal(gw_sock_shutdown_thread(net, t, SHUT_RD, soon()), 0);
    assert_int_equal(gw_sock_recv_thread(net, t, got, 1, 0, soon()), 0);
    close_ours(t);
    assert_int_equal(gw_sock_send_thread(net, t, bytes, 1, 0, soon()), -EBADF);
    /* Its number and its queue pair serve again; nothing of before comes. */
    t = bound(&b);
    assert_int_equal(now(t, POLLIN), 0);
    assert_int_equal(send_to(t, "new", 3, &a), 3);
    assert_int_equal(gw_sock_recv_thread(net, s, got, sizeof(got), 0, soon()), 3);
    close_ours(t);
    close_ours(s);
    must(gw_sockets_destroy(set), "gw_sockets_destroy");
}

/* ---- peers that the test plays ------------------------------------------------------------------------ */

static int udp_at(struct sockaddr_in at)
{
    struct timeval patience = {.tv_sec = 60};
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

    assert_true(fd >= 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&at, sizeof(at)), 0);
    assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience)), 0);
    return fd;
}

/* A UDP socket beside the NIC, as an rsocket has it. */
static int beside(void)
{
    return udp_at(at_port(0));
}

static void say(int fd, const struct sockaddr_in *to, const void *bytes, size_t n)
{
    assert_int_equal(sendto(fd, bytes, n, 0, (const struct sockaddr *)to, sizeof(*to)), n);
}

static uint32_t dropped_by_helper(int s)
{
    return gw_ld_relaxed_u32(&gw_datagram_(net, s)->shared->dropped);
}

static void await_drops(int s, uint32_t n)
{
    uint64_t end = soon();

    while (dropped_by_helper(s) < n && gw_clock_ns() < end) usleep(1000);
    assert_int_equal(dropped_by_helper(s), n);
}

static const uint8_t note[] = {0x55, 0x55, 0x55, 0x55, 4, 0, 16, 0, 0, 0, 0x12, 0x34, 127, 0, 0, 1, 'h', 'i'};

static void test_bad_notes(void **state)
{
    static const struct {
        uint8_t at, value, n;
    } bad[] = {{0, 0x54, 18}, {3, 0, 18},   {4, 6, 18}, {6, 28, 18}, {6, 15, 18},
               {0, 0x55, 15}, {0, 0x55, 1}, {4, 0, 18}, {10, 0, 11}};
    uint8_t bytes[3000] = {0}, none[20];
    struct sockaddr_in at;
    char got[100];
    int s, fd = beside(), n = 0;

    (void)state;
    needs_cpu();
    make_set(0, 1);
    s = bound(&at);
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        memcpy(bytes, note, sizeof(note));
        bytes[bad[i].at] = bad[i].value;
        say(fd, &at, bytes, bad[i].n);
        await_drops(s, (uint32_t)++n);
    }
    memcpy(none, note, 16);
    memset(none + 8, 0, 4); /* queue pair 0 */
    say(fd, &at, none, 16);
    memcpy(bytes, note, 16);
    say(fd, &at, bytes, 16 + GW_DATAGRAM_MESSAGE - 7); /* a payload too long for its head */
    say(fd, &at, bytes, sizeof(bytes));
    await_drops(s, (uint32_t)n + 3);
    assert_int_equal(now(s, POLLIN), 0);
    /* And a good one: it comes, and is answered. */
    say(fd, &at, note, sizeof(note));
    assert_int_equal(gw_sock_recv_thread(net, s, got, sizeof(got), 0, soon()), 2);
    assert_memory_equal(got, "hi", 2);
    assert_int_equal(recv(fd, got, sizeof(got), 0), 16);
    assert_memory_equal(got, "\x55\x55\x55\x55\x04\x07\x10", 7);
    close(fd);
    close_ours(s);
    must(gw_sockets_destroy(set), "gw_sockets_destroy");
}

/* More peers than the table has places: each is answered, and the last ones are in it. */
static void test_many_peers(void **state)
{
    struct sockaddr_in at, from;
    char got[100];
    int s, fd;

    (void)state;
    needs_cpu();
    make_set(0, 1);
    s = bound(&at);
    for (uint32_t i = 0; i < 3 * GW_DATAGRAM_PEERS_; i++) {
        socklen_t len = sizeof(from);

        fd = beside();
        say(fd, &at, note, sizeof(note));
        assert_int_equal(
            gw_sock_recvfrom_thread(net, s, got, sizeof(got), 0, (struct sockaddr *)&from, &len, soon()), 2);
        assert_int_equal(recv(fd, got, sizeof(got), 0), 16);
        close(fd);
    }
    assert_int_equal(dropped_by_helper(s), 0);
    close_ours(s);
    must(gw_sockets_destroy(set), "gw_sockets_destroy");
}

/* A peer at another host says something: is there a way to it then? */
static int hear_from(int s, const struct sockaddr_in *at, uint32_t host)
{
    struct sockaddr_in from = {.sin_family = AF_INET};
    uint64_t ah[sizeof(struct gw_ah_handle) / 8];
    socklen_t len = sizeof(from);
    struct gw_datagram_addr addr;
    uint32_t qpn = 0;
    char got[100];
    int fd;

    from.sin_addr.s_addr = htonl(127u << 24 | 1 << 16 | (host / 200) << 8 | (1 + host % 200));
    fd = udp_at(from);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&from, &len), 0);
    say(fd, at, note, sizeof(note));
    assert_int_equal(gw_sock_recv_thread(net, s, got, sizeof(got), 0, soon()), 2);
    assert_int_equal(recv(fd, got, sizeof(got), 0), 16);
    close(fd);
    assert_int_equal(gw_datagram_addr_of(&from, sizeof(from), &addr), 0);
    return gw_datagram_find_(gw_datagram_(net, s)->shared, &addr, &qpn, ah);
}

/* More hosts than a set keeps ways to: the last ones have one, too, and one that was forgotten gets one
 * again. */
static void test_many_hosts(void **state)
{
    struct sockaddr_in at;
    int s;

    (void)state;
    needs_cpu();
    make_set(0, 1);
    s = bound(&at);
    for (uint32_t i = 0; i < 300; i++) assert_true(hear_from(s, &at, i));
    assert_true(hear_from(s, &at, 0));
    assert_int_equal(dropped_by_helper(s), 0);
    close_ours(s);
    must(gw_sockets_destroy(set), "gw_sockets_destroy");
}

/* Datagrams of UD without a good head come from a queue pair of the test's own. */
static void test_bad_heads(void **state)
{
    static const uint8_t head[][10] = {
        {4, 8, 0, 1, 127, 0, 0, 1, 'o', 'k'}, {5, 8}, {4, 24}, {6, 24}, {4, 9}, {6, 8}, {0}, {255, 255}};
    struct gw_cq_attr ca = {.cqe = 256};
    struct gw_qp_attr qa = {.max_send_wr = 32, .type = GW_QP_UD};
    struct sockaddr_in at;
    struct gw_endpoint self;
    struct gw_device_info info;
    struct gw_ah *ah;
    struct gw_cq *cq;
    struct gw_pd *pd;
    struct gw_qp *qp;
    struct gw_mem mem;
    struct gw_mr *mr;
    struct ibv_wc wc;
    char got[100];
    uint32_t qpn;
    int s;

    (void)state;
    needs_cpu();
    make_set(GW_MEM_HOST, 1);
    s = bound(&at);
    qpn = gw_datagram_(net, s)->qp->sq.qpn;
    gw_device_query(dev, &info);
    must(gw_pd_create(dev, &pd), "gw_pd_create");
    must(gw_cq_create(dev, &ca, &cq), "gw_cq_create");
    qa.send_cq = qa.recv_cq = cq;
    must(gw_qp_create(pd, &qa, &qp), "gw_qp_create");
    must(gw_qp_activate(qp, 1), "gw_qp_activate");
    gw_qp_endpoint(qp, &self);
    must(gw_ah_create(pd, &self, NULL, &ah), "gw_ah_create");
    must(gw_mem_alloc(exec, GW_MEM_HOST, 8192, &mem), "gw_mem_alloc");
    must(gw_mr_register(pd, mem.host, 8192, 0, &mr), "gw_mr_register");
    for (size_t i = sizeof(head) / sizeof(head[0]); i-- > 0;) {
        uint32_t n = i == 4 ? info.mtu : i == 5 ? 0 : i == 6 ? 1 : 10; /* as long as can be, and as short */

        memset(mem.host, 0, 8192);
        memcpy(mem.host, head[i], 10);
        must(gw_post_op(gw_qp_handle(qp),
                        gw_send_to_op(&ah->handle, qpn, GW_DATAGRAM_QKEY, mr->addr, mr->lkey, n), GW_SIGNALED,
                        i),
             "gw_send_to_op");
        assert_int_equal(gw_wait_cq(gw_cq_handle(cq), 1, &wc, soon(), NULL, -1), 1);
        assert_int_equal(wc.status, IBV_WC_SUCCESS);
    }
    /* The good one came last. */
    assert_int_equal(gw_sock_recv_thread(net, s, got, sizeof(got), 0, soon()), 2);
    assert_memory_equal(got, "ok", 2);
    assert_int_equal(gw_datagram_(net, s)->dropped, sizeof(head) / sizeof(head[0]) - 1);
    must(gw_qp_destroy(qp) || gw_cq_destroy(cq) || gw_ah_destroy(ah) || gw_mr_free(mr) || gw_pd_destroy(pd),
         "freeing");
    gw_mem_free(&mem);
    close_ours(s);
    must(gw_sockets_destroy(set), "gw_sockets_destroy");
}

static void test_refused(void **state)
{
    struct gw_sockets_attr a = {.count = 2, .rdma = GW_RDMA_ONLY};
    struct sockaddr_in at = at_port(0), other = at;
    socklen_t len = sizeof(at);
    int s, fd = beside();

    (void)state;
    needs_cpu();
    must(gw_sockets_create(dev, &a, &set), "gw_sockets_create");
    net = gw_sockets_net(set);
    assert_int_equal(gw_sock_open_thread(net, AF_INET, SOCK_DGRAM, 0, soon()), -ESOCKTNOSUPPORT);
    must(gw_sockets_destroy(set), "gw_sockets_destroy");
    a.datagrams = 3;
    assert_int_equal(gw_sockets_create(dev, &a, &set), -EINVAL);
    a.datagrams = 1;
    a.rdma = GW_RDMA_TRY;
    assert_int_equal(gw_sockets_create(dev, &a, &set), -EINVAL);
    assert_non_null(strstr(gw_last_error(), "GW_RDMA_ONLY"));
    make_set(0, 1);
    s = open_ours();
    assert_int_equal(getsockname(fd, (struct sockaddr *)&at, &len), 0);
    assert_int_equal(gw_sock_bind_thread(net, s, (struct sockaddr *)&at, sizeof(at), soon()), -EADDRINUSE);
    other.sin_addr.s_addr = htonl(0x08080808);
    assert_int_equal(gw_sock_bind_thread(net, s, (struct sockaddr *)&other, sizeof(other), soon()),
                     -EADDRNOTAVAIL);
    close_ours(s);
    must(gw_sockets_destroy(set), "gw_sockets_destroy");
    close(fd);
}

/* ---- */

static int open_all(void **state)
{
    (void)state;
    exec = test_exec();
    if (!gw_device_open("softnic", exec, &dev)) return 0;
    fprintf(stderr, "%s\n", gw_last_error());
    return -1;
}

static int close_all(void **state)
{
    (void)state;
    return gw_device_close(dev) || gw_exec_destroy(exec);
}

/* With a peer in another process. */
static int play(int argc, char **argv)
{
    struct datagram_args a = {.roles = !strcmp(argv[1], "serve") ? 1 : 2, .count = (uint32_t)atoi(argv[4])};
    const char *form = argc > 5 ? argv[5] : "block";
    struct datagram_out out[2];

    snprintf(address, sizeof(address), "%s", argv[2]);
    test_exec_opts.lanes = argc > 6 ? (uint32_t)atoi(argv[6]) : 1;
    a.addr = at_port((uint16_t)atoi(argv[3]));
    a.form = !strcmp(form, "warp") ? GW_WARP : !strcmp(form, "thread") ? GW_THREAD : GW_BLOCK;
    a.connect = a.count % 2;
    a.silence_ns = 3u * (uint64_t)SECOND;
    if (open_all(NULL)) return 1;
    make_set(0, 1);
    run(&a, 1, out);
    gw_sockets_destroy(set);
    printf("%s: %u datagrams, %u posted by the kernel, %u repeated, %u dropped\n",
           out[0].err ? strerror((int)-out[0].err) : "well", out[0].done, out[0].posted, out[0].repeats,
           out[0].dropped);
    return close_all(NULL) || out[0].err || !out[0].posted;
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_kernels),    cmocka_unit_test(test_kernels_udp),
        cmocka_unit_test(test_calls),      cmocka_unit_test(test_bad_notes),
        cmocka_unit_test(test_many_peers), cmocka_unit_test(test_many_hosts),
        cmocka_unit_test(test_bad_heads),  cmocka_unit_test(test_refused),
    };

    if (argc > 4 && argv[1][0] != '-') return play(argc, argv); /* by the NIC that the environment says */
    setenv("GPUWIRE_NIC", "addr=127.0.0.1,hostile=1", 1);
    test_options(argc, argv);
    if (test_pattern) cmocka_set_test_filter(test_pattern);
    return cmocka_run_group_tests(tests, open_all, close_all);
}
