/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Send queues: from WQEBBs in a program's memory to send requests, and back to completions. A WQE is read
 * once, when its turn to be sent comes: what is sent again after a loss comes from the private copy.
 */
#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <gpuwire/detail/assert.h>
#include <gpuwire/detail/held.h>

#include "softnic/mem/guard.h"
#include "softnic/queue/queue.h"
#include "src/roce/segment.h"
#include "src/trace/trace.h"

/* ---- room for requests --------------------------------------------------------------------------------- */

/* Rooms are handed on, so nothing is allocated unless more queue pairs are busy at once than are kept for. */
static bool take_room(struct sn_qp *qp)
{
    struct sn_nic *nic = qp->nic;
    struct sn_sq_room *room = nic->rooms;

    GW_ASSERT_HELD(&nic->lock);
    if (qp->req.ring) return true;
    if (room) {
        nic->rooms = room->next;
        nic->room_count--;
    } else {
        room = aligned_alloc(64, sizeof(*room));
        if (!room) return false;
    }
    qp->req.ring = room->ring;
    qp->req.arena = room->arena;
    qp->req.arena_head = qp->req.arena_used = 0;
    return true;
}

void sn_sq_rest(struct sn_qp *qp)
{
    struct sn_nic *nic = qp->nic;
    struct sn_sq_room *room;

    GW_ASSERT_HELD(&nic->lock);
    if (!qp->req.ring || qp->req.una != qp->req.end) return;
    room = (struct sn_sq_room *)(void *)((char *)qp->req.ring - offsetof(struct sn_sq_room, ring));
    qp->req.ring = NULL;
    qp->req.arena = NULL;
    if (nic->room_count == SN_SQ_ROOMS) {
        free(room);
        return;
    }
    room->next = nic->rooms;
    nic->rooms = room;
    nic->room_count++;
}

void sn_sq_free_rooms(struct sn_nic *nic)
{
    while (nic->rooms) {
        struct sn_sq_room *room = nic->rooms;

        nic->rooms = room->next;
        free(room);
    }
}

/* ---- private copies ------------------------------------------------------------------------------------ */

/* Where a WQE of any size fits, as one piece; *waste bytes at the end stay unused for it. NULL: nowhere. */
static struct gw_mlx5_wqe *arena_place(const struct sn_requester *r, uint32_t *waste)
{
    uint32_t at = r->arena_head;

    *waste = SN_SQ_ARENA - at < sizeof(struct gw_mlx5_wqe) ? SN_SQ_ARENA - at : 0;
    if (*waste) at = 0;
    if (r->arena_used + *waste + sizeof(struct gw_mlx5_wqe) > SN_SQ_ARENA) return NULL;
    return (struct gw_mlx5_wqe *)(r->arena + at);
}

/* The copied entry takes no more than it needs. */
static uint32_t arena_take(struct sn_requester *r, const struct gw_mlx5_wqe *w, uint32_t waste)
{
    uint32_t size = ((uint32_t)gw_mlx5_wqe_size(w) + 15) & ~15u;

    r->arena_head = (uint32_t)((const uint8_t *)w - r->arena) + size;
    r->arena_used += size + waste;
    GW_ASSERT(r->arena_head <= SN_SQ_ARENA && r->arena_used <= SN_SQ_ARENA);
    return size + waste;
}

/* ---- reading WQEs -------------------------------------------------------------------------------------- */

struct parse_args {
    struct sn_qp *qp;
    struct gw_mlx5_wqe *out;
    uint16_t avail;
    int result;
};

static void sq_parse(void *arg)
{
    struct parse_args *a = arg;

    const struct sn_qp *qp = a->qp;
    enum ibv_qp_type type = qp->init.type;

    const struct gw_mlx5_wqe_at at = {.base = qp->init.sq_buf,
                                      .wqebbs = qp->init.sq_wqebbs,
                                      .qpn = qp->number,
                                      .index = qp->sq_next,
                                      .avail = a->avail,
                                      .max_ds = GW_MLX5_MAX_DS,
                                      .form = type == IBV_QPT_UD         ? GW_MLX5_FORM_UD
                                              : type == IBV_QPT_XRC_SEND ? GW_MLX5_FORM_XRC
                                                                         : GW_MLX5_FORM_CONNECTED};

    a->result = gw_mlx5_wqe_parse(a->out, &at);
}

/*
 * Parses the WQE at sq_next into *out. Returns what the parser does, or -EFAULT. *wqebbs is how
 * far to go, also after a wrong WQE, as far as one can tell.
 */
static int parse_next(struct sn_qp *qp, struct gw_mlx5_wqe *out, uint16_t *wqebbs)
{
    struct parse_args a = {qp, out, (uint16_t)(qp->sq_pi - qp->sq_next), -EINVAL};
    uint32_t n;

    if (sn_guard_call(sq_parse, &a)) return -EFAULT;
    if (a.result > 0) {
        *wqebbs = (uint16_t)a.result;
        return a.result;
    }
    n = gw_mlx5_wqebbs(a.out->ds & 63);
    *wqebbs = (uint16_t)(n == 0 ? 1 : n > a.avail ? a.avail : n);
    a.out->ds = 0; /* nothing of it is to be copied */
    return a.result;
}

static uint32_t packets_of(const struct sn_qp *qp, const struct gw_mlx5_wqe *w)
{
    if (w->opcode == GW_MLX5_NOP || w->opcode == GW_MLX5_UMR) return 0;
    return w->length <= qp->mtu ? 1 : roce_packets(w->length, qp->mtu); /* the short way for short ones */
}

static void bad_wqe(struct sn_qp *qp, struct sn_sreq *s, const struct gw_mlx5_wqe *w)
{
    sn_count(&qp->nic->count.bad_wqes, 1);
    sn_report_qp(qp, "send WQE at index %u (opcode 0x%02x, index field %u): %s", s->index, w->opcode,
                 w->index, gw_mlx5_why_text(w->why));
    s->error = w->why == GW_MLX5_TOO_LONG ? GW_MLX5_SYND_LOCAL_LENGTH : GW_MLX5_SYND_LOCAL_QP_OP;
}

static bool receives(const struct gw_mlx5_wqe *w)
{
    return w->opcode == GW_MLX5_READ || gw_mlx5_is_atomic(w->opcode);
}

/* Checks that the parser cannot make. */
static void check_wqe(struct sn_qp *qp, struct sn_sreq *s, const struct gw_mlx5_wqe *w, sn_wqe_check *check)
{
    const char *wrong = NULL;

    s->packets = packets_of(qp, w);
    s->error = GW_MLX5_SYND_LOCAL_QP_OP;
    if (check)
        wrong = check(qp, s, w);
    else if (qp->init.type == IBV_QPT_UC && (receives(w) || w->opcode == GW_MLX5_SEND_INVAL))
        wrong = "UC has no such request";
    else if (receives(w) && !qp->attr.max_rd_atomic)
        wrong = "a READ or atomic, but the QP's max_rd_atomic is 0";
    if (wrong) {
        sn_report_qp(qp, "send WQE at index %u (opcode 0x%02x): %s", s->index, w->opcode, wrong);
        s->packets = 0;
    } else {
        s->error = 0;
    }
}

bool sn_sq_fetch(struct sn_qp *qp, sn_wqe_check *check)
{
    struct sn_requester *r = &qp->req;
    struct gw_mlx5_wqe *w;
    struct sn_sreq *s;
    uint16_t wqebbs;
    uint32_t waste;
    int n;

    GW_ASSERT_HELD(&qp->nic->lock);
    if (qp->state != IBV_QPS_RTS || qp->sq_next == qp->sq_pi) return false;
    if (!take_room(qp)) {
        sn_report_qp(qp, "out of memory for its send requests");
        sn_qp_fatal(qp);
        return false;
    }
    if (r->end - r->una == SN_SQ_WINDOW) return false;
    w = arena_place(r, &waste);
    if (!w) return false;
    s = &r->ring[r->end % SN_SQ_WINDOW];
    n = parse_next(qp, w, &wqebbs);
    if (n == -EFAULT) {
        sn_report_qp(qp, "its send queue is not mapped");
        sn_qp_fatal(qp);
        return false;
    }
    /* In two steps, which compilers do with a few stores. */
    memset(s, 0, offsetof(struct sn_sreq, cursor));
    memset(&s->cursor, 0, sizeof(s->cursor));
    s->wqe = w;
    s->index = qp->sq_next;
    s->wqebbs = wqebbs;
    s->psn = r->tail_psn;
    s->request = ++qp->nic->requests;
    GW_ASSERT(wqebbs && wqebbs <= (uint16_t)(qp->sq_pi - qp->sq_next));
    if (n < 0)
        bad_wqe(qp, s, w);
    else
        check_wqe(qp, s, w, check);
    GW_TRACE(softnic, wqe, qp->number, s->index, w->opcode, w->length, s->psn, s->packets);
    s->arena_bytes = arena_take(r, w, waste);
    r->tail_psn = roce_psn_add(r->tail_psn, s->packets);
    r->end++;
    qp->sq_next = (uint16_t)(qp->sq_next + wqebbs);
    sn_count(&qp->nic->count.wqes, 1);
    return true;
}

/* ---- completing ---------------------------------------------------------------------------------------- */

static struct gw_mlx5_wc new_wc(const struct sn_qp *qp, uint8_t opcode)
{
    struct gw_mlx5_wc wc;

    memset(&wc, 0, sizeof(wc));
    wc.opcode = opcode;
    wc.qpn = qp->number;
    wc.uidx = qp->init.uidx;
    wc.timestamp = qp->nic->now;
    return wc;
}

static int post_error(struct sn_qp *qp, uint16_t index, uint8_t wqe_opcode, uint8_t syndrome)
{
    struct gw_mlx5_wc wc = new_wc(qp, GW_MLX5_CQE_REQ_ERR);

    wc.wqe_opcode = wqe_opcode;
    wc.wqe_counter = index;
    wc.syndrome = syndrome;
    wc.vendor = sn_vendor_error(syndrome);
    return sn_cq_post(qp->init.send_cq, qp, &wc, NULL, 0);
}

static int post_success(struct sn_qp *qp, const struct sn_sreq *s)
{
    struct gw_mlx5_wc wc = new_wc(qp, GW_MLX5_CQE_REQ);
    uint32_t inside = 0;

    wc.wqe_opcode = s->wqe->opcode;
    wc.wqe_counter = s->index;
    if (receives(s->wqe)) {
        wc.byte_cnt = s->wqe->length;
        if (wc.byte_cnt <= qp->init.scatter_req && wc.byte_cnt) inside = wc.byte_cnt;
        if (inside) wc.scatter = qp->init.scatter_req == 64 ? GW_MLX5_CQE_SCATTER_64 : GW_MLX5_CQE_SCATTER_32;
    }
    return sn_cq_post(qp->init.send_cq, qp, &wc, qp->req.scatter, inside);
}

/* Takes the oldest request out. */
static void sq_retire(struct sn_qp *qp)
{
    struct sn_requester *r = &qp->req;
    struct sn_sreq *s = &r->ring[r->una % SN_SQ_WINDOW];

    GW_ASSERT_HELD(&qp->nic->lock);
    GW_ASSERT(r->arena_used >= s->arena_bytes);
    r->arena_used -= s->arena_bytes;
    qp->sq_ci = (uint16_t)(s->index + s->wqebbs);
    r->una++;
}

static bool is_done(const struct sn_qp *qp, const struct sn_sreq *s)
{
    if (!sn_qp_reliable(qp)) return !s->packets || sn_tx_left(qp->nic, s->looped, s->tx_end);
    return roce_psn_diff(qp->req.una_psn, roce_psn_add(s->psn, s->packets)) >= 0;
}

bool sn_sq_complete(struct sn_qp *qp)
{
    struct sn_requester *r = &qp->req;

    /* The request at cur has not been sent whole: not even an acknowledgement from the future completes
     * it. */
    while (r->una != r->cur) {
        struct sn_sreq *s = &r->ring[r->una % SN_SQ_WINDOW];

        if (s->copying || !is_done(qp, s)) break;
        if (receives(s->wqe) && sn_place_flush(qp)) {
            sn_report_qp(qp, "the memory that the READ or atomic at index %u writes to failed", s->index);
            sn_sq_fail(qp, GW_MLX5_SYND_LOCAL_PROT);
            return false;
        }
        if ((s->wqe->signaled || qp->init.sq_sig_all) && post_success(qp, s)) return false;
        sq_retire(qp);
    }
    return true;
}

void sn_sq_fail(struct sn_qp *qp, uint8_t syndrome)
{
    struct sn_requester *r = &qp->req;
    struct sn_sreq *s = &r->ring[r->una % SN_SQ_WINDOW];

    GW_ASSERT_HELD(&qp->nic->lock);
    if (r->early.batched) sn_settle(qp->nic);
    if (r->una != r->end && post_error(qp, s->index, s->wqe->opcode, syndrome) == 0) sq_retire(qp);
    sn_qp_send_error(qp);
}

#ifdef GW_ASSERTS
/* Requests follow each other in the queue and in their PSNs, and their copies take what the arena says. */
static void requests_check(const struct sn_qp *qp)
{
    const struct sn_requester *r = &qp->req;
    uint16_t index = qp->sq_ci;
    uint32_t bytes = 0, psn = r->tail_psn;

    if (r->una != r->end) psn = r->ring[r->una % SN_SQ_WINDOW].psn;
    for (uint32_t i = r->una; i != r->end; i++) {
        const struct sn_sreq *s = &r->ring[i % SN_SQ_WINDOW];

        GW_ASSERT(s->index == index && s->psn == psn);
        index = (uint16_t)(index + s->wqebbs);
        psn = roce_psn_add(psn, s->packets);
        bytes += s->arena_bytes;
    }
    GW_ASSERT(index == qp->sq_next && psn == r->tail_psn);
    GW_ASSERT(!r->ring || bytes == r->arena_used);
}

void sn_sq_check(const struct sn_qp *qp)
{
    const struct sn_requester *r = &qp->req;

    GW_ASSERT(r->end - r->una <= SN_SQ_WINDOW);
    /* A flush leaves cur behind: nothing is sent any more. */
    GW_ASSERT(!sn_qp_sends(qp) || r->cur - r->una <= r->end - r->una);
    GW_ASSERT(!r->ring == !r->arena && (r->ring || r->una == r->end));
    GW_ASSERT((uint16_t)(qp->sq_pi - qp->sq_ci) <= qp->init.sq_wqebbs);
    /* Nothing is read that was not rung for. */
    GW_ASSERT((uint16_t)(qp->sq_next - qp->sq_ci) <= (uint16_t)(qp->sq_pi - qp->sq_ci));
    requests_check(qp);
}
#endif

/* In ERR or SQE: the oldest that is not complete, read or not, comes back. false: there is none. */
bool sn_sq_flush_one(struct sn_qp *qp)
{
    struct sn_requester *r = &qp->req;
    uint16_t wqebbs;

    GW_ASSERT_HELD(&qp->nic->lock);
    if (r->una != r->end) {
        struct sn_sreq *s = &r->ring[r->una % SN_SQ_WINDOW];

        post_error(qp, s->index, s->wqe->opcode, GW_MLX5_SYND_FLUSHED);
        sq_retire(qp);
        return true;
    }
    if (qp->sq_next == qp->sq_pi) return false;
    if (parse_next(qp, &qp->nic->scratch, &wqebbs) == -EFAULT) {
        qp->sq_next = qp->sq_ci = qp->sq_pi; /* they cannot be claimed back */
        return false;
    }
    post_error(qp, qp->sq_next, qp->nic->scratch.opcode, GW_MLX5_SYND_FLUSHED);
    qp->sq_next = (uint16_t)(qp->sq_next + wqebbs);
    qp->sq_ci = qp->sq_next;
    return true;
}
