/* SPDX-License-Identifier: Apache-2.0 */
/* The loop learns here of sessions that open, close and break, and of requests that arrive. One thread. */
#ifndef GW_SERVER_DEVICE_ARRIVE_H
#define GW_SERVER_DEVICE_ARRIVE_H

#include <stdbool.h>
#include <string.h>

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

/* Takes the client's word for what it has written in the slot that its immediate names. False: it is no
 * request. Each field is read once: the client can still write there. */
GW_DEV bool gw_serve_read(const struct gw_serve_args *a, struct gw_serve_arrival *r, uint32_t length)
{
    const struct gw_serve_session *s = &a->session[r->session];
    if (r->slot >= s->slots) return false;
    struct gw_serve_request *q = gw_serve_request_of(a, s, r->slot);
    uint64_t bytes = (uint64_t)length - sizeof(*q), budget = gw_ld_relaxed_u64(&q->budget_ns);
    uint32_t magic = gw_ld_relaxed_u32(&q->magic), rows = gw_ld_relaxed_u32(&q->rows);
    uint32_t priority = gw_ld_relaxed_u32(&q->priority), version = gw_ld_relaxed_u16(&q->version);
    uint32_t slot = gw_ld_relaxed_u16(&q->slot), flags = gw_ld_relaxed_u32(&q->flags);
    uint64_t said =
        gw_ld_relaxed_u64(&q->bytes); /* all loads at once: a GPU would wait for each of them alone */
    r->id = gw_ld_relaxed_u64(&q->id);
    if (length < sizeof(*q) || magic != GW_SERVE_MAGIC || version != GW_SERVE_VERSION || slot != r->slot ||
        !rows || rows > a->rows || flags & ~GW_SERVE_FLAGS || bytes != said ||
        bytes != (flags & GW_SERVE_PLACED ? 0 : gw_layout_bytes(&a->in, rows)))
        return false;
    /* One header, one request: an immediate that no header came with finds none. */
    gw_st_relaxed_u32(&q->magic, 0);
    r->rows = rows;
    r->flags = flags;
    r->priority = !priority                        ? GW_SERVE_PRIORITY
                  : priority < GW_SERVE_PRIORITIES ? priority
                                                   : GW_SERVE_PRIORITIES;
    if (budget && budget < UINT64_MAX - r->when) r->deadline = r->when + budget;
    return true;
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
    if (!gw_serve_read(a, &r, wc->byte_len)) r.priority = 0;
    r.rank = gw_serve_rank(r.priority, r.deadline);
    GW_TRACE(server, queued, a->name, r.session, r.id, r.rows, r.priority);
    gw_serve_enqueue(a, &r);
    gw_serve_active(a, r.session);
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
