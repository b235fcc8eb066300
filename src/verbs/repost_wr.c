/* SPDX-License-Identifier: Apache-2.0 */
/* proxy-post: WQEs become work requests, work completions become CQEs. */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "src/mlx5/wqe.h"
#include "src/verbs/repost.h"

#define BATCH  16 /* requests per ibv_post_send, completions per ibv_poll_cq */
#define PIECES GW_MLX5_MAX_DS

/* ---- completions
 * -------------------------------------------------------------------------------------------
 */

/* The syndrome that pollers take for that status. */
static uint8_t syndrome_of(enum ibv_wc_status status)
{
    for (uint32_t s = 1; s < 256; s++)
        if (gw_wc_status_(s) == (uint32_t)status) return (uint8_t)s;
    return 0xff; /* of no meaning to anybody: IBV_WC_GENERAL_ERR */
}

static void write_cqe(struct gw_repost_cq *c, const struct gw_mlx5_wc *wc)
{
    struct gw_cq *cq = c->cq;
    struct gw_mlx5_cqe *cqe = &cq->ring[c->pi & (cq->cqes - 1)];
    uint8_t last = gw_mlx5_cqe_build(cqe, wc, c->pi, cq->cqes);
    const uint64_t one = 1;

    gw_st_release_u8(&cqe->op_own, last); /* the entry before its owner bit */
    c->pi++;
    if (cq->event_fd < 0) return;
    /* Entry before the look at who sleeps; a sleeper arms before its last look at the ring. One sees the
     * other. */
    gw_fence_sc();
    if (gw_ld_relaxed_u32(&c->armed) && gw_exch_relaxed_u32(&c->armed, 0))
        while (write(cq->event_fd, &one, sizeof(one)) < 0 && errno == EINTR) continue;
}

static void report(struct gw_repost_cq *c, const struct gw_repost_sent *s, enum ibv_wc_status status,
                   uint8_t vendor)
{
    struct gw_mlx5_wc wc = {.opcode = s->recv ? GW_MLX5_CQE_RESP_ERR : GW_MLX5_CQE_REQ_ERR,
                            .wqe_opcode = s->recv ? 0 : s->opcode,
                            .syndrome = syndrome_of(status),
                            .vendor = vendor,
                            .wqe_counter = (uint16_t)s->index,
                            .qpn = s->q->qp->sq.qpn};

    write_cqe(c, &wc);
}

static void to_error(struct gw_repost_qp *q)
{
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_ERR};

    if (q->state != IBV_QPS_ERR) (void)ibv_modify_qp(q->qp->qp, &attr, IBV_QP_STATE);
    q->state = IBV_QPS_ERR;
}

static void received(struct gw_repost_cq *c, const struct gw_repost_sent *s, const struct ibv_wc *w)
{
    struct gw_mlx5_wc wc = {.opcode = GW_MLX5_CQE_RESP_SEND,
                            .wqe_counter = (uint16_t)s->index,
                            .qpn = s->q->qp->sq.qpn,
                            .src_qp = w->src_qp,
                            .byte_cnt = w->byte_len,
                            .grh = (w->wc_flags & IBV_WC_GRH) != 0};

    s->q->rq_done = s->index + 1;
    if (w->status) {
        report(c, s, w->status, (uint8_t)w->vendor_err);
        return;
    }
    if (w->wc_flags & IBV_WC_WITH_IMM) {
        wc.imm_be = w->imm_data;
        wc.opcode =
            w->opcode == IBV_WC_RECV_RDMA_WITH_IMM ? GW_MLX5_CQE_RESP_WR_IMM : GW_MLX5_CQE_RESP_SEND_IMM;
    } else if (w->wc_flags & IBV_WC_WITH_INV) {
        wc.imm_be = gw_be32(w->invalidated_rkey);
        wc.opcode = GW_MLX5_CQE_RESP_SEND_INV;
    }
    write_cqe(c, &wc);
}

static void sent(struct gw_repost_cq *c, const struct gw_repost_sent *s, const struct ibv_wc *w)
{
    struct gw_mlx5_wc wc = {.opcode = GW_MLX5_CQE_REQ,
                            .wqe_opcode = s->opcode,
                            .wqe_counter = (uint16_t)s->index,
                            .qpn = s->q->qp->sq.qpn,
                            .byte_cnt = s->length};
    enum ibv_wc_status status = w->status;

    s->q->sq_done = s->index + s->wqebbs;
    if (s->bad) {
        /* All before it has ended. It is the first to fail, unless something else was. */
        if (!status) status = IBV_WC_LOC_QP_OP_ERR;
        to_error(s->q);
        s->q->stuck = s->q->stuck_marked = false;
    }
    if (status)
        report(c, s, status, (uint8_t)w->vendor_err);
    else
        write_cqe(c, &wc);
}

bool gw_repost_poll(struct gw_repost_cq *c, uint32_t most)
{
    struct ibv_wc wc[BATCH];
    bool any = false;
    int n;

    do {
        n = ibv_poll_cq(c->cq->cq, BATCH, wc);
        for (int i = 0; i < n; i++) {
            const struct gw_repost_sent *s = (const void *)(uintptr_t)wc[i].wr_id;

            if (s->q->mute) continue;
            if (s->recv)
                received(c, s, &wc[i]);
            else
                sent(c, s, &wc[i]);
        }
        any = any || n > 0;
        most -= n > 0 ? (uint32_t)n < most ? (uint32_t)n : most : 0;
    } while (n == BATCH && most);
    return any;
}

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

/*
 * The WQE at sq_next cannot be posted. It fails as a NIC would fail it: after all before it, and with the
 * queue pair. An empty request in its place tells when that is; where not even that can be posted, the end of
 * all that is in flight does.
 */
static void refuse(struct gw_repost_qp *q, const struct gw_mlx5_wqe *w)
{
    struct gw_repost_sent *s = &q->sent[q->sq_next & (q->qp->sq.wqebbs - 1)];
    struct ibv_send_wr wr = {.wr_id = (uint64_t)(uintptr_t)s,
                             .opcode = IBV_WR_RDMA_WRITE,
                             .send_flags = IBV_SEND_SIGNALED},
                       *bad;

    *s = (struct gw_repost_sent){.q = q,
                                 .index = q->sq_next,
                                 .wqebbs = w->wqebbs && w->wqebbs <= to_post(q) ? w->wqebbs : 1,
                                 .opcode = w->opcode,
                                 .bad = true};
    q->stuck = true;
    q->stuck_marked = !ibv_post_send(q->qp->qp, &wr, &bad);
    if (q->stuck_marked)
        q->sq_next += s->wqebbs;
    else
        to_error(q);
}

/* Reports the request that refuse() could not mark, when nothing is in flight any more. */
static void end_refusal(struct gw_repost_qp *q)
{
    struct gw_repost_sent *s = &q->sent[q->sq_next & (q->qp->sq.wqebbs - 1)];

    if (q->stuck_marked || q->sq_done != q->sq_next) return;
    q->sq_next += s->wqebbs;
    q->sq_done = q->sq_next;
    q->stuck = false;
    report(q->qp->send_cq->own, s, IBV_WC_LOC_QP_OP_ERR, 0);
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
        int bbs = gw_mlx5_wqe_parse(&w, q->qp->sq.buf, q->qp->sq.wqebbs, q->qp->sq.qpn, (uint16_t)at,
                                    q->sq_upto - at, GW_MLX5_MAX_DS);

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
    if (gw_mlx5_wqe_parse(&w, q->qp->sq.buf, q->qp->sq.wqebbs, q->qp->sq.qpn, (uint16_t)q->sq_next,
                          to_post(q), GW_MLX5_MAX_DS) < 0)
        w.wqebbs = 0; /* how long it is meant to be, nobody knows */
    refuse(q, &w);
}

static bool post_sends(struct gw_repost_qp *q)
{
    bool any = false;

    if (q->state != IBV_QPS_RTS && q->state != IBV_QPS_ERR) return false;
    if (q->stuck) end_refusal(q);
    for (; !q->stuck && to_post(q); any = true) post_batch(q);
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
            to_error(q); /* all before it comes back, and then it fails, too */
        else
            q->rq_next++;
    }
    if (!q->recv_stuck || q->rq_done != q->rq_next) return any;
    s = &q->posted[q->rq_next & (q->qp->rq.wqes - 1)];
    q->rq_done = ++q->rq_next;
    q->recv_stuck = false;
    report(q->qp->recv_cq->own, s, IBV_WC_LOC_QP_OP_ERR, 0);
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
