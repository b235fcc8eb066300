/* SPDX-License-Identifier: Apache-2.0 */
/* How kernels get datagrams that came by UDP. The host sends them on by a queue pair of its own, with the
 * head that their sender would have written. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "src/socket/datagram.h"

static int datagram_post_ready(struct ibv_qp *qp, const struct gw_device_info *info)
{
    struct ibv_qp_attr a = {
        .qp_state = IBV_QPS_INIT, .port_num = (uint8_t)info->port, .qkey = GW_DATAGRAM_QKEY};
    int err = ibv_modify_qp(qp, &a, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY);

    a.qp_state = IBV_QPS_RTR;
    if (!err) err = ibv_modify_qp(qp, &a, IBV_QP_STATE);
    a.qp_state = IBV_QPS_RTS;
    return err ? err : ibv_modify_qp(qp, &a, IBV_QP_STATE | IBV_QP_SQ_PSN);
}

int gw_datagram_post_create(struct gw_sockets *set)
{
    const struct gw_device_info *info = &set->datagrams->info;
    struct ibv_context *ctx = gw_device_context(set->dev);
    struct ibv_qp_init_attr qa = {
        .qp_type = IBV_QPT_UD, .cap = {DATAGRAM_POSTS, 0, 1, 0, 0}, .sq_sig_all = 1};
    struct ibv_ah_attr self = {.is_global = 1, .port_num = (uint8_t)info->port};
    struct datagram_post *p = &set->datagrams->post;

    memcpy(self.grh.dgid.raw, info->gid, 16);
    self.grh.sgid_index = (uint8_t)info->gid_index;
    self.grh.hop_limit = 1;
    p->bytes = aligned_alloc(4096, DATAGRAM_POSTS * GW_DATAGRAM_MESSAGE);
    p->pd = ibv_alloc_pd(ctx);
    if (p->bytes && p->pd) p->mr = ibv_reg_mr(p->pd, p->bytes, DATAGRAM_POSTS * GW_DATAGRAM_MESSAGE, 0);
    if (p->mr) p->cq = ibv_create_cq(ctx, DATAGRAM_POSTS, NULL, NULL, 0);
    qa.send_cq = qa.recv_cq = p->cq;
    if (p->cq) p->qp = ibv_create_qp(p->pd, &qa);
    if (p->qp) p->self = ibv_create_ah(p->pd, &self);
    if (!p->self || datagram_post_ready(p->qp, info))
        return gw_error_errno(-(errno ? errno : ENOMEM), "%s: a queue pair for datagrams", info->name);
    return 0;
}

void gw_datagram_post_destroy(struct gw_sockets *set)
{
    struct datagram_post *p = &set->datagrams->post;

    if (p->self) ibv_destroy_ah(p->self);
    if (p->qp) ibv_destroy_qp(p->qp);
    if (p->cq) ibv_destroy_cq(p->cq);
    if (p->mr) ibv_dereg_mr(p->mr);
    if (p->pd) ibv_dealloc_pd(p->pd);
    free(p->bytes);
}

bool gw_datagram_deliver(struct gw_sockets *set, const struct datagram_end *end,
                         const struct gw_datagram_addr *from, const uint8_t *payload, uint32_t n)
{
    struct datagram_post *p = &set->datagrams->post;
    struct ibv_wc wc;
    uint8_t *at;
    struct ibv_sge sge;
    struct ibv_send_wr *bad, wr = {.sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND};

    while (ibv_poll_cq(p->cq, 1, &wc) == 1) {
        p->done++;
        p->failed = p->failed || wc.status;
    }
    if (p->failed || p->put - p->done >= DATAGRAM_POSTS) return false;
    at = p->bytes + p->put % DATAGRAM_POSTS * GW_DATAGRAM_MESSAGE;
    sge.addr = (uint64_t)(uintptr_t)at;
    sge.length = gw_datagram_head_put(from, at);
    memcpy(at + sge.length, payload, n);
    sge.length += n;
    sge.lkey = p->mr->lkey;
    wr.wr.ud.ah = p->self;
    wr.wr.ud.remote_qpn = gw_qp_num(end->qp);
    wr.wr.ud.remote_qkey = GW_DATAGRAM_QKEY;
    if (ibv_post_send(p->qp, &wr, &bad)) return false;
    p->put++;
    return true;
}
