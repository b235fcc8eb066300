/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The responder's receiving half: takes request packets in order of their PSN and executes them. Answers are
 * noted here, and responder_tx.c sends them: READs and atomics in slots, a NAK, an acknowledgement. Here is
 * what every request packet goes through; responder.h names the rest.
 *
 * A packet that is refused changes nothing: the next PSN expected stays, so it is the same packet that is
 * tried again. UC sends no answers; otherwise it takes the same path, except that refused packets are
 * dropped: unreliable.c.
 */
#include <gpuwire/detail/held.h>

#include "softnic/transport/responder.h"

/* A packet seen before: its answer or acknowledgement was lost. */
static void duplicate(struct sn_qp *qp, const struct roce_hdr *h)
{
    struct sn_responder *r = &qp->resp;

    sn_count(&qp->nic->count.duplicates, 1);
    if (roce_flags(h->opcode) & (ROCE_F_READ | ROCE_F_ATOMIC)) {
        sn_take_again(qp, h);
        return;
    }
    /* All that came in since is acknowledged with it, so it has to be in memory. Not the READs and atomics
     * after the last SEND or WRITE: their answers do that. Some requesters (Linux' rxe) take an
     * acknowledgement with a READ's or atomic's own PSN for its answer. */
    if (r->nak_pending || !sn_resp_settle(qp, h)) return;
    r->ack_pending = true;
    r->ack_psn = r->plain_psn;
    sn_qp_wake(qp);
}

static const char *wrong_order(const struct sn_qp *qp, uint32_t flags)
{
    enum sn_message under_way = qp->resp.message;
    enum sn_message kind = flags & ROCE_F_SEND    ? SN_MSG_SEND
                           : flags & ROCE_F_WRITE ? SN_MSG_WRITE
                                                  : SN_MSG_NONE;

    if (flags & ROCE_F_STARTS) return under_way == SN_MSG_NONE ? NULL : "in the middle of another message";
    return under_way == kind ? NULL : "with no such message begun";
}

static const char *wrong_length(const struct sn_qp *qp, uint32_t flags, const struct sn_body *body)
{
    uint32_t len = body->length;

    if (body->rndv && (flags & (ROCE_F_FIRST | ROCE_F_MIDDLE)) && len % qp->mtu)
        return "an offer of parts of packets";
    if (body->rndv || body->eager) return NULL;
    if (len > qp->mtu) return "more payload than the path MTU";
    if ((flags & (ROCE_F_FIRST | ROCE_F_MIDDLE)) && len != qp->mtu) return "less payload than the path MTU";
    if ((flags & ROCE_F_LAST) && !len) return "a last packet without payload";
    return NULL;
}

/* XRC: every packet names its queue, and those of a message the same. */
static const char *wrong_srq(struct sn_qp *qp, const struct roce_hdr *h, uint32_t flags)
{
    struct sn_responder *r = &qp->resp;
    struct sn_srq *srq;

    if (!qp->init.xrcd) return NULL;
    srq = sn_srq_find(qp->nic, qp->init.xrcd, h->xrcsrq);
    if (!srq) return "a shared receive queue that its domain does not have";
    if (!(flags & ROCE_F_STARTS) && srq != r->srq) return "another shared receive queue than the message's";
    r->srq = srq;
    return NULL;
}

static const char *not_enabled(const struct sn_qp *qp, uint32_t flags, uint8_t opcode)
{
    unsigned access = qp->attr.qp_access_flags;

    if ((flags & ROCE_F_ATOMIC) && qp->nic->cfg.no_atomics)
        return "this NIC executes no atomics (atomics=none)";
    if ((flags & ROCE_F_ATOMIC) && roce_is_own(opcode) && qp->nic->cfg.no_masked)
        return "its mode of atomics has no masked ones (atomics=ib)";

    if ((flags & ROCE_F_WRITE) && !(access & IBV_ACCESS_REMOTE_WRITE))
        return "the QP does not allow remote writes";
    if ((flags & ROCE_F_READ) && !(access & IBV_ACCESS_REMOTE_READ))
        return "the QP does not allow remote reads";
    if ((flags & ROCE_F_ATOMIC) && !(access & IBV_ACCESS_REMOTE_ATOMIC))
        return "the QP does not allow atomics";
    return NULL;
}

static void execute(struct sn_qp *qp, const struct roce_hdr *h, const struct sn_body *body)
{
    uint32_t flags = roce_flags(h->opcode);
    const char *wrong = wrong_order(qp, flags);

    if (!wrong) wrong = wrong_length(qp, flags, body);
    if (!wrong) wrong = not_enabled(qp, flags, h->opcode);
    if (!wrong) wrong = wrong_srq(qp, h, flags);
    if (wrong)
        sn_resp_invalid(qp, h, wrong);
    else if (flags & ROCE_F_SEND)
        sn_take_send(qp, h, flags, body);
    else if (flags & ROCE_F_WRITE)
        sn_take_write(qp, h, flags, body);
    else if (flags & ROCE_F_READ)
        sn_take_read(qp, h);
    else
        sn_take_atomic(qp, h);
}

void sn_request_rx(struct sn_qp *qp, const struct roce_hdr *h, const struct sn_body *body)
{
    struct sn_responder *r = &qp->resp;
    int32_t ahead = roce_psn_diff(h->psn, r->epsn);

    GW_ASSERT_HELD(&qp->nic->lock);
    if (!sn_qp_reliable(qp)) {
        if (sn_uc_in_order(qp, h)) execute(qp, h, body);
    } else if (r->fatal) {
        sn_count(&qp->nic->count.drop_state, 1);
    } else if (ahead < 0) {
        duplicate(qp, h);
    } else if (ahead == 0) {
        r->silent = r->nak_pending = false; /* what was to be said about this PSN is out of date */
        execute(qp, h, body);
    } else {
        sn_count(&qp->nic->count.drop_psn, 1);
        if (!r->silent) sn_responder_nak(qp, roce_aeth_nak(ROCE_NAK_PSN_SEQ), r->epsn);
    }
}
