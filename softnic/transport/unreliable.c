/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Code that UC and UD share, and UC's own. There are no answers, so nothing is ever sent again, and the NIC
 * waits for nothing but the wire. A request is done when its last frame has been taken from the NIC's ring.
 * The ring is also what holds a sender back.
 *
 * A UC responder (InfiniBand architecture volume 1, 9.8.2) takes a message whole or not at all. A packet that
 * is not the next one of the message under way silently ends that message. The first packet of another
 * message, whatever its PSN, starts a new one. The receive WQE of a message that was given up serves the
 * next.
 */
#include <gpuwire/detail/held.h>

#include "softnic/transport/transport.h"

/* ---- sending ------------------------------------------------------------------------------------------- */

/* Completes what the wire has taken. false: nothing, or the QP is no longer alive. */
static bool unreliable_complete(struct sn_qp *qp)
{
    uint32_t before = qp->req.una;

    return sn_sq_complete(qp) && qp->req.una != before;
}

/* Requests complete in order: one that fails waits for the wire to take those before it. */
static enum sn_step unreliable_fail(struct sn_qp *qp, const struct sn_sreq *s)
{
    if (qp->req.una != qp->req.cur) return SN_FULL;
    sn_sq_fail(qp, s->error);
    return SN_DID;
}

static enum sn_step send_uc(struct sn_qp *qp, struct sn_sreq *s)
{
    uint8_t *frame = sn_tx_begin(qp);

    if (!frame) return SN_FULL;
    s->error = sn_requester_data_packet(qp, s, frame);
    if (s->error) return unreliable_fail(qp, s);
    s->looped = qp->peer.loop;
    s->tx_end = sn_tx_position(qp->nic, s->looped);
    return SN_DID;
}

static enum sn_step send_packet(struct sn_qp *qp, struct sn_sreq *s)
{
    struct sn_requester *r = &qp->req;
    enum sn_step did = qp->init.type == IBV_QPT_UD ? sn_ud_send(qp, s) : send_uc(qp, s);

    if (did == SN_DID && !s->error && ++r->cur_packet == s->packets) {
        r->cur++;
        r->cur_packet = 0;
    }
    return did;
}

enum sn_step sn_unreliable_step(struct sn_qp *qp)
{
    struct sn_requester *r = &qp->req;
    struct sn_sreq *s;

    GW_ASSERT_HELD(&qp->nic->lock);
    if (qp->state == IBV_QPS_SQE) return sn_sq_flush_one(qp) ? SN_DID : SN_IDLE;
    if (qp->state != IBV_QPS_RTS && qp->state != IBV_QPS_SQD) return SN_IDLE;
    if (r->una != r->cur && unreliable_complete(qp)) return SN_DID;
    if (r->cur == r->end && !sn_sq_fetch(qp, qp->init.type == IBV_QPT_UD ? sn_ud_check : NULL)) {
        /* As when there is no room: what it waits for is that the wire takes frames. */
        if (r->una != r->end) return SN_FULL;
        sn_requester_drained(qp);
        return SN_IDLE;
    }
    s = &r->ring[r->cur % SN_SQ_WINDOW];
    if (s->error) return unreliable_fail(qp, s);
    if (s->packets) return send_packet(qp, s);
    if (!sn_requester_local(qp, s)) return unreliable_fail(qp, s);
    r->cur++;
    return SN_DID;
}

bool sn_unreliable_resume(struct sn_qp *qp)
{
    struct sn_requester *r = &qp->req;

    while (qp->state == IBV_QPS_SQE && sn_sq_flush_one(qp)) {
    }
    r->cur = r->end;
    r->cur_packet = 0;
    return qp->state == IBV_QPS_SQE;
}

/* ---- UC: receiving ------------------------------------------------------------------------------------- */

/* Gives the message under way up. Its bytes that are still on their way into memory have to be there before
 * the next one is placed, which may go to the same place. That it fails no longer matters. Neither does a
 * failed first packet, with which no message is under way yet. */
static void unreliable_give_up(struct sn_qp *qp)
{
    sn_place_flush(qp);
    if (qp->resp.message == SN_MSG_NONE) return;
    qp->resp.message = SN_MSG_NONE;
    qp->resp.received = 0;
    sn_cursor_reset(&qp->resp.cursor);
    /* One of a shared queue is this queue pair's now; its own queue gives the same one again. */
    if (!qp->init.srq) qp->resp.has_wqe = false;
    sn_count(&qp->nic->count.lost_messages, 1);
}

void sn_uc_drop(struct sn_qp *qp, uint64_t *counter)
{
    GW_ASSERT_HELD(&qp->nic->lock);
    sn_count(counter, 1);
    unreliable_give_up(qp);
}

bool sn_uc_in_order(struct sn_qp *qp, const struct roce_hdr *h)
{
    struct sn_responder *r = &qp->resp;

    if (roce_flags(h->opcode) & ROCE_F_STARTS) {
        unreliable_give_up(qp);
        r->epsn = h->psn;
        return true;
    }
    if (r->message != SN_MSG_NONE && h->psn == r->epsn) return true;
    sn_uc_drop(qp, &qp->nic->count.drop_psn);
    return false;
}
