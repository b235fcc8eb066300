/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/softnic/app.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const struct app_connect app_connect_default = {
    .mtu = IBV_MTU_1024,
    .psn_there = 100,
    .psn_here = 200,
    .timeout = 10,
    .retry_cnt = 7,
    .rnr_retry = 7,
    .min_rnr_timer = 1,
    .rd_atomic = 4,
};

static void must(int err, const char *what)
{
    if (!err) return;
    fprintf(stderr, "%s: %s\n", what, strerror(-err));
    abort();
}

static void *zeroed(size_t align, size_t size)
{
    void *p = aligned_alloc(align, (size + align - 1) / align * align);

    if (!p) abort();
    memset(p, 0, size);
    return p;
}

/* ---- completion queues --------------------------------------------------------------------------------- */

void app_cq_up(struct app_cq *cq, struct world_nic *n, struct sn_uar *uar, uint32_t entries, uint32_t size)
{
    struct sn_cq_init i = {0};

    memset(cq, 0, sizeof(*cq));
    cq->n = n;
    cq->uar = uar;
    cq->entries = entries;
    cq->size = size;
    cq->buf = zeroed(64, (size_t)entries * size);
    for (uint32_t k = 0; k < entries; k++) cq->buf[(k + 1) * size - 1] = 0xf0;
    i.buf = cq->buf;
    i.cqe_count = entries;
    i.cqe_size = size;
    i.dbrec = cq->dbrec;
    i.uar = uar;
    i.user = cq;
    must(sn_cq_create(n->nic, &i, &cq->cq), "sn_cq_create");
}

void app_cq_down(struct app_cq *cq)
{
    must(sn_cq_destroy(cq->cq), "sn_cq_destroy");
    free(cq->buf);
}

int app_poll(struct app_cq *cq, struct gw_mlx5_wc *wc, const struct gw_mlx5_cqe **out)
{
    uint8_t *end = cq->buf + (size_t)((cq->ci & (cq->entries - 1)) + 1) * cq->size;
    const struct gw_mlx5_cqe *cqe = (const struct gw_mlx5_cqe *)(end - 64);

    if (!gw_mlx5_cqe_ready(__atomic_load_n(&cqe->op_own, __ATOMIC_ACQUIRE), cq->ci, cq->entries)) return 0;
    if (gw_mlx5_cqe_parse(cqe, wc)) abort();
    if (out) *out = cqe;
    cq->ci++;
    if (!cq->keep_ci)
        __atomic_store_n(&cq->dbrec[GW_MLX5_DBREC_CQ_CI], gw_mlx5_cq_ci_be(cq->ci), __ATOMIC_RELEASE);
    return 1;
}

void app_arm(struct app_cq *cq, bool solicited)
{
    uint32_t word = gw_mlx5_cq_arm_be(cq->arm_sn, solicited, cq->ci);
    uint64_t *page = sn_uar_page(cq->uar);

    __atomic_store_n(&cq->dbrec[GW_MLX5_DBREC_CQ_ARM], word, __ATOMIC_RELEASE);
    __atomic_store_n(&page[GW_MLX5_UAR_CQ / 8], gw_mlx5_cq_db_be(word, sn_cq_number(cq->cq)),
                     __ATOMIC_RELEASE);
}

void app_event_taken(struct app_cq *cq)
{
    cq->arm_sn++;
}

/* ---- shared receive queues ----------------------------------------------------------------------------- */

static uint32_t *link_of(struct app_srq *srq, uint32_t entry)
{
    return (uint32_t *)((uint8_t *)srq->rq.buf + (size_t)entry * srq->rq.stride);
}

void app_srq_up(struct app_srq *srq, struct world_nic *n, struct sn_pd *pd, uint32_t wqes, uint32_t max_sge,
                const struct app_srq_options *o)
{
    struct sn_srq_init i = {0};

    memset(srq, 0, sizeof(*srq));
    srq->n = n;
    srq->rq.wqes = wqes;
    srq->rq.stride = 32;
    while (srq->rq.stride < 16 * (max_sge + 1)) srq->rq.stride *= 2;
    srq->max_sge = srq->rq.stride / GW_MLX5_UNIT - 1;
    srq->rq.buf = srq->buf = zeroed(64, (size_t)wqes * srq->rq.stride);
    for (uint32_t k = 0; k + 1 < wqes; k++) *link_of(srq, k) = gw_be32(k + 1);
    srq->tail = wqes - 1;
    i.pd = pd;
    i.buf = srq->buf;
    i.wqes = wqes;
    i.stride = srq->rq.stride;
    i.dbrec = srq->dbrec;
    i.user = srq;
    if (o) {
        i.xrcd = o->xrcd;
        i.cq = o->cq->cq;
        i.uidx = o->uidx;
    }
    must(sn_srq_create(n->nic, &i, &srq->srq), "sn_srq_create");
}

void app_srq_down(struct app_srq *srq)
{
    must(sn_srq_destroy(srq->srq), "sn_srq_destroy");
    free(srq->buf);
}

int app_srq_recv(struct app_srq *srq, const struct gw_mlx5_sge *sge, uint32_t n)
{
    uint32_t entry = srq->head;

    if (srq->head == srq->tail) return -1;
    must(gw_mlx5_put_srq_recv(&srq->rq, entry, sge, n, srq->max_sge), "gw_mlx5_put_srq_recv");
    srq->head = gw_be32(*link_of(srq, entry)) & 0xffff;
    srq->counter++;
    __atomic_store_n(&srq->dbrec[GW_MLX5_DBREC_SRQ], gw_be32(srq->counter), __ATOMIC_RELEASE);
    return (int)entry;
}

void app_srq_free(struct app_srq *srq, uint32_t entry)
{
    *link_of(srq, srq->tail) = gw_be32(entry);
    srq->tail = entry;
}

/* ---- queue pairs --------------------------------------------------------------------------------------- */

static uint32_t stride_of(uint32_t max_sge)
{
    uint32_t s = 16;

    while (s < 16 * max_sge) s *= 2;
    return s;
}

void app_qp_up(struct app_qp *q, struct world_nic *n, struct sn_pd *pd, struct sn_uar *uar,
               struct app_cq *send_cq, struct app_cq *recv_cq, const struct app_qp_options *o)
{
    struct sn_qp_init i = {.type = o->type ? o->type : IBV_QPT_RC};

    memset(q, 0, sizeof(*q));
    q->type = i.type;
    q->n = n;
    q->pd = pd;
    q->uar = uar;
    q->send_cq = send_cq;
    q->recv_cq = recv_cq;
    q->uidx = o->uidx;
    q->max_sge = o->max_sge ? o->max_sge : 4;
    q->sq.wqebbs = o->sq_wqebbs ? o->sq_wqebbs : 64;
    q->rq.wqes = o->srq || !recv_cq ? 0 : o->rq_wqes ? o->rq_wqes : 16;
    q->rq.stride = stride_of(q->max_sge);
    q->max_sge = q->rq.stride / GW_MLX5_UNIT; /* as libmlx5: each list fills its stride, or is ended */
    q->sq.buf = q->sq_buf = zeroed(64, (size_t)q->sq.wqebbs * 64);
    q->rq.buf = q->rq_buf = zeroed(64, (size_t)q->rq.wqes * q->rq.stride);
    i.pd = pd;
    i.send_cq = send_cq->cq;
    if (recv_cq) i.recv_cq = recv_cq->cq;
    i.sq_buf = q->sq_buf;
    i.sq_wqebbs = q->sq.wqebbs;
    i.rq_buf = q->rq_buf;
    i.rq_wqes = q->rq.wqes;
    i.rq_stride = q->rq.stride;
    if (o->srq) i.srq = o->srq->srq;
    i.dbrec = q->dbrec;
    i.uar = uar;
    i.sq_sig_all = o->sig_all;
    i.uidx = o->uidx;
    i.scatter_recv = o->scatter_recv;
    i.scatter_req = o->scatter_req;
    i.user = o->user ? o->user : q;
    must(sn_qp_create(n->nic, &i, &q->qp), "sn_qp_create");
    q->sq.qpn = sn_qp_number(q->qp);
}

void app_qp_down(struct app_qp *q)
{
    must(sn_qp_destroy(q->qp), "sn_qp_destroy");
    free(q->sq_buf);
    free(q->rq_buf);
}

int app_to_init(struct app_qp *q)
{
    struct ibv_qp_attr a = {.qp_state = IBV_QPS_INIT,
                            .port_num = 1,
                            .qkey = APP_QKEY,
                            .qp_access_flags =
                                IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC};

    return sn_qp_modify(q->qp, &a,
                        IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
                            (q->type == IBV_QPT_UD ? IBV_QP_QKEY : IBV_QP_ACCESS_FLAGS));
}

int app_to_rtr(struct app_qp *q, const struct app_qp *peer, const struct app_connect *c)
{
    struct ibv_qp_attr a = {.qp_state = IBV_QPS_RTR,
                            .path_mtu = (enum ibv_mtu)c->mtu,
                            .dest_qp_num = peer->sq.qpn,
                            .rq_psn = c->psn_there,
                            .max_dest_rd_atomic = c->rd_atomic,
                            .min_rnr_timer = c->min_rnr_timer,
                            .ah_attr = {.is_global = 1, .port_num = 1}};

    memcpy(a.ah_attr.grh.dgid.raw, peer->n->gid, 16);
    if (q->type == IBV_QPT_UD) return sn_qp_modify(q->qp, &a, IBV_QP_STATE);
    return sn_qp_modify(q->qp, &a,
                        IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                            (q->type == IBV_QPT_UC ? 0 : IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER));
}

int app_to_rts(struct app_qp *q, const struct app_connect *c)
{
    struct ibv_qp_attr a = {.qp_state = IBV_QPS_RTS,
                            .sq_psn = c->psn_here,
                            .timeout = c->timeout,
                            .retry_cnt = c->retry_cnt,
                            .rnr_retry = c->rnr_retry,
                            .max_rd_atomic = c->rd_atomic};
    bool unreliable = q->type == IBV_QPT_UC || q->type == IBV_QPT_UD;

    return sn_qp_modify(
        q->qp, &a,
        IBV_QP_STATE | IBV_QP_SQ_PSN |
            (unreliable ? 0
                        : IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC));
}

/* a may be b. */
void app_connect(struct app_qp *a, struct app_qp *b, const struct app_connect *c)
{
    struct app_connect there = *c;

    there.psn_here = c->psn_there;
    there.psn_there = c->psn_here;
    must(app_to_init(a), "INIT");
    must(app_to_rtr(a, b, a == b ? &there : c), "RTR");
    if (a != b) {
        must(app_to_init(b), "INIT");
        must(app_to_rtr(b, a, &there), "RTR");
        must(app_to_rts(b, &there), "RTS");
    }
    must(app_to_rts(a, c), "RTS");
}

enum ibv_qp_state app_state(struct app_qp *q)
{
    struct ibv_qp_attr a;

    must(sn_qp_query(q->qp, &a), "query");
    return a.qp_state;
}

/* ---- posting ------------------------------------------------------------------------------------------- */

uint32_t app_put(struct app_qp *q, const struct gw_mlx5_wr *wr)
{
    uint32_t index = q->sq_pi;
    int n = gw_mlx5_put_wr(&q->sq, index, wr);

    if (n < 0) must(n, "gw_mlx5_put_wr");
    q->sq_pi += (uint32_t)n;
    return index & 0xffff;
}

void app_publish(struct app_qp *q)
{
    __atomic_store_n(&q->dbrec[GW_MLX5_DBREC_SEND], gw_mlx5_dbrec_be(q->sq_pi), __ATOMIC_RELEASE);
}

void app_ring(struct app_qp *q, int style)
{
    uint8_t *page = sn_uar_page(q->uar);
    uint64_t value = gw_mlx5_sq_db_be(q->sq_pi, q->sq.qpn);

    if (style == 0) {
        value = (uint64_t)gw_be32(q->sq.qpn << 8 | 1) << 32 | gw_be32((q->sq_pi & 0xffff) << 8 | 0x0a);
    }
    /* Release: the record is seen before the ring. */
    __atomic_store_n((uint64_t *)(page + gw_mlx5_bf_offset(0, SN_UAR_BF_SIZE, q->half)), value,
                     __ATOMIC_RELEASE);
    q->half ^= 1;
}

uint32_t app_post(struct app_qp *q, const struct gw_mlx5_wr *wr)
{
    uint32_t index = app_put(q, wr);

    app_publish(q);
    app_ring(q, 0);
    return index;
}

uint32_t app_post_ud(struct app_qp *q, const struct gw_mlx5_wr *wr, const uint8_t gid[16], uint32_t qpn,
                     uint32_t qkey)
{
    struct gw_mlx5_av av = {.hop_limit = 64};
    uint32_t index = q->sq_pi;
    int n;

    memcpy(av.rgid, gid, 16);
    n = gw_mlx5_put_ud(&q->sq, index, wr, &av, qpn, qkey);
    if (n < 0) must(n, "gw_mlx5_put_ud");
    q->sq_pi += (uint32_t)n;
    app_publish(q);
    app_ring(q, 0);
    return index & 0xffff;
}

void app_recv(struct app_qp *q, const struct gw_mlx5_sge *sge, uint32_t n)
{
    must(gw_mlx5_put_recv(&q->rq, q->rq_pi, sge, n, q->max_sge), "gw_mlx5_put_recv");
    q->rq_pi++;
    __atomic_store_n(&q->dbrec[GW_MLX5_DBREC_RECV], gw_mlx5_dbrec_be(q->rq_pi), __ATOMIC_RELEASE);
}
