/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/gpu_sock_side.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LIMIT_NS 60000000000u

enum { GPU_THREADS = 256 };

GW_KERNEL_DECLARE(listen_kernel);
GW_KERNEL_DECLARE(accept_kernel);
GW_KERNEL_DECLARE(dial_kernel);

const char *exec_name = "gpu";
uint32_t ring;

void check(int rc, const char *what)
{
    if (!rc) return;
    fprintf(stderr, "gpu_sock_bench: %s: %s\n", what, gw_last_error());
    exit(1);
}

/* Each side has a NIC of its own, if there are two, of the addresses 127.0.0.1 and 127.0.0.2. What it is
 * reached by. */
static const char *nic_open(struct side *s)
{
    static int other;
    int second = other && !gw_device_open("mlx5_1", s->exec, &s->dev);

    other = !other;
    if (!second) check(gw_device_open(NULL, s->exec, &s->dev), "network device");
    return second ? "127.0.0.2" : "127.0.0.1";
}

/* A ring is to hold what is under way: a stream alone needs megabytes, or the peer's word that there is room
 * comes too late. */
static uint32_t ring_of(const struct side *s, uint32_t conns, uint64_t size, int rdma)
{
    if (!rdma) return 1 << 20;
    if (size < BIG || (conns > 1 && gw_exec_kind(s->exec) == GW_EXEC_CPU)) return 64 << 10;
    return conns > 1 ? 1 << 20 : 4 << 20;
}

void side_open(struct side *s, uint32_t conns, uint64_t size, int rdma)
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
    a.rbuf = a.wbuf = ring ? ring : ring_of(s, conns, size, rdma);
    s->threads = gw_exec_kind(s->exec) == GW_EXEC_GPU ? GPU_THREADS : 1;
    if (rdma) ip = nic_open(s);
    check(gw_mem_alloc(s->exec, GW_MEM_HOST, sizeof(struct shared), &s->shared), "memory");
    check(gw_mem_alloc(s->exec, GW_MEM_DEVICE, conns * sizeof(int32_t), &s->socks), "memory");
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
                                 .sock = s->socks.dev,
                                 .name = (struct sockaddr *)&there->name,
                                 .name_len = &there->len,
                                 .err = there->err};
    ((struct sockaddr_in *)&s->args.own)->sin_family = AF_INET;
    inet_pton(AF_INET, ip, &((struct sockaddr_in *)&s->args.own)->sin_addr);
    s->args.addr = s->args.own;
}

void side_close(struct side *s)
{
    check(gw_sockets_destroy(s->set), "ending the sockets");
    gw_mem_free(&s->shared);
    gw_mem_free(&s->bytes);
    gw_mem_free(&s->socks);
    if (s->dev) check(gw_device_close(s->dev), "closing the device");
    check(gw_exec_destroy(s->exec), "ending the executor");
}

void start(struct side *s, const struct gw_kernel *k, uint32_t blocks)
{
    memset(((struct shared *)s->shared.host)->err, 0, sizeof(((struct shared *)0)->err));
    check(gw_launch(s->exec, k, blocks, s->threads, &s->args), "launch");
}

void finish(struct side *s, const char *what)
{
    const struct shared *here = s->shared.host;

    check(gw_exec_sync(s->exec, gw_deadline(2 * (uint64_t)LIMIT_NS)), what);
    for (int i = 0; i < BLOCKS; i++)
        if (here->err[i]) check(gw_error((int)here->err[i], "%s", strerror((int)-here->err[i])), what);
}

uint16_t listening(struct side *s)
{
    start(s, &listen_kernel, 1);
    finish(s, "listening");
    return ((struct sockaddr_in *)&((struct shared *)s->shared.host)->name)->sin_port;
}

void meet(struct side *from, struct side *to)
{
    uint16_t port = listening(to);

    from->args.addr = to->args.own;
    ((struct sockaddr_in *)&from->args.addr)->sin_port = port;
    start(to, &accept_kernel, 1);
    start(from, &dial_kernel, 1);
    finish(from, "connecting");
    finish(to, "accepting");
}

double both(struct side *from, const struct gw_kernel *k, struct side *to, const struct gw_kernel *l,
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

void report(const char *what, const char *unit, double *ours, double *other, int more, double aim)
{
    double x = median(ours), y = median(other), ratio = x / y;

    printf("%10.3f %-7s %10.3f %8.2fx  %s  [aim %s %.1fx]%s\n", x, unit, y, ratio, what,
           more ? ">=" : "<=", aim, (more ? ratio >= aim : ratio <= aim) ? "" : "  LOSES");
}

/* ---- the same without streams -------------------------------------------------------------------------- */

void raw_open(struct raw *r, struct side *s)
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

void raw_close(struct raw *r)
{
    check(gw_qp_destroy(r->qp) || gw_cq_destroy(r->cq) || gw_mr_free(r->mr) || gw_pd_destroy(r->pd), "end");
    gw_mem_free(&r->mem);
    gw_mem_free(&r->err);
}

void raw_start(struct side *s, struct raw *r, const struct raw *peer, const struct gw_kernel *k, uint32_t len,
               uint64_t count)
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

void raw_finish(struct side *s, const struct raw *r)
{
    int64_t err;

    check(gw_exec_sync(s->exec, gw_deadline(2 * (uint64_t)LIMIT_NS)), "kernel");
    err = *(int64_t *)r->err.host;
    check(err ? gw_error((int)err, "%s", strerror((int)-err)) : 0, "puts");
}

void raw_connect(struct raw *a, struct raw *b)
{
    struct gw_endpoint ea, eb;

    gw_qp_endpoint(a->qp, &ea);
    gw_qp_endpoint(b->qp, &eb);
    check(gw_qp_connect(a->qp, &eb, NULL) || gw_qp_connect(b->qp, &ea, NULL), "connecting");
}
