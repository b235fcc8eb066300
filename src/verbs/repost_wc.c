/* SPDX-License-Identifier: Apache-2.0 */
/* proxy-post: work completions become CQEs. */
#include <errno.h>
#include <unistd.h>

#include <gpuwire/detail/held.h>

#include "src/verbs/repost.h"
#include "src/trace/trace.h"

#define BATCH 16 /* completions per ibv_poll_cq */

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

    GW_TRACE(verbs, cqe, wc->qpn, wc->wqe_counter, wc->opcode, wc->syndrome, wc->byte_cnt);
    gw_st_release_u8(&cqe->op_own, last); /* the entry before its owner bit */
    c->pi++;
    if (cq->event_fd < 0) return;
    /* Entry before the look at who sleeps; a sleeper arms before its last look at the ring. One sees the
     * other. */
    gw_fence_sc();
    if (gw_ld_relaxed_u32(&c->armed) && gw_exch_relaxed_u32(&c->armed, 0))
        while (write(cq->event_fd, &one, sizeof(one)) < 0 && errno == EINTR) continue;
}

void gw_repost_report(struct gw_repost_cq *c, const struct gw_repost_sent *s, enum ibv_wc_status status,
                      uint8_t vendor)
{
    struct gw_mlx5_wc wc = {.opcode = s->recv ? GW_MLX5_CQE_RESP_ERR : GW_MLX5_CQE_REQ_ERR,
                            .wqe_opcode = s->recv ? 0 : s->opcode,
                            .syndrome = syndrome_of(status),
                            .vendor = vendor,
                            .wqe_counter = (uint16_t)s->index,
                            .qpn = s->q->qp->sq.qpn};

    GW_ASSERT_HELD(&c->cq->dev->proxy->lock);
    write_cqe(c, &wc);
}

void gw_repost_to_error(struct gw_repost_qp *q)
{
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_ERR};

    GW_ASSERT_HELD(&q->qp->dev->proxy->lock);
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

    GW_ASSERT(s->index - s->q->rq_done < s->q->rq_next - s->q->rq_done);
    s->q->rq_done = s->index + 1;
    if (w->status) {
        gw_repost_report(c, s, w->status, (uint8_t)w->vendor_err);
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

static void repost_wc_sent(struct gw_repost_cq *c, const struct gw_repost_sent *s, const struct ibv_wc *w)
{
    struct gw_mlx5_wc wc = {.opcode = GW_MLX5_CQE_REQ,
                            .wqe_opcode = s->opcode,
                            .wqe_counter = (uint16_t)s->index,
                            .qpn = s->q->qp->sq.qpn,
                            .byte_cnt = s->length};
    enum ibv_wc_status status = w->status;

    GW_ASSERT(s->index - s->q->sq_done < s->q->sq_next - s->q->sq_done);
    s->q->sq_done = s->index + s->wqebbs;
    if (s->bad) {
        /* All before it has ended. It is the first to fail, unless something else was. */
        if (!status) status = IBV_WC_LOC_QP_OP_ERR;
        gw_repost_to_error(s->q);
        s->q->stuck = s->q->stuck_marked = false;
    }
    if (status)
        gw_repost_report(c, s, status, (uint8_t)w->vendor_err);
    else if (!s->quiet)
        write_cqe(c, &wc);
}

bool gw_repost_poll(struct gw_repost_cq *c, uint32_t most)
{
    struct ibv_wc wc[BATCH];
    bool any = false;
    int n;

    GW_ASSERT_HELD(&c->cq->dev->proxy->lock);
    do {
        n = ibv_poll_cq(c->cq->cq, BATCH, wc);
        for (int i = 0; i < n; i++) {
            const struct gw_repost_sent *s = (const void *)(uintptr_t)wc[i].wr_id;

            if (s->q->mute) continue;
            if (s->recv)
                received(c, s, &wc[i]);
            else
                repost_wc_sent(c, s, &wc[i]);
        }
        any = any || n > 0;
        most -= n > 0 ? (uint32_t)n < most ? (uint32_t)n : most : 0;
    } while (n == BATCH && most);
    return any;
}
