/* SPDX-License-Identifier: Apache-2.0 */
/* Queue pairs as a driver has them: their states, records and doorbells. */
#include <string.h>

#include "tests/sim/rig.h"

bool rig_qp_open(struct rig_qp *qp, struct rig_node *node, struct rig_cq *send_cq, struct rig_cq *recv_cq,
                 const struct rig_qp_params *p, uint8_t *sq, uint8_t *rq)
{
    struct sn_qp_init init = {.type = p->type ? p->type : IBV_QPT_RC,
                              .pd = p->pd ? p->pd : node->pd,
                              .send_cq = send_cq ? send_cq->cq : NULL,
                              .recv_cq = recv_cq ? recv_cq->cq : NULL,
                              .sq_buf = sq,
                              .sq_wqebbs = p->sq_wqebbs,
                              .rq_buf = rq,
                              .rq_wqes = p->srq ? 0 : p->rq_wqes,
                              .srq = p->srq,
                              .rq_stride = p->rq_stride,
                              .dbrec = qp->dbrec,
                              .uar = node->uar[p->uar],
                              .bfreg = p->bfreg,
                              .sq_sig_all = p->sq_sig_all,
                              .uidx = p->uidx,
                              .scatter_recv = p->scatter_recv,
                              .scatter_req = p->scatter_req,
                              .user = qp};
    int error;

    memset(qp, 0, sizeof(*qp));
    if (p->xrcd) init = (struct sn_qp_init){.type = p->type, .xrcd = p->xrcd, .user = qp};
    qp->type = init.type;
    qp->node = node;
    qp->page = sn_uar_page(node->uar[p->uar]);
    qp->uar = p->uar;
    qp->bfreg = p->bfreg;
    qp->uidx = p->uidx;
    qp->send_cq = send_cq;
    qp->recv_cq = recv_cq;
    error = sn_qp_create(node->nic, &init, &qp->qp);
    if (error) {
        rig_fail(node->rig, "a queue pair could not be made: error %d", error);
        return false;
    }
    qp->qpn = sn_qp_number(qp->qp);
    qp->sq = (struct gw_mlx5_sq){sq, p->sq_wqebbs, qp->qpn};
    qp->rq = (struct gw_mlx5_rq){rq, p->rq_wqes, p->rq_stride};
    return true;
}

void rig_qp_close(struct rig_qp *qp)
{
    if (qp->qp && sn_qp_destroy(qp->qp)) rig_fail(qp->node->rig, "qp 0x%x could not be destroyed", qp->qpn);
    qp->qp = NULL;
}

bool rig_qp_state(struct rig_qp *qp, enum ibv_qp_state state)
{
    struct ibv_qp_attr attr = {.qp_state = state};

    if (state == IBV_QPS_RESET) {
        qp->sq_pi = qp->rq_pi = 0;
        qp->dbrec[0] = qp->dbrec[1] = 0;
    }
    return !sn_qp_modify(qp->qp, &attr, IBV_QP_STATE);
}

static int init_mask(const struct rig_qp *qp)
{
    return IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
           (qp->type == IBV_QPT_UD ? IBV_QP_QKEY : IBV_QP_ACCESS_FLAGS);
}

static int rtr_mask(const struct rig_qp *qp)
{
    const int path = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;

    if (qp->type == IBV_QPT_UD) return IBV_QP_STATE;
    return qp->type == IBV_QPT_UC || qp->type == IBV_QPT_XRC_SEND
               ? path
               : path | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
}

static int rts_mask(const struct rig_qp *qp)
{
    const int all = IBV_QP_STATE | IBV_QP_SQ_PSN;

    if (qp->type == IBV_QPT_UC || qp->type == IBV_QPT_UD) return all;
    if (qp->type == IBV_QPT_XRC_RECV) return all | IBV_QP_TIMEOUT;
    return all | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC;
}

bool rig_qp_up(struct rig_qp *qp, uint32_t peer_node, uint32_t peer_qpn, const struct rig_link *link)
{
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT, .port_num = 1, .qkey = RIG_QKEY};

    attr.qp_access_flags = (unsigned)link->access;
    if (sn_qp_modify(qp->qp, &attr, init_mask(qp))) return false;
    attr.qp_state = IBV_QPS_RTR;
    attr.path_mtu = link->mtu;
    attr.dest_qp_num = peer_qpn;
    attr.rq_psn = link->rq_psn;
    attr.max_dest_rd_atomic = link->max_dest_rd_atomic;
    attr.min_rnr_timer = link->min_rnr_timer;
    attr.ah_attr.is_global = 1;
    attr.ah_attr.port_num = 1;
    attr.ah_attr.grh.hop_limit = 64;
    memcpy(attr.ah_attr.grh.dgid.raw, qp->node->rig->net.gid[peer_node], 16);
    if (sn_qp_modify(qp->qp, &attr, rtr_mask(qp))) return false;
    attr.qp_state = IBV_QPS_RTS;
    attr.timeout = link->timeout;
    attr.retry_cnt = link->retry_cnt;
    attr.rnr_retry = link->rnr_retry;
    attr.sq_psn = link->sq_psn;
    attr.max_rd_atomic = link->max_rd_atomic;
    qp->mtu = 128u << link->mtu;
    return !sn_qp_modify(qp->qp, &attr, rts_mask(qp));
}

/* ---- doorbells ----------------------------------------------------------------------------------------- */

void rig_record(struct rig_qp *qp)
{
    __atomic_store_n(&qp->dbrec[GW_MLX5_DBREC_SEND], gw_mlx5_dbrec_be(qp->sq_pi), __ATOMIC_RELEASE);
}

void rig_recv_record(struct rig_qp *qp)
{
    __atomic_store_n(&qp->dbrec[GW_MLX5_DBREC_RECV], gw_mlx5_dbrec_be(qp->rq_pi), __ATOMIC_RELEASE);
}

void rig_ring(struct rig_qp *qp, uint32_t how, uint32_t wqebbs)
{
    uint8_t *reg = qp->page + gw_mlx5_bf_offset(qp->bfreg, SN_UAR_BF_SIZE, qp->bf_half);
    const uint8_t *wqe = gw_mlx5_sq_at(&qp->sq, (uint32_t)qp->last_wqe * GW_MLX5_UNITS_PER_BB);
    uint64_t word;

    qp->bf_half ^= 1;
    memcpy(&word, wqe, 8);
    if (how == 1) word = gw_mlx5_sq_db_be(qp->sq_pi, qp->qpn);
    if (how == 2 && wqebbs == 1) memcpy(reg + 8, wqe + 8, GW_MLX5_WQEBB - 8);
    __atomic_store_n((uint64_t *)reg, word, __ATOMIC_RELEASE);
}

bool rig_rings_taken(const struct rig_qp *qp)
{
    for (uint32_t k = 0; k < SN_UAR_BF_COUNT; k++)
        for (uint32_t half = 0; half < 2; half++)
            if (*(uint64_t *)(qp->page + gw_mlx5_bf_offset(k, SN_UAR_BF_SIZE, half)) != UINT64_MAX)
                return false;
    return true;
}
