/* SPDX-License-Identifier: Apache-2.0 */
/* What completions may be relied on for. */
#include <stdio.h>
#include <string.h>

#include "tests/softnic/workload.h"

#define WRONG(...) return snprintf(why, 160, __VA_ARGS__), false

static bool writes(const struct op *o)
{
    return o->wr.opcode == GW_MLX5_WRITE || o->wr.opcode == GW_MLX5_WRITE_IMM;
}

static bool reads(const struct op *o)
{
    return !o->nop && o->wr.opcode >= GW_MLX5_READ;
}

/* Are the bytes at these addresses of a side's memory what they have to be at the end? They are written once
 * only. */
static bool pieces_right(const struct side *s, const struct gw_mlx5_sge *sge, uint32_t n, uint32_t len)
{
    for (uint32_t i = 0; i < n && len; i++) {
        uint32_t at = (uint32_t)(sge[i].addr - (uintptr_t)s->mem),
                 k = sge[i].length < len ? sge[i].length : len;

        if (memcmp(s->mem + at, s->expected + at, k)) return false;
        len -= k;
    }
    return true;
}

/* As libmlx5 does with payload that lies in the CQE. */
static void copy_inside(struct gw_mlx5_sge *sge, uint32_t n, const void *from, uint32_t len)
{
    const uint8_t *src = from;

    for (uint32_t i = 0; i < n && len; i++) {
        uint32_t k = sge[i].length < len ? sge[i].length : len;

        memcpy((void *)(uintptr_t)sge[i].addr, src, k);
        src += k;
        len -= k;
    }
}

static const void *inside(const struct gw_mlx5_wc *wc, const struct gw_mlx5_cqe *cqe)
{
    return wc->scatter == GW_MLX5_CQE_SCATTER_64 ? (const uint8_t *)cqe - 64 : (const uint8_t *)cqe;
}

/* Everything up to op i that the peer's memory holds is there. */
static bool writes_there(const struct side *s, uint32_t i, char why[160])
{
    for (uint32_t k = 0; k <= i; k++) {
        const struct op *o = &s->ops[k];

        if (!writes(o) || !memcmp(s->peer->mem + o->remote, s->peer->expected + o->remote, o->len)) continue;
        WRONG("the data of WRITE %u is not there at the completion of %u", k, i);
    }
    return true;
}

static bool check_sent(struct side *s, const struct gw_mlx5_wc *wc, const struct gw_mlx5_cqe *cqe,
                       char why[160])
{
    uint32_t i = s->completed;
    struct op *o;

    while (i < s->posted && !s->ops[i].signaled) i++;
    if (i == s->posted) WRONG("a completion of nothing");
    o = &s->ops[i];
    if (wc->wqe_counter != o->index)
        WRONG("completion of WQE %u, expected that of op %u at %u", wc->wqe_counter, i, o->index);
    if (wc->wqe_opcode != (o->nop ? 0 : o->wr.opcode))
        WRONG("op %u: opcode 0x%x completed as 0x%x", i, o->wr.opcode, wc->wqe_opcode);
    if (reads(o) && wc->byte_cnt != o->len) WRONG("op %u: %u bytes read, not %u", i, wc->byte_cnt, o->len);
    if (wc->scatter) copy_inside(o->sge, o->wr.num_sge, inside(wc, cqe), wc->byte_cnt);
    for (uint32_t k = s->completed; k <= i; k++) {
        s->sq_used -= s->ops[k].wqebbs;
        if (reads(&s->ops[k]) && !pieces_right(s, s->ops[k].sge, s->ops[k].wr.num_sge, s->ops[k].len))
            WRONG("what op %u read is wrong", k);
    }
    s->completed = i + 1;
    return writes_there(s, i, why);
}

static const struct op *consumer(const struct side *from, uint32_t k, uint32_t *at)
{
    for (*at = 0; *at < from->op_count; ++*at) {
        const struct op *o = &from->ops[*at];

        if (o->consumes && k-- == 0) return o;
    }
    return NULL;
}

static bool check_received(struct side *s, const struct gw_mlx5_wc *wc, const struct gw_mlx5_cqe *cqe,
                           char why[160])
{
    uint32_t at;
    const struct op *o = consumer(s->peer, s->recv_done, &at);
    uint8_t want = GW_MLX5_CQE_RESP_SEND;
    bool with_imm;

    if (!o || s->recv_done >= s->recv_posted) WRONG("a receive completion too many");
    if (wc->wqe_counter != (s->recv_done & 0xffff))
        WRONG("receive %u completed as %u", s->recv_done, wc->wqe_counter);
    s->recv_done++;
    with_imm = o->wr.opcode == GW_MLX5_SEND_IMM || o->wr.opcode == GW_MLX5_WRITE_IMM;
    if (o->wr.opcode == GW_MLX5_SEND_IMM) want = GW_MLX5_CQE_RESP_SEND_IMM;
    if (o->wr.opcode == GW_MLX5_WRITE_IMM) want = GW_MLX5_CQE_RESP_WR_IMM;
    if (wc->opcode != want) WRONG("op %u: received with opcode %u, not %u", at, wc->opcode, want);
    if (wc->byte_cnt != o->len) WRONG("op %u: received %u bytes, not %u", at, wc->byte_cnt, o->len);
    if (with_imm && wc->imm_be != o->wr.imm_be) WRONG("op %u: immediate is wrong", at);
    if (wc->solicited != !!(o->wr.flags & GW_MLX5_SOLICITED)) WRONG("op %u: solicited is wrong", at);
    if (wc->src_qp && wc->src_qp != s->peer->qp.sq.qpn && !wc->scatter)
        WRONG("op %u: source QP is wrong", at);
    if (wc->scatter)
        copy_inside((struct gw_mlx5_sge *)o->recv_sge, o->recv_pieces, inside(wc, cqe), wc->byte_cnt);
    if (!writes(o) && !pieces_right(s, o->recv_sge, o->recv_pieces, o->len))
        WRONG("op %u: received the wrong bytes", at);
    return writes_there(s->peer, at, why);
}

bool check_completion(struct side *s, const struct gw_mlx5_wc *wc, const struct gw_mlx5_cqe *cqe,
                      char why[160])
{
    if (gw_mlx5_wc_is_error(wc))
        WRONG("%s error completion, syndrome 0x%02x, of WQE %u",
              wc->opcode == GW_MLX5_CQE_REQ_ERR ? "send" : "receive", wc->syndrome, wc->wqe_counter);
    if (wc->qpn != s->qp.sq.qpn || wc->uidx != s->qp.uidx)
        WRONG("a completion of QP 0x%x, user index %u", wc->qpn, wc->uidx);
    return wc->opcode == GW_MLX5_CQE_REQ ? check_sent(s, wc, cqe, why) : check_received(s, wc, cqe, why);
}
