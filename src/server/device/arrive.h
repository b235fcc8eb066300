/* SPDX-License-Identifier: Apache-2.0 */
/* The loop learns here of sessions that open, close and break, and of requests that arrive. One thread. */
#ifndef GW_SERVER_DEVICE_ARRIVE_H
#define GW_SERVER_DEVICE_ARRIVE_H

#include <stdbool.h>
#include <string.h>

#include "src/server/device/admit.h"
#include "src/server/device/answer.h"
#include "src/trace/trace.h"

#define GW_SERVE_POLL 8 /* completions taken at once */

/* ---- sessions that open, close and break ---- */

/* The session's word has changed: it opens, or is to be let go of. */
GW_DEV void gw_serve_act_on(const struct gw_serve_args *a, uint32_t i)
{
    struct gw_serve_notice *n = &a->notice[i];
    struct gw_serve_session *s = &a->session[i];
    uint32_t word = gw_ld_acquire_u32(&n->word); /* acquire: the fields below are read after it */
    if (word == s->word) return;
    if (s->in_work) return; /* its slots are in use: afterwards */
    s->word = word;
    gw_serve_forget(a, i);
    s->open = (word & 3) == GW_SESSION_OPEN;
    if (s->open) {
        s->slots = gw_ld_relaxed_u32(&n->slots);
        s->owner = gw_ld_relaxed_u32(&n->owner);
        s->reply_rkey = gw_ld_relaxed_u32(&n->reply_rkey);
        s->reply_addr = gw_ld_relaxed_u64(&n->reply_addr);
        s->reply_stride = gw_ld_relaxed_u64(&n->reply_stride);
        s->posted = s->acked = s->activity = 0;
        s->in_work = s->last_post_ns = 0;
    }
    gw_st_release_u32(&n->seen, word); /* release: the host acts when everything above is done */
}

/* The host asks whether the session is alive. A write of no bytes finds out whether the peer's queue
 * pair still is: its NIC acknowledges it, or the queue pair fails. A session that never had a request
 * sends nothing: its client may have named another client's queue pair. */
GW_DEV void gw_serve_hear(const struct gw_serve_args *a, uint32_t i)
{
    struct gw_serve_notice *n = &a->notice[i];
    struct gw_serve_session *s = &a->session[i];
    uint32_t ask = gw_ld_relaxed_u32(&n->ask);
    if (ask == s->heard) return;
    s->heard = ask;
    if (s->open && s->activity && gw_serve_has_room(a, s) &&
        gw_post_op(s->qp, gw_put_op(s->out_addr, s->out_lkey, s->reply_addr, s->reply_rkey, 0), GW_SIGNALED,
                   gw_serve_id(i, s->word, ++s->posted)))
        gw_serve_broken(a, i);
    gw_st_release_u32(&n->heard, ask); /* release: the activity so far is seen with it */
}

GW_DEV void gw_serve_drain(const struct gw_serve_args *a);

GW_DEV void gw_serve_look(const struct gw_serve_args *a)
{
    a->work->looked = gw_clock_ns();
    if (gw_serve_is_many(a)) {
        gw_st_relaxed_u64(&a->board->clock, a->work->looked); /* a number by itself */
        gw_serve_take_orders(a);
    }
    uint32_t changes = gw_ld_acquire_u32(&a->board->changes); /* acquire: a new count means new words */
    if (changes == a->work->changes) return;
    a->work->changes = changes;
    a->work->closing = gw_ld_relaxed_u32(&a->board->closing);
    gw_serve_drain(a); /* so that no session is taken for idle whose requests lie in the queue */
    for (uint32_t i = 0; i < a->sessions; i++) {
        gw_serve_act_on(a, i);
        gw_serve_hear(a, i);
    }
    gw_serve_tell_waiting(a); /* those of a session that was closed wait no longer */
}

/* ---- arrivals ---- */

/* Does the message hold that number of rows for the request's model? */
GW_DEV bool gw_serve_fits(const struct gw_serve_args *a, const struct gw_serve_arrival *r, uint32_t rows,
                          uint64_t bytes)
{
    const struct gw_serve_shape *shape = &a->shape[r->model];
    if (!rows || rows > shape->rows) return false;
    if (bytes != (r->flags & GW_SERVE_PLACED ? 0 : gw_layout_bytes(&shape->in, rows))) return false;
    /* Sessions of one model have room for its answers. */
    return !gw_serve_is_many(a) || sizeof(struct gw_serve_reply) + gw_layout_bytes(&shape->out, rows) <=
                                       a->session[r->session].reply_stride;
}

/* Takes the client's word for what it has written in the slot that its immediate names: GW_SERVE_OK, or why
 * the request is refused. Each field is read once: the client can still write there. */
GW_DEV enum gw_serve_status gw_serve_read(const struct gw_serve_args *a, struct gw_serve_arrival *r,
                                          uint32_t length)
{
    const struct gw_serve_session *s = &a->session[r->session];
    if (r->slot >= s->slots) return GW_SERVE_BAD_REQUEST;
    struct gw_serve_request *q = gw_serve_request_of(a, s, r->slot);
    uint64_t bytes = (uint64_t)length - sizeof(*q), budget = gw_ld_relaxed_u64(&q->budget_ns);
    uint32_t magic = gw_ld_relaxed_u32(&q->magic), rows = gw_ld_relaxed_u32(&q->rows);
    uint32_t priority = gw_ld_relaxed_u32(&q->priority), version = gw_ld_relaxed_u16(&q->version);
    uint32_t slot = gw_ld_relaxed_u16(&q->slot), flags = gw_ld_relaxed_u32(&q->flags);
    struct gw_serve_claim claim = {gw_ld_relaxed_u32(&q->lease), gw_ld_relaxed_u64(&q->key)};
    uint64_t said =
        gw_ld_relaxed_u64(&q->bytes); /* all loads at once: a GPU would wait for each of them alone */
    r->id = gw_ld_relaxed_u64(&q->id);
    if (length < sizeof(*q) || magic != GW_SERVE_MAGIC || version != GW_SERVE_VERSION || slot != r->slot ||
        flags & ~GW_SERVE_FLAGS || bytes != said)
        return GW_SERVE_BAD_REQUEST;
    struct gw_serve_lease *lease = NULL;
    enum gw_serve_status status = GW_SERVE_OK;
    if (gw_serve_is_many(a)) status = gw_serve_find(a, r, &claim, &lease);
    if (status != GW_SERVE_OK) return status;
    r->flags = flags;
    if (!gw_serve_fits(a, r, rows, bytes)) return GW_SERVE_BAD_REQUEST;
    /* One header, one request: an immediate that no header came with finds none. */
    gw_st_relaxed_u32(&q->magic, 0);
    r->rows = rows;
    r->priority = !priority                        ? GW_SERVE_PRIORITY
                  : priority < GW_SERVE_PRIORITIES ? priority
                                                   : GW_SERVE_PRIORITIES;
    if (budget && budget < UINT64_MAX - r->when) r->deadline = r->when + budget;
    return gw_serve_is_many(a) ? gw_serve_admit(a, r, lease) : GW_SERVE_OK;
}

/* Returns true when a request has come; *r then lacks only what its header says. */
GW_DEV bool gw_serve_completed(const struct gw_serve_args *a, const struct ibv_wc *wc, uint64_t now,
                               struct gw_serve_arrival *r)
{
    uint32_t i = gw_serve_id_session(wc->wr_id);
    struct gw_serve_session *s = &a->session[i];
    /* This may be the first request since the host opened the session. Or the session's last client, which
     * was closed or has failed, has left it. */
    if (!gw_serve_id_is(wc->wr_id, s->word)) gw_serve_act_on(a, i);
    if (!s->open || !gw_serve_id_is(wc->wr_id, s->word)) return false;
    if (wc->status != IBV_WC_SUCCESS) {
        gw_serve_broken(a, i);
        return false;
    }
    if (!(wc->opcode & IBV_WC_RECV)) { /* answers have left: their queue space is free again */
        s->acked = gw_serve_id_answers(wc->wr_id);
        gw_serve_unpark(a, i, 1);
        return false;
    }
    memset(r, 0, sizeof(*r));
    r->session = i;
    /* A message that brought no immediate names no slot, and is refused for that. */
    r->slot = wc->wc_flags & IBV_WC_WITH_IMM ? gw_wc_imm(wc) : UINT32_MAX;
    r->when = now;
    r->deadline = UINT64_MAX;
    r->order = a->work->arrived++;
    r->closing = a->work->closing;
    return true;
}

GW_DEV void gw_serve_arrived(const struct gw_serve_args *a, const struct ibv_wc *wc, uint64_t now)
{
    struct gw_serve_arrival r;
    if (!gw_serve_completed(a, wc, now, &r)) return;
    r.status = gw_serve_read(a, &r, wc->byte_len);
    gw_serve_active(a, r.session);
    if (r.status != GW_SERVE_OK) {
        r.priority = r.rows = 0;
        if (gw_serve_is_many(a) && gw_serve_has_room(a, &a->session[r.session])) {
            gw_serve_refuse(a, &r, (enum gw_serve_status)r.status);
            return;
        }
    }
    r.rank = gw_serve_rank(r.priority, r.deadline);
    GW_TRACE(server, queued, gw_serve_name(a, r.model), r.session, r.id, r.rows, r.priority);
    gw_serve_enqueue(a, &r);
}

/* Takes every completion that is there, so that each request's time of arrival is known, however long the
 * queue. */
GW_DEV void gw_serve_drain(const struct gw_serve_args *a)
{
    struct ibv_wc wc[GW_SERVE_POLL];
    int n;
    while ((n = gw_poll_cq(a->cq, GW_SERVE_POLL, wc)) > 0) {
        uint64_t now = gw_clock_ns();
        for (int i = 0; i < n; i++) gw_serve_arrived(a, &wc[i], now);
    }
}

#endif
