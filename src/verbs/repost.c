/* SPDX-License-Identifier: Apache-2.0 */
/* proxy-post: queues in memory that a CPU thread reads; see repost.h. */
#include <errno.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <gpuwire/detail/held.h>

#include "src/verbs/repost.h"

#define RECORD 64 /* bytes for a doorbell record */

static uint32_t repost_power_of_two(uint32_t n)
{
    uint32_t p = 1;

    while (p < n) p *= 2;
    return p;
}

/* ---- completion queues --------------------------------------------------------------------------------- */

/*
 */

static int make_verbs_cq(struct gw_cq *cq, struct gw_proxy *p, struct gw_repost_cq *c)
{
    int err;

    pthread_mutex_lock(&p->lock);
    err = p->channel ? 0 : gw_channel_make(p->dev, &p->channel);
    if (!err) {
        cq->cq = ibv_create_cq(cq->dev->ctx, (int)cq->cqes, c, p->channel, 0);
        if (!cq->cq)
            err = gw_refused(cq->dev, -errno, "cannot make a completion queue of %u entries", cq->cqes);
    }
    if (!err) {
        c->next = p->cqs;
        p->cqs = c;
    }
    pthread_mutex_unlock(&p->lock);
    return err;
}

static int repost_cq_make(struct gw_cq *cq, const struct gw_cq_attr *attr)
{
    struct gw_device *dev = cq->dev;
    struct gw_repost_cq *c = calloc(1, sizeof(*c));
    struct gw_proxy *p;
    size_t bytes;
    int err;

    GW_ASSERT_HELD(&dev->lock);
    if (!c) return gw_error_errno(-ENOMEM, "completion queue");
    cq->own = c;
    c->cq = cq;
    cq->cqes = repost_power_of_two(attr->cqe);
    bytes = (size_t)cq->cqes * GW_MLX5_CQE;
    err = gw_proxy_get(dev, &p);
    if (err) return err;
    err = gw_arena_alloc(&dev->queues, bytes + RECORD, 4096, &c->ring);
    if (err) return gw_error_errno(err, "completion queue of %u entries", cq->cqes);
    cq->ring = c->ring.host;
    cq->dbrec = (uint32_t *)((uint8_t *)c->ring.host + bytes);
    for (uint32_t i = 0; i < cq->cqes; i++) cq->ring[i].op_own = GW_MLX5_CQE_INVALID << 4;
    if (attr->flags & GW_CQ_SLEEP && gw_exec_kind(dev->exec) == GW_EXEC_CPU) {
        cq->event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
        if (cq->event_fd < 0) return gw_error_errno(-errno, "completion queue");
    }
    return make_verbs_cq(cq, p, c);
}

static void repost_cq_free(struct gw_cq *cq)
{
    struct gw_repost_cq *c = cq->own, **at;
    struct gw_proxy *p = cq->dev->proxy;

    GW_ASSERT_HELD(&cq->dev->lock);
    if (!c) return;
    if (p) {
        pthread_mutex_lock(&p->lock);
        for (at = &p->cqs; *at && *at != c;) at = &(*at)->next;
        if (*at) *at = c->next;
        if (cq->cq) ibv_destroy_cq(cq->cq);
        pthread_mutex_unlock(&p->lock);
    }
    if (cq->event_fd >= 0) close(cq->event_fd);
    gw_arena_free(&cq->dev->queues, c->ring.host);
    free(c);
}

static void repost_cq_arm(struct gw_cq *cq)
{
    struct gw_repost_cq *c = cq->own;

    gw_st_relaxed_u32(&c->armed, 1);
    /* Armed before the caller looks at the ring once more: see where the proxy writes completions. */
    gw_fence_sc();
}

static void repost_cq_event(struct gw_cq *cq)
{
    uint64_t count;

    while (read(cq->event_fd, &count, sizeof(count)) < 0 && errno == EINTR) continue;
}

/* ---- queue pairs --------------------------------------------------------------------------------------- */

/*
 */

/* Units of the largest WQE that the queue pair must take, and with it the shape of its rings. */
static int repost_shape(struct gw_qp *qp, const struct gw_qp_attr *a, struct ibv_qp_cap *cap)
{
    uint32_t list, inl, units, sends;

    cap->max_send_sge = a->max_send_sge ? a->max_send_sge : 1;
    cap->max_recv_sge = a->max_recv_sge ? a->max_recv_sge : 1;
    cap->max_inline_data = a->max_inline;
    list = cap->max_send_sge;
    inl = (a->max_inline + 4 + GW_MLX5_UNIT - 1) / GW_MLX5_UNIT; /* after its length */
    /* The longest head of a connected queue pair is an atomic's. */
    units = (gw_is_ud(qp) ? GW_MLX5_UD_HEAD : 3u) + (list > inl ? list : inl);
    if (a->max_send_sge > GW_MLX5_MAX_DS || a->max_recv_sge > GW_MLX5_MAX_DS || a->max_inline > 1024 ||
        units > GW_MLX5_MAX_DS)
        return gw_error(-EINVAL, "queue pair: %u entries and %u inline bytes do not fit into a request",
                        a->max_send_sge > a->max_recv_sge ? a->max_send_sge : a->max_recv_sge, a->max_inline);
    sends = a->max_send_wr * (gw_is_ud(qp) ? gw_mlx5_wqebbs(GW_MLX5_UD_HEAD + 1) : 1);
    qp->sq.wqebbs = gw_mlx5_wqebbs(units);
    qp->sq.wqebbs = repost_power_of_two(sends > qp->sq.wqebbs ? sends : qp->sq.wqebbs);
    if (qp->sq.wqebbs > GW_MAX_WQEBBS)
        return gw_error(-EINVAL, "queue pair: %u sends of datagrams are too many; at most %u", a->max_send_wr,
                        GW_MAX_WQEBBS / gw_mlx5_wqebbs(GW_MLX5_UD_HEAD + 1));
    qp->rq.wqes = a->max_recv_wr ? repost_power_of_two(a->max_recv_wr) : 0;
    qp->rq.stride = repost_power_of_two(cap->max_recv_sge) * GW_MLX5_UNIT;
    return 0;
}

static int make_rings(struct gw_qp *qp, struct gw_repost_qp *q)
{
    size_t sends = (size_t)qp->sq.wqebbs * GW_MLX5_WQEBB, receives = (size_t)qp->rq.wqes * qp->rq.stride;
    int err = gw_arena_alloc(&qp->dev->queues, sends + receives + RECORD, 4096, &q->rings);

    if (err) return gw_error_errno(err, "queue pair: queues");
    qp->sq.buf = q->rings.host;
    qp->rq.buf = (uint8_t *)q->rings.host + sends;
    qp->dbrec = (uint32_t *)((uint8_t *)q->rings.host + sends + receives);
    q->mr = ibv_reg_mr(qp->pd->pd, qp->sq.buf, sends, IBV_ACCESS_LOCAL_WRITE);
    if (!q->mr) return gw_refused(qp->dev, -errno, "cannot register %zu bytes of a send queue", sends);
    q->sent = calloc(qp->sq.wqebbs, sizeof(*q->sent));
    q->posted = calloc(qp->rq.wqes ? qp->rq.wqes : 1, sizeof(*q->posted));
    return q->sent && q->posted ? 0 : gw_error_errno(-ENOMEM, "queue pair");
}

/* libmlx5 would take small messages out of the completion and copy them to where they belong: the CPU cannot
 * write there when that is GPU memory. */
static struct ibv_qp *repost_create(struct gw_device *dev, struct ibv_qp_init_attr_ex *attr)
{
    struct mlx5dv_qp_init_attr dv = {
        .comp_mask = MLX5DV_QP_INIT_ATTR_MASK_QP_CREATE_FLAGS,
        .create_flags = MLX5DV_QP_CREATE_DISABLE_SCATTER_TO_CQE,
    };

    return dev->mlx5 ? mlx5dv_create_qp(dev->ctx, attr, &dv) : ibv_create_qp_ex(dev->ctx, attr);
}

static int make_verbs_qp(struct gw_qp *qp, struct gw_repost_qp *q, const struct gw_qp_attr *a,
                         const struct ibv_qp_cap *cap)
{
    struct ibv_qp_init_attr_ex attr = {
        .qp_type = gw_is_ud(qp) ? IBV_QPT_UD : IBV_QPT_RC,
        .send_cq = a->send_cq->cq,
        .recv_cq = a->recv_cq->cq,
        /* Inline payload that goes round the ring's end is in two pieces. */
        .cap = {.max_send_wr = qp->sq.wqebbs,
                .max_recv_wr = qp->rq.wqes,
                .max_send_sge = cap->max_send_sge > 2 ? cap->max_send_sge : 2,
                .max_recv_sge = cap->max_recv_sge},
        .sq_sig_all = 0, /* each WQE says so itself */
        .comp_mask = IBV_QP_INIT_ATTR_PD,
        .pd = qp->pd->pd,
    };

    qp->qp = repost_create(qp->dev, &attr);
    if (!qp->qp)
        return gw_refused(
            qp->dev, -(errno ? errno : EINVAL),
            "cannot make a queue pair of %u sends and %u receives (it allows %d, and %d entries "
            "in each)",
            qp->sq.wqebbs, qp->rq.wqes, qp->dev->attr.max_qp_wr, qp->dev->attr.max_sge);
    qp->sq.qpn = qp->qp->qp_num;
    q->max_sge = attr.cap.max_send_sge;
    return 0;
}

static int repost_qp_make(struct gw_qp *qp, const struct gw_qp_attr *a, struct ibv_qp_cap *cap)
{
    struct gw_repost_qp *q = calloc(1, sizeof(*q));
    struct gw_proxy *p;
    int err;

    GW_ASSERT_HELD(&qp->dev->lock);
    if (!q) return gw_error_errno(-ENOMEM, "queue pair");
    qp->own = q;
    q->qp = qp;
    q->state = IBV_QPS_RESET;
    err = gw_proxy_get(qp->dev, &p);
    if (!err) err = repost_shape(qp, a, cap);
    if (!err) err = make_rings(qp, q);
    if (!err) err = make_verbs_qp(qp, q, a, cap);
    if (err) return err;
    qp->fresh.db = p->bell.dev;
    qp->fresh.host = qp;
    qp->fresh.flags = GW_NO_MASKED_ /* libibverbs has none */ | GW_AH_NUMBER_;
    pthread_mutex_lock(&p->lock);
    q->next = p->qps;
    p->qps = q;
    pthread_mutex_unlock(&p->lock);
    return 0;
}

/* The queue pair makes no more completions: takes the unpolled ones, and drops them. */
static void drop_completions(struct gw_repost_qp *q)
{
    struct gw_qp *qp = q->qp;

    GW_ASSERT_HELD(&qp->dev->proxy->lock);
    q->mute = true;
    gw_repost_poll(qp->send_cq->own, qp->send_cq->cqes);
    gw_repost_poll(qp->recv_cq->own, qp->recv_cq->cqes);
    q->mute = false;
}

static void repost_qp_free(struct gw_qp *qp)
{
    struct gw_repost_qp *q = qp->own, **at;
    struct gw_proxy *p = qp->dev->proxy;

    GW_ASSERT_HELD(&qp->dev->lock);
    if (!q) return;
    if (p) {
        pthread_mutex_lock(&p->lock);
        for (at = &p->qps; *at && *at != q;) at = &(*at)->next;
        if (*at) *at = q->next;
        if (qp->qp) ibv_destroy_qp(qp->qp);
        if (qp->qp) drop_completions(q);
        pthread_mutex_unlock(&p->lock);
    }
    if (q->mr) ibv_dereg_mr(q->mr);
    gw_arena_free(&qp->dev->queues, q->rings.host);
    free(q->sent);
    free(q->posted);
    free(q);
    qp->qp = NULL;
    qp->own = NULL;
}

static void repost_start_again(struct gw_repost_qp *q)
{
    uint32_t *dbrec = q->qp->dbrec;

    GW_ASSERT_HELD(&q->qp->dev->proxy->lock);
    drop_completions(q);
    q->sq_next = q->sq_upto = q->sq_done = q->rq_next = q->rq_done = 0;
    q->stuck = q->stuck_marked = q->recv_stuck = q->flushing = false;
    gw_st_relaxed_u32(&dbrec[GW_MLX5_DBREC_SEND], 0);
    gw_st_relaxed_u32(&dbrec[GW_MLX5_DBREC_RECV], 0);
}

/* Under the lock, so that nothing is posted in a state that does not allow it. */
static int repost_qp_modify(struct gw_qp *qp, struct ibv_qp_attr *attr, int mask)
{
    struct gw_repost_qp *q = qp->own;
    struct gw_proxy *p = qp->dev->proxy;
    int err;

    pthread_mutex_lock(&p->lock);
    err = -ibv_modify_qp(qp->qp, attr, mask);
    if (!err) q->state = attr->qp_state;
    if (!err && q->state == IBV_QPS_RESET) repost_start_again(q);
    /* Receives posted before the connection are there before the peer can send. */
    if (!err && q->state == IBV_QPS_INIT) gw_repost_receives(q);
    pthread_mutex_unlock(&p->lock);
    return err;
}

const struct gw_queue_ops gw_repost_queues = {repost_cq_make,  repost_cq_free, repost_cq_arm,
                                              repost_cq_event, repost_qp_make, repost_qp_free,
                                              repost_qp_modify};
