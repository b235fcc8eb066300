/* SPDX-License-Identifier: Apache-2.0 */
/* Receives from the peer, and checks it against its script. */
#include <arpa/inet.h>
#include <string.h>

#include "traffic.h"

/* Receives come in two pieces, cut where no header ends. A datagram's first 40 bytes are its GRH. */
int receive_post(struct side *s, struct link *l, unsigned slot)
{
    uint8_t *buf = l->in.buf[slot];
    uint32_t all = GRH_BYTES + RECEIVE_BYTES, cut = 101;
    struct ibv_sge sge[2];
    struct ibv_recv_wr wr = {.wr_id = (uint64_t)slot << LINK_BITS | l->index, .sg_list = sge, .num_sge = 2},
                       *bad;
    int err;

    if (l->type != LINK_UD) {
        buf += GRH_BYTES;
        all -= GRH_BYTES;
    }
    sge[0] = (struct ibv_sge){(uintptr_t)buf, cut, s->mr->lkey};
    sge[1] = (struct ibv_sge){(uintptr_t)buf + cut, all - cut, s->mr->lkey};
    if (l->type == LINK_SRQ || l->type == LINK_XRC)
        err = ibv_post_srq_recv(l->type == LINK_SRQ ? s->srq : s->xrc_srq, &wr, &bad);
    else
        err = ibv_post_recv(l->qp, &wr, &bad);
    return err ? complain("link %u: post of a receive: %s", l->index, strerror(err)) : 0;
}

static int check_bytes(struct link *l, uint64_t k, const struct op *op, const void *buf)
{
    int64_t at = pattern_check(buf, op->len, op->key, 0);

    return at < 0 ? 0
                  : complain("link %u (%s): %s %llu from the peer is wrong from byte %lld of %u on", l->index,
                             link_names[l->type], op_names[op->kind], (unsigned long long)k, (long long)at,
                             op->len);
}

static int check_slot(struct link *l, uint64_t k, const struct op *op)
{
    int err = check_bytes(l, k, op, l->target->slot[l->in.slots_seen % SLOTS]);

    l->in.slots_seen++;
    /* Release: the slot is the peer's again only after it was looked at. */
    __atomic_store_n(&l->target->freed, l->in.slots_seen, __ATOMIC_RELEASE);
    return err;
}

/* On to the next request that is received; WRITEs on the way are there by now, or never will be. */
static int advance(struct link *l, struct op *op)
{
    for (;; l->in.next++) {
        op_make(&l->in.script, l->in.next, op);
        if (op_is_received(op)) return 0;
        if (op->kind == OP_WRITE && check_slot(l, l->in.next, op)) return -1;
    }
}

bool has_all_received(struct link *l, uint64_t end)
{
    struct op op;

    for (uint64_t k = l->in.next; k < end; k++) {
        op_make(&l->in.script, k, &op);
        if (op_is_received(&op)) return false;
    }
    return true;
}

int check_trailing(struct link *l, uint64_t end)
{
    struct op op;
    uint64_t add = 0, cas = 0;

    for (; l->in.next < end; l->in.next++) {
        op_make(&l->in.script, l->in.next, &op);
        if (op_is_received(&op))
            return complain("link %u: message %llu never came", l->index, (unsigned long long)l->in.next);
        if (op.kind == OP_WRITE && check_slot(l, l->in.next, &op)) return -1;
    }
    for (uint64_t k = 0; k < end; k++) {
        op_make(&l->in.script, k, &op);
        if (op.kind == OP_ADD) add += op.key;
        if (op.kind == OP_CAS && !op.miss) cas = op.key;
    }
    if (add != l->target->add || cas != l->target->cas)
        return complain("link %u: the atomics' sums are wrong", l->index);
    return 0;
}

static int check_meta(struct link *l, const struct op *op, const struct ibv_wc *wc, uint64_t k)
{
    bool imm = op->kind != OP_SEND;
    uint32_t len = op->len + (l->type == LINK_UD ? GRH_BYTES : 0);
    enum ibv_wc_opcode opcode = op->kind == OP_WRITE_IMM ? IBV_WC_RECV_RDMA_WITH_IMM : IBV_WC_RECV;

    if (wc->opcode == opcode && wc->byte_len == len && !!(wc->wc_flags & IBV_WC_WITH_IMM) == imm &&
        (!imm || wc->imm_data == op->imm))
        return 0;
    return complain("link %u (%s): %s %llu of %u bytes came as opcode %d, %u bytes, imm 0x%x", l->index,
                    link_names[l->type], op_names[op->kind], (unsigned long long)k, len, wc->opcode,
                    wc->byte_len, wc->imm_data);
}

static int take_reliable(struct link *l, const struct ibv_wc *wc, unsigned slot, struct link *owner)
{
    struct op op;

    if (advance(l, &op) || check_meta(l, &op, wc, l->in.next)) return -1;
    if (op.kind == OP_WRITE_IMM ? check_slot(l, l->in.next, &op)
                                : check_bytes(l, l->in.next, &op, owner->in.buf[slot] + GRH_BYTES))
        return -1;
    l->in.next++;
    return 0;
}

/* It may be missing, come twice or late, but what comes is whole. (UC, too, takes a message of one packet
 * whenever it comes.) */
static int take_unreliable(struct side *s, struct link *l, const struct ibv_wc *wc, unsigned slot)
{
    struct op op;
    uint64_t k = wc->imm_data;

    op_make(&l->in.script, k, &op);
    if (check_meta(l, &op, wc, k) || check_bytes(l, k, &op, l->in.buf[slot] + GRH_BYTES)) return -1;
    if (l->in.next && k != l->in.next) s->out_of_order++;
    l->in.next = k + 1;
    return 0;
}

static struct link *link_of_qpn(struct side *s, struct link *posted, uint32_t qpn)
{
    if (posted->type != LINK_SRQ && posted->type != LINK_XRC) return posted;
    for (uint32_t i = 0; i < s->opt.plan.links; i++)
        if (s->links[i].receiver->qp_num == qpn) return &s->links[i];
    return NULL;
}

static int received(struct side *s, const struct ibv_wc *wc)
{
    struct link *posted = &s->links[wc->wr_id & ((1 << LINK_BITS) - 1)];
    struct link *l = link_of_qpn(s, posted, wc->qp_num);
    unsigned slot = (unsigned)(wc->wr_id >> LINK_BITS);
    int err;

    if (!l) return complain("a completion names queue pair 0x%x, which does not exist", wc->qp_num);
    if (wc->status)
        return complain("link %u (%s): a receive: %s, vendor error 0x%x", l->index, link_names[l->type],
                        ibv_wc_status_str(wc->status), wc->vendor_err);
    err = link_is_reliable(l->type) ? take_reliable(l, wc, slot, posted) : take_unreliable(s, l, wc, slot);
    l->in.received++;
    s->received++;
    return err ? err : receive_post(s, posted, slot);
}

int take_receives(struct side *s, bool *did)
{
    struct ibv_wc wc[16];
    int n = ibv_poll_cq(s->recv_cq, 16, wc);

    if (n < 0) return complain("polling the receive queue failed");
    for (int i = 0; i < n; i++)
        if (received(s, &wc[i])) return -1;
    if (n) *did = true;
    return 0;
}
