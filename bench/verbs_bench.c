/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What gpuwire's posting and polling cost on a CPU thread beside libibverbs' own, over the same NIC: a post
 * alone; and small RDMA writes from a queue pair to itself, with one doorbell per request and one per
 * sixteen.
 *
 *     verbs_bench [SECONDS]     each of the four measurements of writes takes so long; default 1
 *     verbs_bench --payload     what a post costs against the payload it announces: lines
 * "cpu,BYTES,NANOSECONDS" and "ibv,BYTES,NANOSECONDS", for bench/figures verbs_bench --stream      throughput
 * of libibverbs' writes against their size: lines "ibv,BYTES,GBIT_PER_SECOND"
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <infiniband/mlx5dv.h>

#include <gpuwire/verbs.h>

#define BYTES  64u
#define WINDOW 64u /* requests in flight */
#define MOST   (1u << 20)

static struct gw_device *dev;
static struct gw_mem mem;
static uint64_t limit_ns = 1000000000u;

static void check(int rc, const char *what)
{
    if (!rc) return;
    fprintf(stderr, "verbs_bench: %s: %s\n", what, gw_last_error());
    exit(1);
}

/* ---- ours
 * -------------------------------------------------------------------------------------------------- */

static double ours(uint32_t batch)
{
    struct gw_cq_attr ca = {.cqe = 256, .flags = GW_CQ_ONE_POLLER};
    struct gw_qp_attr qa = {.max_send_wr = WINDOW, .max_recv_wr = 1, .flags = GW_QP_ONE_POSTER};
    struct gw_endpoint ep;
    struct gw_pd *pd;
    struct gw_cq *cq;
    struct gw_qp *qp;
    struct gw_mr *mr;
    struct ibv_wc wc[WINDOW];
    uint64_t done = 0, start, now;

    check(gw_pd_create(dev, &pd), "protection domain");
    check(gw_cq_create(dev, &ca, &cq), "completion queue");
    qa.send_cq = qa.recv_cq = cq;
    check(gw_qp_create(pd, &qa, &qp), "queue pair");
    check(gw_mr_register(pd, mem.host, mem.size, 0, &mr), "memory region");
    gw_qp_endpoint(qp, &ep);
    check(gw_qp_connect(qp, &ep, NULL), "connecting");
    start = now = gw_clock_ns();
    for (uint32_t flying = 0; now - start < limit_ns || flying; now = gw_clock_ns()) {
        while (now - start < limit_ns && flying + batch <= WINDOW) {
            for (uint32_t i = 0; i < batch; i++)
                check(gw_put(gw_qp_handle(qp), mr->addr, mr->lkey, mr->addr + MOST, mr->rkey, BYTES,
                             i + 1 == batch ? GW_SIGNALED : GW_DEFER, 0),
                      "gw_put");
            flying += batch;
        }
        int n = gw_poll_cq(gw_cq_handle(cq), WINDOW, wc);

        for (int i = 0; i < n; i++)
            check(wc[i].status ? gw_error(-5, "%s", ibv_wc_status_str(wc[i].status)) : 0, "completion");
        flying -= (uint32_t)n * batch;
        done += (uint32_t)n * batch;
    }
    check(gw_qp_destroy(qp) || gw_cq_destroy(cq) || gw_mr_free(mr) || gw_pd_destroy(pd), "end");
    return (double)(now - start) / (double)done;
}

/* ---- libibverbs'
 * ------------------------------------------------------------------------------------------- */

static void connect_to_itself(struct ibv_qp *qp)
{
    struct gw_device_info info;
    struct ibv_qp_attr a = {
        .qp_state = IBV_QPS_INIT, .port_num = 1, .qp_access_flags = IBV_ACCESS_REMOTE_WRITE};

    gw_device_query(dev, &info);
    check(-ibv_modify_qp(qp, &a, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS),
          "INIT");
    a.qp_state = IBV_QPS_RTR;
    a.path_mtu = IBV_MTU_1024;
    a.dest_qp_num = qp->qp_num;
    a.min_rnr_timer = 12;
    a.ah_attr.is_global = 1;
    a.ah_attr.port_num = 1;
    a.ah_attr.grh.hop_limit = 64;
    a.ah_attr.grh.sgid_index = (uint8_t)info.gid_index;
    memcpy(a.ah_attr.grh.dgid.raw, info.gid, 16);
    check(-ibv_modify_qp(qp, &a,
                         IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                             IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER),
          "RTR");
    a.qp_state = IBV_QPS_RTS;
    a.timeout = 14;
    a.retry_cnt = a.rnr_retry = 7;
    check(-ibv_modify_qp(qp, &a,
                         IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
                             IBV_QP_MAX_QP_RD_ATOMIC),
          "RTS");
}

static double theirs(uint32_t len, uint32_t batch)
{
    struct ibv_context *ctx = gw_device_context(dev);
    struct ibv_pd *pd = ibv_alloc_pd(ctx);
    struct ibv_cq *cq = ibv_create_cq(ctx, 256, NULL, NULL, 0);
    struct ibv_qp_init_attr qa = {
        .send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_RC, .cap = {WINDOW + 1, 1, 1, 1, 0}};
    struct ibv_qp *qp = pd && cq ? ibv_create_qp(pd, &qa) : NULL;
    struct ibv_mr *mr =
        pd ? ibv_reg_mr(pd, mem.host, mem.size, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE) : NULL;
    struct ibv_send_wr wr[WINDOW], *bad;
    struct ibv_wc wc[WINDOW];
    uint64_t done = 0, start, now;

    check(qp && mr ? 0 : gw_error(-5, "libibverbs"), "set-up");
    connect_to_itself(qp);
    struct ibv_sge sge = {(uint64_t)(uintptr_t)mem.host, len, mr->lkey};
    for (uint32_t i = 0; i < batch; i++) {
        memset(&wr[i], 0, sizeof(wr[i]));
        wr[i].sg_list = &sge;
        wr[i].num_sge = 1;
        wr[i].opcode = IBV_WR_RDMA_WRITE;
        wr[i].send_flags = i + 1 == batch ? IBV_SEND_SIGNALED : 0;
        wr[i].next = i + 1 == batch ? NULL : &wr[i + 1];
        wr[i].wr.rdma.remote_addr = sge.addr + MOST;
        wr[i].wr.rdma.rkey = mr->rkey;
    }
    start = now = gw_clock_ns();
    for (uint32_t flying = 0; now - start < limit_ns || flying; now = gw_clock_ns()) {
        while (now - start < limit_ns && flying + batch <= WINDOW) {
            check(-ibv_post_send(qp, wr, &bad), "ibv_post_send");
            flying += batch;
        }
        int n = ibv_poll_cq(cq, WINDOW, wc);

        for (int i = 0; i < n; i++)
            check(wc[i].status ? gw_error(-5, "%s", ibv_wc_status_str(wc[i].status)) : 0, "completion");
        flying -= (uint32_t)n * batch;
        done += (uint32_t)n * batch;
    }
    ibv_destroy_qp(qp);
    ibv_destroy_cq(cq);
    ibv_dereg_mr(mr);
    ibv_dealloc_pd(pd);
    return (double)(now - start) / (double)done;
}

/* ---- a post alone -----------------------------------------------------------------------------------------
 */

/*
 * All post to one queue pair of libmlx5's whose send queue is stopped (SQD): the NIC hears the ring and
 * executes nothing, so that what is timed is the post. The software NIC does its work on the thread that
 * calls ibv_post_send: that is timed by itself, with a list of no requests, and taken off. Our calls would do
 * it too; here their handle says that there is no such NIC, and the fence that they then leave out (it
 * empties a write-combining buffer) follows each. Medians of bursts, one doorbell for each request.
 */
#define BURST  256u
#define BURSTS 101

enum how { TYPED, FAST, COMPATIBLE, IBV };

struct alone {
    struct gw_pd *pd;
    struct gw_cq *cq;
    struct gw_qp *qp;
    struct gw_qp_handle *h; /* ours, with libmlx5's queue in it */
    struct ibv_pd *ibv_pd;
    struct ibv_cq *ibv_cq;
    struct ibv_qp *ibv_qp;
    struct ibv_sge sge;
    struct ibv_send_wr wr;
};

static void alone_handle(struct alone *a)
{
    struct mlx5dv_qp dv = {0};
    struct mlx5dv_obj o = {.qp = {.in = a->ibv_qp, .out = &dv}};

    check(-mlx5dv_init_obj(&o, MLX5DV_OBJ_QP), "mlx5dv_init_obj");
    check(posix_memalign((void **)&a->h, GW_HANDLE_BYTES, sizeof(*a->h)) ? -ENOMEM : 0, "memory");
    *a->h = *gw_qp_handle(a->qp);
    check(dv.sq.wqe_cnt > a->h->sq.wqebbs ? gw_error(-EINVAL, "libmlx5's queue is larger") : 0, "set-up");
    a->h->sq = (struct gw_mlx5_sq){dv.sq.buf, dv.sq.wqe_cnt, a->ibv_qp->qp_num};
    a->h->dbrec = (uint32_t *)dv.dbrec;
    a->h->db = dv.bf.reg;
    a->h->state = GW_QP_READY;
    a->h->host = NULL;
}

static void alone_open(struct alone *a)
{
    struct gw_cq_attr ca = {.cqe = 16 * BURST, .flags = GW_CQ_ONE_POLLER};
    struct gw_qp_attr qa = {.max_send_wr = 8 * BURST, .max_recv_wr = 1, .flags = GW_QP_ONE_POSTER};
    struct ibv_qp_init_attr ia = {.qp_type = IBV_QPT_RC, .cap = {2 * BURST, 1, 1, 1, 0}};

    check(gw_pd_create(dev, &a->pd), "protection domain");
    check(gw_cq_create(dev, &ca, &a->cq), "completion queue");
    qa.send_cq = qa.recv_cq = a->cq;
    check(gw_qp_create(a->pd, &qa, &a->qp), "queue pair");
    a->ibv_pd = ibv_alloc_pd(gw_device_context(dev));
    a->ibv_cq = ibv_create_cq(gw_device_context(dev), 4 * BURST, NULL, NULL, 0);
    ia.send_cq = ia.recv_cq = a->ibv_cq;
    a->ibv_qp = a->ibv_pd && a->ibv_cq ? ibv_create_qp(a->ibv_pd, &ia) : NULL;
    check(a->ibv_qp ? 0 : gw_error(-5, "libibverbs"), "set-up");
    alone_handle(a);
    a->sge = (struct ibv_sge){(uint64_t)(uintptr_t)mem.host, BYTES, 1};
    memset(&a->wr, 0, sizeof(a->wr));
    a->wr.sg_list = &a->sge;
    a->wr.num_sge = 1;
    a->wr.opcode = IBV_WR_RDMA_WRITE;
    a->wr.wr.rdma.remote_addr = a->sge.addr + 4096;
    a->wr.wr.rdma.rkey = 1;
}

static void alone_close(struct alone *a)
{
    ibv_destroy_qp(a->ibv_qp);
    ibv_destroy_cq(a->ibv_cq);
    ibv_dealloc_pd(a->ibv_pd);
    free(a->h);
    check(gw_qp_destroy(a->qp) || gw_cq_destroy(a->cq) || gw_pd_destroy(a->pd), "end");
}

/* An empty queue for the next burst. */
static void alone_again(struct alone *a)
{
    struct ibv_qp_attr reset = {.qp_state = IBV_QPS_RESET}, stop = {.qp_state = IBV_QPS_SQD};

    check(-ibv_modify_qp(a->ibv_qp, &reset, IBV_QP_STATE), "RESET");
    connect_to_itself(a->ibv_qp);
    check(-ibv_modify_qp(a->ibv_qp, &stop, IBV_QP_STATE), "SQD");
    a->h->sq_ci = a->h->sq_resv = 0;
}

static uint64_t burst(struct alone *a, enum how how, int nothing)
{
    struct ibv_send_wr *bad, *wr = nothing ? NULL : &a->wr;
    struct gw_tx tx;
    uint64_t start;
    uint32_t i;
    int err = gw_tx_open(&tx, a->h);

    start = gw_clock_ns();
    for (i = 0; i < BURST && !err; i++) {
        if (how == IBV)
            err = -ibv_post_send(a->ibv_qp, wr, &bad);
        else if (how == TYPED)
            err = gw_put(a->h, a->sge.addr, 1, a->sge.addr + 4096, 1, a->sge.length, 0, i);
        else if (how == FAST)
            err = gw_tx_post(&tx, gw_put_op(a->sge.addr, 1, a->sge.addr + 4096, 1, a->sge.length), 0, NULL);
        else
            err = -gw_post_send(a->h, wr, &bad);
        if (how != IBV) gw_mmio_flush();
    }
    check(err ? gw_error(err, "%s", strerror(-err)) : 0, "post");
    return gw_clock_ns() - start;
}

static int by_value(const void *x, const void *y)
{
    double a = *(const double *)x, b = *(const double *)y;

    return (a > b) - (a < b);
}

static double alone(struct alone *a, enum how how)
{
    double with[BURSTS], without[BURSTS];

    for (int i = 0; i < BURSTS; i++) {
        alone_again(a);
        with[i] = (double)burst(a, how, 0) / BURST;
        without[i] = how == IBV ? (double)burst(a, how, 1) / BURST : 0;
    }
    qsort(with, BURSTS, sizeof(*with), by_value);
    qsort(without, BURSTS, sizeof(*without), by_value);
    return with[BURSTS / 2] - without[BURSTS / 2];
}

static void posts_alone(void)
{
    struct alone a;
    double ns[IBV + 1];

    alone_open(&a);
    for (enum how how = TYPED; how <= IBV; how++) ns[how] = alone(&a, how);
    alone_close(&a);
    printf("bench: a post alone: ibv_post_send %.1f ns; gw_put %.1f, ratio %.2f (aim 0.8); gw_tx_post %.1f, "
           "ratio %.2f; "
           "gw_post_send %.1f, ratio %.2f (aim 1.1)\n",
           ns[IBV], ns[TYPED], ns[TYPED] / ns[IBV], ns[FAST], ns[FAST] / ns[IBV], ns[COMPATIBLE],
           ns[COMPATIBLE] / ns[IBV]);
}

static void sweep(void)
{
    struct alone a;

    alone_open(&a);
    for (uint32_t len = 64; len <= MOST; len *= 2) {
        a.sge.length = len;
        printf("cpu,%u,%.1f\n", len, alone(&a, FAST));
        printf("ibv,%u,%.1f\n", len, alone(&a, IBV));
    }
    alone_close(&a);
}

static void stream(void)
{
    limit_ns = 200000000;
    for (uint32_t len = 64; len <= MOST; len *= 2) printf("ibv,%u,%.2f\n", len, len * 8 / theirs(len, 1));
}

static void compare(void)
{
    struct gw_device_info info;

    gw_device_query(dev, &info);
    posts_alone();
    for (uint32_t batch = 1; batch <= 16; batch *= 16) {
        double us = ours(batch), peer = theirs(BYTES, batch);

        printf("bench: %u-byte writes, %u per doorbell, %s: gpuwire %.0f ns each, libibverbs %.0f ns, ratio "
               "%.2f\n",
               BYTES, batch, info.soft ? "software NIC" : info.name, us, peer, us / peer);
    }
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "1";

    if (atof(what) > 0) limit_ns = (uint64_t)(atof(what) * 1e9);
    check(gw_device_open(NULL, NULL, &dev), "network device");
    check(gw_mem_alloc(gw_device_exec(dev), GW_MEM_HOST, 2 * MOST, &mem), "memory");
    if (!strcmp(what, "--payload"))
        sweep();
    else if (!strcmp(what, "--stream"))
        stream();
    else
        compare();
    gw_mem_free(&mem);
    return gw_device_close(dev) ? 1 : 0;
}
