/* SPDX-License-Identifier: Apache-2.0 */
/* The stages of the serving loop, as functions of kernels. They wait for requests and make a batch of some,
 * copy it together and apart, and send the answers. serve_kernel.h makes a kernel of each, resident_kernel.h
 * one kernel of all.
 *
 * The order of things in memory: a request's completion is polled with acquire semantics (gw_wait_cq), so
 * that header and tensors, which the NIC placed before it, are read after it. A stage boundary orders what
 * one stage has read and written before the next. So the model's writes come before the send, whose put
 * publishes them to the NIC.
 */
#ifndef GW_SERVE_STAGES_H
#define GW_SERVE_STAGES_H

#include <gpuwire/group.h>

#include "src/serve/cost.h"
#include "src/serve/schedule.h"

/* Between two looks at the board: on a GPU a trip over the bus; on CPU threads a wake-up, and wake_fd tells
 * of most changes. */
#define GW_SERVE_LOOK_CPU_NS 200000000u
#define GW_SERVE_LOOK_GPU_NS 50000u
#define GW_SERVE_POLL        8 /* completions taken at once */

/* ---- sessions that open, close and break ---- */

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
        s->in_work = s->last_post_ns = 0;
    }
    gw_st_release_u32(&n->seen, word); /* release: the host acts when everything above is done */
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
    a->work->closing = gw_ld_relaxed_u32(&a->board->closing);
    gw_serve_drain(a); /* so that no session is taken for idle whose requests lie in the queue */
    for (uint32_t i = 0; i < a->sessions; i++) {
        gw_serve_act_on(a, i);
        gw_serve_hear(a, i);
    }
}

/* ---- arrivals ---- */

/* Takes the client's word for what it has written: 0, or it is no request, in the slot that its immediate
 * names. Each field is read once: the client can still write there. */
GW_DEV int gw_serve_read(const struct gw_serve_args *a, struct gw_serve_arrival *r, uint32_t length)
{
    const struct gw_serve_session *s = &a->session[r->session];
    if (r->slot >= s->slots) return 0;
    struct gw_serve_request *q = gw_serve_request_of(a, s, r->slot);
    uint64_t bytes = (uint64_t)length - sizeof(*q), budget = gw_ld_relaxed_u64(&q->budget_ns);
    uint32_t magic = gw_ld_relaxed_u32(&q->magic), rows = gw_ld_relaxed_u32(&q->rows);
    uint32_t priority = gw_ld_relaxed_u32(&q->priority);
    r->id = gw_ld_relaxed_u64(&q->id);
    if (length < sizeof(*q) || magic != GW_SERVE_MAGIC ||
        gw_ld_relaxed_u16(&q->version) != GW_SERVE_VERSION || gw_ld_relaxed_u16(&q->slot) != r->slot ||
        !rows || rows > a->rows || bytes != gw_ld_relaxed_u64(&q->bytes) ||
        bytes != gw_layout_bytes(&a->in, rows))
        return 0;
    /* One header, one request: an immediate that no header came with finds none. */
    gw_st_relaxed_u32(&q->magic, 0);
    r->rows = rows;
    r->priority = !priority                        ? GW_SERVE_PRIORITY
                  : priority < GW_SERVE_PRIORITIES ? priority
                                                   : GW_SERVE_PRIORITIES;
    if (budget && budget < UINT64_MAX - r->when) r->deadline = r->when + budget;
    return 1;
}

/* A receive's wr_id is the session; an answer's has, above it, how many answers the session had with this
 * one. */
GW_DEV void gw_serve_arrived(const struct gw_serve_args *a, const struct ibv_wc *wc, uint64_t now)
{
    uint32_t i = (uint32_t)wc->wr_id;
    struct gw_serve_session *s = &a->session[i];
    struct gw_serve_arrival r;
    if (!s->open) gw_serve_act_on(a, i); /* this may be the first request since the host opened it */
    if (!s->open) return;                /* what a session that was closed, or has failed, leaves behind */
    if (wc->status != IBV_WC_SUCCESS) {
        gw_serve_broken(a, i);
        return;
    }
    if (!(wc->opcode & IBV_WC_RECV)) { /* answers have left: their queue space is free again */
        s->acked = (uint32_t)(wc->wr_id >> 32);
        gw_serve_unpark(a, i, 1);
        return;
    }
    memset(&r, 0, sizeof(r));
    r.session = i;
    /* A message that brought no immediate names no slot, and is refused for that. */
    r.slot = wc->wc_flags & IBV_WC_WITH_IMM ? gw_wc_imm(wc) : UINT32_MAX;
    r.when = now;
    r.deadline = UINT64_MAX;
    r.order = a->work->arrived++;
    r.closing = a->work->closing;
    if (!gw_serve_read(a, &r, wc->byte_len)) r.priority = 0;
    gw_serve_enqueue(a, &r);
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

/* Waits for completions until the host or the queue may have something new to do. */
GW_DEV void gw_serve_await(const struct gw_serve_args *a, uint64_t look)
{
    struct ibv_wc wc[GW_SERVE_POLL];
    uint64_t until = gw_clock_ns() + look;
    if (a->work->again < until) until = a->work->again;
    int n = gw_wait_cq(a->cq, GW_SERVE_POLL, wc, until, &a->ctl->shared->stop, a->wake_fd);
    uint64_t now = gw_clock_ns();
    for (int i = 0; i < n; i++) gw_serve_arrived(a, &wc[i], now);
    /* Also when there was something: a peer that floods us must not keep the host waiting. */
    gw_serve_look(a);
}

/* ---- batches ---- */

/* Says where the model finds its tensors. That is the slot, when the batch is one request that fills it,
 * or that has one tensor each way. Else it is where requests are put together. Rows that no request has
 * filled hold whatever was there before, and nobody gets what the model makes of them. */
GW_DEV void gw_serve_aim(const struct gw_serve_args *a)
{
    struct gw_serve_work *w = a->work;
    const struct gw_serve_variant *v = &a->variant[w->variant];
    const struct gw_serve_item *only = &a->item[0];
    const struct gw_serve_session *s = &a->session[only->session];
    const uint8_t *in = (const uint8_t *)(gw_serve_request_of(a, s, only->slot) + 1);
    uint8_t *out = (uint8_t *)(gw_serve_reply_of(a, s, only->slot) + 1);
    w->direct =
        !v->fixed && w->items == 1 && (w->rows == v->rows || (a->in.tensors == 1 && a->out.tensors == 1));
    for (uint32_t i = 0; i < a->in.tensors; i++)
        a->io->in[i] = w->direct ? in + gw_layout_offset(&a->in, i, w->rows) : v->in[i];
    for (uint32_t i = 0; i < a->out.tensors; i++)
        a->io->out[i] = w->direct ? out + gw_layout_offset(&a->out, i, w->rows) : v->out[i];
}

/* This thread's share of copying a request's tensors between its slot and the batch. */
GW_DEV void gw_serve_move(const struct gw_serve_args *a, const struct gw_serve_item *item, int output,
                          uint32_t rank, uint32_t size)
{
    const struct gw_serve_session *s = &a->session[item->session];
    const struct gw_serve_variant *v = &a->variant[a->work->variant];
    const struct gw_layout *l = output ? &a->out : &a->in;
    uint8_t *slot = output ? (uint8_t *)(gw_serve_reply_of(a, s, item->slot) + 1)
                           : (uint8_t *)(gw_serve_request_of(a, s, item->slot) + 1);
    for (uint32_t i = 0; i < l->tensors; i++) {
        uint8_t *own = slot + gw_layout_offset(l, i, item->rows);
        uint8_t *shared =
            (output ? v->out[i] : v->in[i]) + gw_layout_tensor_bytes(l, i, item->at) * !!l->tensor[i].batched;
        gw_copy_share(output ? own : shared, output ? shared : own, gw_layout_tensor_bytes(l, i, item->rows),
                      rank, size);
    }
}

/* Several blocks copy one request when there are enough of them. */
GW_DEV void gw_serve_move_all(const struct gw_serve_args *a, int output)
{
    const struct gw_serve_work *w = a->work;
    uint32_t each = gw_grid_dim() / w->items;
    if (!each) each = 1;
    uint32_t at_once = gw_grid_dim() / each;
    uint32_t rank = gw_block_idx() % each * gw_block_dim() + gw_thread_idx();
    for (uint32_t i = gw_block_idx() / each; i < w->items; i += at_once)
        if (gw_block_idx() < at_once * each)
            gw_serve_move(a, &a->item[i], output, rank, each * gw_block_dim());
}

/* ---- the stages ---- */

/* Makes a batch, and says where its tensors lie. Without one, work->items is 0: the loop is to end. One
 * thread. */
GW_DEV void gw_serve_wait_stage(const struct gw_serve_args *a)
{
    struct gw_serve_work *w = a->work;
    uint64_t look = a->wake_fd >= 0 ? GW_SERVE_LOOK_CPU_NS : GW_SERVE_LOOK_GPU_NS;
    w->items = 0;
    w->failed = 0;
    gw_serve_drain(a);
    gw_serve_look(a);
    if (gw_loop_ending(a->ctl)) return;
    while (!gw_serve_schedule(a)) {
        if (gw_loop_stopping(a->ctl)) return;
        gw_serve_await(a, look);
    }
    w->started = w->ready = gw_clock_ns();
    w->done = 0;
    gw_serve_aim(a);
    gw_st_relaxed_u64(&a->board->total.waiting, w->waiting + w->parked);
}

/* Brings the inputs of a batch to one place. Any number of blocks and threads. */
GW_DEV void gw_serve_gather_stage(const struct gw_serve_args *a)
{
    struct gw_serve_work *w = a->work;
    if (!w->items || w->direct) return;
    gw_serve_move_all(a, 0);
    if (gw_global_idx() == 0) w->ready = gw_clock_ns();
}

/* Takes the outputs of a batch to the slots. Any number of blocks and threads. */
GW_DEV void gw_serve_scatter_stage(const struct gw_serve_args *a)
{
    struct gw_serve_work *w = a->work;
    if (!w->items) return;
    if (gw_global_idx() == 0) w->done = gw_clock_ns();
    if (!w->direct && !w->failed) gw_serve_move_all(a, 1);
}

GW_DEV void gw_serve_answer(const struct gw_serve_args *a, struct gw_serve_item *item)
{
    const struct gw_serve_work *w = a->work;
    struct gw_serve_session *s = &a->session[item->session];
    struct gw_serve_reply *reply = gw_serve_reply_of(a, s, item->slot);
    item->failed = 0;
    if (!s->open) return; /* it has failed since the request was taken */
    reply->magic = GW_SERVE_MAGIC;
    reply->version = GW_SERVE_VERSION;
    reply->status = w->failed ? GW_SERVE_FAILED : GW_SERVE_OK;
    reply->id = item->id;
    reply->bytes = w->failed ? 0 : gw_layout_bytes(&a->out, item->rows);
    reply->arrived = item->arrived;
    reply->started = w->started;
    reply->done = w->done;
    reply->posted = gw_clock_ns();
    reply->last_post_ns = s->last_post_ns;
    reply->batch = w->rows;
    item->failed = gw_serve_post(a, item->session, item->slot,
                                 w->failed ? 0 : gw_layout_bytes(&a->out, item->rows)) != 0;
}

/* Counts what the batch has done, before its clients hear of it. */
GW_DEV void gw_serve_account(const struct gw_serve_args *a)
{
    struct gw_serve_work *w = a->work;
    struct gw_serve_counters *t = &w->total;
    t->executions++;
    t->waiting = w->waiting + w->parked;
    w->variant_total[w->variant].executions++;
    w->variant_total[w->variant].infer_ns += w->done - w->ready;
    if (w->failed) {
        t->failures += w->items;
        return;
    }
    for (uint32_t i = 0; i < w->items; i++) t->queue_ns += w->started - a->item[i].arrived;
    t->successes += w->items;
    t->inferences += w->rows;
    t->input_ns += w->items * (w->ready - w->started);
    t->infer_ns += w->items * (w->done - w->ready);
}

/* Each word by itself; no other depends on it. */
GW_DEV void gw_serve_publish(const struct gw_serve_args *a)
{
    struct gw_serve_work *w = a->work;
    const struct gw_serve_variant_counters *v = &w->variant_total[w->variant];
    struct gw_serve_board *b = a->board;
    const uint64_t *from = (const uint64_t *)&w->total;
    uint64_t *to = (uint64_t *)&b->total;
    for (uint32_t i = 0; i < sizeof(w->total) / sizeof(*from); i++) gw_st_relaxed_u64(&to[i], from[i]);
    gw_st_relaxed_u64(&b->variant[w->variant].executions, v->executions);
    gw_st_relaxed_u64(&b->variant[w->variant].infer_ns, v->infer_ns);
}

/* What is known only when the answers are posted. */
GW_DEV void gw_serve_conclude(const struct gw_serve_args *a)
{
    struct gw_serve_work *w = a->work;
    uint64_t end = gw_clock_ns();
    for (uint32_t i = 0; i < w->items; i++) {
        a->session[a->item[i].session].in_work = 0;
        if (a->item[i].failed && a->session[a->item[i].session].open) gw_serve_broken(a, a->item[i].session);
    }
    if (w->failed) return;
    w->total.output_ns += w->items * (end - w->done);
    gw_serve_cost_add(&a->variant[w->variant].cost, end - w->started);
    gw_st_relaxed_u64(&a->board->total.output_ns, w->total.output_ns);
    gw_st_relaxed_u64(&a->board->variant[w->variant].p99_ns, a->variant[w->variant].cost.p99_ns);
}

/* One block. A session's answers are one thread's. */
GW_DEV void gw_serve_send_stage(const struct gw_serve_args *a)
{
    struct gw_serve_work *w = a->work;
    if (!w->items) return;
    if (gw_thread_idx() == 0) {
        if (!w->done) w->done = gw_clock_ns();
        gw_serve_account(a);
        gw_serve_publish(a);
    }
    gw_syncthreads();
    for (uint32_t i = 0; i < w->items; i++)
        if (a->item[i].session % gw_block_dim() == gw_thread_idx()) gw_serve_answer(a, &a->item[i]);
    gw_syncthreads();
    if (gw_thread_idx() == 0) gw_serve_conclude(a);
}

#endif
