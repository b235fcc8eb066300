/* SPDX-License-Identifier: Apache-2.0 */
/* proxy-post: what its thread does each time that it looks, and how it is woken. */
#include "src/verbs/repost.h"

/* How far the queue goes. Acquire: the count before the WQEs that it counts, and before the receives that
 * were posted before those: they are looked at next. */
static void see_sends(struct gw_repost_qp *q)
{
    uint32_t n = gw_ld_acquire_u32(&q->qp->dbrec[GW_MLX5_DBREC_SEND]);

    n = (gw_mlx5_dbrec_count(n) - q->sq_next) & 0xffff;
    if (n <= q->qp->sq.wqebbs) q->sq_upto = q->sq_next + n;
}

/* Counts of WQEBBs and of receives: done, posted, to be posted. They follow each other, within the queue. */
GW_CHECKS void repost_check(const struct gw_repost_qp *q)
{
    GW_ASSERT(q->sq_upto - q->sq_next <= q->qp->sq.wqebbs);
    GW_ASSERT(q->sq_next - q->sq_done <= q->qp->sq.wqebbs);
    GW_ASSERT(q->rq_next - q->rq_done <= q->qp->rq.wqes);
}

bool gw_repost_round(struct gw_proxy *p, bool quiet)
{
    bool any = false;

    GW_ASSERT_HELD(&p->lock);
    if (!p->cqs) return false;
    /* Before the records are looked at: a ring that comes later is seen by the next round. */
    if (gw_ld_relaxed_u64(p->bell.host)) (void)gw_exch_acquire_u64(p->bell.host, 0);
    for (struct gw_repost_cq *c = p->cqs; c; c = c->next)
        if (!quiet || !c->notified) any |= gw_repost_poll(c, c->cq->cqes);
    for (struct gw_repost_qp *q = p->qps; q; q = q->next) see_sends(q);
    for (struct gw_repost_qp *q = p->qps; q; q = q->next) any |= gw_repost_receives(q);
    for (struct gw_repost_qp *q = p->qps; q; q = q->next) {
        any |= gw_repost_sends(q);
        GW_CHECK(repost_check(q));
    }
    return any;
}

bool gw_repost_arm(struct gw_proxy *p)
{
    bool news = false;

    GW_ASSERT_HELD(&p->lock);
    for (struct gw_repost_cq *c = p->cqs; c; c = c->next) {
        if (c->notified) continue;
        c->notified = !ibv_req_notify_cq(c->cq->cq, 0);
        news = true;
    }
    if (news) p->dev->ops->leave(p->dev);
    return news;
}

void gw_repost_events(struct gw_proxy *p)
{
    struct ibv_cq *cq;
    void *context;

    GW_ASSERT_HELD(&p->lock);
    while (!ibv_get_cq_event(p->channel, &cq, &context)) {
        ibv_ack_cq_events(cq, 1);
        ((struct gw_repost_cq *)context)->notified = false;
    }
}
