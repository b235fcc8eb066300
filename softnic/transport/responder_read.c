/* SPDX-License-Identifier: Apache-2.0 */
/*
 * READs and atomics at the responder: each is noted in a slot, from which responder_tx.c answers it, and
 * answers it again when the peer asks again.
 */
#include <string.h>

#include "softnic/transport/responder.h"
#include "src/roce/atomic.h"

/*
 * The slot for a new READ or atomic: the oldest one's. If that is to be answered again, the peer has got the
 * first answer in the meantime, or it would not come with a new one. NULL: it has more under way than was
 * agreed.
 */
static struct sn_slot_rd *new_slot(struct sn_qp *qp, const struct roce_hdr *h)
{
    struct sn_responder *r = &qp->resp;
    uint32_t n = qp->attr.max_dest_rd_atomic;
    struct sn_slot_rd *slot = &r->slots[(r->slot_head - n) % SN_MAX_RD_ATOMIC];

    if (!n || (slot->pending && !slot->answered)) {
        sn_resp_invalid(qp, h, "more READs and atomics at a time than max_dest_rd_atomic");
        return NULL;
    }
    slot = &r->slots[r->slot_head++ % SN_MAX_RD_ATOMIC];
    r->has_slots = true;
    memset(slot, 0, sizeof(*slot));
    slot->pending = true;
    slot->psn = h->psn;
    slot->srqn = h->xrcsrq;
    slot->rkey = h->rkey;
    slot->va = h->va;
    r->msn = (r->msn + 1) & 0xffffff;
    /* Its answer acknowledges everything before it. */
    r->ack_pending = false;
    sn_qp_wake(qp);
    return slot;
}

void sn_take_read(struct sn_qp *qp, const struct roce_hdr *h)
{
    struct sn_slot_rd *slot;

    if (h->dlen > SN_MAX_MSG) {
        sn_resp_invalid(qp, h, "longer than a message may be");
        return;
    }
    if (h->dlen && !sn_resp_remote(qp, h, h->rkey, h->va, h->dlen, IBV_ACCESS_REMOTE_READ)) return;
    if (!sn_resp_settle(qp, h)) return;
    slot = new_slot(qp, h);
    if (!slot) return;
    slot->kind = SN_SLOT_READ;
    slot->len = slot->whole = h->dlen;
    slot->packets = slot->count = roce_packets(h->dlen, qp->mtu);
    slot->request = ++qp->nic->requests;
    qp->resp.epsn = roce_psn_add(qp->resp.epsn, slot->packets);
    qp->resp.silent = false;
}

/* An unmasked one is a masked one of all bits, or of one field. */
static uint64_t atomic_result(const struct roce_hdr *h, uint64_t value)
{
    bool masked = roce_is_own(h->opcode);
    uint64_t all = masked ? 0 : UINT64_MAX;

    if ((h->opcode & ~ROCE_SERVICE_MASK) == ROCE_FETCH_ADD)
        return roce_masked_add(value, h->swap_or_add, masked ? h->compare : 0);
    return roce_masked_swap(value, h->swap_or_add, h->compare, h->swap_mask | all, h->compare_mask | all);
}

/* The engine's lock makes it atomic among all queue pairs of this NIC, which is all that is promised. */
static int execute_atomic(struct sn_qp *qp, const struct roce_hdr *h, struct sn_mr *mr, uint64_t *orig)
{
    uint64_t value;
    int err = sn_mr_read(mr, h->va, orig, 8, 8, 0);

    if (err) return err;
    value = atomic_result(h, *orig);
    if (value == *orig) return 0;
    err = sn_place(qp, mr, h->va, &value, 8);
    return err ? err : sn_place_flush(qp);
}

void sn_take_atomic(struct sn_qp *qp, const struct roce_hdr *h)
{
    struct sn_slot_rd *slot;
    struct sn_mr *mr;

    if (h->va & 7) {
        sn_resp_invalid(qp, h, "an address that is no multiple of 8");
        return;
    }
    mr = sn_resp_remote(qp, h, h->rkey, h->va, 8, IBV_ACCESS_REMOTE_ATOMIC);
    if (!mr || !sn_resp_settle(qp, h)) return;
    slot = new_slot(qp, h);
    if (!slot) return;
    slot->kind = SN_SLOT_ATOMIC;
    slot->packets = slot->count = 1;
    if (execute_atomic(qp, h, mr, &slot->orig)) {
        slot->pending = false;
        sn_resp_memory_failed(qp, h->psn);
        return;
    }
    sn_eager_executed(qp, qp->resp.epsn, true);
    qp->resp.epsn = roce_psn_add(qp->resp.epsn, 1);
    qp->resp.silent = false;
}

/* The one that answered this PSN; of several, an old one whose PSN has come round, the newest. */
static struct sn_slot_rd *find_slot(struct sn_qp *qp, uint32_t psn)
{
    for (uint32_t i = 1; i <= SN_MAX_RD_ATOMIC; i++) {
        struct sn_slot_rd *slot = &qp->resp.slots[(qp->resp.slot_head - i) % SN_MAX_RD_ATOMIC];
        int32_t k = roce_psn_diff(psn, slot->psn);

        if (slot->kind != SN_SLOT_FREE && k >= 0 && (uint32_t)k < slot->packets) return slot;
    }
    return NULL;
}

/*
 * A repeated request may name no more than the first one: the same key, and no byte outside its range.
 * Otherwise a connected peer could try one key after the other, while a wrong key in a new READ ends the
 * connection. NULL, or what is wrong.
 */
static const char *not_repeated(const struct sn_qp *qp, const struct sn_slot_rd *slot,
                                const struct roce_hdr *h)
{
    bool read = roce_flags(h->opcode) & ROCE_F_READ;
    uint64_t skip = (uint64_t)(uint32_t)roce_psn_diff(h->psn, slot->psn) * qp->mtu;

    if (read != (slot->kind == SN_SLOT_READ)) return "and it was another kind of request";
    if (h->xrcsrq != slot->srqn) return "for another shared receive queue";
    if (read && !h->dlen) return NULL;
    if (h->rkey != slot->rkey) return "with another key";
    if (h->va != slot->va + skip) return "for another address";
    return read && (skip > slot->whole || h->dlen > slot->whole - skip) ? "for more bytes" : NULL;
}

/*
 * A READ, or a part of it from some packet on, is executed again, with the present rights. Without them it is
 * a late packet about a region that has gone in the meantime: the requester does not wait for its answer.
 */
static void repeat_read(struct sn_qp *qp, struct sn_slot_rd *slot, const struct roce_hdr *h)
{
    uint32_t first = (uint32_t)roce_psn_diff(h->psn, slot->psn), packets = roce_packets(h->dlen, qp->mtu);

    if (h->dlen &&
        !sn_mr_remote(qp, sn_resp_pd(qp, h->xrcsrq), h->rkey, h->va, h->dlen, IBV_ACCESS_REMOTE_READ))
        return;
    slot->pending = true;
    slot->first = slot->next = first;
    slot->count = first + packets;
    slot->len = h->dlen;
    slot->request = ++qp->nic->requests;
    sn_qp_wake(qp);
}

void sn_take_again(struct sn_qp *qp, const struct roce_hdr *h)
{
    struct sn_slot_rd *slot = find_slot(qp, h->psn);
    const char *wrong = slot ? not_repeated(qp, slot, h) : NULL;

    if (!slot) return;
    if (wrong) {
        sn_resp_not_repeated(qp, h, wrong);
    } else if (slot->kind == SN_SLOT_READ) {
        repeat_read(qp, slot, h);
    } else {
        slot->pending = true; /* the kept result; an atomic is never executed twice */
        slot->next = 0;
        sn_qp_wake(qp);
    }
}
