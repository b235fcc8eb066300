/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Why a responder refuses a request: each reason with its line to the user, its NAK and its event. A refused
 * packet changes nothing else: responder.c.
 */
#include "softnic/transport/responder.h"

#include <arpa/inet.h>

#include <gpuwire/detail/held.h>

/* The eighth wrong key does not look like a mistake any more. An unreliable connection ends with the last
 * of these. */
enum { MISTAKES = 8, UC_GUESSES = 64 };
#define SAY_AGAIN_NS UINT64_C(10000000000)

void sn_resp_guessed(struct sn_qp *qp, bool certain)
{
    struct sn_nic *nic = qp->nic;
    char peer[INET6_ADDRSTRLEN];

    qp->guesses++;
    sn_count(&nic->count.wrong_keys, 1);
    if (!certain && nic->count.wrong_keys < MISTAKES) return;
    if (nic->guess_reported_at && nic->now < nic->guess_reported_at + SAY_AGAIN_NS) return;
    nic->guess_reported_at = nic->now;
    inet_ntop(AF_INET6, qp->peer.gid, peer, sizeof(peer));
    sn_warn(nic,
            "peers named keys or addresses that they were not given, %llu times so far, the last one QP "
            "0x%06x at %s, "
            "connected to QP 0x%06x: perhaps it guesses keys",
            (unsigned long long)nic->count.wrong_keys, qp->attr.dest_qp_num, peer, qp->number);
}

/* Says so once; what comes until then is dropped silently. A NAK acknowledges all before it, too. */
void sn_responder_nak(struct sn_qp *qp, uint8_t syndrome, uint32_t psn)
{
    struct sn_responder *r = &qp->resp;

    GW_ASSERT_HELD(&qp->nic->lock);
    r->nak_pending = true;
    r->nak = syndrome;
    r->nak_psn = psn;
    r->silent = true;
    r->ack_pending = false;
    sn_qp_wake(qp);
}

/* The connection ends with this NAK: the QP goes to ERR when it has left. */
void sn_responder_fatal(struct sn_qp *qp, enum roce_nak nak, uint32_t psn, enum ibv_event_type event)
{
    if (qp->resp.fatal) return;
    sn_responder_nak(qp, roce_aeth_nak(nak), psn);
    qp->resp.fatal = true;
    qp->resp.fatal_event = event;
    sn_publish_queue(qp);
}

void sn_resp_invalid(struct sn_qp *qp, const struct roce_hdr *h, const char *what)
{
    if (!sn_qp_reliable(qp)) {
        sn_uc_drop(qp, &qp->nic->count.drop_refused);
        return;
    }
    sn_report_qp(qp, "its peer (QP 0x%06x) sent %s: %s", qp->attr.dest_qp_num, roce_ops[h->opcode].name,
                 what);
    sn_responder_fatal(qp, ROCE_NAK_INVALID_REQ, h->psn, IBV_EVENT_QP_REQ_ERR);
}

void sn_resp_not_repeated(struct sn_qp *qp, const struct roce_hdr *h, const char *what)
{
    sn_report_qp(qp, "its peer (QP 0x%06x) repeated %s of [0x%llx, +%u) with rkey 0x%x, %s",
                 qp->attr.dest_qp_num, roce_ops[h->opcode].name, (unsigned long long)h->va, h->dlen, h->rkey,
                 what);
    sn_resp_guessed(qp, true);
    sn_responder_fatal(qp, ROCE_NAK_REMOTE_ACCESS, h->psn, IBV_EVENT_QP_ACCESS_ERR);
}

/* The peer gets no answer, so it could go on trying. */
static void drop_guess(struct sn_qp *qp)
{
    struct sn_nic *nic = qp->nic;

    sn_uc_drop(qp, &nic->count.drop_refused);
    if (qp->guesses < UC_GUESSES) return;
    sn_report_qp(qp, "its peer (QP 0x%06x) named %u wrong keys: the connection ends", qp->attr.dest_qp_num,
                 qp->guesses);
    sn_qp_error(qp);
    if (nic->cfg.async_event) nic->cfg.async_event(nic->cfg.user, IBV_EVENT_QP_ACCESS_ERR, qp->init.user);
}

static void access_violation(struct sn_qp *qp, const struct roce_hdr *h, uint32_t rkey, uint64_t va,
                             uint64_t len, uint32_t access)
{
    const struct sn_mr_named named = {sn_resp_pd(qp, h->xrcsrq), rkey, access, va, len};
    char why[SN_WHY];

    sn_report_qp(qp, "its peer (QP 0x%06x) sent %s of [0x%llx, +%llu) with rkey 0x%x: %s",
                 qp->attr.dest_qp_num, roce_ops[h->opcode].name, (unsigned long long)va,
                 (unsigned long long)len, rkey, sn_mr_diagnose(qp->nic, &named, why));
    sn_resp_guessed(qp, false);
    if (!sn_qp_reliable(qp))
        drop_guess(qp);
    else
        sn_responder_fatal(qp, ROCE_NAK_REMOTE_ACCESS, h->psn, IBV_EVENT_QP_ACCESS_ERR);
}

void sn_resp_memory_failed(struct sn_qp *qp, uint32_t psn)
{
    sn_report_qp(qp, "memory that its peer (QP 0x%06x) wrote to or read is registered but cannot be accessed",
                 qp->attr.dest_qp_num);
    if (!sn_qp_reliable(qp))
        sn_uc_drop(qp, &qp->nic->count.drop_refused);
    else
        sn_responder_fatal(qp, ROCE_NAK_REMOTE_OP, psn, IBV_EVENT_QP_ACCESS_ERR);
}

void sn_resp_receive_failed(struct sn_qp *qp, const struct roce_hdr *h, uint8_t syndrome, enum roce_nak nak)
{
    sn_rq_fail(qp, syndrome);
    if (sn_qp_reliable(qp))
        sn_responder_fatal(qp, nak, h->psn, IBV_EVENT_QP_FATAL);
    else
        sn_qp_error(qp);
}

void sn_resp_no_bytes(struct sn_qp *qp, const struct roce_hdr *h, uint64_t *counter)
{
    sn_count(counter, 1);
    sn_responder_nak(qp, roce_aeth_nak(ROCE_NAK_PSN_SEQ), h->psn);
}

struct sn_mr *sn_resp_remote(struct sn_qp *qp, const struct roce_hdr *h, uint32_t rkey, uint64_t va,
                             uint64_t len, uint32_t access)
{
    struct sn_mr *mr = sn_mr_remote(qp, sn_resp_pd(qp, h->xrcsrq), rkey, va, len, access);

    if (!mr) access_violation(qp, h, rkey, va, len, access);
    return mr;
}

bool sn_resp_settle(struct sn_qp *qp, const struct roce_hdr *h)
{
    if (!sn_place_flush(qp)) return true;
    sn_resp_memory_failed(qp, h->psn);
    return false;
}
