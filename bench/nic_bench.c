/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A kernel at a NIC, all in one process. One test is the throughput of writes of each size over one queue
 * pair. The other is the round trip of 8 bytes to a CPU thread, which polls memory and writes them back.
 *
 *     nic_bench stream|ping [--exec cpu|gpu] [--memory host|device]
 *
 * stream: lines "EXECUTOR,BYTES,GBIT_PER_SECOND", for bench/figures. ping: one line. --memory: where the
 * kernel's buffers lie, the executor's own memory unless told otherwise. Exit code 0; 1: something failed;
 * 77: no such executor, or memory that the NIC does not reach.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <gpuwire/verbs.h>

#include "bench/nic_kernels.h"

#define LIMIT_NS 10000000000u
#define MOST     (1u << 20)
#define ROUNDS   2000u
#define RUNS     5

GW_KERNEL_DECLARE(stream_kernel);
GW_KERNEL_DECLARE(serve_kernel);

static void check(int rc, const char *what)
{
    if (!rc) return;
    fprintf(stderr, "nic_bench: %s: %s\n", what, gw_last_error());
    exit(1);
}

/* One end: a device for an executor, a queue pair, and memory. */
struct end {
    struct gw_exec *exec;
    struct gw_device *dev;
    struct gw_pd *pd;
    struct gw_cq *cq;
    struct gw_qp *qp;
    struct gw_mem mem;
    struct gw_mr *mr;
};

static void end_open(struct end *e, const char *exec, enum gw_mem_kind kind, size_t size)
{
    struct gw_cq_attr ca = {.cqe = 256, .flags = GW_CQ_ONE_POLLER};
    struct gw_qp_attr qa = {.max_send_wr = 128, .max_recv_wr = 1, .flags = GW_QP_ONE_POSTER};
    struct gw_device_info info;

    memset(e, 0, sizeof(*e));
    if (gw_exec_create(exec, NULL, &e->exec)) {
        fprintf(stderr, "nic_bench: %s\n", gw_last_error());
        exit(77);
    }
    check(gw_device_open(NULL, e->exec, &e->dev), "network device");
    gw_device_query(e->dev, &info);
    if (kind == GW_MEM_DEVICE && info.gpu_reach == GW_REACH_NONE) {
        fprintf(stderr, "nic_bench: the executor's memory is out of the NIC's reach: %s\n", info.gpu_why);
        exit(77);
    }
    check(gw_pd_create(e->dev, &e->pd), "protection domain");
    check(gw_cq_create(e->dev, &ca, &e->cq), "completion queue");
    qa.send_cq = qa.recv_cq = e->cq;
    check(gw_qp_create(e->pd, &qa, &e->qp), "queue pair");
    check(gw_mem_alloc(e->exec, kind, size, &e->mem), "memory");
    check(gw_mr_register(e->pd, e->mem.host ? e->mem.host : e->mem.dev, size, 0, &e->mr), "memory region");
}

static void end_close(struct end *e)
{
    check(gw_qp_destroy(e->qp) || gw_cq_destroy(e->cq) || gw_mr_free(e->mr) || gw_pd_destroy(e->pd), "end");
    gw_mem_free(&e->mem);
    check(gw_device_close(e->dev), "closing the device");
    check(gw_exec_destroy(e->exec), "ending the executor");
}

static double run(struct end *e, const struct gw_kernel *k, struct nic_args *a)
{
    struct nic_result got;
    struct gw_mem where;

    check(gw_mem_alloc(e->exec, GW_MEM_DEVICE, sizeof(got), &where), "memory");
    a->qp = gw_qp_handle(e->qp);
    a->limit_ns = LIMIT_NS;
    a->result = where.dev;
    check(gw_launch(e->exec, k, 1, 1, a), "launch");
    check(gw_exec_sync(e->exec, gw_deadline(2 * (uint64_t)LIMIT_NS)), "kernel");
    check(gw_copy_out(e->exec, &got, where.dev, sizeof(got)), "result");
    gw_mem_free(&where);
    check(got.err ? gw_error((int)got.err, "%s", strerror((int)-got.err)) : 0, "kernel");
    return (double)got.ns;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static double median(double *v)
{
    qsort(v, RUNS, sizeof(*v), by_value);
    return v[RUNS / 2];
}

static void stream(const char *exec, enum gw_mem_kind kind)
{
    struct gw_endpoint to;
    struct end e;

    end_open(&e, exec, kind, 2 * MOST);
    gw_qp_endpoint(e.qp, &to);
    check(gw_qp_connect(e.qp, &to, NULL), "connecting");
    for (uint32_t len = 64; len <= MOST; len *= 2) {
        struct nic_args a = {
            .laddr = e.mr->addr, .raddr = e.mr->addr + MOST, .lkey = e.mr->lkey, .rkey = e.mr->rkey};
        double v[RUNS];

        a.len = len;
        a.count = len < 32768 ? 4096 : (128u << 20) / len;
        for (int i = 0; i < RUNS; i++) v[i] = (double)len * a.count * 8 / run(&e, &stream_kernel, &a);
        printf("%s,%u,%.2f\n", exec, len, median(v));
        fflush(stdout);
    }
    end_close(&e);
}

/* The CPU thread's end. It does the NIC's work while it waits, as every CPU thread that polls does. */
static struct end cpu;
static struct gw_mr *ball;
static int stop;

static void *bounce(void *unused)
{
    uint64_t *in = cpu.mem.host, *out = in + 64, last = 0;
    struct gw_tx tx;

    (void)unused;
    check(gw_tx_open(&tx, gw_qp_handle(cpu.qp)), "view");
    while (!__atomic_load_n(&stop, __ATOMIC_RELAXED)) {
        uint64_t now = gw_ld_acquire_u64(in);
        int err;

        gw_device_progress(cpu.dev);
        if (now == last) continue;
        gw_st_relaxed_u64(out, last = now);
        do {
            err = gw_tx_post(
                &tx, gw_put_op(cpu.mr->addr + 512, cpu.mr->lkey, ball->addr + 512, ball->rkey, 8), 0, NULL);
        } while (err == -EAGAIN);
        check(err ? gw_error(err, "%s", strerror(-err)) : 0, "post");
    }
    return NULL;
}

static void ping(const char *exec, enum gw_mem_kind kind)
{
    struct gw_endpoint ep[2];
    pthread_t thread;
    double v[RUNS];
    struct end e;

    end_open(&e, exec, kind, 4096);
    end_open(&cpu, "cpu", GW_MEM_HOST, 4096);
    gw_qp_endpoint(e.qp, &ep[0]);
    gw_qp_endpoint(cpu.qp, &ep[1]);
    check(gw_qp_connect(e.qp, &ep[1], NULL), "connecting");
    check(gw_qp_connect(cpu.qp, &ep[0], NULL), "connecting");
    ball = e.mr;
    for (int i = 0; i < RUNS; i++) {
        struct nic_args a = {
            .laddr = e.mr->addr, .raddr = cpu.mr->addr, .lkey = e.mr->lkey, .rkey = cpu.mr->rkey};

        memset(cpu.mem.host, 0, cpu.mem.size);
        stop = 0;
        check(pthread_create(&thread, NULL, bounce, NULL) ? -EAGAIN : 0, "thread");
        a.out = e.mem.dev;
        a.in = a.out + 64;
        a.count = ROUNDS;
        v[i] = run(&e, &serve_kernel, &a) / ROUNDS / 1000;
        __atomic_store_n(&stop, 1, __ATOMIC_RELAXED);
        pthread_join(thread, NULL);
    }
    printf("bench: 8 bytes from a kernel (%s) to a CPU thread and back, buffer in %s memory: %.2f us\n",
           gw_exec_name(e.exec), kind == GW_MEM_HOST ? "mapped host" : "the executor's", median(v));
    end_close(&e);
    end_close(&cpu);
}

int main(int argc, char **argv)
{
    const char *exec = "gpu", *what = argc > 1 ? argv[1] : "";
    enum gw_mem_kind kind = GW_MEM_DEVICE;

    for (int i = 2; i < argc; i++) {
        if (!strcmp(argv[i], "--exec") && i + 1 < argc)
            exec = argv[++i];
        else if (!strcmp(argv[i], "--memory") && i + 1 < argc)
            kind = !strcmp(argv[++i], "host") ? GW_MEM_HOST : GW_MEM_DEVICE;
        else
            what = "";
    }
    if (!strcmp(what, "stream")) return stream(exec, kind), 0;
    if (!strcmp(what, "ping")) return ping(exec, kind), 0;
    fprintf(stderr, "nic_bench stream|ping [--exec cpu|gpu] [--memory host|device]\n");
    return 2;
}
