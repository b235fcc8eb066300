/* SPDX-License-Identifier: Apache-2.0 */
/* The serving loop's kernels: wait for a request, and (after the model's own kernels) send the answer.
 *
 * One thread each. Compiled twice, by serve_kernel.c for CPU threads and by serve_kernel.cu for a GPU.
 *
 * The order of things in memory: a request's completion is polled with acquire semantics (gw_wait_cq), so
 * that header and tensor, which the NIC placed before it, are read after it. The model's kernels run between
 * the two stages, and the stage boundary orders their writes before the send; its put then publishes them
 * to the NIC.
 */
#ifndef GW_SERVE_KERNEL_H
#define GW_SERVE_KERNEL_H

#include <gpuwire/kernel.h>

#include "src/serve/shared.h"
#include "src/serve/wire.h"

/* Between two looks at the board: on a GPU a trip over the bus; on CPU threads a wake-up, and wake_fd tells
 * of most changes. */
#define GW_SERVE_LOOK_CPU_NS 200000000u
#define GW_SERVE_LOOK_GPU_NS 50000u
#define GW_SERVE_POLL        8 /* completions taken at once */

GW_DEV struct gw_serve_request *gw_serve_request_of(const struct gw_serve_args *a,
                                                    const struct gw_serve_session *s, uint32_t slot)
{
    return (struct gw_serve_request *)(s->in + slot * a->in_stride);
}

GW_DEV struct gw_serve_reply *gw_serve_reply_of(const struct gw_serve_args *a,
                                                const struct gw_serve_session *s, uint32_t slot)
{
    return (struct gw_serve_reply *)(s->out + slot * a->out_stride);
}

/* ---- sessions that open, close and break ---- */

/* Takes a session's requests out of the queue of arrivals. */
GW_DEV void gw_serve_forget(const struct gw_serve_args *a, uint32_t i)
{
    struct gw_serve_work *w = a->work;
    uint32_t to = w->head;
    for (uint32_t at = w->head; at != w->tail; at++) {
        struct gw_serve_arrival r = a->arrival[at & a->arrival_mask];
        if (r.session != i) a->arrival[to++ & a->arrival_mask] = r;
    }
    w->tail = to;
}

/* Tells the host that the session is in use: it closes those that are not. */
GW_DEV void gw_serve_active(const struct gw_serve_args *a, uint32_t i)
{
    gw_st_relaxed_u32(&a->notice[i].activity, ++a->session[i].activity); /* a number by itself */
}

/* The session's word has changed: it opens, or is to be let go of. */
GW_DEV void gw_serve_act_on(const struct gw_serve_args *a, uint32_t i)
{
    struct gw_serve_notice *n = &a->notice[i];
    struct gw_serve_session *s = &a->session[i];
    uint32_t word = gw_ld_acquire_u32(&n->word); /* acquire: the fields below are read after it */
    if (word == s->word) return;
    s->word = word;
    gw_serve_forget(a, i);
    s->open = (word & 3) == GW_SESSION_OPEN;
    if (s->open) {
        s->slots = gw_ld_relaxed_u32(&n->slots);
        s->reply_rkey = gw_ld_relaxed_u32(&n->reply_rkey);
        s->reply_addr = gw_ld_relaxed_u64(&n->reply_addr);
        s->reply_stride = gw_ld_relaxed_u64(&n->reply_stride);
        s->posted = s->acked = s->activity = 0;
    }
    gw_st_release_u32(&n->seen, word); /* release: the host acts when everything above is done */
}

GW_DEV void gw_serve_broken(const struct gw_serve_args *a, uint32_t i);

/* Is there room in the session's send queue? A peer whose NIC acknowledges nothing must wait for it, and
 * nobody else. */
GW_DEV int gw_serve_has_room(const struct gw_serve_args *a, const struct gw_serve_session *s)
{
    return s->posted - s->acked < a->slots;
}

/* The host asks whether the session is alive. A write of no bytes finds out whether the peer's queue
 * pair still is: its NIC acknowledges it, or the queue pair fails. A session that never had a request
 * sends nothing: who opened it may have named somebody else's queue pair. */
GW_DEV void gw_serve_hear(const struct gw_serve_args *a, uint32_t i)
{
    struct gw_serve_notice *n = &a->notice[i];
    struct gw_serve_session *s = &a->session[i];
    uint32_t ask = gw_ld_relaxed_u32(&n->ask);
    if (ask == s->heard) return;
    s->heard = ask;
    if (s->open && s->activity && gw_serve_has_room(a, s) &&
        gw_post_op(s->qp, gw_put_op(s->out_addr, s->out_lkey, s->reply_addr, s->reply_rkey, 0), GW_SIGNALED,
                   (uint64_t)++s->posted << 32 | i))
        gw_serve_broken(a, i);
    gw_st_release_u32(&n->heard, ask); /* release: the activity so far is seen with it */
}

GW_DEV void gw_serve_drain(const struct gw_serve_args *a);

GW_DEV void gw_serve_look(const struct gw_serve_args *a)
{
    uint32_t changes = gw_ld_acquire_u32(&a->board->changes); /* acquire: a new count means new words */
    if (changes == a->work->changes) return;
    a->work->changes = changes;
    gw_serve_drain(a); /* so that no session is taken for idle whose requests lie in the queue */
    for (uint32_t i = 0; i < a->sessions; i++) {
        gw_serve_act_on(a, i);
        gw_serve_hear(a, i);
    }
}

/* Its queue pair has failed: nothing more is done for it. The host finds out how from gw_qp_fault, and closes
 * it. */
GW_DEV void gw_serve_broken(const struct gw_serve_args *a, uint32_t i)
{
    a->session[i].open = 0;
    gw_serve_forget(a, i);
    /* Release: the host that sees the count sees the queue pair's fault. */
    gw_st_release_u32(&a->board->broken, gw_ld_relaxed_u32(&a->board->broken) + 1);
}

/* ---- arrivals ---- */

/* A receive's wr_id is the session; an answer's has, above it, how many answers the session had with this
 * one. */
GW_DEV void gw_serve_arrived(const struct gw_serve_args *a, const struct ibv_wc *wc, uint64_t now)
{
    uint32_t i = (uint32_t)wc->wr_id;
    struct gw_serve_session *s = &a->session[i];
    if (!s->open) gw_serve_act_on(a, i); /* this may be the first request since the host opened it */
    if (!s->open) return;                /* what a session that was closed, or has failed, leaves behind */
    if (wc->status != IBV_WC_SUCCESS) {
        gw_serve_broken(a, i);
        return;
    }
    if (!(wc->opcode & IBV_WC_RECV)) { /* answers have left: their queue space is free again */
        s->acked = (uint32_t)(wc->wr_id >> 32);
        return;
    }
    struct gw_serve_arrival *r = &a->arrival[a->work->tail++ & a->arrival_mask];
    r->session = i;
    /* A message that brought no immediate names no slot, and is refused for that. */
    r->slot = wc->wc_flags & IBV_WC_WITH_IMM ? gw_wc_imm(wc) : UINT32_MAX;
    r->bytes = wc->byte_len;
    r->when = now;
    gw_serve_active(a, i);
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

/* ---- answers ---- */

/* Sends the reply header in the slot, and `bytes` behind it, to the session's client. */
GW_DEV void gw_serve_post(const struct gw_serve_args *a, uint32_t i, uint32_t slot, uint64_t bytes)
{
    struct gw_serve_session *s = &a->session[i];
    /* Queue space comes back with signalled completions; half a queue apart, one is always under way before
     * it is full. */
    uint32_t interval = a->slots > 1 ? a->slots / 2 : 1;
    uint32_t flags = ++s->posted % interval == 0 ? GW_SIGNALED : 0;
    uint64_t start = gw_clock_ns();
    if (gw_post_op(s->qp,
                   gw_put_imm_op(s->out_addr + slot * a->out_stride, s->out_lkey,
                                 s->reply_addr + slot * s->reply_stride, s->reply_rkey,
                                 (uint32_t)(sizeof(struct gw_serve_reply) + bytes), slot),
                   flags, (uint64_t)s->posted << 32 | i))
        gw_serve_broken(a, i);
    gw_serve_active(a, i);
    a->work->last_post_ns = gw_clock_ns() - start;
}

GW_DEV void gw_serve_refuse(const struct gw_serve_args *a, const struct gw_serve_arrival *r)
{
    struct gw_serve_session *s = &a->session[r->session];
    gw_st_relaxed_u64(&a->board->refused, ++a->work->refused);
    if (r->slot >= s->slots) return; /* there is no slot to answer into */
    struct gw_serve_reply *reply = gw_serve_reply_of(a, s, r->slot);
    reply->magic = GW_SERVE_MAGIC;
    reply->version = GW_SERVE_VERSION;
    reply->status = GW_SERVE_BAD_REQUEST;
    reply->id = gw_ld_relaxed_u64(&gw_serve_request_of(a, s, r->slot)->id);
    reply->bytes = 0;
    reply->arrived = r->when;
    reply->started = reply->done = reply->posted = gw_clock_ns();
    reply->last_post_ns = (uint32_t)a->work->last_post_ns;
    reply->batch = 0;
    gw_serve_post(a, r->session, r->slot, 0);
}

/* Is it a request, in the slot that its immediate names? Each field is read once: the client can still write
 * there. */
GW_DEV int gw_serve_acceptable(const struct gw_serve_args *a, const struct gw_serve_arrival *r)
{
    const struct gw_serve_session *s = &a->session[r->session];
    struct gw_serve_work *w = a->work;
    if (r->slot >= s->slots || r->bytes < sizeof(struct gw_serve_request)) return 0;
    const struct gw_serve_request *q = gw_serve_request_of(a, s, r->slot);
    uint64_t bytes = r->bytes - sizeof(struct gw_serve_request);
    w->id = gw_ld_relaxed_u64(&q->id);
    w->rows = gw_ld_relaxed_u32(&q->rows);
    return gw_ld_relaxed_u32(&q->magic) == GW_SERVE_MAGIC &&
           gw_ld_relaxed_u16(&q->version) == GW_SERVE_VERSION && gw_ld_relaxed_u16(&q->slot) == r->slot &&
           w->rows && w->rows <= a->rows && bytes == gw_layout_bytes(&a->in, w->rows) &&
           gw_ld_relaxed_u64(&q->bytes) == bytes;
}

/* The model reads and writes the slot's tensors where they lie. */
GW_DEV void gw_serve_aim(const struct gw_serve_args *a, const struct gw_serve_session *s, uint32_t slot)
{
    const uint8_t *in = (const uint8_t *)(gw_serve_request_of(a, s, slot) + 1);
    uint8_t *out = (uint8_t *)(gw_serve_reply_of(a, s, slot) + 1);
    uint64_t rows = a->work->rows;
    for (uint32_t i = 0; i < a->in.tensors; i++) a->io->in[i] = in + gw_layout_offset(&a->in, i, rows);
    for (uint32_t i = 0; i < a->out.tensors; i++) a->io->out[i] = out + gw_layout_offset(&a->out, i, rows);
}

/* Looks through the arrivals for a request to serve: 1, and it is in *work; 0: there is none. */
GW_DEV int gw_serve_next(const struct gw_serve_args *a)
{
    struct gw_serve_work *w = a->work;
    for (uint32_t left = w->tail - w->head; left && w->head != w->tail; left--) {
        struct gw_serve_arrival r = a->arrival[w->head++ & a->arrival_mask];
        struct gw_serve_session *s = &a->session[r.session];
        if (!gw_serve_has_room(a, s)) {
            a->arrival[w->tail++ & a->arrival_mask] = r;
            continue;
        }
        if (gw_recv_empty(s->qp, 1, r.session)) { /* for the slot's next request */
            gw_serve_broken(a, r.session);
            continue;
        }
        if (!gw_serve_acceptable(a, &r)) {
            gw_serve_refuse(a, &r);
            continue;
        }
        /* One header, one request: an immediate that no header came with finds none. */
        gw_st_relaxed_u32(&gw_serve_request_of(a, s, r.slot)->magic, 0);
        w->session = r.session;
        w->slot = r.slot;
        w->arrived = r.when;
        gw_serve_aim(a, s, r.slot);
        return 1;
    }
    return 0;
}

/* ---- the stages ---- */

GW_KERNEL(gw_serve_wait, struct gw_serve_args, a)
{
    struct gw_serve_work *w = a->work;
    uint64_t look = a->wake_fd >= 0 ? GW_SERVE_LOOK_CPU_NS : GW_SERVE_LOOK_GPU_NS;
    struct ibv_wc wc[GW_SERVE_POLL];
    w->valid = 0;
    w->failed = 0;
    gw_serve_drain(a);
    gw_serve_look(a);
    while (!gw_serve_next(a)) {
        if (gw_loop_stopping(a->ctl)) return;
        int n = gw_wait_cq(a->cq, GW_SERVE_POLL, wc, gw_clock_ns() + look, &a->ctl->shared->stop, a->wake_fd);
        uint64_t now = gw_clock_ns();
        for (int i = 0; i < n; i++) gw_serve_arrived(a, &wc[i], now);
        /* Also when there was something: a peer that floods us must not keep the host waiting. */
        gw_serve_look(a);
    }
    w->valid = 1;
    w->started = gw_clock_ns();
}

GW_KERNEL(gw_serve_send, struct gw_serve_args, a)
{
    struct gw_serve_work *w = a->work;
    if (!w->valid) return;
    struct gw_serve_session *s = &a->session[w->session];
    struct gw_serve_reply *reply = gw_serve_reply_of(a, s, w->slot);
    w->done = gw_clock_ns();
    reply->magic = GW_SERVE_MAGIC;
    reply->version = GW_SERVE_VERSION;
    reply->status = w->failed ? GW_SERVE_FAILED : GW_SERVE_OK;
    reply->id = w->id;
    reply->bytes = w->failed ? 0 : gw_layout_bytes(&a->out, w->rows);
    reply->arrived = w->arrived;
    reply->started = w->started;
    reply->done = w->done;
    reply->posted = gw_clock_ns();
    reply->last_post_ns = (uint32_t)a->work->last_post_ns;
    reply->batch = w->rows;
    gw_serve_post(a, w->session, w->slot, reply->bytes);
    if (w->failed) gw_st_relaxed_u64(&a->board->failed, ++w->failures);
    gw_st_relaxed_u64(&a->board->answered, ++w->answered);
}

#endif
