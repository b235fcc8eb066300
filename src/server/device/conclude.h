/* SPDX-License-Identifier: Apache-2.0 */
/* The end of a batch: its answers, and what is counted of it. */
#ifndef GW_SERVER_DEVICE_CONCLUDE_H
#define GW_SERVER_DEVICE_CONCLUDE_H

#include "src/server/device/answer.h"
#include "src/server/device/cost.h"
#include "src/trace/trace.h"

GW_DEV void gw_serve_answer(const struct gw_serve_args *a, struct gw_serve_item *item)
{
    const struct gw_serve_work *w = a->work;
    struct gw_serve_session *s = &a->session[item->session];
    struct gw_serve_reply *reply = gw_serve_reply_of(a, s, item->slot);
    uint64_t bytes =
        w->failed || item->flags & GW_SERVE_STAY ? 0 : gw_layout_bytes(&a->shape[w->model].out, item->rows);
    item->failed = 0;
    item->posted = w->done;
    if (!s->open) return; /* it has failed since the request was taken */
    reply->magic = GW_SERVE_MAGIC;
    reply->version = GW_SERVE_VERSION;
    reply->status = w->failed ? GW_SERVE_FAILED : GW_SERVE_OK;
    reply->id = item->id;
    reply->bytes = bytes;
    reply->arrived = item->arrived;
    reply->started = w->started;
    reply->done = w->done;
    reply->posted = gw_clock_ns();
    reply->last_post_ns = s->last_post_ns;
    reply->batch = w->rows;
    item->failed = gw_serve_post(a, item->session, item->slot, bytes) != 0;
    item->posted = gw_clock_ns();
    GW_TRACE(server, done, gw_serve_name(a, w->model), item->session, item->id, item->arrived, w->started,
             w->done);
    /* The receive for the slot's next request comes after the answer, which it would delay. */
    item->failed |= gw_serve_post_receive(a, item->session) != 0;
}

/* Counts what the batch has done, before its clients get their answers. */
GW_DEV void gw_serve_account(const struct gw_serve_args *a)
{
    struct gw_serve_work *w = a->work;
    struct gw_serve_counters *t = &w->total;
    t->executions++;
    t->waiting = w->waiting + w->parked;
    a->variant[w->variant].total.executions++;
    a->variant[w->variant].total.infer_ns += w->done - w->ready;
    if (w->failed)
        a->model[w->model].total.failed += w->items;
    else
        a->model[w->model].total.answered += w->items;
    if (w->failed) {
        GW_TRACE(server, failed, gw_serve_name(a, w->model), w->items, w->failed);
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
    const struct gw_serve_variant_counters *v = &a->variant[w->variant].total;
    const uint64_t *from = (const uint64_t *)&w->total;
    uint64_t *to = (uint64_t *)&a->board->total;
    for (uint32_t i = 0; i < sizeof(w->total) / sizeof(*from); i++) gw_st_relaxed_u64(&to[i], from[i]);
    gw_st_relaxed_u64(&a->variant_board[w->variant].executions, v->executions);
    gw_st_relaxed_u64(&a->variant_board[w->variant].infer_ns, v->infer_ns);
    if (!gw_serve_is_many(a)) return;
    gw_st_relaxed_u64(&a->model_board[w->model].total.answered, a->model[w->model].total.answered);
    gw_st_relaxed_u64(&a->model_board[w->model].total.failed, a->model[w->model].total.failed);
}

/* Counts the request by the time it took. The thread that posted its answer. */
GW_DEV void gw_serve_count(const struct gw_serve_args *a, struct gw_serve_item *item)
{
    item->bucket = gw_serve_bucket_of(item->posted - item->arrived);
    if (!a->work->failed) gw_add_relaxed_u64_gpu(&a->work->latency[item->bucket], 1);
}

/* Tells the host, when all are counted. The same thread. */
GW_DEV void gw_serve_counted(const struct gw_serve_args *a, const struct gw_serve_item *item)
{
    a->session[item->session].in_work = 0;
    gw_st_relaxed_u64(&a->board->latency[item->bucket],
                      gw_ld_relaxed_u64_gpu(&a->work->latency[item->bucket]));
}

/* No request of the batch is in flight any more; and a model that was to leave after it has left. */
GW_DEV void gw_serve_let_go(const struct gw_serve_args *a)
{
    struct gw_serve_work *w = a->work;
    const struct gw_serve_model *m = &a->model[w->model];
    for (uint32_t i = 0; i < w->items; i++) gw_serve_lease_back(a, a->item[i].lease);
    gw_st_release_u32(&a->board->busy, 0); /* release: after the queue's length was told */
    if (!w->leaving) return;
    w->leaving = 0;
    /* Release: the host takes the weights away when the batch's last use of them is over. */
    gw_st_release_u32(&a->model_board[w->model].seen, m->word);
}

/* What is known only when the answers are posted. One thread, after all of that. */
GW_DEV void gw_serve_conclude(const struct gw_serve_args *a)
{
    struct gw_serve_work *w = a->work;
    uint64_t end = w->done, output = 0;
    for (uint32_t i = 0; i < w->items; i++) {
        const struct gw_serve_item *item = &a->item[i];
        if (item->failed && a->session[item->session].open) gw_serve_broken(a, item->session);
        if (item->posted > end) end = item->posted;
        output += item->posted - w->done;
    }
    if (gw_serve_is_many(a)) gw_serve_let_go(a);
    if (w->failed) return;
    w->total.output_ns += output;
    gw_serve_cost_add(&a->variant[w->variant].cost, end - w->started);
    gw_st_relaxed_u64(&a->board->total.output_ns, w->total.output_ns);
    gw_st_relaxed_u64(&a->variant_board[w->variant].p99_ns, a->variant[w->variant].cost.p99_ns);
}

#endif
