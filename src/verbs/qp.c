/* SPDX-License-Identifier: Apache-2.0 */
/* Queue pairs: making and destroying them. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "src/verbs/impl.h"

#define MAX_WQEBBS 32768 /* verbs_impl.h tells places in the queue apart by 16 bits */

static int check(const struct gw_qp_attr *a)
{
    if (!a->send_cq || !a->recv_cq) return gw_error(-EINVAL, "queue pair: it needs two completion queues");
    if (a->send_cq->dev != a->recv_cq->dev)
        return gw_error(-EINVAL, "queue pair: its completion queues are of two devices");
    if (a->flags & ~(GW_QP_ONE_POSTER | GW_QP_SIGNAL_ALL))
        return gw_error(-EINVAL, "queue pair: flags %x", a->flags);
    if (a->post_mode > GW_POST_PROXY_DOORBELL)
        return gw_error(-EOPNOTSUPP,
                        "queue pair: posting mode %u is not offered; use auto, direct or proxy-doorbell",
                        a->post_mode);
    if (!a->max_send_wr || a->max_send_wr > MAX_WQEBBS || a->max_recv_wr > MAX_WQEBBS)
        return gw_error(-EINVAL,
                        "queue pair: %u send and %u receive requests; at most %u, and one send at least",
                        a->max_send_wr, a->max_recv_wr, MAX_WQEBBS);
    return 0;
}

static bool has_atomics(const struct gw_device *dev)
{
    return dev->attr.atomic_cap != IBV_ATOMIC_NONE;
}

static int make_qp(struct gw_qp *qp, const struct gw_qp_attr *a, struct ibv_qp_init_attr_ex *attr)
{
    struct mlx5dv_qp_init_attr dv = {
        .comp_mask = MLX5DV_QP_INIT_ATTR_MASK_QP_CREATE_FLAGS,
        .create_flags = MLX5DV_QP_CREATE_DISABLE_SCATTER_TO_CQE, /* pollers look for data in memory alone */
    };
    struct mlx5dv_obj obj = {0};
    int err;

    *attr = (struct ibv_qp_init_attr_ex){
        .qp_type = IBV_QPT_RC,
        .send_cq = ibv_cq_ex_to_cq(a->send_cq->cq),
        .recv_cq = ibv_cq_ex_to_cq(a->recv_cq->cq),
        .cap = {.max_send_wr = a->max_send_wr,
                .max_recv_wr = a->max_recv_wr,
                .max_send_sge = a->max_send_sge ? a->max_send_sge : 1,
                .max_recv_sge = a->max_recv_sge ? a->max_recv_sge : 1,
                .max_inline_data = a->max_inline},
        .sq_sig_all = (a->flags & GW_QP_SIGNAL_ALL) != 0,
        /* Naming the operations leaves out those with long WQEs, so that one WQEBB holds a simple request. */
        .comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
        .send_ops_flags = IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM | IBV_QP_EX_WITH_RDMA_WRITE |
                          IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM | IBV_QP_EX_WITH_RDMA_READ,
        .pd = qp->pd->parent,
    };
    if (has_atomics(qp->dev))
        attr->send_ops_flags |= IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP | IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD;
    qp->qp = mlx5dv_create_qp(qp->dev->ctx, attr, &dv);
    if (!qp->qp)
        return gw_error_errno(-(errno ? errno : EINVAL),
                              "%s: cannot make a queue pair of %u sends and %u receives", qp->dev->info.name,
                              a->max_send_wr, a->max_recv_wr);
    obj.qp.in = qp->qp;
    obj.qp.out = &qp->dv;
    err = mlx5dv_init_obj(&obj, MLX5DV_OBJ_QP);
    if (err) return gw_error_errno(-err, "%s: queue pair", qp->dev->info.name);
    if (qp->dv.sq.wqe_cnt > MAX_WQEBBS || qp->dv.sq.stride != GW_MLX5_WQEBB)
        return gw_error(-EINVAL,
                        "%s: a send queue of %u WQEBBs is too long; ask for fewer requests or entries",
                        qp->dev->info.name, qp->dv.sq.wqe_cnt);
    return 0;
}

/* Where kernels ring: the NIC's own register, or a mailbox whose contents the proxy thread carries there. */
static int make_doorbell(struct gw_qp *qp, uint32_t mode)
{
    const char *why = "";
    void *dev_mailbox = NULL;
    int err;

    if (mode != GW_POST_PROXY_DOORBELL) {
        qp->fresh.db = gw_uar_map(qp->dev, qp->dv.bf.reg, &why);
        if (qp->fresh.db) return 0;
        if (mode == GW_POST_DIRECT)
            return gw_error(-EOPNOTSUPP, "%s: kernels cannot ring it: %s", qp->dev->info.name, why);
    }
    err = gw_proxy_add(qp->dev, qp->dv.bf.reg, &qp->mailbox, &dev_mailbox);
    qp->fresh.db = dev_mailbox;
    return err;
}

static int make_handle(struct gw_qp *qp, const struct gw_qp_attr *a, const struct ibv_qp_cap *cap)
{
    struct gw_device *dev = qp->dev;
    struct gw_qp_handle *h = &qp->fresh;
    struct gw_piece handle;
    int err = gw_arena_alloc(&dev->handles, sizeof(*h), GW_HANDLE_BYTES, &handle);

    if (err) return err;
    qp->handle = handle.dev;
    err = gw_arena_alloc(&dev->handles, qp->dv.sq.wqe_cnt * sizeof(*h->slot), 64, &qp->slots);
    if (!err && qp->dv.rq.wqe_cnt)
        err = gw_arena_alloc(&dev->handles, qp->dv.rq.wqe_cnt * sizeof(*h->rq_wr_id), 64, &qp->rq_wr_ids);
    if (err) return gw_error_errno(err, "queue pair");
    h->size = sizeof(*h);
    h->version = GW_VERBS_VERSION;
    h->flags = a->flags | (has_atomics(dev) ? 0 : GW_NO_ATOMICS_);
    h->max_inline = cap->max_inline_data;
    h->sq.buf = gw_arena_dev(&dev->queues, qp->dv.sq.buf);
    h->sq.wqebbs = qp->dv.sq.wqe_cnt;
    h->sq.qpn = qp->qp->qp_num;
    h->rq.buf = qp->dv.rq.wqe_cnt ? gw_arena_dev(&dev->queues, qp->dv.rq.buf) : NULL;
    h->rq.wqes = qp->dv.rq.wqe_cnt;
    h->rq.stride = qp->dv.rq.stride;
    h->dbrec = gw_arena_dev(&dev->queues, qp->dv.dbrec);
    h->slot = qp->slots.dev;
    h->rq_wr_id = qp->rq_wr_ids.dev;
    h->host = gw_exec_kind(dev->exec) == GW_EXEC_CPU ? a->send_cq : NULL;
    h->max_send_sge = cap->max_send_sge;
    h->max_recv_sge = cap->max_recv_sge;
    h->rq_wqes = qp->dv.rq.wqe_cnt;
    h->interval = h->sq.wqebbs > 2 ? h->sq.wqebbs / 2 : 1;
    h->send_cq = gw_cq_handle(a->send_cq);
    h->state = GW_QP_NOT_CONNECTED;
    if (!h->sq.buf || !h->dbrec)
        return gw_error(-EOPNOTSUPP,
                        "%s: this libmlx5 does not take its memory from us; it must be 44 or newer",
                        dev->info.name);
    return make_doorbell(qp, a->post_mode);
}

static int attach(struct gw_qp *qp)
{
    uint32_t sends = qp->dv.sq.wqe_cnt, recvs = qp->dv.rq.wqe_cnt, qpn = qp->qp->qp_num;
    bool one = qp->send_cq == qp->recv_cq;
    int err = gw_cq_attach(qp->send_cq, qpn, qp->handle, one ? sends + recvs : sends);

    if (err || one) return err;
    err = gw_cq_attach(qp->recv_cq, qpn, qp->handle, recvs);
    if (err) gw_cq_detach(qp->send_cq, qpn, sends);
    return err;
}

/* Frees what there is of it. Under dev->lock. */
static void destroy(struct gw_qp *qp)
{
    if (qp->mailbox) gw_proxy_remove(qp->dev, qp->mailbox);
    if (qp->qp) ibv_destroy_qp(qp->qp);
    gw_arena_free(&qp->dev->handles, qp->slots.dev);
    gw_arena_free(&qp->dev->handles, qp->rq_wr_ids.dev);
    gw_arena_free(&qp->dev->handles, qp->handle);
    free(qp);
}

int gw_qp_create(struct gw_pd *pd, const struct gw_qp_attr *a, struct gw_qp **out)
{
    struct ibv_qp_init_attr_ex attr;
    struct gw_qp *qp;
    int err = check(a);

    *out = NULL;
    if (err) return err;
    if (a->send_cq->dev != pd->dev)
        return gw_error(-EINVAL, "queue pair: completion queue and PD are of two devices");
    qp = gw_new(sizeof(*qp));
    if (!qp) return gw_error_errno(-ENOMEM, "queue pair");
    qp->dev = pd->dev;
    qp->pd = pd;
    qp->send_cq = a->send_cq;
    qp->recv_cq = a->recv_cq;
    if (getrandom(&qp->psn, sizeof(qp->psn), 0) != sizeof(qp->psn)) qp->psn = (uint32_t)gw_clock_ns();
    qp->psn &= 0xffffff;
    pthread_mutex_lock(&pd->dev->lock);
    err = make_qp(qp, a, &attr);
    if (!err) err = make_handle(qp, a, &attr.cap);
    if (!err) err = gw_copy_in(pd->dev->exec, qp->handle, &qp->fresh, sizeof(qp->fresh));
    if (!err) err = attach(qp);
    if (err) {
        destroy(qp);
    } else {
        pd->objects++;
        pd->dev->objects++;
        *out = qp;
    }
    pthread_mutex_unlock(&pd->dev->lock);
    return err;
}

int gw_qp_destroy(struct gw_qp *qp)
{
    struct gw_device *dev;
    uint32_t qpn;

    if (!qp) return 0;
    dev = qp->dev;
    qpn = qp->qp->qp_num;
    pthread_mutex_lock(&dev->lock);
    ibv_destroy_qp(qp->qp); /* the NIC writes no completion of it from here on */
    qp->qp = NULL;
    (void)gw_cq_clean(qp->send_cq, qpn, true, 0);
    if (qp->recv_cq != qp->send_cq) (void)gw_cq_clean(qp->recv_cq, qpn, true, 0);
    gw_cq_detach(qp->send_cq, qpn,
                 qp->fresh.sq.wqebbs + (qp->recv_cq == qp->send_cq ? qp->fresh.rq_wqes : 0));
    if (qp->recv_cq != qp->send_cq) gw_cq_detach(qp->recv_cq, qpn, qp->fresh.rq_wqes);
    qp->pd->objects--;
    dev->objects--;
    destroy(qp);
    pthread_mutex_unlock(&dev->lock);
    return 0;
}

struct gw_qp_handle *gw_qp_handle(const struct gw_qp *qp)
{
    return qp->handle;
}

uint32_t gw_qp_num(const struct gw_qp *qp)
{
    return qp->fresh.sq.qpn;
}
