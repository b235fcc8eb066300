/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/modes/loop.h"

#include <gpuwire/loop.h>

#include "src/server/device/arrive.h"
#include "src/server/device/conclude.h"
#include "src/server/device/schedule.h"

#define LOOK 64 /* polls between two looks at what the host asks */

/* Where the slots are out of the CPU's reach, the length is all that it looks at. */
static void arrived(const struct modes_loop *l, const struct ibv_wc *wc, uint64_t now)
{
    const struct gw_serve_args *a = l->args;
    struct gw_serve_arrival r;
    if (l->kind == MODES_COPY) {
        gw_serve_arrived(a, wc, now);
        return;
    }
    if (!gw_serve_completed(a, wc, now, &r)) return;
    r.rows = 1;
    r.priority = GW_SERVE_PRIORITY;
    if (r.slot >= a->session[r.session].slots || r.closing ||
        wc->byte_len != sizeof(struct gw_serve_request) + gw_layout_bytes(&a->shape->in, 1)) {
        gw_serve_broken(a, r.session); /* it learns that when its session is closed */
        return;
    }
    gw_serve_enqueue(a, &r);
    gw_serve_active(a, r.session);
}

static void drain(const struct modes_loop *l)
{
    struct ibv_wc wc[GW_SERVE_POLL];
    int n;
    while ((n = gw_poll_cq(l->args->cq, GW_SERVE_POLL, wc)) > 0) {
        uint64_t now = gw_clock_ns();
        for (int i = 0; i < n; i++) arrived(l, &wc[i], now);
    }
}

static void look(const struct modes_loop *l)
{
    const struct gw_serve_args *a = l->args;
    uint32_t changes = gw_ld_acquire_u32(&a->board->changes); /* acquire: a new count means new words */
    if (changes == a->work->changes) return;
    a->work->changes = changes;
    a->work->closing = gw_ld_relaxed_u32(&a->board->closing);
    drain(l); /* so that no session is taken for idle whose requests lie in the queue */
    for (uint32_t i = 0; i < a->sessions; i++) {
        gw_serve_act_on(a, i);
        gw_serve_hear(a, i);
    }
}

/* 1: item 0 is the next request. */
static int next(const struct modes_loop *l)
{
    const struct gw_serve_args *a = l->args;
    struct gw_serve_work *w = a->work;
    if (l->kind == MODES_COPY) return gw_serve_schedule(a);
    w->items = w->rows = 0;
    while (w->waiting && !w->items) {
        if (!gw_serve_has_room(a, &a->session[gw_serve_waiting(a, 0)->session])) {
            gw_serve_park(a, 0);
            continue;
        }
        struct gw_serve_arrival r = gw_serve_dequeue(a, 0);
        gw_serve_take(a, &r);
    }
    return (int)w->items;
}

static void answer(const struct modes_loop *l)
{
    const struct gw_serve_args *a = l->args;
    struct gw_serve_item *item = &a->item[0];
    if (l->kind == MODES_COPY) {
        gw_serve_answer(a, item);
        return;
    }
    item->failed = 0;
    if (a->session[item->session].open)
        item->failed = a->work->failed || gw_serve_post(a, item->session, item->slot,
                                                        gw_layout_bytes(&a->shape->out, item->rows));
    item->posted = gw_clock_ns();
    if (a->session[item->session].open) item->failed |= gw_serve_post_receive(a, item->session) != 0;
}

static void serve(const struct modes_loop *l)
{
    const struct gw_serve_args *a = l->args;
    struct gw_serve_work *w = a->work;
    struct gw_serve_item *item = &a->item[0];
    const struct gw_serve_session *s = &a->session[item->session];
    struct modes_work work = {.request = gw_serve_request_of(a, s, item->slot),
                              .reply = gw_serve_reply_of(a, s, item->slot),
                              .arrived = item->arrived,
                              .started = gw_clock_ns()};
    w->started = w->ready = work.started;
    w->variant = w->model = 0;
    w->failed = l->ops->run(l->device, &work);
    w->done = gw_clock_ns();
    gw_serve_account(a);
    gw_serve_publish(a);
    answer(l);
    gw_serve_count(a, item);
    gw_serve_counted(a, item);
    gw_serve_conclude(a);
}

/* One request, unless the loop is to end. */
static int turn(void *ctx)
{
    const struct modes_loop *l = ctx;
    const struct gw_loop_ctl *ctl = l->args->ctl;
    for (uint32_t round = 0;; round++) {
        drain(l);
        if (next(l)) break;
        gw_pause(0);
        if (round % LOOK) continue;
        look(l);
        if (!gw_loop_stopping(ctl)) continue;
        l->ops->rest(l->device);
        return 0;
    }
    serve(l);
    return 0;
}

int modes_loop_stages(void *ctx, struct gw_loop *loop, const struct gw_serve_args *args)
{
    struct modes_loop *l = ctx;
    struct gw_loop_stage stage = {.name = "serve", .run = turn, .ctx = l};
    l->args = args;
    return gw_loop_add(loop, &stage);
}
