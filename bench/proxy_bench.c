/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The thread that posts for kernels (gw-proxy): its cost while nothing is posted, and how late it then sees a
 * post. And a round trip in each posting mode, where no call tells the NIC or the proxy of a post, as from a
 * GPU. It uses the software NIC, or the device that GPUWIRE_DEVICE names. usage: proxy_bench [SECONDS], of
 * each row; default 2
 */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <gpuwire/verbs.h>

#define MOST 64u

static struct gw_exec *exec;
static struct gw_device *dev;

static void check(int rc, const char *what)
{
    if (!rc) return;
    fprintf(stderr, "proxy_bench: %s: %s\n", what, gw_last_error());
    exit(1);
}

/* Nanoseconds that threads of that name have run. */
static uint64_t ran(const char *name)
{
    DIR *d = opendir("/proc/self/task");
    uint64_t sum = 0;

    for (struct dirent *e; d && (e = readdir(d));) {
        char path[300], comm[32] = "";
        unsigned long long ns = 0;
        FILE *f;

        if (e->d_name[0] == '.') continue;
        snprintf(path, sizeof(path), "/proc/self/task/%s/comm", e->d_name);
        if ((f = fopen(path, "re"))) {
            if (fscanf(f, "%31s", comm) != 1) comm[0] = 0;
            fclose(f);
        }
        snprintf(path, sizeof(path), "/proc/self/task/%s/schedstat", e->d_name);
        if (strcmp(comm, name) || !(f = fopen(path, "re"))) continue;
        if (fscanf(f, "%llu", &ns) == 1) sum += ns;
        fclose(f);
    }
    if (d) closedir(d);
    return sum;
}

static void nap(double seconds)
{
    struct timespec t = {(time_t)seconds, (long)((seconds - (double)(time_t)seconds) * 1e9)};

    nanosleep(&t, NULL);
}

struct queues {
    struct gw_pd *pd;
    struct gw_cq *cq[MOST];
    struct gw_qp *qp[MOST];
    struct gw_mem mem;
    struct gw_mr *mr;
    uint32_t n;
};

static void make(struct queues *q, uint32_t mode, uint32_t n)
{
    struct gw_cq_attr ca = {.cqe = 64, .qps = 1, .post_mode = mode};
    struct gw_qp_attr qa = {.max_send_wr = 16, .max_recv_wr = 16, .post_mode = mode};
    struct gw_endpoint ep;

    q->n = n;
    check(gw_pd_create(dev, &q->pd), "protection domain");
    for (uint32_t i = 0; i < n; i++) {
        check(gw_cq_create(dev, &ca, &q->cq[i]), "completion queue");
        qa.send_cq = qa.recv_cq = q->cq[i];
        check(gw_qp_create(q->pd, &qa, &q->qp[i]), "queue pair");
        gw_qp_endpoint(q->qp[i], &ep);
        check(gw_qp_connect(q->qp[i], &ep, NULL), "connecting");
    }
    check(gw_mem_alloc(exec, GW_MEM_HOST, 4096, &q->mem), "memory");
    check(gw_mr_register(q->pd, q->mem.host, q->mem.size, 0, &q->mr), "memory region");
}

static void destroy(struct queues *q)
{
    for (uint32_t i = 0; i < q->n; i++) {
        gw_qp_destroy(q->qp[i]);
        gw_cq_destroy(q->cq[i]);
    }
    gw_mr_free(q->mr);
    gw_mem_free(&q->mem);
    gw_pd_destroy(q->pd);
}

/* From a post to its completion, in microseconds. */
static double post_one(struct queues *q)
{
    uint64_t start = gw_clock_ns();
    struct ibv_wc wc = {0};

    check(gw_post_op(gw_qp_handle(q->qp[0]),
                     gw_put_op(q->mr->addr, q->mr->lkey, q->mr->addr + 64, q->mr->rkey, 8), GW_SIGNALED, 1),
          "post");
    if (gw_wait_cq(gw_cq_handle(q->cq[0]), 1, &wc, gw_deadline(5000000000u), NULL, -1) != 1 || wc.status)
        check(gw_error(-5, "status %d", wc.status), "a write");
    return (double)(gw_clock_ns() - start) * 1e-3;
}

static void row(const char *name, uint32_t mode, uint32_t n, double seconds)
{
    struct queues q;
    uint64_t cpu, from;
    double us;

    make(&q, mode, n);
    post_one(&q);
    nap(0.2); /* until its naps are as long as they become */
    cpu = ran("gw-proxy");
    from = gw_clock_ns();
    nap(seconds);
    us = 100.0 * (double)(ran("gw-proxy") - cpu) / (double)(gw_clock_ns() - from);
    printf("bench: %-14s %2u queue pairs, idle: gw-proxy takes %.3f %% of a core; the first write then "
           "completes after %.0f us\n",
           name, n, us, post_one(&q));
    destroy(&q);
}

/* One way: a receive, a write with immediate, and both completions. */
static void one_way(struct queues *q, uint32_t from)
{
    struct gw_qp_handle *to = gw_qp_handle(q->qp[!from]);
    struct ibv_wc wc;

    check(gw_recv_empty(to, 1, 1), "receive");
    check(gw_post_op(gw_qp_handle(q->qp[from]),
                     gw_put_imm_op(q->mr->addr, q->mr->lkey, q->mr->addr + 64, q->mr->rkey, 8, 0),
                     GW_SIGNALED, 1),
          "post");
    for (uint32_t i = 0; i < 2; i++)
        if (gw_wait_cq(gw_cq_handle(q->cq[!from ^ i]), 1, &wc, gw_deadline(5000000000u), NULL, -1) != 1 ||
            wc.status)
            check(gw_error(-5, "no completion"), "a write");
}

static int later(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return x < y ? -1 : x > y;
}

/* The handles have no host side, as on a GPU: posts and polls are stores and loads, and wake no thread. */
static void round_trips(const char *name, uint32_t mode)
{
    enum { ROUNDS = 1000 };
    static double us[ROUNDS];
    struct gw_endpoint ep;
    struct queues q;

    make(&q, mode, 2);
    for (uint32_t i = 0; i < 2; i++) {
        check(gw_qp_reset(q.qp[i], GW_RESET_QUIET, 0), "reset");
        gw_qp_handle(q.qp[i])->host = NULL;
        gw_cq_handle(q.cq[i])->host = NULL;
    }
    for (uint32_t i = 0; i < 2; i++) {
        gw_qp_endpoint(q.qp[!i], &ep);
        check(gw_qp_connect(q.qp[i], &ep, NULL), "connecting");
    }
    for (uint32_t i = 0; i < ROUNDS; i++) {
        uint64_t start = gw_clock_ns();

        one_way(&q, 0);
        one_way(&q, 1);
        us[i] = (double)(gw_clock_ns() - start) * 1e-3;
    }
    qsort(us, ROUNDS, sizeof(us[0]), later);
    printf("bench: %-14s as from a GPU: a round trip of 8 bytes takes %.0f us (of ten, the slowest %.0f)\n",
           name, us[ROUNDS / 2], us[ROUNDS * 9 / 10]);
    destroy(&q);
}

int main(int argc, char **argv)
{
    double seconds = argc > 1 ? atof(argv[1]) : 2;

    if (argc > 2 || seconds <= 0) {
        fprintf(stderr, "usage: proxy_bench [SECONDS]\n");
        return 2;
    }
    setenv("GPUWIRE_NIC", "addr=127.0.0.1,verbose=0", 0);
    /* Its naps are the same whether kernels run on a GPU or not; here they are this thread. */
    check(gw_exec_create("cpu", NULL, &exec), "executor");
    check(gw_device_open(getenv("GPUWIRE_DEVICE") ? NULL : "softnic", exec, &dev), "device");
    for (uint32_t n = 1; n <= MOST; n *= MOST) {
        row("proxy-doorbell", GW_POST_PROXY_DOORBELL, n, seconds);
        row("proxy-post", GW_POST_PROXY_POST, n, seconds);
    }
    round_trips("direct", GW_POST_DIRECT);
    round_trips("proxy-doorbell", GW_POST_PROXY_DOORBELL);
    round_trips("proxy-post", GW_POST_PROXY_POST);
    gw_device_close(dev);
    gw_exec_destroy(exec);
    return 0;
}
