/* SPDX-License-Identifier: Apache-2.0 */
/* Shared receive queues, XRC's among them. */
#include <errno.h>

#include <rdma/ib_user_ioctl_verbs.h>
#include <rdma/ib_user_verbs.h>
#include <rdma/mlx5-abi.h>

#include <gpuwire/detail/assert.h>

#include "softnic/mem/usercopy.h"
#include "softnic/uverbs/object.h"

#define DBREC_BYTES 8
#define SEGMENT     16
#define LEAST_WQE   32

/* ---- creation ---- */

struct srq_request {
    uint64_t user_handle;
    uint32_t pd, max_wr, max_sge;
    bool xrc;
    uint32_t xrcd, cq;
};

static uint32_t round_up(uint32_t n)
{
    uint32_t p = 1;
    while (p < n) p *= 2;
    return p;
}

/* The queue's size follows from what was asked for, as libmlx5 and the kernel both compute it. A WQE has a
 * link and max_sge segments, and there is one WQE more than can be posted. */
static int uv_srq_read_layout(const struct srq_request *rq, const struct mlx5_ib_create_srq *drv,
                              struct sn_srq_init *init)
{
    if (drv->flags || drv->reserved0 || drv->reserved1) return -EOPNOTSUPP; /* no WQE signatures */
    if (rq->max_wr >= SN_MAX_RQ_WQE) return -EINVAL;
    if (rq->max_sge > SN_MAX_RQ_STRIDE / SEGMENT - 1) return -EINVAL;
    init->wqes = round_up(rq->max_wr + 1);
    init->stride = round_up((rq->max_sge + 1) * SEGMENT);
    if (init->stride < LEAST_WQE) init->stride = LEAST_WQE;
    if (drv->buf_addr % SEGMENT || drv->db_addr % DBREC_BYTES) return -EINVAL;
    if (uv_range_ok(drv->buf_addr, (uint64_t)init->wqes * init->stride, 1) ||
        uv_range_ok(drv->db_addr, DBREC_BYTES, 1))
        return -EFAULT;
    init->buf = (void *)(uintptr_t)drv->buf_addr;
    init->dbrec = (void *)(uintptr_t)drv->db_addr;
    return 0;
}

static int uv_srq_find_parts(struct uv_file *f, const struct srq_request *rq, struct uv_srq *srq)
{
    srq->pd = uv_find(f, UV_PD, rq->pd);
    if (!srq->pd) return -EINVAL;
    if (!rq->xrc) return 0;
    srq->xrcd = uv_find(f, UV_XRCD, rq->xrcd);
    srq->cq = uv_find(f, UV_CQ, rq->cq);
    return srq->xrcd && srq->cq ? 0 : -EINVAL;
}

static void uv_srq_hold_parts(struct uv_srq *srq, uint32_t one)
{
    GW_ASSERT(one == 1 || (srq->pd->obj.users && (!srq->cq || srq->cq->obj.users)));
    srq->pd->obj.users += one;
    if (srq->xrcd) srq->xrcd->obj.users += one;
    if (srq->cq) srq->cq->obj.users += one;
}

static int make_srq(const struct uv_cmd *c, const struct srq_request *rq, struct uv_srq *srq)
{
    struct uv_file *f = c->file;
    struct sn_srq_init init = {.user = srq};
    const struct mlx5_ib_create_srq *drv = c->uhw;

    if (c->uhw_len < offsetof(struct mlx5_ib_create_srq, uidx)) return -EINVAL;
    int err = uv_srq_find_parts(f, rq, srq);
    if (!err) err = uv_srq_read_layout(rq, drv, &init);
    if (!err) err = uv_lock_pages(f, &srq->obj, drv->buf_addr, (uint64_t)init.wqes * init.stride);
    if (err) return err;
    init.pd = srq->pd->pd;
    if (rq->xrc) {
        init.xrcd = uv_xrcd_of(srq->xrcd);
        init.cq = srq->cq->cq;
        init.uidx = drv->uidx & 0xffffff;
    }
    srq->user_handle = rq->user_handle;
    srq->async = uv_events(c);
    err = sn_srq_create(f->nic, &init, &srq->srq);
    if (err) {
        uv_stream_put(srq->async);
        return err;
    }
    srq->max_wr = init.wqes - 1;
    srq->max_sge = init.stride / SEGMENT - 1;
    uv_srq_hold_parts(srq, 1);
    return 0;
}

static int uv_srq_create(const struct uv_cmd *c, const struct srq_request *rq)
{
    struct uv_srq *srq = uv_new(c->file, UV_SRQ, sizeof(*srq));

    if (!srq) return -ENOMEM;
    int err = make_srq(c, rq, srq);
    if (err) {
        uv_free(c->file, &srq->obj);
        return err;
    }
    uint32_t srqn = sn_srq_number(srq->srq);
    struct ib_uverbs_create_srq_resp r = {
        .srq_handle = srq->obj.handle, .max_wr = srq->max_wr, .max_sge = srq->max_sge, .srqn = srqn};
    struct mlx5_ib_create_srq_resp drv = {.srqn = srqn};
    err = uv_reply(c, &r, sizeof(r), &drv, sizeof(drv));
    if (err) uv_destroy(c->file, &srq->obj);
    return err;
}

int uv_create_srq(const struct uv_cmd *c)
{
    const struct ib_uverbs_create_srq *q = c->in;
    struct srq_request rq = {q->user_handle, q->pd_handle, q->max_wr, q->max_sge, false, 0, 0};
    return uv_srq_create(c, &rq);
}

int uv_create_xsrq(const struct uv_cmd *c)
{
    const struct ib_uverbs_create_xsrq *q = c->in;
    struct srq_request rq = {q->user_handle, q->pd_handle, q->max_wr, q->max_sge, q->srq_type == IBV_SRQT_XRC,
                             q->xrcd_handle, q->cq_handle};

    if (q->srq_type != IBV_SRQT_XRC && q->srq_type != IBV_SRQT_BASIC)
        return -EOPNOTSUPP; /* no tag matching */
    return uv_srq_create(c, &rq);
}

/* ---- limit ---- */

/* A queue cannot grow or shrink: as with ConnectX. */
int uv_modify_srq(const struct uv_cmd *c)
{
    const struct ib_uverbs_modify_srq *req = c->in;
    struct uv_srq *srq = uv_find(c->file, UV_SRQ, req->srq_handle);

    if (!srq || req->attr_mask & ~(uint32_t)IBV_SRQ_LIMIT) return -EINVAL;
    return req->attr_mask ? sn_srq_set_limit(srq->srq, req->srq_limit) : 0;
}

int uv_query_srq(const struct uv_cmd *c)
{
    const struct ib_uverbs_query_srq *req = c->in;
    struct uv_srq *srq = uv_find(c->file, UV_SRQ, req->srq_handle);

    if (!srq || req->reserved) return -EINVAL;
    struct ib_uverbs_query_srq_resp r = {
        .max_wr = srq->max_wr, .max_sge = srq->max_sge, .srq_limit = sn_srq_limit(srq->srq)};
    return uv_reply(c, &r, sizeof(r), NULL, 0);
}

/* ---- destruction ---- */

static void uv_srq_release(struct uv_srq *srq)
{
    uv_srq_hold_parts(srq, (uint32_t)-1);
    uv_stream_put(srq->async);
}

void uv_srq_end(struct uv_file *f, struct uv_srq *srq)
{
    (void)f;
    sn_srq_destroy(srq->srq);
    uv_srq_release(srq);
}

int uv_destroy_srq(const struct uv_cmd *c)
{
    const struct ib_uverbs_destroy_srq *req = c->in;
    struct uv_srq *srq = uv_find(c->file, UV_SRQ, req->srq_handle);

    if (!srq) return -EINVAL;
    if (srq->obj.users) return -EBUSY;
    sn_srq_destroy(srq->srq); /* first, so that no more events come: see uv_destroy_cq */
    struct ib_uverbs_destroy_srq_resp r = {.events_reported = srq->async_sent -
                                                              uv_stream_drain(srq->async, srq->user_handle)};
    uv_srq_release(srq);
    uv_free(c->file, &srq->obj);
    return uv_reply(c, &r, sizeof(r), NULL, 0);
}
