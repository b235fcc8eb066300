/* SPDX-License-Identifier: Apache-2.0 */
/* proxy-post: a kernel's sends are posted, or refused as a NIC would refuse them. */
#include <errno.h>

#include <gpuwire/detail/held.h>

#include "src/verbs/repost.h"
#include "src/trace/trace.h"

#define BATCH 16 /* requests per ibv_post_send */

/* WQEBBs from sq_next on that this round may post. */
static uint32_t to_post(const struct gw_repost_qp *q)
{
    return q->sq_upto - q->sq_next;
}

/* What is kept of the WQE at sq_next, which is not posted: as many WQEBBs as it says, if they are there.
 */
static struct gw_repost_sent *unposted(struct gw_repost_qp *q, const struct gw_mlx5_wqe *w)
{
    struct gw_repost_sent *s = &q->sent[q->sq_next & (q->qp->sq.wqebbs - 1)];
    uint32_t bbs = gw_mlx5_wqebbs(w->ds);

    *s = (struct gw_repost_sent){.q = q,
                                 .index = q->sq_next,
                                 .wqebbs = bbs && bbs <= to_post(q) ? bbs : 1,
                                 .opcode = w->opcode,
                                 .bad = true};
    return s;
}

/*
 * The WQE at sq_next cannot be posted. It fails as a NIC would fail it: after all before it, and with the
 * queue pair. An empty request in its place tells when that is; where not even that can be posted, the end of
 * all that is in flight does. Of datagrams each tells its end, and the queue pair goes on receiving.
 */
static void repost_send_refuse(struct gw_repost_qp *q, const struct gw_mlx5_wqe *w)
{
    struct gw_repost_sent *s = unposted(q, w);
    struct ibv_send_wr wr = {.wr_id = (uint64_t)(uintptr_t)s,
                             .opcode = IBV_WR_RDMA_WRITE,
                             .send_flags = IBV_SEND_SIGNALED},
                       *bad;

    q->stuck = true;
    if (gw_is_ud(q->qp)) return;
    q->stuck_marked = !ibv_post_send(q->qp->qp, &wr, &bad);
    if (q->stuck_marked)
        q->sq_next += s->wqebbs;
    else
        gw_repost_to_error(q);
}

/* Reports the request that repost_send_refuse() could not mark, when nothing is in flight any more. */
static void end_refusal(struct gw_repost_qp *q)
{
    struct gw_repost_sent *s = &q->sent[q->sq_next & (q->qp->sq.wqebbs - 1)];

    if (q->stuck_marked || q->sq_done != q->sq_next) return;
    q->sq_next += s->wqebbs;
    q->sq_done = q->sq_next;
    q->stuck = false;
    q->flushing = gw_is_ud(q->qp);
    gw_repost_report(q->qp->send_cq->own, s, IBV_WC_LOC_QP_OP_ERR, 0);
}

/* What is posted to a queue pair that sends nothing any more. */
static void flush_sends(struct gw_repost_qp *q)
{
    struct gw_repost_sent *s;
    struct gw_mlx5_wqe w;

    while (to_post(q)) {
        (void)gw_repost_parse(q, &w, q->sq_next);
        s = unposted(q, &w);
        q->sq_next += s->wqebbs;
        q->sq_done = q->sq_next;
        gw_repost_report(q->qp->send_cq->own, s, IBV_WC_WR_FLUSH_ERR, 0);
    }
}

/* Posts as many WQEs as fit into one call, and moves sq_next past them. */
static void post_batch(struct gw_repost_qp *q)
{
    struct ibv_send_wr wr[BATCH], *bad = NULL;
    struct ibv_sge sge[BATCH][GW_MLX5_MAX_DS];
    struct gw_mlx5_wqe w;
    uint32_t at = q->sq_next, n = 0, i;
    int err = 0;

    for (; n < BATCH && at != q->sq_upto; n++) {
        int bbs = gw_repost_parse(q, &w, at);

        err = bbs < 0 ? bbs : gw_repost_translate(q, &w, &wr[n], sge[n]);
        if (err) break;
        q->sent[at & (q->qp->sq.wqebbs - 1)].index = at;
        if (n) wr[n - 1].next = &wr[n];
        at += (uint32_t)bbs;
    }
    if (n && ibv_post_send(q->qp->qp, wr, &bad)) {
        err = -EINVAL;
        n = (uint32_t)(bad - wr);
    }
    for (i = 0; i < n; i++) {
        const struct gw_repost_sent *s = (const void *)(uintptr_t)wr[i].wr_id;

        GW_TRACE(verbs, posted, q->qp->sq.qpn, s->index, s->opcode, s->length);
        q->sq_next += s->wqebbs;
    }
    if (!err) return;
    (void)gw_repost_parse(q, &w, q->sq_next);
    repost_send_refuse(q, &w);
}

bool gw_repost_sends(struct gw_repost_qp *q)
{
    bool any = false;

    GW_ASSERT_HELD(&q->qp->dev->proxy->lock);
    if (q->state != IBV_QPS_RTS && q->state != IBV_QPS_ERR) return false;
    if (q->stuck) end_refusal(q);
    for (; !q->stuck && to_post(q); any = true) {
        if (q->flushing)
            flush_sends(q);
        else
            post_batch(q);
    }
    return any;
}
