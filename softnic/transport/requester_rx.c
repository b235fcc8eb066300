/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The requester's receiving half. Everything comes down to moving una_psn, the oldest PSN that is not
 * acknowledged, forward. Acknowledgements move it up to the first READ or atomic that waits for its answer,
 * and those answers move it on. A responder answers in order, so an acknowledgement from beyond such a READ
 * says that its answer was lost. It is requested again, and never taken as done.
 */
#include <string.h>

#include <gpuwire/detail/held.h>

#include "softnic/transport/transport.h"
#include "src/trace/trace.h"

enum { NAKS_WITHOUT_PROGRESS = 100 };

/* Of something that was sent and is not yet done? */
static bool in_flight(const struct sn_requester *r, uint32_t psn)
{
    return roce_psn_diff(psn, r->una_psn) >= 0 && roce_psn_diff(psn, r->max_psn) < 0;
}

/* ---- forward ------------------------------------------------------------------------------------------- */

/* The place of the next packet must not stand before what is acknowledged. */
static void move_cur(struct sn_requester *r)
{
    int32_t done;

    if ((int32_t)(r->cur - r->una) < 0) {
        r->cur = r->una;
        r->cur_packet = 0;
    }
    if (r->cur != r->una || r->una == r->end) return;
    done = roce_psn_diff(r->una_psn, r->ring[r->una % SN_SQ_WINDOW].psn);
    if (done > (int32_t)r->cur_packet) r->cur_packet = (uint32_t)done;
}

/* A bind that waits for its turn has no PSN that could be acknowledged. */
static bool requester_rx_waits(const struct sn_sreq *s)
{
    return s->wqe->opcode == GW_MLX5_UMR && !s->executed;
}

/* Requests that are acknowledged whole, but that a pass after going back has not come to again, count as
 * sent; so do NOPs that stand between them. */
static void skip_acknowledged(struct sn_requester *r)
{
    while (r->cur != r->end) {
        struct sn_sreq *s = &r->ring[r->cur % SN_SQ_WINDOW];

        if (requester_rx_waits(s) || (s->error && !s->packets) ||
            roce_psn_diff(r->una_psn, roce_psn_add(s->psn, s->packets)) < 0)
            break;
        r->cur++;
        r->cur_packet = 0;
    }
}

/*
 * As TCP does it (RFC 5681). At first the window doubles with each round trip, since peers on good networks
 * take all that it may be. From the first loss on it opens by one packet for each window that was filled
 * without loss. A peer that is slow, with a queue before it, so never gets more than it answers in time.
 */
static void grow_window(struct sn_requester *r, uint32_t packets)
{
    if (r->window >= r->window_max) return;
    if (r->no_loss) {
        r->window = packets < r->window_max - r->window ? r->window + packets : r->window_max;
        return;
    }
    r->window_grow += packets;
    if (r->window_grow < r->window) return;
    r->window_grow = 0;
    r->window++;
}

/* Everything before psn end is done. false: the QP is no longer alive. */
static bool requester_rx_advance(struct sn_qp *qp, uint32_t end)
{
    struct sn_requester *r = &qp->req;
    int32_t n = roce_psn_diff(end, r->una_psn);

    if (n <= 0) return true;
    sn_requester_probed(qp, end);
    r->una_psn = end;
    r->retries = r->naks = r->rnr_retries = 0;
    r->rnr_since = 0;
    r->asked = false;
    sn_requester_measure(qp);
    while (r->read_head != r->read_tail &&
           roce_psn_diff(r->reads[r->read_head % SN_MAX_RD_ATOMIC].end, end) <= 0)
        r->read_head++;
    skip_acknowledged(r);
    if (!sn_sq_complete(qp)) return false;
    move_cur(r);
    grow_window(r, (uint32_t)n);
    if (!r->rnr_wait) sn_requester_restart_timer(qp);
    sn_qp_wake(qp);
    return true;
}

/* Goes back at once instead of after the timeout, but once only per place: answers that were under way would
 * make it go back again and again. */
static void ask_again(struct sn_qp *qp)
{
    if (qp->req.asked) return;
    qp->req.asked = true;
    sn_requester_back(qp);
    if (!qp->req.rnr_wait) sn_requester_restart_timer(qp);
}

/* Is a READ or atomic outstanding? Then *psn is the first that nothing but its answer can acknowledge. */
static bool awaits_answer(const struct sn_requester *r, uint32_t *psn)
{
    const struct sn_read *read = &r->reads[r->read_head % SN_MAX_RD_ATOMIC];

    if (r->read_head == r->read_tail) return false;
    *psn = roce_psn_diff(r->una_psn, read->start) > 0 ? r->una_psn : read->start;
    return true;
}

/*
 * The responder has everything before psn end. Returns false if the QP died, or if a READ stands in the way,
 * which is then asked for again.
 */
static bool acknowledged(struct sn_qp *qp, uint32_t end)
{
    uint32_t limit;

    if (!awaits_answer(&qp->req, &limit) || roce_psn_diff(end, limit) <= 0)
        return requester_rx_advance(qp, end);
    if (!requester_rx_advance(qp, limit)) return false;
    ask_again(qp);
    return false;
}

/* ---- answers to READs and atomics ---------------------------------------------------------------------- */

/*
 * The request that the answer with this psn is for, once everything before it is done. NULL: it is old, or
 * others before it are missing, or the QP died.
 */
static struct sn_sreq *requester_rx_answered(struct sn_qp *qp, uint32_t psn)
{
    struct sn_requester *r = &qp->req;
    struct sn_sreq *s;
    uint32_t expected;
    int32_t k;

    if (!in_flight(r, psn) || !awaits_answer(r, &expected) || roce_psn_diff(psn, expected) < 0) {
        sn_count(&qp->nic->count.drop_stale, 1);
        return NULL;
    }
    if (psn != expected) {
        sn_count(&qp->nic->count.drop_psn, 1);
        if (requester_rx_advance(qp, expected)) ask_again(qp);
        return NULL;
    }
    if (!requester_rx_advance(qp, psn)) return NULL;
    if (r->una == r->end) return NULL;
    s = &r->ring[r->una % SN_SQ_WINDOW];
    k = roce_psn_diff(psn, s->psn);
    return k >= 0 && (uint32_t)k < s->packets ? s : NULL;
}

/* It is done as far as this packet goes. When the last is, its data is in its place, or in the CQE. */
static void take_payload(struct sn_qp *qp, struct sn_sreq *s, uint32_t offset, const uint8_t *data,
                         uint32_t len, uint32_t psn)
{
    int err = 0;

    if (s->wqe->length <= qp->init.scatter_req)
        memcpy(qp->req.scatter, data, len);
    else
        err = sn_scatter_send(qp, s, offset, data, len);
    if (err)
        sn_sq_fail(qp, GW_MLX5_SYND_LOCAL_PROT);
    else
        requester_rx_advance(qp, roce_psn_add(psn, 1));
}

static void read_response(struct sn_qp *qp, const struct roce_hdr *h, const uint8_t *payload, uint32_t len)
{
    struct sn_sreq *s = requester_rx_answered(qp, h->psn);
    uint32_t k, offset, want;

    if (!s) return;
    if (s->wqe->opcode != GW_MLX5_READ) {
        sn_count(&qp->nic->count.drop_opcode, 1);
        return;
    }
    k = (uint32_t)roce_psn_diff(h->psn, s->psn);
    offset = k * qp->mtu;
    want = k + 1 == s->packets ? s->wqe->length - offset : qp->mtu;
    if (len != want) {
        sn_report_qp(qp, "the answer to the READ at index %u has %u bytes in packet %u instead of %u",
                     s->index, len, k, want);
        sn_sq_fail(qp, GW_MLX5_SYND_BAD_RESP);
        return;
    }
    take_payload(qp, s, offset, payload, len, h->psn);
}

static void atomic_response(struct sn_qp *qp, const struct roce_hdr *h)
{
    struct sn_sreq *s = requester_rx_answered(qp, h->psn);
    uint64_t orig = h->orig;

    if (!s) return;
    if (!gw_mlx5_is_atomic(s->wqe->opcode)) {
        sn_count(&qp->nic->count.drop_opcode, 1);
        return;
    }
    take_payload(qp, s, 0, (const uint8_t *)&orig, sizeof(orig),
                 h->psn); /* in host order, as the device says */
}

/* ---- acknowledgements ---------------------------------------------------------------------------------- */

/* It may be tried forever, and then nothing would say what a program waits for. */
static void waits_for_receive(struct sn_qp *qp)
{
    struct sn_requester *r = &qp->req;
    char text[SN_WHY];

    if (!r->rnr_since) r->rnr_since = qp->nic->now;
    if (r->rnr_told || qp->nic->now - r->rnr_since < SN_STARVED_NS) return;
    r->rnr_told = true;
    sn_report_qp(qp, "%s: its peer (QP 0x%06x) has had no receive posted for a second; it is tried again %s",
                 sn_oldest_text(qp, text), qp->attr.dest_qp_num,
                 qp->attr.rnr_retry == 7 ? "until there is one" : "a few times");
}

static void receiver_not_ready(struct sn_qp *qp, const struct roce_hdr *h)
{
    struct sn_requester *r = &qp->req;
    char text[SN_WHY];
    uint32_t window;
    bool no_loss;

    sn_count(&qp->nic->count.rnr_received, 1);
    qp->count.rnr_received++;
    if (r->rnr_wait || !acknowledged(qp, h->psn)) return;
    r->retries = r->naks = 0; /* it answers, and has the packet that it was said to miss */
    if (qp->attr.rnr_retry != 7 && r->rnr_retries++ >= qp->attr.rnr_retry) {
        sn_report_qp(qp, "%s: its peer (QP 0x%06x) had no receive posted: gave up after %u repeats",
                     sn_oldest_text(qp, text), qp->attr.dest_qp_num, qp->attr.rnr_retry);
        sn_sq_fail(qp, GW_MLX5_SYND_RNR_EXC);
        return;
    }
    waits_for_receive(qp);
    window = r->window;
    no_loss = r->no_loss;
    sn_requester_back(qp);
    r->window = window; /* nothing was lost */
    r->no_loss = no_loss;
    r->rnr_wait = true;
    sn_timer_set(qp, qp->nic->now + roce_rnr_ns(h->syndrome & ROCE_AETH_VALUE));
}

static void out_of_sequence(struct sn_qp *qp, const struct roce_hdr *h)
{
    struct sn_requester *r = &qp->req;
    char text[SN_WHY];

    if (!acknowledged(qp, h->psn) || r->rnr_wait) return;
    sn_rndv_unanswered(qp, true);
    if (++r->naks > NAKS_WITHOUT_PROGRESS) {
        sn_report_qp(qp, "%s: its peer (QP 0x%06x) asked %d times for PSN %u and never got it",
                     sn_oldest_text(qp, text), qp->attr.dest_qp_num, r->naks, h->psn);
        sn_sq_fail(qp, GW_MLX5_SYND_RETRY_EXC);
        return;
    }
    ask_again(qp);
}

static void requester_rx_refused(struct sn_qp *qp, const struct roce_hdr *h)
{
    uint8_t syndrome = GW_MLX5_SYND_REM_INV_REQ, code = h->syndrome & ROCE_AETH_VALUE;
    const char *what = "invalid request";
    char text[SN_WHY];

    if (!acknowledged(qp, h->psn)) return;
    if (code == ROCE_NAK_REMOTE_ACCESS) {
        syndrome = GW_MLX5_SYND_REM_ACCESS;
        what = "no such access";
    } else if (code == ROCE_NAK_REMOTE_OP) {
        syndrome = GW_MLX5_SYND_REM_OP;
        what = "it failed there";
    }
    sn_report_qp(qp, "%s: its peer (QP 0x%06x) refused it: %s; the peer's side says why",
                 sn_oldest_text(qp, text), qp->attr.dest_qp_num, what);
    sn_sq_fail(qp, syndrome);
}

static void ack(struct sn_qp *qp, const struct roce_hdr *h)
{
    struct sn_requester *r = &qp->req;

    if (!in_flight(r, h->psn)) {
        sn_count(&qp->nic->count.drop_stale, 1);
        return;
    }
    if (roce_aeth_is_ack(h->syndrome)) {
        GW_TRACE(softnic, ack_received, qp->number, h->psn);
        acknowledged(qp, roce_psn_add(h->psn, 1));
    } else if (roce_aeth_is_rnr(h->syndrome)) {
        GW_TRACE(softnic, nak_received, qp->number, h->psn, h->syndrome);
        receiver_not_ready(qp, h);
    } else if (roce_aeth_is_nak(h->syndrome)) {
        GW_TRACE(softnic, nak_received, qp->number, h->psn, h->syndrome);
        sn_count(&qp->nic->count.naks_received, 1);
        qp->count.naks_received++;
        if ((h->syndrome & ROCE_AETH_VALUE) == ROCE_NAK_PSN_SEQ)
            out_of_sequence(qp, h);
        else
            requester_rx_refused(qp, h);
    } else {
        sn_count(&qp->nic->count.drop_opcode, 1);
    }
}

void sn_answer_rx(struct sn_qp *qp, const struct roce_hdr *h, const uint8_t *payload, uint32_t len)
{
    GW_ASSERT_HELD(&qp->nic->lock);
    switch (h->opcode & ~ROCE_SERVICE_MASK) {
    case ROCE_ACK: ack(qp, h); break;
    case ROCE_ATOMIC_ACK: atomic_response(qp, h); break;
    default: read_response(qp, h, payload, len); break;
    }
    sn_sq_rest(qp);
}
