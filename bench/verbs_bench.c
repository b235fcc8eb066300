/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What gpuwire's posting and polling cost on a CPU thread beside libibverbs' own, over the same NIC: small
 * RDMA writes from a queue pair to another one of this process, with one doorbell per request and one per
 * sixteen.
 *
 *     verbs_bench [SECONDS]     each of the four measurements takes so long; default 1
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <gpuwire/verbs.h>

#define BYTES  64u
#define WINDOW 64u /* requests in flight */

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
                check(gw_put(gw_qp_handle(qp), mr->addr, mr->lkey, mr->addr + 4096, mr->rkey, BYTES,
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

static double theirs(uint32_t batch)
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
    struct ibv_sge sge = {(uint64_t)(uintptr_t)mem.host, BYTES, mr->lkey};
    for (uint32_t i = 0; i < batch; i++) {
        memset(&wr[i], 0, sizeof(wr[i]));
        wr[i].sg_list = &sge;
        wr[i].num_sge = 1;
        wr[i].opcode = IBV_WR_RDMA_WRITE;
        wr[i].send_flags = i + 1 == batch ? IBV_SEND_SIGNALED : 0;
        wr[i].next = i + 1 == batch ? NULL : &wr[i + 1];
        wr[i].wr.rdma.remote_addr = sge.addr + 4096;
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

int main(int argc, char **argv)
{
    struct gw_device_info info;

    if (argc > 1) limit_ns = (uint64_t)(atof(argv[1]) * 1e9);
    check(gw_device_open(NULL, NULL, &dev), "network device");
    check(gw_mem_alloc(gw_device_exec(dev), GW_MEM_HOST, 8192, &mem), "memory");
    gw_device_query(dev, &info);
    for (uint32_t batch = 1; batch <= 16; batch *= 16) {
        double us = ours(batch), peer = theirs(batch);

        printf("bench: %u-byte writes, %u per doorbell, %s: gpuwire %.0f ns each, libibverbs %.0f ns, ratio "
               "%.2f\n",
               BYTES, batch, info.soft ? "software NIC" : info.name, us, peer, us / peer);
    }
    gw_mem_free(&mem);
    return gw_device_close(dev) ? 1 : 0;
}
