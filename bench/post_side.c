/* SPDX-License-Identifier: Apache-2.0 */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <infiniband/mlx5dv.h>

#include "bench/post_side.h"

void bench_check(int rc, const char *what)
{
    if (!rc) return;
    fprintf(stderr, "%s: %s: %s\n", program_invocation_short_name, what, gw_last_error());
    exit(1);
}

int side_by_value(const void *x, const void *y)
{
    double a = *(const double *)x, b = *(const double *)y;

    return (a > b) - (a < b);
}

/*
 * libmlx5's own entry. A software NIC puts a step of its own in front of it, in the context. But libibverbs
 * keeps a list of the driver's entries, by name. There it stands before an entry that no NIC replaces.
 */
static post_send *real_post_send(struct gw_device *dev)
{
    enum { WORDS = 256 };
    struct verbs_context *ctx = verbs_get_ctx(gw_device_context(dev));
    void *at[WORDS];
    Dl_info libmlx5, is;

    bench_check(dladdr((void *)(uintptr_t)ctx->post_srq_ops, &libmlx5) ? 0 : gw_error(-5, "no library"),
                "libmlx5");
    memcpy(at, ctx->priv, sizeof(at));
    for (unsigned i = 1; i < WORDS; i++)
        if (at[i] == (void *)(uintptr_t)ctx->post_srq_ops && dladdr(at[i - 1], &is) &&
            is.dli_fbase == libmlx5.dli_fbase)
            return (post_send *)(uintptr_t)at[i - 1];
    bench_check(gw_error(-5, "this libibverbs keeps it elsewhere"), "ibv_post_send");
    return NULL;
}

static void make_libmlx5s(struct side *s, uint32_t requests, uint32_t inlined, bool one_thread)
{
    struct ibv_context *ctx = gw_device_context(s->dev);
    struct ibv_td_init_attr ta = {0};
    struct ibv_qp_init_attr qa = {.qp_type = IBV_QPT_RC, .cap = {requests, 1, 1, 1, inlined}};

    s->domain = s->pd = ibv_alloc_pd(ctx);
    if (one_thread) {
        s->td = ibv_alloc_td(ctx, &ta);
        struct ibv_parent_domain_init_attr pa = {.pd = s->domain, .td = s->td};
        s->pd = s->td ? ibv_alloc_parent_domain(ctx, &pa) : NULL;
    }
    s->cq = ibv_create_cq(ctx, (int)requests, NULL, NULL, 0);
    qa.send_cq = qa.recv_cq = s->cq;
    s->qp = s->pd && s->cq ? ibv_create_qp(s->pd, &qa) : NULL;
    bench_check(s->qp ? 0 : gw_error(-5, "libibverbs"), "set-up");
}

static void make_handle(struct side *s, uint32_t requests, uint32_t inlined, bool one_thread)
{
    struct gw_qp_attr qa = {.max_send_wr = 16 * requests, .max_recv_wr = 1, .max_inline = inlined};
    struct gw_cq_attr ca = {.cqe = 32 * requests, .flags = GW_CQ_ONE_POLLER};
    struct mlx5dv_qp dv = {0};
    struct mlx5dv_obj o = {.qp = {.in = s->qp, .out = &dv}};

    bench_check(gw_pd_create(s->dev, &s->own_pd), "protection domain");
    bench_check(gw_cq_create(s->dev, &ca, &s->own_cq), "completion queue");
    qa.send_cq = qa.recv_cq = s->own_cq;
    qa.flags = one_thread ? GW_QP_ONE_POSTER : 0;
    bench_check(gw_qp_create(s->own_pd, &qa, &s->own), "queue pair");
    bench_check(-mlx5dv_init_obj(&o, MLX5DV_OBJ_QP), "mlx5dv_init_obj");
    bench_check(posix_memalign((void **)&s->h, GW_HANDLE_BYTES, sizeof(*s->h)) ? -ENOMEM : 0, "memory");
    *s->h = *gw_qp_handle(s->own);
    bench_check(dv.sq.wqe_cnt > s->h->sq.wqebbs ? gw_error(-EINVAL, "libmlx5's queue is larger") : 0,
                "set-up");
    s->h->sq = (struct gw_mlx5_sq){dv.sq.buf, dv.sq.wqe_cnt, s->qp->qp_num};
    s->h->dbrec = (uint32_t *)dv.dbrec;
    s->h->db = dv.bf.reg;
    s->h->state = GW_QP_READY;
    s->h->host = NULL;        /* no NIC inside the process */
    s->h->flags |= GW_DB_IO_; /* but a device, whose register may be mapped write-combining */
}

void side_make(struct side *s, struct gw_device *dev, uint32_t requests, uint32_t inlined, bool one_thread)
{
    s->dev = dev;
    make_libmlx5s(s, requests, inlined, one_thread);
    make_handle(s, requests, inlined, one_thread);
    s->post_send = real_post_send(dev);
}

void side_free(struct side *s)
{
    ibv_destroy_qp(s->qp);
    ibv_destroy_cq(s->cq);
    if (s->td) ibv_dealloc_pd(s->pd);
    if (s->td) ibv_dealloc_td(s->td);
    ibv_dealloc_pd(s->domain);
    free(s->h);
    bench_check(gw_qp_destroy(s->own) || gw_cq_destroy(s->own_cq) || gw_pd_destroy(s->own_pd), "end");
}

void side_connect(struct gw_device *dev, struct ibv_qp *qp, unsigned access)
{
    struct gw_device_info info;
    struct ibv_qp_attr a = {.qp_state = IBV_QPS_INIT, .port_num = 1, .qp_access_flags = access};

    gw_device_query(dev, &info);
    bench_check(-ibv_modify_qp(qp, &a, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS),
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
    bench_check(-ibv_modify_qp(qp, &a,
                               IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                                   IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER),
                "RTR");
    a.qp_state = IBV_QPS_RTS;
    a.timeout = 14;
    a.retry_cnt = a.rnr_retry = 7;
    bench_check(-ibv_modify_qp(qp, &a,
                               IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                                   IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC),
                "RTS");
}

void side_empty(struct side *s)
{
    struct ibv_qp_attr reset = {.qp_state = IBV_QPS_RESET}, stop = {.qp_state = IBV_QPS_SQD};

    bench_check(-ibv_modify_qp(s->qp, &reset, IBV_QP_STATE), "RESET");
    side_connect(s->dev, s->qp, 0);
    bench_check(-ibv_modify_qp(s->qp, &stop, IBV_QP_STATE), "SQD");
    s->h->sq_ci = s->h->sq_resv = s->h->sq_word = s->h->sq_rung = 0;
    memset(s->h->sq.buf, 0, (size_t)s->h->sq.wqebbs * GW_MLX5_WQEBB);
    memset(s->h->slot, 0, s->h->sq.wqebbs * sizeof(*s->h->slot));
}
