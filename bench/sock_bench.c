/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sockets for kernels, on a CPU thread, in the parts that rstream and rsock_bench play too:
 *
 *     sock_bench stream server|client ADDRESS PORT SIZE COUNT ITERATIONS   as rstream: prints Gbit/s and us a
 *                                                                          transfer
 *     sock_bench connect server|client ADDRESS PORT COUNT                  as rsock_bench: prints connections
 *                                                                          a second
 *     sock_bench many server|client ADDRESS PORT SIZE COUNT CONNECTIONS    COUNT sends in all: prints Gbit/s
 *     sock_bench put server|client ADDRESS PORT SIZE COUNT                 RDMA writes without a stream:
 *                                                                          prints Gbit/s
 *
 * RBUF, WBUF and WRITES in the environment are the set's attributes. With IN_PLACE=1 stream neither writes
 * nor reads what it moves, as put: it reserves and commits, borrows and gives back.
 */
#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <gpuwire/connect.h>
#include <gpuwire/socket.h>

#define LIMIT_NS 60000000000u
#define MEMORY   (2u << 20) /* for raw writes: this much lies in a huge page, as the buffers of sockets do */

static struct gw_net *net;
static struct sockaddr_in addr;
static int serves, in_place;

static int stop(const char *what, int64_t err)
{
    fprintf(stderr, "sock_bench: %s: %s\n", what, err < 0 ? strerror((int)-err) : gw_last_error());
    return 1;
}

static uint64_t late(void)
{
    return gw_clock_ns() + LIMIT_NS;
}

static int64_t listen_at(int backlog)
{
    int l = gw_sock_open_thread(net, AF_INET, SOCK_STREAM, 0, late()), err = l < 0 ? l : 0;

    if (!err) err = gw_sock_bind_thread(net, l, (struct sockaddr *)&addr, sizeof(addr), late());
    if (!err) err = gw_sock_listen_thread(net, l, backlog, late());
    return err ? err : l;
}

static int64_t dial(void)
{
    int s = gw_sock_open_thread(net, AF_INET, SOCK_STREAM, 0, late()), err = s < 0 ? s : 0;

    if (!err) err = gw_sock_connect_thread(net, s, (struct sockaddr *)&addr, sizeof(addr), late());
    return err ? err : s;
}

/* The next bytes of up to n, where they lie: how many. */
static int64_t pass(int s, int sending, uint32_t n)
{
    const void *bytes;
    void *room;
    int64_t got = sending ? gw_sock_reserve_thread(net, s, &room, late())
                          : gw_sock_borrow_thread(net, s, &bytes, late());
    int err;

    if (got <= 0) return got;
    if (got > n) got = n;
    err = sending ? gw_sock_commit_thread(net, s, (uint64_t)got, late())
                  : gw_sock_give_back_thread(net, s, (uint64_t)got);
    return err ? err : got;
}

static int64_t move(int s, int sending, uint8_t *bytes, uint32_t size)
{
    uint32_t done = 0;
    int64_t got;

    while (done < size) {
        got = in_place  ? pass(s, sending, size - done)
              : sending ? gw_sock_send_thread(net, s, bytes + done, size - done, 0, late())
                        : gw_sock_recv_thread(net, s, bytes + done, size - done, 0, late());
        if (got <= 0) return got ? got : -ECONNABORTED;
        done += (uint32_t)got;
    }
    return 0;
}

/* ---- as rstream ---------------------------------------------------------------------------------------- */

static int64_t stream(int s, uint8_t *bytes, uint32_t size, uint32_t count, uint32_t iterations, uint64_t *ns)
{
    int64_t err = move(s, !serves, bytes, 16);
    uint64_t begin;

    if (!err) err = move(s, serves, bytes, 16);
    begin = gw_clock_ns();
    for (uint32_t i = 0; i < iterations && !err; i++) {
        for (uint32_t t = 0; t < count && !err; t++) err = move(s, !serves, bytes, size);
        for (uint32_t t = 0; t < count && !err; t++) err = move(s, serves, bytes, size);
    }
    *ns = gw_clock_ns() - begin;
    return err;
}

static int run_stream(char **arg)
{
    uint32_t size = (uint32_t)atoi(arg[0]), count = (uint32_t)atoi(arg[1]),
             iterations = (uint32_t)atoi(arg[2]);
    uint8_t *bytes = calloc(1, size + 16);
    int64_t s = serves ? listen_at(1) : dial(), err;
    double moved = 2.0 * size * count * iterations;
    uint64_t ns;

    if (s >= 0 && serves) s = gw_sock_accept_thread(net, (int)s, NULL, NULL, late());
    if (s < 0) return stop("no connection", s);
    err = stream((int)s, bytes, size, count, iterations, &ns);
    if (!err && !serves)
        printf("%.3f %.3f\n", 8 * moved / (double)ns, (double)ns / 2000 / count / iterations);
    /* The server lets the client go first, as rstream wants it. */
    if (!err && serves && gw_sock_recv_thread(net, (int)s, bytes, 1, 0, late())) err = -EPROTO;
    gw_sock_close_thread(net, (int)s, late());
    free(bytes);
    return err ? stop("stream", err) : 0;
}

/* ---- connections --------------------------------------------------------------------------------------- */

/* A connection, one byte there and back, and its end: so one after the other. */
static int run_connect(char **arg)
{
    uint32_t count = (uint32_t)atoi(arg[0]), i;
    int64_t l = serves ? listen_at(16) : 0, s, err = l < 0 ? l : 0;
    uint64_t begin = gw_clock_ns();
    uint8_t byte = 0;

    for (i = 0; i < count && !err; i++) {
        s = serves ? gw_sock_accept_thread(net, (int)l, NULL, NULL, late()) : dial();
        err = s < 0 ? s : move((int)s, !serves, &byte, 1);
        if (!err) err = move((int)s, serves, &byte, 1);
        if (s >= 0) gw_sock_close_thread(net, (int)s, late());
    }
    if (err) return stop("connections", err);
    if (!serves) printf("%.0f\n", count * 1e9 / (double)(gw_clock_ns() - begin));
    return 0;
}

/* ---- many of them -------------------------------------------------------------------------------------- */

/* Sends or receives on each connection in turn whatever goes without waiting, until all is moved. */
static int64_t all_of(const int *s, uint32_t n, uint8_t *bytes, uint32_t size, uint64_t total)
{
    uint64_t done = 0, limit = late();
    int64_t got;

    for (uint32_t i = 0; done < total; i = (i + 1) % n) {
        got = serves ? gw_sock_recv_thread(net, s[i], bytes, size, MSG_DONTWAIT, 0)
                     : gw_sock_send_thread(net, s[i], bytes, done + size > total ? total - done : size,
                                           MSG_DONTWAIT, 0);
        if (got == 0 || (got < 0 && got != -EAGAIN)) return got ? got : -ECONNABORTED;
        if (got > 0) done += (uint64_t)got;
        if (gw_clock_ns() > limit) return -ETIMEDOUT;
    }
    return 0;
}

static int run_many(char **arg)
{
    uint32_t size = (uint32_t)atoi(arg[0]), count = (uint32_t)atoi(arg[1]), n = (uint32_t)atoi(arg[2]), i;
    int64_t l = serves ? listen_at((int)n) : 0, err = l < 0 ? l : 0;
    uint64_t total = (uint64_t)size * count, begin;
    uint8_t *bytes = calloc(1, size);
    int *s = calloc(n, sizeof(*s));

    for (i = 0; i < n && !err; i++) {
        s[i] = (int)(serves ? gw_sock_accept_thread(net, (int)l, NULL, NULL, late()) : dial());
        if (s[i] < 0) err = s[i];
    }
    begin = gw_clock_ns();
    if (!err) err = all_of(s, n, bytes, size, total);
    /* The last bytes have arrived when the other side says so. */
    if (!err) err = move(s[0], serves, bytes, 1);
    if (!err && !serves) printf("%.3f\n", 8 * (double)total / (double)(gw_clock_ns() - begin));
    for (i = 0; i < n && s[i] >= 0; i++) gw_sock_close_thread(net, s[i], late());
    free(s);
    free(bytes);
    return err ? stop("many", err) : 0;
}

/* ---- raw writes ---------------------------------------------------------------------------------------- */

/* COUNT writes of SIZE bytes, round and round a window of the peer's, which does nothing. */
static int64_t put_all(struct gw_qp_handle *qp, const struct gw_mr *mr, const struct gw_region *to,
                       uint32_t size, uint32_t count, double *gbits)
{
    uint64_t begin = gw_clock_ns(), limit = late(), at = 0, ticket = 0;
    struct gw_tx tx;
    int64_t err = gw_tx_open(&tx, qp);

    for (uint32_t i = 0; i < count && !err; i++, at = at + 2 * size <= to->length ? at + size : 0)
        while ((err = gw_tx_post(&tx, gw_put_op(mr->addr + at, mr->lkey, to->addr + at, to->rkey, size),
                                 GW_SIGNALED, &ticket)) == -EAGAIN)
            if (gw_clock_ns() > limit) return -ETIMEDOUT;
    if (!err) err = gw_tx_wait(&tx, ticket, limit);
    *gbits = 8.0 * size * count / (double)(gw_clock_ns() - begin);
    return err;
}

static int run_put(struct gw_device *dev, char **arg)
{
    uint32_t size = (uint32_t)atoi(arg[2]), count = (uint32_t)atoi(arg[3]);
    size_t window = size < 262144 ? 524288 : 2 * (size_t)size;
    struct gw_cq_attr ca = {.cqe = 64, .qps = 1};
    struct gw_qp_attr qa = {.max_send_wr = 64, .max_recv_wr = 16};
    struct gw_offer mine = {.data_len = 0}, theirs;
    struct gw_link *link = NULL;
    struct gw_listener *l = NULL;
    struct gw_request *r;
    struct gw_mem mem;
    struct gw_mr *mr;
    struct gw_pd *pd;
    struct gw_qp *qp;
    double gbits;
    int64_t err;

    if (gw_pd_create(dev, &pd) || gw_cq_create(dev, &ca, &qa.send_cq) ||
        gw_cq_create(dev, &ca, &qa.recv_cq) || gw_qp_create(pd, &qa, &qp) ||
        gw_mem_alloc(gw_device_exec(dev), GW_MEM_HOST, window > MEMORY ? window : MEMORY, &mem) ||
        gw_mr_register(pd, mem.host, window, GW_MR_REMOTE_WRITE, &mr))
        return stop("queue pair", 0);
    mine.region = (struct gw_region){.addr = mr->addr, .length = window, .rkey = mr->rkey};
    if (serves) {
        err = gw_cm_listen(dev, arg[0], (uint16_t)atoi(arg[1]), &l);
        if (!err) err = gw_cm_next(l, -1, late(), &r);
        if (!err) err = gw_cm_accept(r, qp, NULL, &mine, -1, late(), &link);
        if (!err) (void)gw_cm_ended(link, -1, late());
    } else {
        err = gw_cm_connect(qp, arg[0], (uint16_t)atoi(arg[1]), NULL, &mine, -1, late(), &theirs, &link);
        if (!err) err = put_all(gw_qp_handle(qp), mr, &theirs.region, size, count, &gbits);
        if (!err) printf("%.3f\n", gbits);
    }
    gw_cm_close(link);
    gw_cm_unlisten(l);
    gw_qp_destroy(qp);
    gw_cq_destroy(qa.send_cq);
    gw_cq_destroy(qa.recv_cq);
    gw_mr_free(mr);
    gw_mem_free(&mem);
    gw_pd_destroy(pd);
    return err ? stop("put", err) : 0;
}

static uint32_t number(const char *name)
{
    const char *v = getenv(name);

    return v ? (uint32_t)atoi(v) : 0;
}

int main(int argc, char **argv)
{
    struct gw_sockets_attr attr = {.count = 8,
                                   .rdma = GW_RDMA_ONLY,
                                   .rbuf = number("RBUF"),
                                   .wbuf = number("WBUF"),
                                   .writes = number("WRITES"),
                                   .post_mode = number("POST_MODE")};
    int is_put = argc == 7 && !strcmp(argv[1], "put");
    int is_stream = argc == 8 && !strcmp(argv[1], "stream"), is_many = argc == 8 && !strcmp(argv[1], "many");
    struct gw_sockets *set;
    struct gw_device *dev;
    struct gw_exec *exec;
    int rc;

    if (!is_stream && !is_many && !is_put && (argc != 6 || strcmp(argv[1], "connect"))) {
        fprintf(stderr, "usage: sock_bench stream server|client ADDRESS PORT SIZE COUNT ITERATIONS\n"
                        "       sock_bench connect server|client ADDRESS PORT COUNT\n"
                        "       sock_bench many server|client ADDRESS PORT SIZE COUNT CONNECTIONS\n"
                        "       sock_bench put server|client ADDRESS PORT SIZE COUNT\n");
        return 2;
    }
    serves = !strcmp(argv[2], "server");
    in_place = number("IN_PLACE") != 0;
    addr.sin_family = AF_INET;
    addr.sin_port = htons((uint16_t)atoi(argv[4]));
    if (inet_pton(AF_INET, argv[3], &addr.sin_addr) != 1) return stop("no such address", -EINVAL);
    if (is_many) attr.count = (uint32_t)atoi(argv[7]) + 2;
    if (gw_exec_create("cpu", NULL, &exec) || gw_device_open("softnic", exec, &dev)) return stop("device", 0);
    if (is_put) return run_put(dev, argv + 3);
    if (gw_sockets_create(dev, &attr, &set)) return stop("set", 0);
    net = gw_sockets_net(set);
    rc = is_stream ? run_stream(argv + 5) : is_many ? run_many(argv + 5) : run_connect(argv + 5);
    gw_sockets_destroy(set);
    gw_device_close(dev);
    gw_exec_destroy(exec);
    return rc;
}
