/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The requester's sending half: makes packets of send requests, one at a time, in order, as far as window,
 * fences and outstanding READs allow. Going back after a loss is nothing but moving the place where the next
 * packet is made.
 *
 * A READ is requested in chunks of half a window, each a READ request of its own with the PSNs of its answer.
 * So answers never arrive in larger bursts than requests do. Chunks begin at fixed places in the message. A
 * repeated request thus never reaches past what the responder saw before.
 */
#include <string.h>

#include <gpuwire/detail/held.h>

#include "softnic/transport/transport.h"
#include "src/trace/trace.h"

enum { MIN_WINDOW = 4, FIRST_WINDOW = 48, ACKREQ_PER_WINDOW = 4 };

static uint32_t psn_of_cur(const struct sn_requester *r)
{
    if (r->cur == r->end) return r->tail_psn;
    return roce_psn_add(r->ring[r->cur % SN_SQ_WINDOW].psn, r->cur_packet);
}

void sn_requester_init(struct sn_qp *qp, uint32_t psn)
{
    struct sn_requester *r = &qp->req;
    struct sn_sreq *ring = r->ring;
    uint8_t *arena = r->arena;

    memset(r, 0, sizeof(*r));
    r->ring = ring;
    r->arena = arena;
    r->una_psn = r->max_psn = r->tail_psn = psn;
    r->deadline = SN_NEVER;
    r->window_max = qp->nic->cfg.window_packets;
    if (qp->mtu && r->window_max > qp->nic->cfg.window_bytes / qp->mtu)
        r->window_max = qp->nic->cfg.window_bytes / qp->mtu;
    if (r->window_max < MIN_WINDOW) r->window_max = MIN_WINDOW;
    /* How much the peer and what leads to it can hold is not known yet: see grow_window. */
    r->window = r->window_max < FIRST_WINDOW ? r->window_max : FIRST_WINDOW;
    r->no_loss = true;
}

/* Packets left, from packet k on, in the READ request that holds k. */
static uint32_t chunk_from(const struct sn_qp *qp, const struct sn_sreq *s, uint32_t k)
{
    uint32_t size = qp->req.window_max / 2, left = s->packets - k, rest = size - k % size;

    return rest < left ? rest : left;
}

static bool requester_is_read(const struct sn_sreq *s)
{
    return s->wqe->opcode == GW_MLX5_READ;
}

static bool is_atomic(const struct sn_sreq *s)
{
    return gw_mlx5_is_atomic(s->wqe->opcode);
}

/* ---- may the next packet leave? ------------------------------------------------------------------------ */

static bool window_open(const struct sn_requester *r, uint32_t psn, uint32_t n)
{
    int32_t out = roce_psn_diff(psn, r->una_psn);

    return out <= 0 || (!r->probing && (uint32_t)out + n <= r->window);
}

/*
 * A full window opens only when there is room for as many packets as are worth a system call and the peer's
 * being woken. TCP avoids small segments in the same way (RFC 1122, 4.2.3.4). Otherwise the answer to each
 * few packets would let a few more out, again and again. The packet that filled it asked for an answer, so
 * there will be room.
 */
static bool may_send(struct sn_requester *r, uint32_t psn, uint32_t n)
{
    uint32_t worth = r->window / 2 < SN_TX_COMPANY ? r->window / 2 : SN_TX_COMPANY;

    if (!window_open(r, psn, n))
        r->window_full = true;
    else if (!r->window_full || window_open(r, psn, worth))
        r->window_full = false;
    return !r->window_full;
}

/* These only matter the first time a packet is made: repeats have been allowed before. */
static bool requester_allowed(const struct sn_qp *qp, const struct sn_sreq *s)
{
    const struct sn_requester *r = &qp->req;
    uint32_t reads = r->read_tail - r->read_head;

    if (s->wqe->fence && !r->cur_packet && reads) return false;
    return !(requester_is_read(s) || is_atomic(s)) || reads < qp->attr.max_rd_atomic;
}

/* max_rd_atomic was set to 0 after the post: it can never start. */
static bool requester_never(const struct sn_qp *qp, const struct sn_sreq *s)
{
    return (requester_is_read(s) || is_atomic(s)) && !qp->attr.max_rd_atomic;
}

/* ---- packets ------------------------------------------------------------------------------------------- */

static bool ack_wanted(struct sn_qp *qp, bool last)
{
    struct sn_requester *r = &qp->req;
    uint32_t psn = psn_of_cur(r);

    r->since_ackreq++;
    /* The packet that closes the window, too: otherwise nothing would open it. */
    /* At a limited rate a window's part takes longer than answers are waited for. */
    if (last || qp->rate.bytes_per_s || r->since_ackreq >= r->window / ACKREQ_PER_WINDOW ||
        !window_open(r, roce_psn_add(psn, 1), 1)) {
        r->since_ackreq = 0;
        return true;
    }
    return false;
}

enum roce_msg sn_requester_kind(uint8_t opcode)
{
    switch (opcode) {
    case GW_MLX5_SEND_IMM: return ROCE_MSG_SEND_IMM;
    case GW_MLX5_SEND_INVAL: return ROCE_MSG_SEND_INV;
    case GW_MLX5_WRITE: return ROCE_MSG_WRITE;
    case GW_MLX5_WRITE_IMM: return ROCE_MSG_WRITE_IMM;
    default: return ROCE_MSG_SEND;
    }
}

uint32_t sn_requester_psn(const struct sn_qp *qp)
{
    return psn_of_cur(&qp->req);
}

uint8_t sn_requester_data_packet(struct sn_qp *qp, struct sn_sreq *s, uint8_t *frame)
{
    const struct gw_mlx5_wqe *w = s->wqe;
    struct roce_seg seg = roce_segment(sn_requester_kind(w->opcode), w->length, qp->mtu, qp->req.cur_packet);
    struct roce_hdr h = {.opcode = seg.opcode | qp->service, .psn = psn_of_cur(&qp->req)};
    int err = sn_gather(qp, s, seg.offset, frame + roce_ops[h.opcode].hdr_len, seg.length);

    if (err) return GW_MLX5_SYND_LOCAL_PROT;
    h.ackreq = sn_qp_reliable(qp) && ack_wanted(qp, seg.last);
    sn_requester_fill(&h, w, seg.last);
    sn_tx_end(qp, frame, &h, seg.length);
    return 0;
}

static void make_read_packet(struct sn_qp *qp, struct sn_sreq *s, uint8_t *frame, uint32_t n)
{
    const struct gw_mlx5_wqe *w = s->wqe;
    uint32_t k = qp->req.cur_packet, offset = k * qp->mtu, end = (k + n) * qp->mtu;
    struct roce_hdr h = {.opcode = ROCE_READ_REQ | qp->service,
                         .psn = psn_of_cur(&qp->req),
                         .ackreq = true,
                         .xrcsrq = w->srqn};

    h.va = w->raddr + offset;
    h.rkey = w->rkey;
    h.dlen = (k + n == s->packets ? w->length : end) - offset;
    sn_tx_end(qp, frame, &h, 0);
}

static uint8_t atomic_opcode(const struct sn_qp *qp, uint8_t wqe)
{
    uint8_t xrc = qp->service == ROCE_XRC ? ROCE_OWN_XRC : 0;

    switch (wqe) {
    case GW_MLX5_ATOMIC_CS: return qp->service | ROCE_COMPARE_SWAP;
    case GW_MLX5_ATOMIC_FA: return qp->service | ROCE_FETCH_ADD;
    case GW_MLX5_MASKED_CS: return xrc | ROCE_MASKED_COMPARE_SWAP;
    default: return xrc | ROCE_MASKED_FETCH_ADD;
    }
}

static void make_atomic_packet(struct sn_qp *qp, struct sn_sreq *s, uint8_t *frame)
{
    const struct gw_mlx5_wqe *w = s->wqe;
    struct roce_hdr h = {.psn = psn_of_cur(&qp->req), .ackreq = true, .va = w->raddr, .rkey = w->rkey};

    h.opcode = atomic_opcode(qp, w->opcode);
    h.xrcsrq = w->srqn;
    h.swap_or_add = w->swap_or_add;
    h.compare = w->compare;
    h.swap_mask = w->swap_mask;
    h.compare_mask = w->compare_mask;
    sn_tx_end(qp, frame, &h, 0);
}

/* ---- sending ------------------------------------------------------------------------------------------- */

static void requester_sent(struct sn_qp *qp, struct sn_sreq *s, uint32_t n)
{
    struct sn_requester *r = &qp->req;
    uint32_t psn = psn_of_cur(r), end = roce_psn_add(psn, n);

    if (psn == r->una_psn || s->eager) qp->nic->tx_urgent = true;
    if (!sn_eager_like(s)) sn_eager_not_before(r, r->cur);
    if (roce_psn_diff(end, r->max_psn) <= 0) {
        GW_TRACE(softnic, retransmit, qp->number, psn, n, s->index);
        sn_count(&qp->nic->count.retransmits, 1);
        qp->count.retransmits++;
    } else {
        GW_ASSERT(!(requester_is_read(s) || is_atomic(s)) ||
                  r->read_tail - r->read_head < qp->attr.max_rd_atomic);
        if (requester_is_read(s) || is_atomic(s))
            r->reads[r->read_tail++ % SN_MAX_RD_ATOMIC] = (struct sn_read){psn, end};
        r->max_psn = end;
        if (!r->timing) {
            r->timing = true;
            r->timed_psn = end;
            r->timed_at = qp->nic->now;
        }
    }
    r->cur_packet += n;
    if (r->cur_packet == s->packets) {
        r->cur++;
        r->cur_packet = 0;
    }
    if (r->deadline == SN_NEVER) sn_requester_restart_timer(qp);
}

/* A request that cannot go on: it fails once everything before it is complete. */
static enum sn_step stuck(struct sn_qp *qp, const struct sn_sreq *s)
{
    if (qp->req.una != qp->req.cur) return SN_IDLE;
    sn_sq_fail(qp, s->error);
    return SN_DID;
}

/* Its turn would never come: the program has since set max_rd_atomic to 0. */
static enum sn_step never_sent(struct sn_qp *qp, struct sn_sreq *s)
{
    sn_report_qp(qp, "send WQE at index %u: max_rd_atomic was lowered to 0 before it began", s->index);
    s->error = GW_MLX5_SYND_LOCAL_QP_OP;
    return stuck(qp, s);
}

void sn_requester_drained(struct sn_qp *qp)
{
    if (qp->state != IBV_QPS_SQD || !qp->sqd_notify) return;
    qp->sqd_notify = false;
    if (qp->nic->cfg.async_event)
        qp->nic->cfg.async_event(qp->nic->cfg.user, IBV_EVENT_SQ_DRAINED, qp->init.user);
}

/* The bytes are there: one frame stands for all the packets that they would take. */
static enum sn_step send_placed(struct sn_qp *qp, struct sn_sreq *s)
{
    uint8_t *frame;

    if (!sn_eager_window_open(qp, s)) return SN_IDLE;
    frame = sn_tx_begin(qp);
    if (!frame) return SN_FULL;
    sn_eager_make(qp, s, frame);
    requester_sent(qp, s, s->packets);
    return SN_DID;
}

static enum sn_step requester_send_one(struct sn_qp *qp, struct sn_sreq *s)
{
    struct sn_requester *r = &qp->req;
    bool rndv = sn_rndv_wanted(qp, s);
    uint32_t psn = psn_of_cur(r), n = 1;
    uint8_t *frame;

    if (rndv) n = sn_rndv_packets(qp, s);
    if (requester_is_read(s)) n = chunk_from(qp, s, r->cur_packet);
    if (roce_psn_diff(psn, r->max_psn) >= 0 && !requester_allowed(qp, s))
        return requester_never(qp, s) ? never_sent(qp, s) : SN_IDLE;
    if (rndv ? !sn_rndv_window_open(qp, n) : !may_send(r, psn, n) || !sn_rate_open(qp)) return SN_IDLE;
    frame = sn_tx_begin(qp);
    if (!frame) return SN_FULL;
    if (rndv && !sn_rndv_make(qp, s, frame)) return SN_DID; /* the packets' turn */
    if (rndv) {
        requester_sent(qp, s, n);
        return SN_DID;
    }
    if (requester_is_read(s))
        make_read_packet(qp, s, frame, n);
    else if (is_atomic(s))
        make_atomic_packet(qp, s, frame);
    else
        s->error = sn_requester_data_packet(qp, s, frame);
    if (s->error) return stuck(qp, s);
    requester_sent(qp, s, n);
    return SN_DID;
}

/* A pass after going back comes to it again; a bind is made once. */
bool sn_requester_local(struct sn_qp *qp, struct sn_sreq *s)
{
    struct gw_mlx5_bind bind;
    const char *wrong;

    if (s->wqe->opcode != GW_MLX5_UMR || s->executed) return true;
    gw_mlx5_wqe_bind(s->wqe, &bind);
    wrong = sn_window_bind(qp, &bind);
    s->executed = true;
    if (!wrong) return true;
    sn_report_qp(qp, "%s of window key 0x%x at index %u: %s", bind.length ? "bind" : "invalidation",
                 bind.mkey, s->index, wrong);
    s->error = GW_MLX5_SYND_BIND;
    return false;
}

enum sn_step sn_requester_step(struct sn_qp *qp)
{
    struct sn_requester *r = &qp->req;
    enum sn_step did;
    struct sn_sreq *s;

    GW_ASSERT_HELD(&qp->nic->lock);
    if (qp->state != IBV_QPS_RTS && qp->state != IBV_QPS_SQD) return SN_IDLE;
    if (r->rnr_wait) return SN_IDLE;
    /* Until they are copied, the requests after these have their turn. */
    while (r->cur != r->end && r->ring[r->cur % SN_SQ_WINDOW].copying) r->cur++;
    if (r->cur == r->end && !sn_sq_fetch(qp, NULL)) {
        if (r->una == r->end) sn_requester_drained(qp);
        return SN_IDLE;
    }
    s = &r->ring[r->cur % SN_SQ_WINDOW];
    if (s->error) return stuck(qp, s);
    /* Once its first packet was made all others are packets too. */
    if (s->packets && !r->cur_packet && sn_direct_step(qp, s, &did)) return did;
    if (s->eager && sn_eager_stands(qp)) return send_placed(qp, s);
    if (s->packets) return requester_send_one(qp, s);
    /* Nothing to send. Its fence counts all the same. */
    if (!requester_allowed(qp, s)) return SN_IDLE;
    if (!sn_requester_local(qp, s)) return stuck(qp, s);
    r->cur++;
    sn_sq_complete(qp);
    return SN_DID;
}

/* ---- going back ---------------------------------------------------------------------------------------- */

void sn_requester_lost(struct sn_requester *r)
{
    r->no_loss = false;
    r->window = r->window / 2 < MIN_WINDOW ? MIN_WINDOW : r->window / 2;
}

void sn_requester_back(struct sn_qp *qp)
{
    struct sn_requester *r = &qp->req;

    GW_ASSERT_HELD(&qp->nic->lock);
    r->cur = r->una;
    r->cur_packet = 0;
    if (r->una != r->end) {
        int32_t done = roce_psn_diff(r->una_psn, r->ring[r->una % SN_SQ_WINDOW].psn);

        if (done > 0) r->cur_packet = (uint32_t)done;
    }
    r->since_ackreq = 0;
    r->timing = false;
    r->window_grow = 0;
    r->window_full = r->probing = false;
    sn_requester_lost(r);
    GW_TRACE(softnic, go_back, qp->number, r->una_psn);
    sn_count(&qp->nic->count.go_backs, 1);
    qp->count.go_backs++;
    sn_qp_wake(qp);
}

#ifdef GW_ASSERTS
void sn_requester_check(const struct sn_qp *qp)
{
    const struct sn_requester *r = &qp->req;

    GW_ASSERT(r->read_tail - r->read_head <= SN_MAX_RD_ATOMIC);
    GW_ASSERT(r->early.batched_eager <= r->early.batched && r->early.batched <= SN_SQ_WINDOW);
    if (!sn_qp_reliable(qp) || !sn_qp_sends(qp)) return;
    GW_ASSERT(roce_psn_diff(r->max_psn, r->una_psn) >= 0 && roce_psn_diff(r->tail_psn, r->max_psn) >= 0);
    GW_ASSERT(r->window >= MIN_WINDOW && r->window <= r->window_max);
    GW_ASSERT(r->cur == r->end || r->cur_packet <= r->ring[r->cur % SN_SQ_WINDOW].packets);
    GW_ASSERT(!r->rnr_wait || r->deadline != SN_NEVER);
}
#endif
