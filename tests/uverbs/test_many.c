/* SPDX-License-Identifier: Apache-2.0 */
/* Ten thousand queue pairs and as many completion queues in one process: made, connected, used, and small. */
#include "tests/uverbs/rig.h"

#include <stdio.h>
#include <unistd.h>

enum {
    PAIRS = 5000, /* from the one NIC to the other */
    BYTES = 64,
    AT_ONCE = 500,
    /* Of the process, for a queue pair and its completion queue: libmlx5 takes about 17 KB of pages and
       tables. */
    MAX_BYTES = 24 << 10,
};

struct side {
    struct ibv_context *ctx;
    struct ibv_pd *pd;
    struct ibv_mr *mr;
    unsigned char *buf; /* BYTES for each */
    struct ibv_cq **cq;
    struct ibv_qp **qp;
    union ibv_gid gid;
};

static struct side a, b;

static long resident(void)
{
    long pages = 0, all;
    FILE *f = fopen("/proc/self/statm", "re");
    assert_non_null(f);
    assert_int_equal(fscanf(f, "%ld %ld", &all, &pages), 2);
    fclose(f);
    return pages * sysconf(_SC_PAGESIZE);
}

static void open_side(struct side *s, struct ibv_device *dev)
{
    s->ctx = ibv_open_device(dev);
    assert_non_null(s->ctx);
    s->pd = ibv_alloc_pd(s->ctx);
    s->buf = calloc(PAIRS, BYTES);
    s->mr =
        ibv_reg_mr(s->pd, s->buf, (size_t)PAIRS * BYTES, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
    s->cq = calloc(PAIRS, sizeof(*s->cq));
    s->qp = calloc(PAIRS, sizeof(*s->qp));
    assert_true(s->mr && s->cq && s->qp);
    assert_int_equal(ibv_query_gid(s->ctx, 1, 0, &s->gid), 0);
}

static void make_one(struct side *s, int i)
{
    struct ibv_qp_init_attr init = {
        .qp_type = IBV_QPT_RC,
        .cap = {.max_send_wr = 1, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1}};
    s->cq[i] = ibv_create_cq(s->ctx, 3, NULL, NULL, 0);
    assert_non_null(s->cq[i]);
    init.send_cq = init.recv_cq = s->cq[i];
    s->qp[i] = ibv_create_qp(s->pd, &init);
    assert_non_null(s->qp[i]);
}

/* How long the making of pairs from … to - 1 takes, in seconds. */
static double make(int from, int to)
{
    double start = rig_seconds();
    for (int i = from; i < to; i++) {
        make_one(&a, i);
        make_one(&b, i);
    }
    return rig_seconds() - start;
}

static void connect_all(void)
{
    struct rig to_b = {.gid = b.gid}, to_a = {.gid = a.gid};
    for (int i = 0; i < PAIRS; i++) {
        rig_connect(&to_b, a.qp[i], b.qp[i]->qp_num);
        rig_connect(&to_a, b.qp[i], a.qp[i]->qp_num);
    }
}

static void post(struct side *s, struct side *to, int i)
{
    struct ibv_sge sge = {
        .addr = (uintptr_t)s->buf + (unsigned)i * BYTES, .length = BYTES, .lkey = s->mr->lkey};
    struct ibv_send_wr wr = {.wr_id = (uint64_t)i,
                             .opcode = IBV_WR_RDMA_WRITE,
                             .send_flags = IBV_SEND_SIGNALED,
                             .sg_list = &sge,
                             .num_sge = 1,
                             .wr.rdma = {.remote_addr = (uintptr_t)to->buf + (unsigned)i * BYTES,
                                         .rkey = to->mr->rkey}},
                       *bad;
    assert_int_equal(ibv_post_send(s->qp[i], &wr, &bad), 0);
}

static void wait_for(struct ibv_cq *cq, int i)
{
    struct ibv_wc wc;
    double end = rig_seconds() + 60;
    int n;
    while (!(n = ibv_poll_cq(cq, 1, &wc)) && rig_seconds() < end) continue;
    assert_int_equal(n, 1);
    assert_int_equal(wc.status, IBV_WC_SUCCESS);
    assert_int_equal(wc.wr_id, i);
}

/* Hundreds at a time have work under way. */
static void use_all(struct side *s, struct side *to, unsigned char with)
{
    for (int i = 0; i < PAIRS; i++) memset(s->buf + (size_t)i * BYTES, with + i, BYTES);
    memset(to->buf, 0, (size_t)PAIRS * BYTES);
    for (int from = 0; from < PAIRS; from += AT_ONCE) {
        for (int i = from; i < from + AT_ONCE; i++) post(s, to, i);
        for (int i = from; i < from + AT_ONCE; i++) wait_for(s->cq[i], i);
    }
    assert_memory_equal(s->buf, to->buf, (size_t)PAIRS * BYTES);
}

static void close_side(struct side *s)
{
    for (int i = 0; i < PAIRS; i++) {
        assert_int_equal(ibv_destroy_qp(s->qp[i]), 0);
        assert_int_equal(ibv_destroy_cq(s->cq[i]), 0);
    }
    assert_int_equal(ibv_dereg_mr(s->mr), 0);
    assert_int_equal(ibv_dealloc_pd(s->pd), 0);
    assert_int_equal(ibv_close_device(s->ctx), 0);
    free(s->buf);
    free(s->cq);
    free(s->qp);
}

static void test_many(void **state)
{
    (void)state;
    int n = 0;
    assert_int_equal(softnic_install(), 0);
    struct ibv_device **list = ibv_get_device_list(&n);
    assert_int_equal(n, 2);
    open_side(&a, list[0]);
    open_side(&b, list[1]);
    ibv_free_device_list(list);
    long before = resident();
    double first = make(0, PAIRS / 5), middle = make(PAIRS / 5, PAIRS / 5 * 4),
           last = make(PAIRS / 5 * 4, PAIRS);
    connect_all();
    long idle = (resident() - before) / (2 * PAIRS);
    double start = rig_seconds();
    use_all(&a, &b, 1);
    use_all(&b, &a, 77);
    double used = rig_seconds() - start;
    long after = (resident() - before) / (2 * PAIRS);
    printf("%d queue pairs and completion queues: made in %.2f s (the first fifth in %.2f s, the last in "
           "%.2f s); %ld bytes "
           "each, %ld after a message over each (%.2f s)\n",
           2 * PAIRS, first + middle + last, first, last, idle, after, used);
    assert_true(last < 10 * first + 1); /* ten times the number would be, were each to look at all others */
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__) /* whose shadows count, too */
    assert_true(idle < MAX_BYTES && after < MAX_BYTES);
#endif
    close_side(&a);
    close_side(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_many)};
    /* addresses of its own: what comes to one from another any process there may be given */
    char nics[64], net[16];
    snprintf(net, sizeof(net), "127.%d.%d", 20 + getpid() / 250 % 200, 1 + getpid() % 250);
    snprintf(nics, sizeof(nics), "addr=%s.1,seed=5;addr=%s.2", net, net);
    setenv("GPUWIRE_NIC", nics, 1);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
