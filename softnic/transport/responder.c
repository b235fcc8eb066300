/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The responder's receiving half: takes request packets in order of their PSN and executes them. What there
 * is to say is noted, and said by respond.c: READs and atomics in slots, a NAK, an acknowledgement.
 *
 * A packet that is refused changes nothing: the next PSN expected stays, so it is the same packet that is
 * tried again. UC, where nothing is said, goes the same way, but that what is refused is dropped:
 * unreliable.c.
 */
#include <errno.h>
#include <string.h>

#include "softnic/engine/engine.h"

/* ---- refusing ------------------------------------------------------------------------------------------ */

/* Says so once; what comes until then is dropped without a word. A NAK acknowledges all before it, too. */
void sn_responder_nak(struct sn_qp *qp, uint8_t syndrome, uint32_t psn)
{
    struct sn_responder *r = &qp->resp;

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
    sn_direct_tell_queue(qp);
}

static void invalid(struct sn_qp *qp, const struct roce_hdr *h, const char *what)
{
    if (!sn_qp_reliable(qp)) {
        sn_uc_drop(qp, &qp->nic->count.drop_refused);
        return;
    }
    sn_report_qp(qp, "its peer (QP 0x%06x) sent %s: %s", qp->attr.dest_qp_num, roce_ops[h->opcode].name,
                 what);
    sn_responder_fatal(qp, ROCE_NAK_INVALID_REQ, h->psn, IBV_EVENT_QP_REQ_ERR);
}

static void access_violation(struct sn_qp *qp, const struct roce_hdr *h, uint32_t rkey, uint64_t va,
                             uint64_t len, uint32_t access)
{
    char why[SN_WHY];

    sn_report_qp(qp, "its peer (QP 0x%06x) sent %s of [0x%llx, +%llu) with rkey 0x%x: %s",
                 qp->attr.dest_qp_num, roce_ops[h->opcode].name, (unsigned long long)va,
                 (unsigned long long)len, rkey,
                 sn_mr_why(qp->nic, sn_resp_pd(qp, h->xrcsrq), rkey, va, len, access, why));
    if (!sn_qp_reliable(qp))
        sn_uc_drop(qp, &qp->nic->count.drop_refused);
    else
        sn_responder_fatal(qp, ROCE_NAK_REMOTE_ACCESS, h->psn, IBV_EVENT_QP_ACCESS_ERR);
}

/* The registered memory itself failed. */
static void memory_failed(struct sn_qp *qp, uint32_t psn)
{
    sn_report_qp(qp, "memory that its peer (QP 0x%06x) wrote to or read is registered but cannot be accessed",
                 qp->attr.dest_qp_num);
    if (!sn_qp_reliable(qp))
        sn_uc_drop(qp, &qp->nic->count.drop_refused);
    else
        sn_responder_fatal(qp, ROCE_NAK_REMOTE_OP, psn, IBV_EVENT_QP_ACCESS_ERR);
}

/* Our own receive WQE is at fault: its owner learns what, the peer only that. */
static void receive_failed(struct sn_qp *qp, const struct roce_hdr *h, uint8_t syndrome, enum roce_nak nak)
{
    sn_rq_fail(qp, syndrome);
    if (sn_qp_reliable(qp))
        sn_responder_fatal(qp, nak, h->psn, IBV_EVENT_QP_FATAL);
    else
        sn_qp_error(qp);
}

/* ---- accepting ----------------------------------------------------------------------------------------- */

static void accept(struct sn_qp *qp, const struct roce_hdr *h, uint32_t packets)
{
    struct sn_responder *r = &qp->resp;

    r->epsn = roce_psn_add(r->epsn, packets);
    r->silent = false;
    r->plain_psn = h->psn;
    if (!h->ackreq || packets == 0 || !sn_qp_reliable(qp)) return;
    r->ack_pending = true;
    r->ack_psn = h->psn;
    sn_qp_wake(qp);
}

/*
 * All payload that the coming acknowledgement or completion vouches for is visible from here on: a NIC may
 * leave that open until then, and no longer.
 */
static bool settle(struct sn_qp *qp, const struct roce_hdr *h)
{
    if (!sn_place_flush(qp)) return true;
    memory_failed(qp, h->psn);
    return false;
}

/* The receive WQE that a message needs. false: refused. */
static bool need_wqe(struct sn_qp *qp, const struct roce_hdr *h)
{
    int n = sn_rq_fetch(qp);

    if (n > 0) return true;
    if (n == 0 && !sn_qp_reliable(qp))
        sn_uc_drop(qp, &qp->nic->count.drop_no_recv);
    else if (n == 0)
        sn_responder_nak(qp, roce_aeth_rnr(qp->attr.min_rnr_timer), h->psn);
    else if (qp->resp.has_wqe)
        receive_failed(qp, h, GW_MLX5_SYND_LOCAL_QP_OP, ROCE_NAK_REMOTE_OP);
    else if (!sn_qp_reliable(qp))
        sn_qp_fatal(qp);
    else
        sn_responder_fatal(qp, ROCE_NAK_REMOTE_OP, h->psn, IBV_EVENT_QP_FATAL);
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
static bool goes_inside(const struct sn_qp *qp, uint32_t flags, uint32_t len)
{
    return (flags & ROCE_F_ONLY) && len && len <= qp->init.scatter_recv && len <= qp->resp.wqe.length;
}

static bool scatter_send(struct sn_qp *qp, const struct roce_hdr *h, const uint8_t *payload, uint32_t len)
{
    int err = sn_scatter_recv(qp, qp->resp.received, payload, len);

    if (!err) return true;
    if (err == -EMSGSIZE) {
        sn_report_qp(
            qp, "receive WQE at index %u has room for %llu bytes, its peer's (QP 0x%06x) message is longer",
            sn_rq_shared(qp) ? qp->resp.entry : qp->rq_ci, (unsigned long long)qp->resp.wqe.length,
            qp->attr.dest_qp_num);
        receive_failed(qp, h, GW_MLX5_SYND_LOCAL_LENGTH, ROCE_NAK_INVALID_REQ);
    } else {
        receive_failed(qp, h, GW_MLX5_SYND_LOCAL_PROT, ROCE_NAK_REMOTE_OP);
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
    receive_failed(qp, h, GW_MLX5_SYND_REM_INV_REQ, ROCE_NAK_REMOTE_OP);
    return false;
}

static uint8_t send_completion(uint32_t flags)
{
    return flags & ROCE_F_IMM    ? GW_MLX5_CQE_RESP_SEND_IMM
           : flags & ROCE_F_IETH ? GW_MLX5_CQE_RESP_SEND_INV
                                 : GW_MLX5_CQE_RESP_SEND;
}

static void take_send(struct sn_qp *qp, const struct roce_hdr *h, uint32_t flags, const uint8_t *payload,
                      uint32_t len)
{
    struct sn_responder *r = &qp->resp;
    bool inside;

    if ((flags & ROCE_F_STARTS) && !need_wqe(qp, h)) return;
    inside = goes_inside(qp, flags, len);
    if (!inside && !scatter_send(qp, h, payload, len)) return;
    r->received += len;
    r->message = SN_MSG_SEND;
    if ((flags & ROCE_F_ENDS) || h->ackreq) {
        if (sn_place_flush(qp)) {
            receive_failed(qp, h, GW_MLX5_SYND_LOCAL_PROT, ROCE_NAK_REMOTE_OP);
            return;
        }
    }
    if ((flags & ROCE_F_IETH) && !invalidate(qp, h)) return;
    if (flags & ROCE_F_ENDS) {
        r->message = SN_MSG_NONE;
        r->msn = (r->msn + 1) & 0xffffff;
        complete_receive(qp, h, send_completion(flags), r->received, inside ? payload : NULL);
    }
    accept(qp, h, 1);
}

/* ---- WRITE --------------------------------------------------------------------------------------------- */

static struct sn_mr *remote(struct sn_qp *qp, const struct roce_hdr *h, uint32_t rkey, uint64_t va,
                            uint64_t len, uint32_t access)
{
    struct sn_mr *mr = sn_mr_remote(qp, sn_resp_pd(qp, h->xrcsrq), rkey, va, len, access);

    if (!mr) access_violation(qp, h, rkey, va, len, access);
    return mr;
}

/* The whole range is checked with the first packet, and each packet's again: the region may have gone. */
static bool begin_write(struct sn_qp *qp, const struct roce_hdr *h)
{
    struct sn_responder *r = &qp->resp;

    if (h->dlen > SN_MAX_MSG) {
        invalid(qp, h, "longer than a message may be");
        return false;
    }
    if (h->dlen && !remote(qp, h, h->rkey, h->va, h->dlen, IBV_ACCESS_REMOTE_WRITE)) return false;
    r->va = h->va;
    r->rkey = h->rkey;
    r->left = h->dlen;
    return true;
}

static void take_write(struct sn_qp *qp, const struct roce_hdr *h, uint32_t flags, const uint8_t *payload,
                       uint32_t len)
{
    struct sn_responder *r = &qp->resp;
    uint32_t total = r->received;
    struct sn_mr *mr;

    if (flags & ROCE_F_STARTS) {
        if (!begin_write(qp, h)) return;
        total = 0;
    }
    if (flags & ROCE_F_ENDS ? len != r->left : len >= r->left) {
        invalid(qp, h, "not the length that its first packet announced");
        return;
    }
    if (len) {
        mr = remote(qp, h, r->rkey, r->va, len, IBV_ACCESS_REMOTE_WRITE);
        if (!mr) return;
    }
    if ((flags & ROCE_F_IMM) && !need_wqe(qp, h)) return;
    if (len && sn_place(qp, mr, r->va, payload, len)) {
        memory_failed(qp, h->psn);
        return;
    }
    if (((flags & ROCE_F_ENDS) || h->ackreq) && !settle(qp, h)) return;
    r->va += len;
    r->left -= len;
    r->received = total + len;
    r->message = SN_MSG_WRITE;
    if (flags & ROCE_F_ENDS) {
        r->message = SN_MSG_NONE;
        r->msn = (r->msn + 1) & 0xffffff;
        if (flags & ROCE_F_IMM) complete_receive(qp, h, GW_MLX5_CQE_RESP_WR_IMM, r->received, NULL);
    }
    accept(qp, h, 1);
}

/* ---- READ, atomics ------------------------------------------------------------------------------------- */

/*
 * The slot for a new READ or atomic: the oldest one's. If that is to be answered again, the peer has got the
 * first answer in the meantime, or it would not come with a new one. NULL: it has more under way than was
 * agreed.
 */
static struct sn_slot_rd *new_slot(struct sn_qp *qp, const struct roce_hdr *h)
{
    struct sn_responder *r = &qp->resp;
    struct sn_slot_rd *slot = NULL;

    if (qp->attr.max_dest_rd_atomic) slot = &r->slots[r->slot_head % qp->attr.max_dest_rd_atomic];
    if (!slot || (slot->pending && !slot->answered)) {
        invalid(qp, h, "more READs and atomics at a time than max_dest_rd_atomic");
        return NULL;
    }
    r->slot_head++;
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

static void take_read(struct sn_qp *qp, const struct roce_hdr *h)
{
    struct sn_slot_rd *slot;

    if (h->dlen > SN_MAX_MSG) {
        invalid(qp, h, "longer than a message may be");
        return;
    }
    if (h->dlen && !remote(qp, h, h->rkey, h->va, h->dlen, IBV_ACCESS_REMOTE_READ)) return;
    if (!settle(qp, h)) return;
    slot = new_slot(qp, h);
    if (!slot) return;
    slot->kind = SN_SLOT_READ;
    slot->len = h->dlen;
    slot->packets = slot->count = roce_packets(h->dlen, qp->mtu);
    slot->request = ++qp->nic->requests;
    qp->resp.epsn = roce_psn_add(qp->resp.epsn, slot->packets);
    qp->resp.silent = false;
}

/* The engine's lock makes it atomic among all queue pairs of this NIC, which is all that is promised. */
static int execute_atomic(struct sn_qp *qp, const struct roce_hdr *h, struct sn_mr *mr, uint64_t *orig)
{
    uint64_t value;
    int err = sn_mr_read(mr, h->va, orig, 8, 8, 0);

    if (err) return err;
    if ((h->opcode & ~ROCE_SERVICE_MASK) == ROCE_FETCH_ADD)
        value = *orig + h->swap_or_add;
    else if (*orig == h->compare)
        value = h->swap_or_add;
    else
        return 0;
    err = sn_place(qp, mr, h->va, &value, 8);
    return err ? err : sn_place_flush(qp);
}

static void take_atomic(struct sn_qp *qp, const struct roce_hdr *h)
{
    struct sn_slot_rd *slot;
    struct sn_mr *mr;

    if (h->va & 7) {
        invalid(qp, h, "an address that is no multiple of 8");
        return;
    }
    mr = remote(qp, h, h->rkey, h->va, 8, IBV_ACCESS_REMOTE_ATOMIC);
    if (!mr || !settle(qp, h)) return;
    slot = new_slot(qp, h);
    if (!slot) return;
    slot->kind = SN_SLOT_ATOMIC;
    slot->packets = slot->count = 1;
    if (execute_atomic(qp, h, mr, &slot->orig)) {
        slot->pending = false;
        memory_failed(qp, h->psn);
        return;
    }
    qp->resp.epsn = roce_psn_add(qp->resp.epsn, 1);
    qp->resp.silent = false;
}

/* ---- what has been seen before --------------------------------------------------------------------------
 */

static struct sn_slot_rd *find_slot(struct sn_qp *qp, uint32_t psn)
{
    for (uint32_t i = 0; i < qp->attr.max_dest_rd_atomic; i++) {
        struct sn_slot_rd *slot = &qp->resp.slots[i];
        int32_t k = roce_psn_diff(psn, slot->psn);

        if (slot->kind != SN_SLOT_FREE && k >= 0 && (uint32_t)k < slot->packets) return slot;
    }
    return NULL;
}

/* A READ, or a part of it from some packet on, is executed anew, with the rights of now. */
static void repeat_read(struct sn_qp *qp, struct sn_slot_rd *slot, const struct roce_hdr *h)
{
    uint32_t first = (uint32_t)roce_psn_diff(h->psn, slot->psn), packets = roce_packets(h->dlen, qp->mtu);

    if (slot->kind != SN_SLOT_READ || packets > slot->packets - first) return;
    if (h->dlen &&
        !sn_mr_remote(qp, sn_resp_pd(qp, h->xrcsrq), h->rkey, h->va, h->dlen, IBV_ACCESS_REMOTE_READ))
        return;
    slot->pending = true;
    slot->first = slot->next = first;
    slot->count = first + packets;
    slot->len = h->dlen;
    slot->va = h->va;
    slot->srqn = h->xrcsrq;
    slot->rkey = h->rkey;
    slot->request = ++qp->nic->requests;
    sn_qp_wake(qp);
}

static void duplicate(struct sn_qp *qp, const struct roce_hdr *h)
{
    struct sn_responder *r = &qp->resp;
    uint32_t flags = roce_flags(h->opcode);

    sn_count(&qp->nic->count.duplicates, 1);
    if (flags & (ROCE_F_READ | ROCE_F_ATOMIC)) {
        struct sn_slot_rd *slot = find_slot(qp, h->psn);

        if (!slot) return;
        if (flags & ROCE_F_READ) {
            repeat_read(qp, slot, h);
        } else if (slot->kind == SN_SLOT_ATOMIC) {
            slot->pending = true; /* the kept result; an atomic is never executed twice */
            slot->next = 0;
            sn_qp_wake(qp);
        }
        return;
    }
    /* Its acknowledgement was lost. All that came in meanwhile is acknowledged with it, so it has to be in
     * memory. Not the READs and atomics after the last SEND or WRITE: their answers do that, and there are
     * requesters (Linux' rxe) that take an acknowledgement with a READ's or atomic's own PSN for its answer.
     */
    if (r->nak_pending || !settle(qp, h)) return;
    r->ack_pending = true;
    r->ack_psn = r->plain_psn;
    sn_qp_wake(qp);
}

/* ---- every request packet --------------------------------------------------------------------------------
 */

static const char *wrong_order(const struct sn_qp *qp, uint32_t flags)
{
    enum sn_message under_way = qp->resp.message;
    enum sn_message kind = flags & ROCE_F_SEND    ? SN_MSG_SEND
                           : flags & ROCE_F_WRITE ? SN_MSG_WRITE
                                                  : SN_MSG_NONE;

    if (flags & ROCE_F_STARTS) return under_way == SN_MSG_NONE ? NULL : "in the middle of another message";
    return under_way == kind ? NULL : "with no such message begun";
}

static const char *wrong_length(const struct sn_qp *qp, uint32_t flags, uint32_t len)
{
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

static const char *not_enabled(const struct sn_qp *qp, uint32_t flags)
{
    unsigned access = qp->attr.qp_access_flags;

    if ((flags & ROCE_F_WRITE) && !(access & IBV_ACCESS_REMOTE_WRITE))
        return "the QP does not allow remote writes";
    if ((flags & ROCE_F_READ) && !(access & IBV_ACCESS_REMOTE_READ))
        return "the QP does not allow remote reads";
    if ((flags & ROCE_F_ATOMIC) && !(access & IBV_ACCESS_REMOTE_ATOMIC))
        return "the QP does not allow atomics";
    return NULL;
}

static void execute(struct sn_qp *qp, const struct roce_hdr *h, const uint8_t *payload, uint32_t len)
{
    uint32_t flags = roce_flags(h->opcode);
    const char *wrong = wrong_order(qp, flags);

    if (!wrong) wrong = wrong_length(qp, flags, len);
    if (!wrong) wrong = not_enabled(qp, flags);
    if (!wrong) wrong = wrong_srq(qp, h, flags);
    if (wrong)
        invalid(qp, h, wrong);
    else if (flags & ROCE_F_SEND)
        take_send(qp, h, flags, payload, len);
    else if (flags & ROCE_F_WRITE)
        take_write(qp, h, flags, payload, len);
    else if (flags & ROCE_F_READ)
        take_read(qp, h);
    else
        take_atomic(qp, h);
}

void sn_request_rx(struct sn_qp *qp, const struct roce_hdr *h, const uint8_t *payload, uint32_t len)
{
    struct sn_responder *r = &qp->resp;
    int32_t ahead = roce_psn_diff(h->psn, r->epsn);

    if (!sn_qp_reliable(qp)) {
        if (sn_uc_in_order(qp, h)) execute(qp, h, payload, len);
    } else if (r->fatal) {
        sn_count(&qp->nic->count.drop_state, 1);
    } else if (ahead < 0) {
        duplicate(qp, h);
    } else if (ahead == 0) {
        r->silent = r->nak_pending = false; /* what was to be said about this PSN is out of date */
        execute(qp, h, payload, len);
    } else {
        sn_count(&qp->nic->count.drop_psn, 1);
        if (!r->silent) sn_responder_nak(qp, roce_aeth_nak(ROCE_NAK_PSN_SEQ), r->epsn);
    }
}
