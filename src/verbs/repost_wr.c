/* SPDX-License-Identifier: Apache-2.0 */
/* proxy-post: WQEs become work requests. */
#include <errno.h>
#include <string.h>

#include "src/mlx5/wqe.h"
#include "src/verbs/repost.h"

#define BATCH  16 /* requests per ibv_post_send */
#define PIECES GW_MLX5_MAX_DS

/* ---- sends
 * -------------------------------------------------------------------------------------------------
 */

static const struct {
    uint8_t mlx5;
    enum ibv_wr_opcode ibv;
} opcodes[] = {
    {GW_MLX5_SEND, IBV_WR_SEND},
    {GW_MLX5_SEND_IMM, IBV_WR_SEND_WITH_IMM},
    {GW_MLX5_SEND_INVAL, IBV_WR_SEND_WITH_INV},
    {GW_MLX5_WRITE, IBV_WR_RDMA_WRITE},
    {GW_MLX5_WRITE_IMM, IBV_WR_RDMA_WRITE_WITH_IMM},
    {GW_MLX5_READ, IBV_WR_RDMA_READ},
    {GW_MLX5_ATOMIC_CS, IBV_WR_ATOMIC_CMP_AND_SWP},
    {GW_MLX5_ATOMIC_FA, IBV_WR_ATOMIC_FETCH_AND_ADD},
    {GW_MLX5_NOP, IBV_WR_RDMA_WRITE}, /* of nothing: no NIC looks at its key or address */
};

static bool opcode_of(uint8_t mlx5, enum ibv_wr_opcode *ibv)
{
    for (size_t i = 0; i < sizeof(opcodes) / sizeof(opcodes[0]); i++)
        if (opcodes[i].mlx5 == mlx5) {
            *ibv = opcodes[i].ibv;
            return true;
        }
    return false;
}

/* Inline payload stays where it is, in the send ring, which does not change before the request is complete.
 * It may go round the ring's end. */
static int inline_pieces(const struct gw_repost_qp *q, uint64_t at, uint32_t length, struct ibv_sge *sge,
                         uint32_t room)
{
    uint64_t size = (uint64_t)q->qp->sq.wqebbs * GW_MLX5_WQEBB, base = (uint64_t)(uintptr_t)q->qp->sq.buf;
    uint32_t first;

    at &= size - 1;
    first = size - at < length ? (uint32_t)(size - at) : length;
    if (room < (first < length ? 2u : 1u)) return -ENOMEM;
    sge[0] = (struct ibv_sge){base + at, first, q->mr->lkey};
    if (first == length) return 1;
    sge[1] = (struct ibv_sge){base, length - first, q->mr->lkey};
    return 2;
}

/* The WQE's payload as a list. Returns its length, or a negative errno: more than the queue pair takes. */
static int pieces_of(const struct gw_repost_qp *q, const struct gw_mlx5_wqe *w, struct ibv_sge *sge)
{
    struct gw_mlx5_piece p;
    uint32_t unit = 0, n = 0;

    while (gw_mlx5_wqe_piece(w, &unit, &p)) {
        int more = 1;

        if (!p.length) continue;
        if (p.inl)
            more = inline_pieces(q, (uint64_t)w->index * GW_MLX5_WQEBB + (uint64_t)(p.inl - w->raw), p.length,
                                 &sge[n], q->max_sge - n);
        else if (n < q->max_sge)
            sge[n] = (struct ibv_sge){p.addr, p.length, p.lkey};
        else
            more = -ENOMEM;
        if (more < 0) return more;
        n += (uint32_t)more;
    }
    return (int)n;
}

/* Where a datagram goes; kernels may have written anything there. */
static int address(const struct gw_repost_qp *q, const struct gw_mlx5_wqe *w, struct ibv_send_wr *wr)
{
    if (w->opcode == GW_MLX5_NOP) return -EOPNOTSUPP;
    wr->wr.ud.ah = gw_ah_of(q->qp->pd, gw_mlx5_wqe_av(w)->rsvd4);
    wr->wr.ud.remote_qpn = w->dqpn;
    wr->wr.ud.remote_qkey = w->qkey;
    return wr->wr.ud.ah ? 0 : -EINVAL;
}

/* The request that the WQE asks for, and what it leaves behind. 0 or a negative errno. */
static int translate(struct gw_repost_qp *q, const struct gw_mlx5_wqe *w, struct ibv_send_wr *wr,
                     struct ibv_sge *sge)
{
    struct gw_repost_sent *s = &q->sent[w->index & (q->qp->sq.wqebbs - 1)];
    int n = pieces_of(q, w, sge);

    memset(wr, 0, sizeof(*wr));
    if (n < 0 || !opcode_of(w->opcode, &wr->opcode)) return -EOPNOTSUPP;
    *s = (struct gw_repost_sent){.q = q, .wqebbs = w->wqebbs, .length = w->length, .opcode = w->opcode};
    wr->wr_id = (uint64_t)(uintptr_t)s;
    wr->sg_list = sge;
    wr->num_sge = n;
    wr->send_flags = (w->signaled ? IBV_SEND_SIGNALED : 0u) | (w->solicited ? IBV_SEND_SOLICITED : 0u) |
                     (w->fence ? IBV_SEND_FENCE : 0u);
    wr->imm_data = w->imm_be;
    if (gw_is_ud(q->qp)) {
        /* All are signalled, so that it is known when those before a refused one have ended. */
        s->quiet = !w->signaled;
        wr->send_flags |= IBV_SEND_SIGNALED;
        return address(q, w, wr);
    }
    if (w->opcode == GW_MLX5_SEND_INVAL) {
        wr->invalidate_rkey = gw_be32(w->imm_be);
    } else if (w->opcode == GW_MLX5_ATOMIC_CS || w->opcode == GW_MLX5_ATOMIC_FA) {
        wr->wr.atomic.remote_addr = w->raddr;
        wr->wr.atomic.rkey = w->rkey;
        wr->wr.atomic.compare_add = w->opcode == GW_MLX5_ATOMIC_CS ? w->compare : w->swap_or_add;
        wr->wr.atomic.swap = w->swap_or_add;
    } else {
        wr->wr.rdma.remote_addr = w->raddr;
        wr->wr.rdma.rkey = w->rkey;
    }
    return 0;
}

/* WQEBBs from sq_next on that this round may post. */
static uint32_t to_post(const struct gw_repost_qp *q)
{
    return q->sq_upto - q->sq_next;
}

/* The WQE at `at`. As gw_mlx5_wqe_parse. */
static int parse(const struct gw_repost_qp *q, struct gw_mlx5_wqe *w, uint32_t at)
{
    const struct gw_mlx5_sq *sq = &q->qp->sq;

    return (gw_is_ud(q->qp) ? gw_mlx5_wqe_parse_ud : gw_mlx5_wqe_parse)(
        w, sq->buf, sq->wqebbs, sq->qpn, (uint16_t)at, q->sq_upto - at, GW_MLX5_MAX_DS);
}

/* What is kept of the WQE at sq_next, which is not posted: as many WQEBBs as it says, if there are so many. */
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
static void refuse(struct gw_repost_qp *q, const struct gw_mlx5_wqe *w)
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

/* Reports the request that refuse() could not mark, when nothing is in flight any more. */
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
        (void)parse(q, &w, q->sq_next);
        s = unposted(q, &w);
        q->sq_next += s->wqebbs;
        q->sq_done = q->sq_next;
        gw_repost_report(q->qp->send_cq->own, s, IBV_WC_WR_FLUSH_ERR, 0);
    }
}

/* Posts as many WQEs as fit into one call, and moves sq_next behind them. */
static void post_batch(struct gw_repost_qp *q)
{
    struct ibv_send_wr wr[BATCH], *bad = NULL;
    struct ibv_sge sge[BATCH][PIECES];
    struct gw_mlx5_wqe w;
    uint32_t at = q->sq_next, n = 0, i;
    int err = 0;

    for (; n < BATCH && at != q->sq_upto; n++) {
        int bbs = parse(q, &w, at);

        err = bbs < 0 ? bbs : translate(q, &w, &wr[n], sge[n]);
        if (err) break;
        q->sent[at & (q->qp->sq.wqebbs - 1)].index = at;
        if (n) wr[n - 1].next = &wr[n];
        at += (uint32_t)bbs;
    }
    if (n && ibv_post_send(q->qp->qp, wr, &bad)) {
        err = -EINVAL;
        n = (uint32_t)(bad - wr);
    }
    for (i = 0; i < n; i++) q->sq_next += ((struct gw_repost_sent *)(uintptr_t)wr[i].wr_id)->wqebbs;
    if (!err) return;
    (void)parse(q, &w, q->sq_next);
    refuse(q, &w);
}

static bool post_sends(struct gw_repost_qp *q)
{
    bool any = false;

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

/* ---- receives
 * ----------------------------------------------------------------------------------------------
 */

/* 0 or a negative errno: it is malformed, or the NIC does not take it. */
static int post_receive(struct gw_repost_qp *q, struct gw_repost_sent *s)
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
    return -ibv_post_recv(qp->qp, &wr, &bad);
}

bool gw_repost_receives(struct gw_repost_qp *q)
{
    const uint32_t *record = &q->qp->dbrec[GW_MLX5_DBREC_RECV];
    struct gw_repost_sent *s;
    uint32_t n;
    bool any = false;

    if (q->state == IBV_QPS_RESET || !q->qp->rq.wqes) return false;
    /* Acquire: the count before the receives that it counts. */
    n = (gw_mlx5_dbrec_count(gw_ld_acquire_u32(record)) - q->rq_next) & 0xffff;
    if (n > q->qp->rq.wqes) return false; /* a record that nobody has written so */
    for (; n && !q->recv_stuck; n--, any = true) {
        s = &q->posted[q->rq_next & (q->qp->rq.wqes - 1)];
        *s = (struct gw_repost_sent){.q = q, .index = q->rq_next, .recv = true};
        q->recv_stuck = post_receive(q, s) != 0;
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

/* ---- a round
 * -----------------------------------------------------------------------------------------------
 */

/* How far the queue goes. Acquire: the count before the WQEs that it counts, and before the receives that
 * were posted before those: they are looked at next. */
static void see_sends(struct gw_repost_qp *q)
{
    uint32_t n = gw_ld_acquire_u32(&q->qp->dbrec[GW_MLX5_DBREC_SEND]);

    n = (gw_mlx5_dbrec_count(n) - q->sq_next) & 0xffff;
    if (n <= q->qp->sq.wqebbs) q->sq_upto = q->sq_next + n;
}

bool gw_repost_round(struct gw_proxy *p, bool quiet)
{
    bool any = false;

    if (!p->cqs) return false;
    /* Before the records are looked at: a ring that comes later is seen by the next round. */
    if (gw_ld_relaxed_u64(p->bell.host)) (void)gw_exch_acquire_u64(p->bell.host, 0);
    for (struct gw_repost_cq *c = p->cqs; c; c = c->next)
        if (!quiet || !c->notified) any |= gw_repost_poll(c, c->cq->cqes);
    for (struct gw_repost_qp *q = p->qps; q; q = q->next) see_sends(q);
    for (struct gw_repost_qp *q = p->qps; q; q = q->next) any |= gw_repost_receives(q);
    for (struct gw_repost_qp *q = p->qps; q; q = q->next) any |= post_sends(q);
    return any;
}

bool gw_repost_arm(struct gw_proxy *p)
{
    bool news = false;

    for (struct gw_repost_cq *c = p->cqs; c; c = c->next) {
        if (c->notified) continue;
        c->notified = !ibv_req_notify_cq(c->cq->cq, 0);
        news = true;
    }
    /* A NIC in this process learns that it is on its own now. */
    if (news && p->dev->info.soft) (void)ibv_req_notify_cq(p->dev->nudge, 0);
    return news;
}

void gw_repost_events(struct gw_proxy *p)
{
    struct ibv_cq *cq;
    void *context;

    while (!ibv_get_cq_event(p->channel, &cq, &context)) {
        ibv_ack_cq_events(cq, 1);
        ((struct gw_repost_cq *)context)->notified = false;
    }
}
