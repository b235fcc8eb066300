/* SPDX-License-Identifier: Apache-2.0 */
/* Queue pairs: modified and queried. */
#include <errno.h>
#include <string.h>

#include <rdma/ib_user_verbs.h>

#include "softnic/runtime/process.h"
#include "softnic/uverbs/object.h"

static void read_path(const struct ib_uverbs_qp_dest *d, struct ibv_ah_attr *a)
{
    memcpy(a->grh.dgid.raw, d->dgid, 16);
    a->grh.flow_label = d->flow_label;
    a->grh.sgid_index = d->sgid_index;
    a->grh.hop_limit = d->hop_limit;
    a->grh.traffic_class = d->traffic_class;
    a->dlid = d->dlid;
    a->sl = d->sl;
    a->src_path_bits = d->src_path_bits;
    a->static_rate = d->static_rate;
    a->is_global = d->is_global;
    a->port_num = d->port_num;
}

/* Programs give both sides of an XRC connection the attributes of both; the kernel passes over the
 * other's. */
static uint32_t own_attributes(const struct uv_qp *qp, uint32_t mask)
{
    if (qp->xrcd) return mask & ~(uint32_t)(IBV_QP_MAX_QP_RD_ATOMIC | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY);
    if (!qp->recv_cq) return mask & ~(uint32_t)(IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
    return mask;
}

static int modify(const struct uv_cmd *c, const struct ib_uverbs_modify_qp *q)
{
    struct uv_qp *qp = uv_find(c->file, UV_QP, q->qp_handle);
    struct ibv_qp_attr a = {
        .qp_state = q->qp_state,
        .cur_qp_state = q->cur_qp_state,
        .path_mtu = q->path_mtu,
        .path_mig_state = q->path_mig_state,
        .qkey = q->qkey,
        .rq_psn = q->rq_psn,
        .sq_psn = q->sq_psn,
        .dest_qp_num = q->dest_qp_num,
        .qp_access_flags = q->qp_access_flags,
        .pkey_index = q->pkey_index,
        .alt_pkey_index = q->alt_pkey_index,
        .en_sqd_async_notify = q->en_sqd_async_notify,
        .max_rd_atomic = q->max_rd_atomic,
        .max_dest_rd_atomic = q->max_dest_rd_atomic,
        .min_rnr_timer = q->min_rnr_timer,
        .port_num = q->port_num,
        .timeout = q->timeout,
        .retry_cnt = q->retry_cnt,
        .rnr_retry = q->rnr_retry,
        .alt_port_num = q->alt_port_num,
        .alt_timeout = q->alt_timeout,
    };

    if (!qp || q->attr_mask > INT32_MAX) return -EINVAL;
    read_path(&q->dest, &a.ah_attr);
    read_path(&q->alt_dest, &a.alt_ah_attr);
    int err = sn_qp_modify(qp->qp, &a, (int)own_attributes(qp, q->attr_mask));
    /* It can be rung from now on, and the NIC's thread may be asleep. */
    if (!err) sn_process_nic_kick(c->file->nic);
    return err;
}

int uv_modify_qp(const struct uv_cmd *c)
{
    return modify(c, c->in);
}

int uv_modify_qp_ex(const struct uv_cmd *c)
{
    const struct ib_uverbs_modify_qp *req = c->in;
    struct ib_uverbs_ex_modify_qp_resp r = {0};

    int err = modify(c, req);
    if (err || !c->out_len) return err;
    r.response_length = (uint32_t)(c->out_len < sizeof(r) ? c->out_len : sizeof(r));
    return uv_reply(c, &r, sizeof(r), NULL, 0);
}

static void fill_path(const struct ibv_ah_attr *a, struct ib_uverbs_qp_dest *d)
{
    memcpy(d->dgid, a->grh.dgid.raw, 16);
    d->flow_label = a->grh.flow_label;
    d->sgid_index = a->grh.sgid_index;
    d->hop_limit = a->grh.hop_limit;
    d->traffic_class = a->grh.traffic_class;
    d->dlid = a->dlid;
    d->sl = a->sl;
    d->src_path_bits = a->src_path_bits;
    d->static_rate = a->static_rate;
    d->is_global = a->is_global;
    d->port_num = a->port_num;
}

static void fill_attr(const struct ibv_qp_attr *a, struct ib_uverbs_query_qp_resp *r)
{
    fill_path(&a->ah_attr, &r->dest);
    fill_path(&a->alt_ah_attr, &r->alt_dest);
    r->qkey = a->qkey;
    r->rq_psn = a->rq_psn;
    r->sq_psn = a->sq_psn;
    r->dest_qp_num = a->dest_qp_num;
    r->qp_access_flags = a->qp_access_flags;
    r->pkey_index = a->pkey_index;
    r->qp_state = a->qp_state;
    r->cur_qp_state = a->cur_qp_state;
    r->path_mtu = a->path_mtu;
    r->path_mig_state = a->path_mig_state;
    r->sq_draining = a->sq_draining;
    r->max_rd_atomic = a->max_rd_atomic;
    r->max_dest_rd_atomic = a->max_dest_rd_atomic;
    r->min_rnr_timer = a->min_rnr_timer;
    r->port_num = a->port_num;
    r->timeout = a->timeout;
    r->retry_cnt = a->retry_cnt;
    r->rnr_retry = a->rnr_retry;
}

int uv_query_qp(const struct uv_cmd *c)
{
    const struct ib_uverbs_query_qp *req = c->in;
    struct uv_qp *qp = uv_find(c->file, UV_QP, req->qp_handle);
    struct ib_uverbs_query_qp_resp r = {0};
    struct ibv_qp_attr a = {0};

    if (!qp) return -EINVAL;
    int err = sn_qp_query(qp->qp, &a);
    if (err) return err;
    fill_attr(&a, &r);
    r.max_send_wr = qp->user.max_send_wr;
    r.max_recv_wr = qp->user.max_recv_wr;
    r.max_send_sge = qp->user.max_send_sge;
    r.max_recv_sge = qp->user.max_recv_sge;
    r.max_inline_data = qp->user.max_inline;
    r.sq_sig_all = qp->user.sig_all;
    return uv_reply(c, &r, sizeof(r), NULL, 0);
}
