/* SPDX-License-Identifier: Apache-2.0 */
/* Queue pairs: making and destroying them. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include <gpuwire/detail/held.h>

#include "src/verbs/impl.h"
#include "src/verbs/probe_kernel.h"

static int verbs_qp_check(const struct gw_qp_attr *a)
{
    if (!a->send_cq || !a->recv_cq) return gw_error(-EINVAL, "queue pair: it needs two completion queues");
    if (a->send_cq->dev != a->recv_cq->dev)
        return gw_error(-EINVAL, "queue pair: its completion queues are of two devices");
    if (a->flags & ~(GW_QP_ONE_POSTER | GW_QP_SIGNAL_ALL | GW_QP_LOCK_FREE))
        return gw_error(-EINVAL, "queue pair: flags %x", a->flags);
    if (a->type > GW_QP_UD) return gw_error(-EINVAL, "queue pair: there is no type %u", a->type);
    if (a->send_cq->ops != a->recv_cq->ops)
        return gw_error(-EINVAL, "queue pair: its completion queues are of two posting modes");
    if (a->post_mode > GW_POST_PROXY_POST)
        return gw_error(-EINVAL, "queue pair: there is no posting mode %u", a->post_mode);
    if (a->post_mode && (a->post_mode == GW_POST_PROXY_POST) != (a->send_cq->ops == &gw_repost_queues))
        return gw_error(-EINVAL, "queue pair: posting mode %s, but its completion queues were made for %s",
                        gw_mode_name(a->post_mode),
                        a->post_mode == GW_POST_PROXY_POST ? "another" : "proxy-post");
    if (!a->max_send_wr || a->max_send_wr > GW_MAX_WQEBBS || a->max_recv_wr > GW_MAX_WQEBBS)
        return gw_error(-EINVAL,
                        "queue pair: %u send and %u receive requests; at most %u, and one send at least",
                        a->max_send_wr, a->max_recv_wr, GW_MAX_WQEBBS);
    return 0;
}

static int verbs_qp_make_handle(struct gw_qp *qp, const struct gw_qp_attr *a, const struct ibv_qp_cap *cap)
{
    struct gw_device *dev = qp->dev;
    struct gw_qp_handle *h = &qp->fresh;
    struct gw_piece handle;
    int err = gw_arena_alloc(&dev->handles, sizeof(*h), GW_HANDLE_BYTES, &handle);

    if (err) return err;
    qp->handle = handle.dev;
    err = gw_arena_alloc(&dev->handles, qp->sq.wqebbs * sizeof(*h->slot), 64, &qp->slots);
    if (!err && qp->rq.wqes)
        err = gw_arena_alloc(&dev->handles, qp->rq.wqes * (sizeof(*h->rq_wr_id) + sizeof(*h->rq_ready)), 64,
                             &qp->rq_slots);
    if (err) return gw_error_errno(err, "queue pair");
    h->size = sizeof(*h);
    h->version = GW_VERBS_VERSION;
    h->flags |= a->flags | (gw_has_atomics(dev) ? 0 : GW_NO_ATOMICS_) |
                (dev->masked == GW_PROBE_REFUSED ? GW_NO_MASKED_ : 0) | (gw_is_ud(qp) ? GW_UD_ : 0) |
                (a->send_cq->flush ? GW_LATE_ : 0);
    h->max_inline = cap->max_inline_data;
    h->sq.buf = gw_arena_dev(&dev->queues, qp->sq.buf);
    h->sq.wqebbs = qp->sq.wqebbs;
    h->sq.qpn = qp->sq.qpn;
    h->rq.buf = qp->rq.wqes ? gw_arena_dev(&dev->queues, qp->rq.buf) : NULL;
    h->rq.wqes = qp->rq.wqes;
    h->rq.stride = qp->rq.stride;
    h->dbrec = gw_arena_dev(&dev->queues, qp->dbrec);
    h->slot = qp->slots.dev;
    h->rq_wr_id = qp->rq_slots.dev;
    h->rq_ready = (uint32_t *)(h->rq_wr_id + qp->rq.wqes);
    if (gw_exec_kind(dev->exec) != GW_EXEC_CPU) {
        h->host = NULL;
        h->flags &= ~(uint32_t)GW_DB_IO_;
    } else {
        h->flags |= gw_sq_turns_(a->flags);
    }
    h->max_send_sge = cap->max_send_sge;
    h->max_recv_sge = cap->max_recv_sge;
    h->rq_wqes = qp->rq.wqes;
    /* Datagrams are all signalled: see gw_tx_datagram_. */
    h->interval = h->sq.wqebbs > 2 && !gw_is_ud(qp) ? h->sq.wqebbs / 2 : 1;
    h->send_cq = gw_cq_handle(a->send_cq);
    if (qp->pd->sink_mr) {
        h->sink = (uint64_t)(uintptr_t)qp->pd->sink.host;
        h->sink_lkey = qp->pd->sink_mr->lkey;
    }
    h->state = GW_QP_NOT_CONNECTED;
    if (!h->sq.buf || !h->dbrec)
        return gw_error(-EOPNOTSUPP,
                        "%s: this libmlx5 does not take its memory from us; rdma-core 29 and newer do",
                        dev->info.name);
    return 0;
}

static int verbs_qp_attach(struct gw_qp *qp)
{
    uint32_t sends = qp->sq.wqebbs, recvs = qp->rq.wqes, qpn = qp->sq.qpn;
    bool one = qp->send_cq == qp->recv_cq;
    int err = gw_cq_attach(qp->send_cq, qpn, qp->handle, one ? sends + recvs : sends);

    GW_ASSERT_HELD(&qp->dev->lock);
    if (err || one) return err;
    err = gw_cq_attach(qp->recv_cq, qpn, qp->handle, recvs);
    if (err) gw_cq_detach(qp->send_cq, qpn, sends);
    return err;
}

/* Frees what there is of it. */
static void verbs_qp_destroy(struct gw_qp *qp)
{
    GW_ASSERT_HELD(&qp->dev->lock);
    qp->ops->qp_free(qp);
    gw_arena_free(&qp->dev->handles, qp->slots.dev);
    gw_arena_free(&qp->dev->handles, qp->rq_slots.dev);
    gw_arena_free(&qp->dev->handles, qp->handle);
    free(qp);
}

int gw_qp_create(struct gw_pd *pd, const struct gw_qp_attr *a, struct gw_qp **out)
{
    struct ibv_qp_cap cap;
    struct gw_qp *qp;
    int err = verbs_qp_check(a);

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
    qp->ops = a->send_cq->ops;
    qp->type = a->type;
    if (getrandom(&qp->psn, sizeof(qp->psn), 0) != sizeof(qp->psn)) {
        free(qp);
        return gw_error(-EIO, "queue pair: the system gives no random number (getrandom) for its first PSN");
    }
    qp->psn &= 0xffffff;
    pthread_mutex_lock(&pd->dev->lock);
    err = gw_place(pd->dev, a->placement);
    if (!err) err = qp->ops->qp_make(qp, a, &cap);
    if (!err) err = verbs_qp_make_handle(qp, a, &cap);
    if (!err) err = gw_copy_in(pd->dev->exec, qp->handle, &qp->fresh, sizeof(qp->fresh));
    if (!err) err = verbs_qp_attach(qp);
    if (err) {
        verbs_qp_destroy(qp);
    } else {
        pd->objects++;
        pd->dev->objects++;
        gw_watch_qp(qp);
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
    qpn = qp->sq.qpn;
    pthread_mutex_lock(&dev->lock);
    gw_watch_qp_del(qp);
    qp->ops->qp_free(qp);
    (void)gw_cq_clean(qp->send_cq, qpn, true, 0);
    if (qp->recv_cq != qp->send_cq) (void)gw_cq_clean(qp->recv_cq, qpn, true, 0);
    gw_cq_detach(qp->send_cq, qpn,
                 qp->fresh.sq.wqebbs + (qp->recv_cq == qp->send_cq ? qp->fresh.rq_wqes : 0));
    if (qp->recv_cq != qp->send_cq) gw_cq_detach(qp->recv_cq, qpn, qp->fresh.rq_wqes);
    GW_ASSERT(qp->pd->objects > 0 && dev->objects > 0);
    qp->pd->objects--;
    dev->objects--;
    verbs_qp_destroy(qp);
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
