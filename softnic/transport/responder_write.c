/* SPDX-License-Identifier: Apache-2.0 */
/* The responder executes the packets of SENDs and WRITEs: each goes where the message is up to. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "softnic/transport/responder.h"

/* An offer, or what says that the bytes are there, stands for the packets that they would take. */
static void responder_write_accept(struct sn_qp *qp, const struct roce_hdr *h, const struct sn_body *body)
{
    struct sn_responder *r = &qp->resp;
    bool many = body->rndv || body->eager;

    r->epsn = roce_psn_add(r->epsn, many ? roce_packets(body->length, qp->mtu) : 1);
    r->silent = false;
    r->plain_psn = roce_psn_add(r->epsn, 0xffffff); /* the last of them */
    sn_eager_executed(qp, r->plain_psn, body->length && !body->eager);
    if (!h->ackreq || !sn_qp_reliable(qp)) return;
    r->ack_pending = true;
    r->ack_psn = r->plain_psn;
    sn_qp_wake(qp);
}

/* Each NAK says so to the peer. Once, when it has waited long, a line says so here. */
static void starves(struct sn_qp *qp)
{
    struct sn_responder *r = &qp->resp;
    const struct sn_srq *srq = sn_rq_shared(qp);
    char where[32] = "";

    if (!r->starved_since) r->starved_since = qp->nic->now;
    if (r->starved_told || qp->nic->now - r->starved_since < SN_STARVED_NS) return;
    r->starved_told = true;
    if (srq) snprintf(where, sizeof(where), " to SRQ 0x%06x", srq->number);
    sn_report_qp(
        qp, "its peer (QP 0x%06x) has waited for a second: it sent a message, and no receive is posted%s",
        qp->attr.dest_qp_num, where);
}

/* The receive WQE that a message needs. false: refused. */
static bool responder_write_need_wqe(struct sn_qp *qp, const struct roce_hdr *h)
{
    int n = sn_rq_fetch(qp);

    if (n > 0) {
        qp->resp.starved_since = 0;
        return true;
    }
    if (n == 0 && !sn_qp_reliable(qp)) {
        sn_uc_drop(qp, &qp->nic->count.drop_no_recv);
    } else if (n == 0) {
        sn_responder_nak(qp, roce_aeth_rnr(qp->attr.min_rnr_timer), h->psn);
        starves(qp);
    } else if (qp->resp.has_wqe) {
        sn_resp_receive_failed(qp, h, GW_MLX5_SYND_LOCAL_QP_OP, ROCE_NAK_REMOTE_OP);
    } else if (!sn_qp_reliable(qp)) {
        sn_qp_fatal(qp);
    } else {
        sn_responder_fatal(qp, ROCE_NAK_REMOTE_OP, h->psn, IBV_EVENT_QP_FATAL);
    }
    return false;
}

static void complete_receive(struct sn_qp *qp, const struct roce_hdr *h, uint8_t opcode, uint32_t bytes,
                             const uint8_t *inside)
{
    struct gw_mlx5_wc wc;

    memset(&wc, 0, sizeof(wc));
    wc.opcode = opcode;
    wc.byte_cnt = bytes;
    wc.imm_be = h->imm_be;
    wc.solicited = h->solicited;
    if (inside) wc.scatter = qp->init.scatter_recv == 64 ? GW_MLX5_CQE_SCATTER_64 : GW_MLX5_CQE_SCATTER_32;
    sn_rq_complete(qp, &wc, inside, inside ? bytes : 0);
}

/* ---- SEND ---------------------------------------------------------------------------------------------- */

/* Whether the payload goes into the CQE. */
static bool goes_inside(const struct sn_qp *qp, uint32_t flags, const struct sn_body *body)
{
    uint32_t len = body->length;

    return !body->rndv && (flags & ROCE_F_ONLY) && len && len <= qp->init.scatter_recv &&
           len <= qp->resp.wqe.length;
}

/* -EXDEV: it cannot be fetched; others as sn_scatter_recv. */
static int fetch_send(struct sn_qp *qp, const struct sn_rndv *rndv)
{
    struct sn_places places;
    int err = sn_list_recv(qp, qp->resp.received, rndv->length, &places);

    return err || sn_rndv_pull(qp, rndv, &places) ? err : -EXDEV;
}

static bool scatter_send(struct sn_qp *qp, const struct roce_hdr *h, const struct sn_body *body)
{
    int err = body->rndv ? fetch_send(qp, body->rndv)
                         : sn_scatter_recv(qp, qp->resp.received, body->bytes, body->length);

    if (!err) return true;
    if (err == -EXDEV) {
        sn_resp_no_bytes(qp, h, &qp->nic->count.rndv_refused);
    } else if (err == -EMSGSIZE) {
        sn_report_qp(
            qp, "receive WQE at index %u has room for %llu bytes, its peer's (QP 0x%06x) message is longer",
            sn_rq_shared(qp) ? qp->resp.entry : qp->rq_ci, (unsigned long long)qp->resp.wqe.length,
            qp->attr.dest_qp_num);
        sn_resp_receive_failed(qp, h, GW_MLX5_SYND_LOCAL_LENGTH, ROCE_NAK_INVALID_REQ);
    } else {
        sn_resp_receive_failed(qp, h, GW_MLX5_SYND_LOCAL_PROT, ROCE_NAK_REMOTE_OP);
    }
    return false;
}

/*
 * The key is taken back once the message is whole, before its completion. One that is not the peer's to take
 * fails the receive, and the connection.
 */
static bool invalidate(struct sn_qp *qp, const struct roce_hdr *h)
{
    uint32_t rkey = gw_be32(h->imm_be);
    const char *wrong = sn_window_invalidate(qp, sn_resp_pd(qp, h->xrcsrq), rkey);

    if (!wrong) return true;
    sn_report_qp(qp, "its peer (QP 0x%06x) sent %s of rkey 0x%x: %s", qp->attr.dest_qp_num,
                 roce_ops[h->opcode].name, rkey, wrong);
    sn_resp_guessed(qp, false);
    sn_resp_receive_failed(qp, h, GW_MLX5_SYND_REM_INV_REQ, ROCE_NAK_REMOTE_OP);
    return false;
}

static uint8_t send_completion(uint32_t flags)
{
    return flags & ROCE_F_IMM    ? GW_MLX5_CQE_RESP_SEND_IMM
           : flags & ROCE_F_IETH ? GW_MLX5_CQE_RESP_SEND_INV
                                 : GW_MLX5_CQE_RESP_SEND;
}

void sn_take_send(struct sn_qp *qp, const struct roce_hdr *h, uint32_t flags, const struct sn_body *body)
{
    struct sn_responder *r = &qp->resp;
    bool inside;

    if ((flags & ROCE_F_STARTS) && !responder_write_need_wqe(qp, h)) return;
    inside = goes_inside(qp, flags, body);
    if (!inside && !scatter_send(qp, h, body)) return;
    r->received += body->length;
    r->message = SN_MSG_SEND;
    if ((flags & ROCE_F_ENDS) || h->ackreq) {
        if (sn_place_flush(qp)) {
            sn_resp_receive_failed(qp, h, GW_MLX5_SYND_LOCAL_PROT, ROCE_NAK_REMOTE_OP);
            return;
        }
    }
    if ((flags & ROCE_F_IETH) && !invalidate(qp, h)) return;
    if (flags & ROCE_F_ENDS) {
        r->message = SN_MSG_NONE;
        r->msn = (r->msn + 1) & 0xffffff;
        complete_receive(qp, h, send_completion(flags), r->received, inside ? body->bytes : NULL);
    }
    responder_write_accept(qp, h, body);
}

/* ---- WRITE --------------------------------------------------------------------------------------------- */

/* The whole range is checked with the first packet, and each packet's again: the region may have gone. */
static bool begin_write(struct sn_qp *qp, const struct roce_hdr *h)
{
    struct sn_responder *r = &qp->resp;

    if (h->dlen > SN_MAX_MSG) {
        sn_resp_invalid(qp, h, "longer than a message may be");
        return false;
    }
    if (h->dlen && !sn_resp_remote(qp, h, h->rkey, h->va, h->dlen, IBV_ACCESS_REMOTE_WRITE)) return false;
    r->va = h->va;
    r->rkey = h->rkey;
    r->left = h->dlen;
    return true;
}

/* The next bytes of the WRITE under way to their place. False: refused. */
static bool place_write(struct sn_qp *qp, const struct roce_hdr *h, struct sn_mr *mr,
                        const struct sn_body *body)
{
    uint64_t va = qp->resp.va;
    struct sn_places place = {.n = 1, .by = sn_mr_reach(mr)};

    place.piece[0] = (struct iovec){(void *)(uintptr_t)(mr->init.addr + (va - mr->init.iova)), body->length};
    if (body->eager) {
        if (sn_eager_believed(qp, mr, body)) return true;
        sn_resp_no_bytes(qp, h, &qp->nic->count.eager_refused);
    } else if (body->rndv) {
        if (sn_mr_copies(mr) && sn_rndv_pull(qp, body->rndv, &place)) return true;
        sn_resp_no_bytes(qp, h, &qp->nic->count.rndv_refused);
    } else {
        if (!sn_place(qp, mr, va, body->bytes, body->length)) return true;
        sn_resp_memory_failed(qp, h->psn);
    }
    return false;
}

/* An immediate tells its target that the bytes are there. */
static bool settle_write(struct sn_qp *qp, const struct roce_hdr *h, uint32_t flags)
{
    if (flags & ROCE_F_IMM) return sn_resp_settle(qp, h);
    if (!sn_place_end_write(qp)) return true;
    sn_resp_memory_failed(qp, h->psn);
    return false;
}

void sn_take_write(struct sn_qp *qp, const struct roce_hdr *h, uint32_t flags, const struct sn_body *body)
{
    struct sn_responder *r = &qp->resp;
    uint32_t total = r->received, len = body->length;
    struct sn_mr *mr = NULL;

    if (flags & ROCE_F_STARTS) {
        if (!begin_write(qp, h)) return;
        total = 0;
    }
    if (flags & ROCE_F_ENDS ? len != r->left : len >= r->left) {
        sn_resp_invalid(qp, h, "not the length that its first packet announced");
        return;
    }
    if (len) {
        mr = sn_resp_remote(qp, h, r->rkey, r->va, len, IBV_ACCESS_REMOTE_WRITE);
        if (!mr) return;
    }
    if ((flags & ROCE_F_IMM) && !responder_write_need_wqe(qp, h)) return;
    if (mr && !place_write(qp, h, mr, body)) {
        r->received = total; /* taking a receive has set it back */
        return;
    }
    if (((flags & ROCE_F_ENDS) || h->ackreq) && !settle_write(qp, h, flags)) return;
    r->va += len;
    r->left -= len;
    r->received = total + len;
    r->message = SN_MSG_WRITE;
    if (flags & ROCE_F_ENDS) {
        r->message = SN_MSG_NONE;
        r->msn = (r->msn + 1) & 0xffffff;
        if (flags & ROCE_F_IMM) complete_receive(qp, h, GW_MLX5_CQE_RESP_WR_IMM, r->received, NULL);
    }
    responder_write_accept(qp, h, body);
}
