/* SPDX-License-Identifier: Apache-2.0 */
/* proxy-post: a kernel's receives are posted. */
#include <errno.h>

#include <gpuwire/detail/held.h>

#include "src/verbs/repost.h"
#include "src/trace/trace.h"

#define PIECES GW_MLX5_MAX_DS

/* 0 or a negative errno: it is malformed, or the NIC does not take it. */
static int repost_recv_post_receive(struct gw_repost_qp *q, struct gw_repost_sent *s)
{
    struct gw_qp *qp = q->qp;
    struct ibv_sge sge[PIECES];
    struct ibv_recv_wr wr = {.wr_id = (uint64_t)(uintptr_t)s, .sg_list = sge}, *bad;
    struct gw_mlx5_piece p;
    struct gw_mlx5_rwqe w;
    uint32_t unit = 0;

    if (gw_mlx5_rwqe_parse(&w, qp->rq.buf, qp->rq.wqes, qp->rq.stride, q->rq_next) < 0) return -EINVAL;
    while (wr.num_sge < PIECES && gw_mlx5_rwqe_piece(&w, &unit, &p))
        if (p.length) sge[wr.num_sge++] = (struct ibv_sge){p.addr, p.length, p.lkey};
    GW_TRACE(verbs, receive_posted, qp->sq.qpn, s->index, wr.num_sge);
    return -ibv_post_recv(qp->qp, &wr, &bad);
}

bool gw_repost_receives(struct gw_repost_qp *q)
{
    const uint32_t *record = &q->qp->dbrec[GW_MLX5_DBREC_RECV];
    struct gw_repost_sent *s;
    uint32_t n;
    bool any = false;

    GW_ASSERT_HELD(&q->qp->dev->proxy->lock);
    if (q->state == IBV_QPS_RESET || !q->qp->rq.wqes) return false;
    /* Acquire: the count before the receives that it counts. */
    n = (gw_mlx5_dbrec_count(gw_ld_acquire_u32(record)) - q->rq_next) & 0xffff;
    if (n > q->qp->rq.wqes) return false; /* such a record was never written */
    for (; n && !q->recv_stuck; n--, any = true) {
        s = &q->posted[q->rq_next & (q->qp->rq.wqes - 1)];
        *s = (struct gw_repost_sent){.q = q, .index = q->rq_next, .recv = true};
        q->recv_stuck = repost_recv_post_receive(q, s) != 0;
        if (q->recv_stuck)
            gw_repost_to_error(q); /* all before it comes back, and then it fails, too */
        else
            q->rq_next++;
    }
    if (!q->recv_stuck || q->rq_done != q->rq_next) return any;
    s = &q->posted[q->rq_next & (q->qp->rq.wqes - 1)];
    q->rq_done = ++q->rq_next;
    q->recv_stuck = false;
    gw_repost_report(q->qp->recv_cq->own, s, IBV_WC_LOC_QP_OP_ERR, 0);
    return true;
}
