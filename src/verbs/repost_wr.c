/* SPDX-License-Identifier: Apache-2.0 */
/* proxy-post: a WQE becomes a work request. */
#include <errno.h>
#include <string.h>

#include "src/verbs/repost.h"

int gw_repost_parse(const struct gw_repost_qp *q, struct gw_mlx5_wqe *w, uint32_t at)
{
    const struct gw_mlx5_sq *sq = &q->qp->sq;
    const struct gw_mlx5_wqe_at entry = {.base = sq->buf,
                                         .wqebbs = sq->wqebbs,
                                         .qpn = sq->qpn,
                                         .index = (uint16_t)at,
                                         .avail = q->sq_upto - at,
                                         .max_ds = GW_MLX5_MAX_DS,
                                         .form = gw_is_ud(q->qp) ? GW_MLX5_FORM_UD : GW_MLX5_FORM_CONNECTED};

    return gw_mlx5_wqe_parse(w, &entry);
}

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
static int repost_wr_address(const struct gw_repost_qp *q, const struct gw_mlx5_wqe *w,
                             struct ibv_send_wr *wr)
{
    if (w->opcode == GW_MLX5_NOP) return -EOPNOTSUPP;
    wr->wr.ud.ah = gw_ah_of(q->qp->pd, gw_mlx5_wqe_av(w)->rsvd4);
    wr->wr.ud.remote_qpn = w->dqpn;
    wr->wr.ud.remote_qkey = w->qkey;
    return wr->wr.ud.ah ? 0 : -EINVAL;
}

int gw_repost_translate(struct gw_repost_qp *q, const struct gw_mlx5_wqe *w, struct ibv_send_wr *wr,
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
        return repost_wr_address(q, w, wr);
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
