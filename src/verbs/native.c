/* SPDX-License-Identifier: Apache-2.0 */
/* A ConnectX' own queues, through libmlx5: it allocates them from our arena and then shows where they are. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <gpuwire/detail/held.h>

#include "src/verbs/impl.h"

struct native_cq {
    struct ibv_comp_channel *channel;
    void *uar;
    pthread_mutex_t lock; /* arming */
    uint32_t arm_sn;      /* events taken since the CQ was made */
    bool armed;
};

struct native_qp {
    uint64_t *mailbox; /* doorbell proxy: its word */
};

/* ---- memory for libmlx5 -------------------------------------------------------------------------------- */

/*
 */

static void *native_take(struct ibv_pd *pd, void *context, size_t size, size_t align, uint64_t type)
{
    struct gw_device *dev = context;
    struct gw_piece p;

    (void)pd, (void)type;
    return gw_arena_alloc(&dev->queues, size, align, &p) ? NULL : p.host;
}

static void native_give(struct ibv_pd *pd, void *context, void *at, uint64_t type)
{
    struct gw_device *dev = context;

    (void)pd, (void)type;
    gw_arena_free(&dev->queues, at);
}

int gw_parent_domain(struct gw_device *dev, struct ibv_pd *pd, struct ibv_pd **parent)
{
    struct ibv_parent_domain_init_attr attr = {
        .pd = pd,
        .td = dev->td,
        .comp_mask = IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS | IBV_PARENT_DOMAIN_INIT_ATTR_PD_CONTEXT,
        .alloc = native_take,
        .free = native_give,
        .pd_context = dev,
    };

    *parent = NULL;
    if (!dev->mlx5) return 0;
    *parent = ibv_alloc_parent_domain(dev->ctx, &attr);
    return *parent ? 0 : gw_error_errno(-errno, "%s: cannot make a parent domain", dev->info.name);
}

/* ---- completion queues --------------------------------------------------------------------------------- */

/*
 */

static int native_create_cq(struct gw_cq *cq, struct native_cq *n, uint32_t cqe)
{
    struct ibv_cq_init_attr_ex attr = {
        .cqe = cqe,
        .cq_context = cq,
        .channel = n->channel,
        .wc_flags = IBV_WC_STANDARD_FLAGS,
        .comp_mask = IBV_CQ_INIT_ATTR_MASK_FLAGS | IBV_CQ_INIT_ATTR_MASK_PD,
        .flags = IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN, /* it cannot overrun: gw_cq_attach keeps account */
        .parent_domain = cq->dev->parent,
    };
    struct ibv_cq_ex *ex = ibv_create_cq_ex(cq->dev->ctx, &attr);
    struct mlx5dv_obj obj = {0};
    struct mlx5dv_cq dv;
    int err;

    if (!ex) return gw_refused(cq->dev, -errno, "cannot make a completion queue of %u entries", cqe);
    cq->cq = ibv_cq_ex_to_cq(ex);
    obj.cq.in = cq->cq;
    obj.cq.out = &dv;
    err = mlx5dv_init_obj(&obj, MLX5DV_OBJ_CQ);
    if (err) return gw_error_errno(-err, "%s: completion queue", cq->dev->info.name);
    if (dv.cqe_size != GW_MLX5_CQE)
        return gw_error(-EOPNOTSUPP, "%s: completions of %u bytes; unset MLX5_CQE_SIZE", cq->dev->info.name,
                        dv.cqe_size);
    cq->ring = dv.buf;
    cq->cqes = dv.cqe_cnt;
    cq->cqn = dv.cqn;
    cq->dbrec = (uint32_t *)dv.dbrec;
    n->uar = dv.cq_uar;
    return 0;
}

static int native_cq_make(struct gw_cq *cq, const struct gw_cq_attr *attr)
{
    struct native_cq *n = calloc(1, sizeof(*n));
    int err = 0;

    GW_ASSERT_HELD(&cq->dev->lock);
    if (!n) return gw_error_errno(-ENOMEM, "completion queue");
    cq->own = n;
    pthread_mutex_init(&n->lock, NULL);
    if (attr->flags & GW_CQ_SLEEP && gw_exec_kind(cq->dev->exec) == GW_EXEC_CPU) {
        err = gw_channel_make(cq->dev, &n->channel);
        if (!err) cq->event_fd = n->channel->fd;
    }
    return err ? err : native_create_cq(cq, n, attr->cqe);
}

static void native_cq_free(struct gw_cq *cq)
{
    struct native_cq *n = cq->own;

    GW_ASSERT_HELD(&cq->dev->lock);
    if (cq->cq) ibv_destroy_cq(cq->cq);
    if (!n) return;
    if (n->channel) ibv_destroy_comp_channel(n->channel);
    pthread_mutex_destroy(&n->lock);
    free(n);
}

/*
 * Once is enough until the event has come. We poll the CQ's ring and not libmlx5 (mlx5dv_init_obj has told it
 * so). So its arm sequence number and consumer index are ours too. The function ibv_req_notify_cq would arm
 * with libmlx5's, which never move.
 */
static void native_cq_arm(struct gw_cq *cq)
{
    struct native_cq *n = cq->own;
    uint32_t word;

    pthread_mutex_lock(&n->lock);
    if (!n->armed) {
        word = gw_mlx5_cq_arm_be(n->arm_sn, 0, gw_ld_relaxed_u32_gpu(&cq->handle->ci));
        gw_st_relaxed_u32(&cq->dbrec[GW_MLX5_DBREC_CQ_ARM], word);
        /* Record before register: the NIC reads the record when it is rung. Older drivers map the register
         * write-combining. A store to it does not wait for those before, and stays in the processor. */
        gw_fence_release();
        gw_mmio_flush();
        gw_mmio_st64((uint8_t *)n->uar + GW_MLX5_UAR_CQ, gw_mlx5_cq_db_be(word, cq->cqn));
        gw_mmio_flush();
        n->armed = true;
    }
    pthread_mutex_unlock(&n->lock);
    /* Armed before the caller looks at the ring once more, or both could miss a completion. */
    gw_fence_sc();
}

static void native_cq_event(struct gw_cq *cq)
{
    struct native_cq *n = cq->own;
    struct ibv_cq *which;
    void *context;

    pthread_mutex_lock(&n->lock);
    if (!ibv_get_cq_event(n->channel, &which, &context)) {
        ibv_ack_cq_events(which, 1);
        n->arm_sn++; /* tells the NIC's next event from this one */
        n->armed = false;
    } /* else another thread has taken it */
    pthread_mutex_unlock(&n->lock);
}

/* ---- queue pairs --------------------------------------------------------------------------------------- */

/*
 */

static void wish(const struct gw_qp *qp, const struct gw_qp_attr *a, struct ibv_qp_init_attr_ex *attr)
{
    *attr = (struct ibv_qp_init_attr_ex){
        .qp_type = gw_is_ud(qp) ? IBV_QPT_UD : IBV_QPT_RC,
        .send_cq = a->send_cq->cq,
        .recv_cq = a->recv_cq->cq,
        .cap = {.max_send_wr = a->max_send_wr,
                .max_recv_wr = a->max_recv_wr,
                .max_send_sge = a->max_send_sge ? a->max_send_sge : 1,
                .max_recv_sge = a->max_recv_sge ? a->max_recv_sge : 1,
                .max_inline_data = a->max_inline},
        .sq_sig_all = (a->flags & GW_QP_SIGNAL_ALL) != 0,
        /* Naming the operations leaves out those with long WQEs, so that one WQEBB holds a simple request. */
        .comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
        .send_ops_flags = IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM,
        .pd = qp->pd->parent,
    };
    if (gw_is_ud(qp)) return;
    attr->send_ops_flags |=
        IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM | IBV_QP_EX_WITH_RDMA_READ;
    if (qp->dev->attr.atomic_cap != IBV_ATOMIC_NONE)
        attr->send_ops_flags |= IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP | IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD;
}

/* libmlx5 looks whether it is set, not to what. */
int gw_unsigned(const struct gw_device *dev)
{
    if (!getenv("MLX5_QP_SIGNATURE")) return 0;
    return gw_error(
        -EOPNOTSUPP,
        "%s: with MLX5_QP_SIGNATURE requests need signatures, and receives look otherwise; unset it%s",
        dev->info.name, dev->ops->soft ? "" : ", or set GPUWIRE_POST=proxy-post");
}

int gw_many_threads(const struct gw_device *dev)
{
    const char *set = getenv("MLX5_SINGLE_THREADED");

    if (!dev->mlx5 || !set || strcmp(set, "1")) return 0;
    return gw_error(-EOPNOTSUPP,
                    "%s: with MLX5_SINGLE_THREADED=1 libmlx5 ends a process when two threads meet in it, and "
                    "gpuwire has threads of its own; unset it",
                    dev->info.name);
}

/* *reg: the doorbell register. */
static int native_create_qp(struct gw_qp *qp, struct ibv_qp_init_attr_ex *attr, uint64_t **reg)
{
    struct mlx5dv_qp_init_attr dv_attr = {
        .comp_mask = MLX5DV_QP_INIT_ATTR_MASK_QP_CREATE_FLAGS,
        .create_flags = MLX5DV_QP_CREATE_DISABLE_SCATTER_TO_CQE, /* pollers look for data in memory alone */
    };
    struct mlx5dv_obj obj = {0};
    struct mlx5dv_qp dv = {0};
    int err;

    err = gw_unsigned(qp->dev);
    if (err) return err;
    qp->qp = mlx5dv_create_qp(qp->dev->ctx, attr, &dv_attr);
    if (!qp->qp)
        return gw_refused(qp->dev, -(errno ? errno : EINVAL),
                          "cannot make a queue pair of %u sends and %u receives", attr->cap.max_send_wr,
                          attr->cap.max_recv_wr);
    obj.qp.in = qp->qp;
    obj.qp.out = &dv;
    err = mlx5dv_init_obj(&obj, MLX5DV_OBJ_QP);
    if (err) return gw_error_errno(-err, "%s: queue pair", qp->dev->info.name);
    if (dv.sq.wqe_cnt > GW_MAX_WQEBBS || dv.sq.stride != GW_MLX5_WQEBB)
        return gw_error(-EINVAL,
                        "%s: a send queue of %u WQEBBs is too long; ask for fewer requests or entries",
                        qp->dev->info.name, dv.sq.wqe_cnt);
    qp->sq = (struct gw_mlx5_sq){.buf = dv.sq.buf, .wqebbs = dv.sq.wqe_cnt, .qpn = qp->qp->qp_num};
    qp->rq = (struct gw_mlx5_rq){.buf = dv.rq.buf, .wqes = dv.rq.wqe_cnt, .stride = dv.rq.stride};
    qp->dbrec = (uint32_t *)dv.dbrec;
    *reg = dv.bf.reg;
    return 0;
}

/* Where kernels ring: the NIC's own register, or a mailbox whose contents the proxy thread carries there. */
static int make_doorbell(struct gw_qp *qp, uint32_t mode, uint64_t *reg, uint64_t **mailbox)
{
    const char *why = "";
    void *dev_mailbox = NULL;
    int err;

    if (mode != GW_POST_PROXY_DOORBELL) {
        qp->fresh.db = gw_uar_map(qp->dev, reg, &why);
        if (qp->fresh.db) return 0;
        if (mode == GW_POST_DIRECT)
            return gw_error(-EOPNOTSUPP, "%s: kernels cannot ring it: %s", qp->dev->info.name, why);
    }
    err = gw_doorbell_add(qp->dev, reg, mailbox, &dev_mailbox);
    qp->fresh.db = dev_mailbox;
    return err;
}

/* How a ring of CPU threads is heard: the proxy carries it, or the NIC is told, or the NIC sees its register.
 */
static void make_heard(struct gw_qp *qp, const struct gw_qp_attr *a, bool mailbox)
{
    if (!mailbox) qp->tell = qp->dev->ops->ring_through(qp, a->flags & GW_QP_ONE_POSTER);
    if (mailbox || qp->tell)
        qp->fresh.host = qp;
    else
        qp->fresh.flags |= GW_DB_IO_;
}

static int native_qp_make(struct gw_qp *qp, const struct gw_qp_attr *a, struct ibv_qp_cap *cap)
{
    struct native_qp *n = calloc(1, sizeof(*n));
    struct ibv_qp_init_attr_ex attr;
    uint32_t mode = a->post_mode;
    uint64_t *reg = NULL;
    int err;

    GW_ASSERT_HELD(&qp->dev->lock);
    if (!n) return gw_error_errno(-ENOMEM, "queue pair");
    qp->own = n;
    wish(qp, a, &attr);
    err = native_create_qp(qp, &attr, &reg);
    *cap = attr.cap;
    /* The device's own way may still be out of this one's reach; then the mailbox is next. */
    if (!mode && (qp->dev->mode_forced || qp->dev->info.post_mode == GW_POST_PROXY_DOORBELL))
        mode = qp->dev->info.post_mode;
    if (!err) err = make_doorbell(qp, mode, reg, &n->mailbox);
    if (!err) make_heard(qp, a, n->mailbox != NULL);
    return err;
}

static void native_qp_free(struct gw_qp *qp)
{
    struct native_qp *n = qp->own;

    GW_ASSERT_HELD(&qp->dev->lock);
    if (n && n->mailbox) gw_doorbell_remove(qp->dev, n->mailbox);
    if (qp->qp) ibv_destroy_qp(qp->qp); /* the NIC writes no completion of it from here on */
    free(n);
    qp->qp = NULL;
    qp->own = NULL;
}

static int native_qp_modify(struct gw_qp *qp, struct ibv_qp_attr *attr, int mask)
{
    struct native_qp *n = qp->own;
    int err = -ibv_modify_qp(qp->qp, attr, mask); /* libmlx5 also clears the record */

    if (!err && attr->qp_state == IBV_QPS_RESET && n->mailbox) gw_st_release_u64(n->mailbox, 0);
    return err;
}

const struct gw_queue_ops gw_native_queues = {native_cq_make,  native_cq_free, native_cq_arm,
                                              native_cq_event, native_qp_make, native_qp_free,
                                              native_qp_modify};
