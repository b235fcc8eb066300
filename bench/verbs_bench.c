/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gpuwire's posting and polling on a CPU thread beside libibverbs' own, over the same NIC. A queue pair posts
 * small RDMA writes to itself and completes them, with one doorbell per request and one per sixteen. Both
 * libraries take turns, several times; medians and minima are printed. (post_bench measures a post alone.)
 *
 *     verbs_bench [SECONDS]   the time for each of the two numbers of requests per doorbell; default 2
 *     verbs_bench --stream    throughput of libibverbs' writes against their size: lines
 *                             "ibv,BYTES,GBIT_PER_SECOND"
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/post_side.h"

#define BYTES  64u
#define WINDOW 64u /* requests in flight */
#define MOST   (1u << 20)
#define TURNS  21

static struct gw_device *dev;
static struct gw_mem mem;
static uint64_t limit_ns;

/* ---- ours ---------------------------------------------------------------------------------------------- */

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

    bench_check(gw_pd_create(dev, &pd), "protection domain");
    bench_check(gw_cq_create(dev, &ca, &cq), "completion queue");
    qa.send_cq = qa.recv_cq = cq;
    bench_check(gw_qp_create(pd, &qa, &qp), "queue pair");
    bench_check(gw_mr_register(pd, mem.host, mem.size, 0, &mr), "memory region");
    gw_qp_endpoint(qp, &ep);
    bench_check(gw_qp_connect(qp, &ep, NULL), "connecting");
    start = now = gw_clock_ns();
    for (uint32_t flying = 0; now - start < limit_ns || flying; now = gw_clock_ns()) {
        while (now - start < limit_ns && flying + batch <= WINDOW) {
            for (uint32_t i = 0; i < batch; i++)
                bench_check(gw_post_op(gw_qp_handle(qp),
                                       gw_put_op(mr->addr, mr->lkey, mr->addr + MOST, mr->rkey, BYTES),
                                       i + 1 == batch ? GW_SIGNALED : GW_DEFER, 0),
                            "gw_post_op");
            flying += batch;
        }
        int n = gw_poll_cq(gw_cq_handle(cq), WINDOW, wc);

        for (int i = 0; i < n; i++)
            bench_check(wc[i].status ? gw_error(-5, "%s", ibv_wc_status_str(wc[i].status)) : 0, "completion");
        flying -= (uint32_t)n * batch;
        done += (uint32_t)n * batch;
    }
    bench_check(gw_qp_destroy(qp) || gw_cq_destroy(cq) || gw_mr_free(mr) || gw_pd_destroy(pd), "end");
    return (double)(now - start) / (double)done;
}

/* ---- libibverbs' --------------------------------------------------------------------------------------- */

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

    bench_check(qp && mr ? 0 : gw_error(-5, "libibverbs"), "set-up");
    side_connect(dev, qp, IBV_ACCESS_REMOTE_WRITE);
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
            bench_check(-ibv_post_send(qp, wr, &bad), "ibv_post_send");
            flying += batch;
        }
        int n = ibv_poll_cq(cq, WINDOW, wc);

        for (int i = 0; i < n; i++)
            bench_check(wc[i].status ? gw_error(-5, "%s", ibv_wc_status_str(wc[i].status)) : 0, "completion");
        flying -= (uint32_t)n * batch;
        done += (uint32_t)n * batch;
    }
    ibv_destroy_qp(qp);
    ibv_destroy_cq(cq);
    ibv_dereg_mr(mr);
    ibv_dealloc_pd(pd);
    return (double)(now - start) / (double)done;
}

static void stream(void)
{
    limit_ns = 200000000;
    for (uint32_t len = 64; len <= MOST; len *= 2) printf("ibv,%u,%.2f\n", len, len * 8 / theirs(len, 1));
}

static void compare(double seconds)
{
    struct gw_device_info info;
    double mine[TURNS], peer[TURNS];

    gw_device_query(dev, &info);
    limit_ns = (uint64_t)(seconds * 1e9) / (2 * TURNS);
    for (uint32_t batch = 1; batch <= 16; batch *= 16) {
        for (int i = 0; i < TURNS; i++) {
            mine[i] = ours(batch);
            peer[i] = theirs(BYTES, batch);
        }
        qsort(mine, TURNS, sizeof(*mine), side_by_value);
        qsort(peer, TURNS, sizeof(*peer), side_by_value);
        printf("bench: %u-byte writes, %u per doorbell, %s, median (minimum) of %d turns: gpuwire %.0f "
               "(%.0f) ns "
               "each, libibverbs %.0f (%.0f) ns, ratio %.2f (%.2f)\n",
               BYTES, batch, info.soft ? "software NIC" : info.name, TURNS, mine[TURNS / 2], mine[0],
               peer[TURNS / 2], peer[0], mine[TURNS / 2] / peer[TURNS / 2], mine[0] / peer[0]);
    }
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "";
    bench_check(gw_device_open(NULL, NULL, &dev), "network device");
    bench_check(gw_mem_alloc(gw_device_exec(dev), GW_MEM_HOST, 2 * MOST, &mem), "memory");
    if (!strcmp(what, "--stream"))
        stream();
    else
        compare(atof(what) > 0 ? atof(what) : 2);
    gw_mem_free(&mem);
    return gw_device_close(dev) ? 1 : 0;
}
