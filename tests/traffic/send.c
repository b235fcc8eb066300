/* SPDX-License-Identifier: Apache-2.0 */
/* The requests of this side: posted, and their results checked. */
#include <string.h>

#include "traffic.h"

#define PEEK (UINT64_C(1) << 63)
static uint32_t split(const struct op *op, void *at, uint32_t lkey, struct ibv_sge *sge)
{
    uint32_t n = op->len >= op->pieces ? op->pieces : 1, each = op->len / n;

    for (uint32_t i = 0; i < n; i++)
        sge[i] = (struct ibv_sge){(uintptr_t)at + i * each, i + 1 < n ? each : op->len - i * each, lkey};
    return op->len ? n : 0;
}

static void describe(const struct link *l, const struct op *op, bool fences, struct ibv_send_wr *wr)
{
    static const enum ibv_wr_opcode opcodes[OP_KINDS] = {
        IBV_WR_SEND,      IBV_WR_SEND_WITH_IMM,        IBV_WR_RDMA_WRITE,         IBV_WR_RDMA_WRITE_WITH_IMM,
        IBV_WR_RDMA_READ, IBV_WR_ATOMIC_FETCH_AND_ADD, IBV_WR_ATOMIC_CMP_AND_SWP,
    };
    uint64_t target = l->peer.target;

    wr->opcode = opcodes[op->kind];
    wr->imm_data = op->imm;
    wr->send_flags = (op->signaled ? IBV_SEND_SIGNALED : 0) | (op->inl ? IBV_SEND_INLINE : 0) |
                     (op->solicited ? IBV_SEND_SOLICITED : 0) |
                     (fences && op->fence && link_is_reliable(l->type) ? IBV_SEND_FENCE : 0);
    wr->wr.rdma.rkey = l->peer.rkey;
    wr->wr.rdma.remote_addr = target + offsetof(struct target, slot) + l->out.slots_used % SLOTS * SLOT_BYTES;
    if (op->kind == OP_READ) wr->wr.rdma.remote_addr = target + offsetof(struct target, fixed) + op->offset;
    if (op->kind == OP_ADD || op->kind == OP_CAS) {
        wr->wr.atomic.rkey = l->peer.rkey;
        wr->wr.atomic.remote_addr =
            target + (op->kind == OP_ADD ? offsetof(struct target, add) : offsetof(struct target, cas));
        wr->wr.atomic.compare_add = op->kind == OP_ADD ? op->key : op->miss ? ~l->out.cas : l->out.cas;
        wr->wr.atomic.swap = op->key;
    }
    wr->qp_type.xrc.remote_srqn = l->peer.xrc_srq;
    if (l->type == LINK_UD) {
        wr->wr.ud.ah = l->ah;
        wr->wr.ud.remote_qpn = l->peer.qpn;
        wr->wr.ud.remote_qkey = QKEY;
    }
}

static void account(struct side *s, struct link *l, const struct op *op)
{
    struct outgoing *o = &l->out;

    o->window[o->next % WINDOW].expect = op->kind == OP_ADD ? o->add : o->cas;
    if (op->kind == OP_ADD) o->add += op->key;
    if (op->kind == OP_CAS && !op->miss) o->cas = op->key;
    if (op_uses_slot(op)) o->slots_used++;
    s->count[op->kind]++;
    s->bytes += op->len;
    o->next++;
}

static int post(struct side *s, struct link *l, const struct op *op)
{
    struct outgoing *o = &l->out;
    void *buf = o->buf[o->next % WINDOW];
    struct ibv_sge sge[PIECES];
    struct ibv_send_wr wr = {.wr_id = o->next << LINK_BITS | l->index, .sg_list = sge}, *bad;
    int err;

    wr.num_sge = (int)split(op, buf, s->mr->lkey, sge);
    if (op->kind <= OP_WRITE_IMM) pattern_fill(buf, op->len, op->key, 0);
    describe(l, op, !s->opt.no_fences, &wr);
    if (op->kind == OP_ADD || op->kind == OP_CAS) {
        sge[0] = (struct ibv_sge){(uintptr_t)buf, 8, s->mr->lkey};
        wr.num_sge = 1;
    }
    err = ibv_post_send(l->qp, &wr, &bad);
    if (err)
        return complain("link %u: post of %s %llu: %s", l->index, op_names[op->kind],
                        (unsigned long long)o->next, strerror(err));
    o->window[o->next % WINDOW].op = *op;
    account(s, l, op);
    return 0;
}

/* No place is left for a WRITE: how far has the peer come? */
static int peek(struct side *s, struct link *l)
{
    struct area *a = &s->areas[l->index];
    struct ibv_sge sge = {(uintptr_t)&a->peek, 8, s->mr->lkey};
    struct ibv_send_wr wr =
                           {
                               .wr_id = PEEK | l->index,
                               .sg_list = &sge,
                               .num_sge = 1,
                               .opcode = IBV_WR_RDMA_READ,
                               .send_flags = IBV_SEND_SIGNALED,
                               .wr.rdma = {l->peer.target + offsetof(struct target, freed), l->peer.rkey},
                               .qp_type.xrc.remote_srqn = l->peer.xrc_srq,
                           },
                       *bad;

    l->out.peeking = true;
    return ibv_post_send(l->qp, &wr, &bad) ? complain("link %u: post of a READ failed", l->index) : 0;
}

int initiate(struct side *s, struct link *l, bool close, bool *did)
{
    struct outgoing *o = &l->out;
    struct op op;

    while (o->next - o->done < WINDOW &&
           !(close && o->next % 4 == 0)) { /* requests 3, 7, 11 … are signaled */
        op_make(&o->script, o->next, &op);
        if (op_uses_slot(&op) && o->slots_used - o->slots_freed == SLOTS) return o->peeking ? 0 : peek(s, l);
        if (post(s, l, &op)) return -1;
        *did = true;
    }
    return 0;
}

static int check_result(struct side *s, struct link *l, uint64_t k)
{
    struct pending *p = &l->out.window[k % WINDOW];
    const void *buf = l->out.buf[k % WINDOW];
    int64_t at = -1;

    if (p->op.kind == OP_READ) {
        at = pattern_check(buf, p->op.len, mix(s->opt.plan.seed, l->index), p->op.offset);
    } else if (p->op.kind == OP_ADD || p->op.kind == OP_CAS) {
        uint64_t got;

        memcpy(&got, buf, 8);
        if (got != p->expect) at = 0;
    }
    return at < 0 ? 0
                  : complain("link %u: the answer to %s %llu is wrong from byte %lld of %u on", l->index,
                             op_names[p->op.kind], (unsigned long long)k, (long long)at, p->op.len);
}

static int finished(struct side *s, const struct ibv_wc *wc)
{
    struct link *l = &s->links[wc->wr_id & ((1 << LINK_BITS) - 1)];
    uint64_t k = wc->wr_id >> LINK_BITS;

    if (wc->status)
        return complain("link %u (%s): request %llu: %s, vendor error 0x%x", l->index, link_names[l->type],
                        (unsigned long long)k, ibv_wc_status_str(wc->status), wc->vendor_err);
    if (wc->wr_id & PEEK) {
        l->out.slots_freed = s->areas[l->index].peek;
        l->out.peeking = false;
        return 0;
    }
    /* Unsignaled requests before it are complete as well. */
    for (; l->out.done <= k; l->out.done++)
        if (check_result(s, l, l->out.done)) return -1;
    return 0;
}

int finish_sends(struct side *s, bool *did)
{
    struct ibv_wc wc[16];
    int n = ibv_poll_cq(s->send_cq, 16, wc);

    if (n < 0) return complain("polling the send queue failed");
    for (int i = 0; i < n; i++)
        if (finished(s, &wc[i])) return -1;
    if (n) *did = true;
    return 0;
}
