/* SPDX-License-Identifier: Apache-2.0 */
/* Queue pairs: created and destroyed; qp_modify.c has the rest. */
#include <errno.h>
#include <string.h>

#include <rdma/ib_user_ioctl_verbs.h>
#include <rdma/ib_user_verbs.h>
#include <rdma/mlx5-abi.h>

#include <gpuwire/detail/assert.h>

#include "softnic/mem/usercopy.h"
#include "softnic/runtime/process.h"
#include "softnic/uverbs/object.h"

#define DBREC_BYTES 8
#define WQEBB       64

static bool size_ok(uint32_t n, uint32_t limit)
{
    return n <= limit && !(n & (n - 1));
}

/* The queues as libmlx5 laid them out: receive queue first, then the send queue. */
static int read_queues(const struct mlx5_ib_create_qp *drv, struct sn_qp_init *init)
{
    if (!size_ok(drv->sq_wqe_count, SN_MAX_SQ_WQEBB) || !size_ok(drv->rq_wqe_count, SN_MAX_RQ_WQE))
        return -EINVAL;
    if (drv->rq_wqe_count && (drv->rq_wqe_shift < 4 || drv->rq_wqe_shift > 30)) return -EINVAL;
    uint32_t stride = drv->rq_wqe_count ? 1u << drv->rq_wqe_shift : 0;
    if (stride > SN_MAX_RQ_STRIDE) return -EINVAL;
    uint64_t rq_bytes = (uint64_t)drv->rq_wqe_count * stride;
    uint64_t sq_bytes = (uint64_t)drv->sq_wqe_count * WQEBB;
    if (drv->buf_addr % WQEBB || rq_bytes % WQEBB || drv->db_addr % DBREC_BYTES) return -EINVAL;
    if (uv_range_ok(drv->buf_addr, rq_bytes + sq_bytes, 1) || uv_range_ok(drv->db_addr, DBREC_BYTES, 1))
        return -EFAULT;
    init->rq_wqes = drv->rq_wqe_count;
    init->rq_stride = stride;
    init->rq_buf = drv->rq_wqe_count ? (void *)(uintptr_t)drv->buf_addr : NULL;
    init->sq_wqebbs = drv->sq_wqe_count;
    init->sq_buf = drv->sq_wqe_count ? (void *)(uintptr_t)(drv->buf_addr + rq_bytes) : NULL;
    init->dbrec = (void *)(uintptr_t)drv->db_addr;
    return 0;
}

static int read_flags(const struct mlx5_ib_create_qp *drv, const struct uv_qp *qp, struct sn_qp_init *init)
{
    const uint32_t known = MLX5_QP_FLAG_SCATTER_CQE | MLX5_QP_FLAG_ALLOW_SCATTER_CQE |
                           MLX5_QP_FLAG_BFREG_INDEX | MLX5_QP_FLAG_UAR_PAGE_INDEX;

    if (drv->flags & ~known) return -EOPNOTSUPP; /* no WQE signatures, no DC, no tunnels */
    if (drv->flags & MLX5_QP_FLAG_SCATTER_CQE) {
        /* Of a 128-byte entry the first half is free for data; of a 64-byte one, 32 bytes. */
        if (qp->recv_cq) init->scatter_recv = qp->recv_cq->cqe_size / 2;
        /* libmlx5 has it for this type alone. */
        if (init->type == IBV_QPT_RC) init->scatter_req = qp->send_cq->cqe_size / 2;
    }
    init->uidx = drv->uidx & 0xffffff;
    return 0;
}

/* Whose doorbell page: that of the thread domain the program chose, one that it asked for as an object, else
 * a register of the static ones. An imported device has only the second. */
static int choose_register(struct uv_file *f, const struct mlx5_ib_create_qp *drv, struct uv_qp *qp,
                           struct sn_qp_init *init)
{
    qp->bfreg = -1;
    if (drv->flags & MLX5_QP_FLAG_BFREG_INDEX) {
        init->uar = uv_uar_dynamic(f, drv->bfreg_index);
        init->bfreg = drv->bfreg_index % UV_BFREGS_PER_PAGE;
        return init->uar ? 0 : -EINVAL;
    }
    if (drv->flags & MLX5_QP_FLAG_UAR_PAGE_INDEX) {
        qp->uar = uv_uar_numbered(f, (uint32_t)drv->bfreg_index);
        if (qp->uar) init->uar = qp->uar->page;
        return init->uar ? 0 : -EINVAL;
    }
    int err = uv_bfreg_take(f, &qp->bfreg);
    if (err) return err;
    init->uar = uv_uar_static(f, qp->bfreg);
    init->bfreg = (uint32_t)qp->bfreg % UV_BFREGS_PER_PAGE;
    return 0;
}

struct qp_request {
    uint64_t user_handle;
    uint32_t pd, send_cq, recv_cq, srq;
    uint8_t type, sig_all, is_srq;
    struct uv_qp_user user;
};

static int read_type(uint8_t asked, enum ibv_qp_type *type)
{
    switch (asked) {
    case IB_UVERBS_QPT_RC: *type = IBV_QPT_RC; return 0;
    case IB_UVERBS_QPT_UC: *type = IBV_QPT_UC; return 0;
    case IB_UVERBS_QPT_UD: *type = IBV_QPT_UD; return 0;
    case IB_UVERBS_QPT_XRC_INI: *type = IBV_QPT_XRC_SEND; return 0;
    case IB_UVERBS_QPT_XRC_TGT: *type = IBV_QPT_XRC_RECV; return 0;
    default: return -EOPNOTSUPP;
    }
}

static int uv_qp_find_parts(struct uv_file *f, const struct qp_request *rq, struct uv_qp *qp)
{
    qp->pd = uv_find(f, UV_PD, rq->pd);
    qp->send_cq = uv_find(f, UV_CQ, rq->send_cq);
    if (!qp->pd || !qp->send_cq) return -EINVAL;
    if (rq->type == IB_UVERBS_QPT_XRC_INI) return rq->is_srq ? -EINVAL : 0;
    qp->recv_cq = uv_find(f, UV_CQ, rq->recv_cq);
    if (rq->is_srq && !(qp->srq = uv_find(f, UV_SRQ, rq->srq))) return -EINVAL;
    return qp->recv_cq ? 0 : -EINVAL;
}

/* What it is made of has one user more, or (uint32_t)-1: one less. */
static void uv_qp_hold_parts(struct uv_qp *qp, uint32_t one)
{
    GW_ASSERT(one == 1 || !qp->pd || (qp->pd->obj.users && qp->send_cq->obj.users));
    if (qp->pd) qp->pd->obj.users += one;
    if (qp->send_cq) qp->send_cq->obj.users += one;
    if (qp->recv_cq) qp->recv_cq->obj.users += one;
    if (qp->srq) qp->srq->obj.users += one;
    if (qp->xrcd) qp->xrcd->obj.users += one;
    if (qp->uar) qp->uar->obj.users += one;
}

/* The receiving side of an XRC connection has nothing but its domain, whose handle stands in the PD's place.
 */
static int describe_target(struct uv_file *f, const struct qp_request *rq, struct uv_qp *qp,
                           struct sn_qp_init *init)
{
    qp->bfreg = -1;
    qp->xrcd = uv_find(f, UV_XRCD, rq->pd);
    if (!qp->xrcd || rq->is_srq) return -EINVAL;
    init->xrcd = uv_xrcd_of(qp->xrcd);
    return 0;
}

static int uv_qp_describe(const struct uv_cmd *c, const struct qp_request *rq, struct uv_qp *qp,
                          struct sn_qp_init *init)
{
    const struct mlx5_ib_create_qp *drv = c->uhw;
    int err = read_type(rq->type, &init->type);

    if (!err && init->type == IBV_QPT_XRC_RECV) return describe_target(c->file, rq, qp, init);
    if (!err) err = uv_qp_find_parts(c->file, rq, qp);
    if (!err) err = read_flags(drv, qp, init);
    if (!err) err = read_queues(drv, init);
    if (!err)
        err = uv_lock_pages(c->file, &qp->obj, drv->buf_addr,
                            (uint64_t)init->rq_wqes * init->rq_stride + (uint64_t)init->sq_wqebbs * WQEBB);
    if (!err) err = choose_register(c->file, drv, qp, init);
    if (err) return err;
    init->pd = qp->pd->pd;
    init->send_cq = qp->send_cq->cq;
    if (qp->recv_cq) init->recv_cq = qp->recv_cq->cq;
    if (qp->srq) init->srq = qp->srq->srq;
    return 0;
}

static int uv_qp_make(const struct uv_cmd *c, const struct qp_request *rq, struct uv_qp *qp)
{
    struct uv_file *f = c->file;
    struct sn_qp_init init = {.sq_sig_all = rq->sig_all, .user = qp};

    if (c->uhw_len < offsetof(struct mlx5_ib_create_qp, sq_buf_addr)) return -EINVAL;
    int err = uv_qp_describe(c, rq, qp, &init);
    if (err) return err;
    qp->user_handle = rq->user_handle;
    qp->user = rq->user;
    qp->user.sig_all = rq->sig_all;
    if (init.rq_wqes) qp->user.max_recv_wr = init.rq_wqes; /* as many as can be posted */
    qp->async = uv_events(c);
    err = sn_qp_create(f->nic, &init, &qp->qp);
    if (err) {
        uv_bfreg_give(f, qp->bfreg);
        uv_stream_put(qp->async);
        return err;
    }
    uv_qp_hold_parts(qp, 1);
    return 0;
}

static void uv_qp_release(struct uv_file *f, struct uv_qp *qp)
{
    uv_bfreg_give(f, qp->bfreg);
    uv_qp_hold_parts(qp, (uint32_t)-1);
    uv_stream_put(qp->async);
}

void uv_qp_end(struct uv_file *f, struct uv_qp *qp)
{
    sn_qp_destroy(qp->qp);
    uv_qp_release(f, qp);
}

static int uv_qp_create(const struct uv_cmd *c, const struct qp_request *rq, bool extended)
{
    const struct uv_qp_user *u = &rq->user;
    if (u->max_send_wr > SN_MAX_SQ_WQEBB || u->max_recv_wr > SN_MAX_RQ_WQE) return -EINVAL;
    struct uv_qp *qp = uv_new(c->file, UV_QP, sizeof(*qp));
    if (!qp) return -ENOMEM;
    int err = uv_qp_make(c, rq, qp);
    if (err) {
        uv_free(c->file, &qp->obj);
        return err;
    }
    struct ib_uverbs_ex_create_qp_resp r = {.base = {.qp_handle = qp->obj.handle,
                                                     .qpn = sn_qp_number(qp->qp),
                                                     .max_send_wr = u->max_send_wr,
                                                     .max_recv_wr = u->max_recv_wr,
                                                     .max_send_sge = u->max_send_sge,
                                                     .max_recv_sge = u->max_recv_sge,
                                                     .max_inline_data = u->max_inline}};
    r.response_length = (uint32_t)(c->out_len < sizeof(r) ? c->out_len : sizeof(r));
    struct mlx5_ib_create_qp_resp drv = {.bfreg_index = qp->bfreg < 0 ? 0 : uv_bfreg_reply(qp->bfreg)};
    err = uv_reply(c, &r, extended ? sizeof(r) : sizeof(r.base), &drv, sizeof(drv));
    if (err)
        uv_destroy(c->file, &qp->obj);
    else
        uv_wrap_qp(rq->user_handle);
    return err;
}

/* Of either of the ABI's two structs, which name the same things alike. */
#define REQUEST(q)                                                                                           \
    {                                                                                                        \
        (q)->user_handle, (q)->pd_handle, (q)->send_cq_handle, (q)->recv_cq_handle, (q)->srq_handle,         \
            (q)->qp_type, (q)->sq_sig_all, (q)->is_srq,                                                      \
        {                                                                                                    \
            (q)->max_send_wr, (q)->max_recv_wr, (q)->max_send_sge, (q)->max_recv_sge, (q)->max_inline_data,  \
                false                                                                                        \
        }                                                                                                    \
    }

int uv_create_qp(const struct uv_cmd *c)
{
    const struct ib_uverbs_create_qp *q = c->in;
    struct qp_request rq = REQUEST(q);
    return uv_qp_create(c, &rq, false);
}

int uv_create_qp_ex(const struct uv_cmd *c)
{
    const struct ib_uverbs_ex_create_qp *q = c->in;
    struct qp_request rq = REQUEST(q);
    /* There is no multicast, so none comes back to its sender. */
    uint32_t free = q->qp_type == IB_UVERBS_QPT_UD ? IB_UVERBS_QP_CREATE_BLOCK_MULTICAST_LOOPBACK : 0;

    if (q->comp_mask || q->create_flags & ~free || q->source_qpn) return -EOPNOTSUPP;
    return uv_qp_create(c, &rq, true);
}

int uv_destroy_qp(const struct uv_cmd *c)
{
    const struct ib_uverbs_destroy_qp *req = c->in;
    struct uv_qp *qp = uv_find(c->file, UV_QP, req->qp_handle);

    if (!qp) return -EINVAL;
    sn_qp_destroy(qp->qp); /* first, so that no more events come: see uv_destroy_cq */
    struct ib_uverbs_destroy_qp_resp r = {.events_reported =
                                              qp->async_sent - uv_stream_drain(qp->async, qp->user_handle)};
    uv_qp_release(c->file, qp);
    uv_free(c->file, &qp->obj);
    return uv_reply(c, &r, sizeof(r), NULL, 0);
}
