/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The responder's sending half. Answers leave in the order of their requests: READ and atomic answers first,
 * then the NAK or acknowledgement, which is about something later.
 */
#include <string.h>

#include <gpuwire/detail/held.h>

#include "softnic/transport/transport.h"
#include "src/trace/trace.h"

/* The oldest READ or atomic that has to be answered. Slots are taken in turn, so from the next to be taken on
 * they are in order of age. */
static struct sn_slot_rd *oldest_pending(struct sn_qp *qp)
{
    struct sn_responder *r = &qp->resp;

    for (uint32_t i = 0; i < SN_MAX_RD_ATOMIC; i++) {
        struct sn_slot_rd *slot = &r->slots[(r->slot_head + i) % SN_MAX_RD_ATOMIC];

        if (slot->pending) return slot;
    }
    return NULL;
}

static void set_aeth(struct sn_qp *qp, struct roce_hdr *h, uint8_t syndrome)
{
    h->syndrome = syndrome;
    h->msn = qp->resp.msn;
}

/* The region has gone, or what it stands for. Nothing of this answer, or of later ones, leaves any more. */
static void read_failed(struct sn_qp *qp, struct sn_slot_rd *slot, enum roce_nak nak)
{
    uint32_t psn = roce_psn_add(slot->psn, slot->next);

    for (uint32_t i = 0; i < SN_MAX_RD_ATOMIC; i++) qp->resp.slots[i].pending = false;
    sn_report_qp(qp, "memory that its peer (QP 0x%06x) reads, rkey 0x%x, %s", qp->attr.dest_qp_num,
                 slot->rkey,
                 nak == ROCE_NAK_REMOTE_ACCESS ? "was deregistered in the meantime" : "cannot be accessed");
    sn_responder_fatal(qp, nak, psn, IBV_EVENT_QP_ACCESS_ERR);
}

static enum sn_step answer_read(struct sn_qp *qp, struct sn_slot_rd *slot)
{
    uint32_t k = slot->next - slot->first;
    uint64_t va = slot->va + (uint64_t)slot->next * qp->mtu;
    struct roce_seg seg = roce_segment(ROCE_MSG_READ_RESP, slot->len, qp->mtu, k);
    struct roce_hdr h = {.opcode = seg.opcode | qp->service, .psn = roce_psn_add(slot->psn, slot->next)};
    struct sn_mr *mr = NULL;
    uint8_t *frame;

    if (seg.length) {
        mr = sn_mr_remote(qp, sn_resp_pd(qp, slot->srqn), slot->rkey, va, seg.length, IBV_ACCESS_REMOTE_READ);
        if (!mr) {
            read_failed(qp, slot, ROCE_NAK_REMOTE_ACCESS);
            return SN_DID;
        }
    }
    if (!sn_rate_open(qp)) return SN_IDLE;
    frame = sn_tx_begin(qp);
    if (!frame) return SN_FULL;
    if (seg.length && sn_mr_read(mr, va, frame + roce_ops[seg.opcode].hdr_len, seg.length,
                                 slot->len - k * qp->mtu, slot->request)) {
        read_failed(qp, slot, ROCE_NAK_REMOTE_OP);
        return SN_DID;
    }
    set_aeth(qp, &h, ROCE_AETH_ACK_NO_CREDITS);
    sn_tx_end(qp, frame, &h, seg.length);
    if (++slot->next == slot->count) slot->pending = false;
    if (slot->next == slot->packets) slot->answered = true;
    return SN_DID;
}

static enum sn_step answer_atomic(struct sn_qp *qp, struct sn_slot_rd *slot)
{
    struct roce_hdr h = {.opcode = ROCE_ATOMIC_ACK | qp->service, .psn = slot->psn, .orig = slot->orig};
    uint8_t *frame = sn_tx_begin(qp);

    if (!frame) return SN_FULL;
    set_aeth(qp, &h, ROCE_AETH_ACK_NO_CREDITS);
    sn_tx_end(qp, frame, &h, 0);
    slot->pending = false;
    slot->answered = true;
    return SN_DID;
}

static enum sn_step acknowledge(struct sn_qp *qp, uint8_t syndrome, uint32_t psn)
{
    struct roce_hdr h = {.opcode = ROCE_ACK | qp->service, .psn = psn};
    uint8_t *frame = sn_tx_begin(qp);

    if (!frame) return SN_FULL;
    set_aeth(qp, &h, syndrome);
    sn_tx_end(qp, frame, &h, 0);
    return SN_DID;
}

static void count_nak(struct sn_qp *qp, uint8_t syndrome)
{
    struct sn_counters *c = &qp->nic->count;
    uint64_t *which[] = {&c->naks_seq_sent, &c->naks_inv_sent, &c->naks_access_sent, &c->naks_op_sent};

    if (roce_aeth_is_rnr(syndrome)) {
        sn_count(&c->rnr_sent, 1);
        qp->count.rnr_sent++;
    } else {
        sn_count(which[syndrome & 3], 1);
        qp->count.naks_sent++;
    }
}

static enum sn_step responder_tx_refuse(struct sn_qp *qp)
{
    struct sn_nic *nic = qp->nic;
    struct sn_responder *r = &qp->resp;

    if (acknowledge(qp, r->nak, r->nak_psn) == SN_FULL) return SN_FULL;
    GW_TRACE(softnic, nak_sent, qp->number, r->nak_psn, r->nak);
    count_nak(qp, r->nak);
    r->nak_pending = false;
    if (!r->fatal) return SN_DID;
    enum ibv_event_type event = r->fatal_event;
    sn_qp_error(qp);
    if (nic->cfg.async_event) nic->cfg.async_event(nic->cfg.user, event, qp->init.user);
    return SN_DID;
}

enum sn_step sn_responder_step(struct sn_qp *qp)
{
    struct sn_responder *r = &qp->resp;
    struct sn_slot_rd *slot;

    GW_ASSERT_HELD(&qp->nic->lock);
    if (qp->state != IBV_QPS_RTR && qp->state != IBV_QPS_RTS && qp->state != IBV_QPS_SQD) return SN_IDLE;
    if (qp->rate.notify) return sn_rate_notify(qp);
    slot = r->has_slots ? oldest_pending(qp) : NULL;
    if (slot) return slot->kind == SN_SLOT_READ ? answer_read(qp, slot) : answer_atomic(qp, slot);
    if (r->nak_pending) return responder_tx_refuse(qp);
    if (!r->ack_pending) return SN_IDLE;
    if (acknowledge(qp, ROCE_AETH_ACK_NO_CREDITS, r->ack_psn) == SN_FULL) return SN_FULL;
    GW_TRACE(softnic, ack_sent, qp->number, r->ack_psn);
    sn_count(&qp->nic->count.acks_sent, 1);
    r->ack_pending = false;
    return SN_DID;
}

#ifdef GW_ASSERTS
void sn_responder_check(const struct sn_qp *qp)
{
    for (uint32_t i = 0; i < SN_MAX_RD_ATOMIC; i++) {
        const struct sn_slot_rd *slot = &qp->resp.slots[i];

        GW_ASSERT(!slot->pending || slot->kind != SN_SLOT_FREE);
        GW_ASSERT(slot->first <= slot->next && slot->next <= slot->count && slot->count <= slot->packets);
        GW_ASSERT(slot->kind != SN_SLOT_READ || slot->len <= slot->whole);
    }
}
#endif
