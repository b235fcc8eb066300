/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which requests the model gets next, together. One thread, of the loop's first stage.
 *
 * - It takes requests in the queue's order, as long as they fit into the largest batch. It runs the smallest
 *   batch size that holds them.
 * - Every 16th batch begins with the oldest request, whatever its priority and deadline. So a request with n
 *   requests before it waits for at most 16 (n + 1) batches.
 * - While requests do not fill the largest batch, they wait for others: at most `delay_ns` from the first
 *   one's arrival, and no longer than the deadlines allow.
 * - A request is late when now plus the 99th percentile of its batch size's run times lies after its
 *   deadline. It is refused at once. Every 16th request that only the estimate makes late is run
 *   nevertheless, so that a wrong estimate does not stay.
 * - A request does not join a batch when that would make one of its requests late.
 * - Where there are several models, a batch holds requests of one: that of its first request.
 */
#ifndef GW_SERVER_DEVICE_SCHEDULE_H
#define GW_SERVER_DEVICE_SCHEDULE_H

#include <stdbool.h>

#include <gpuwire/detail/assert.h>

#include "src/server/device/admit.h"
#include "src/server/device/queue.h"
#include "src/trace/trace.h"

#define GW_SERVE_FAIR 16 /* every Nth batch begins with the oldest request */
#define GW_SERVE_SCAN 16 /* requests of a model among which a batch finds its next one */
#define GW_SERVE_NONE UINT32_MAX

GW_DEV bool gw_serve_ends_late(const struct gw_serve_args *a, uint32_t variant, uint64_t deadline,
                               uint64_t now)
{
    return deadline != UINT64_MAX && now + a->variant[variant].cost.p99_ns > deadline;
}

GW_DEV bool gw_serve_is_late(const struct gw_serve_args *a, struct gw_serve_arrival *r, uint64_t now)
{
    if (r->deadline == UINT64_MAX) return false;
    const struct gw_serve_shape *s = &a->shape[r->model];
    uint32_t v = gw_serve_variant_for(a, s->first, s->first + s->variants, r->rows);
    if (!gw_serve_ends_late(a, v, r->deadline, now)) return false;
    if (now > r->deadline || (!r->certain && ++a->variant[v].cost.refused % GW_SERVE_PROBE)) return true;
    r->certain = 1; /* it is not asked again */
    return false;
}

/* Is it time to make a batch, or may others come to share it? Where several models' requests wait, none waits
 * for others. */
GW_DEV bool gw_serve_is_time(const struct gw_serve_args *a, uint64_t now)
{
    struct gw_serve_work *w = a->work;
    w->again = UINT64_MAX;
    if (!w->waiting) return false;
    uint32_t model = gw_serve_waiting(a, 0)->model;
    const struct gw_serve_shape *s = &a->shape[model];
    const struct gw_serve_model *m = &a->model[model];
    if (!s->delay_ns || w->closing || m->queued_rows >= s->rows || m->queued < w->waiting) return true;
    uint64_t last = a->variant[s->first + s->variants - 1].cost.p99_ns;
    for (uint32_t i = 0; i < w->waiting; i++) { /* fewer than the largest batch has rows */
        const struct gw_serve_arrival *r = gw_serve_waiting(a, i);
        uint64_t until = r->when + s->delay_ns;
        if (!r->priority) return true;                                /* to be refused */
        uint64_t start = r->deadline > last ? r->deadline - last : 0; /* later it would be late */
        if (start < until) until = start;
        if (until < w->again) w->again = until;
    }
    return now >= w->again;
}

/* Has its client taken it back? The header lies in the slot still. */
GW_DEV bool gw_serve_is_recalled(const struct gw_serve_args *a, const struct gw_serve_arrival *r)
{
    if (!(r->flags & GW_SERVE_RECALL)) return false;
    const struct gw_serve_request *q = gw_serve_request_of(a, &a->session[r->session], r->slot);
    return gw_ld_relaxed_u64(&q->recalled) == r->id; /* a number by itself */
}

/* Has its model, or its lease, gone since it was admitted? */
GW_DEV enum gw_serve_status gw_serve_outlived(const struct gw_serve_args *a, struct gw_serve_arrival *r)
{
    if (!gw_serve_is_many(a)) return GW_SERVE_OK;
    if (r->lease && a->lease[r->lease - 1].life != r->life) return GW_SERVE_NO_LEASE;
    if (a->model[r->model].state == GW_MODEL_PRESENT) return GW_SERVE_OK;
    r->retry_ns = a->model[r->model].retry_ns;
    return GW_SERVE_NOT_THERE;
}

/* Why the request is not for the model; GW_SERVE_OK: it is. */
GW_DEV enum gw_serve_status gw_serve_judge(const struct gw_serve_args *a, struct gw_serve_arrival *r,
                                           uint64_t now)
{
    if (r->closing) return GW_SERVE_CLOSING;
    if (!r->priority) return (enum gw_serve_status)r->status;
    enum gw_serve_status status = gw_serve_outlived(a, r);
    if (status != GW_SERVE_OK) return status;
    if (gw_serve_is_late(a, r, now)) return GW_SERVE_LATE;
    return gw_serve_is_recalled(a, r) ? GW_SERVE_RECALLED : GW_SERVE_OK;
}

/* The request at place `at` is not for the model: true, and it is out of the queue. */
GW_DEV bool gw_serve_turned_away(const struct gw_serve_args *a, uint32_t at, uint64_t now)
{
    struct gw_serve_arrival *r = gw_serve_waiting(a, at);
    enum gw_serve_status status = gw_serve_judge(a, r, now);
    if (status == GW_SERVE_OK) return false;
    struct gw_serve_arrival refused = gw_serve_dequeue(a, at);
    gw_serve_refuse(a, &refused, status);
    gw_serve_tell_waiting(a);
    return true;
}

/* Puts a request into the batch, which has room for it. */
GW_DEV void gw_serve_take(const struct gw_serve_args *a, const struct gw_serve_arrival *r)
{
    struct gw_serve_work *w = a->work;
    GW_ASSERT(w->rows + r->rows <= a->shape[w->model].rows);
    struct gw_serve_item *item = &a->item[w->items++];
    item->id = r->id;
    item->arrived = r->when;
    item->session = r->session;
    item->slot = r->slot;
    item->rows = r->rows;
    item->flags = r->flags;
    item->lease = r->lease;
    item->at = w->rows;
    GW_TRACE(server, batched, gw_serve_name(a, r->model), r->session, r->id, r->rows);
    w->rows += r->rows;
    a->session[r->session].in_work++;
}

/* The best of the first few requests of the batch's model; GW_SERVE_NONE: there is none. */
GW_DEV uint32_t gw_serve_companion(const struct gw_serve_args *a)
{
    const struct gw_serve_key *heap = gw_serve_heap(a);
    uint32_t best = GW_SERVE_NONE, n = a->model[a->work->model].first;
    GW_NO_UNROLL_
    for (uint32_t i = 0; n && i < GW_SERVE_SCAN; i++) {
        const struct gw_serve_arrival *r = &a->arrival[n - 1];
        uint32_t at = r->at - a->work->head;
        if (best == GW_SERVE_NONE || gw_serve_before(&heap[at], &heap[best])) best = at;
        n = r->next;
    }
    return best;
}

/* The place of the batch's next request; GW_SERVE_NONE: there is none. */
GW_DEV uint32_t gw_serve_next(const struct gw_serve_args *a)
{
    const struct gw_serve_work *w = a->work;
    if (!w->waiting) return GW_SERVE_NONE;
    if (!w->items) return w->total.executions % GW_SERVE_FAIR == GW_SERVE_FAIR - 1 ? gw_serve_oldest(a) : 0;
    if (!gw_serve_is_many(a) || gw_serve_waiting(a, 0)->model == w->model) return 0;
    return gw_serve_companion(a);
}

/* The batch begins with this request. A request of more rows than the model's leases allow now runs alone. */
GW_DEV void gw_serve_begin(const struct gw_serve_args *a, const struct gw_serve_arrival *r, uint64_t now)
{
    struct gw_serve_work *w = a->work;
    const struct gw_serve_shape *s = &a->shape[r->model];
    w->model = r->model;
    w->variant = s->first;
    w->end = gw_serve_end_of(a, r->model, now);
    if (a->variant[w->end - 1].rows < r->rows) w->end = s->first + s->variants;
}

/* Makes a batch of the requests that wait: true; false: there is none to be made now. */
GW_DEV bool gw_serve_schedule(const struct gw_serve_args *a)
{
    struct gw_serve_work *w = a->work;
    uint64_t now = gw_clock_ns(), deadline = UINT64_MAX;
    w->items = w->rows = 0;
    if (!gw_serve_is_time(a, now)) return false;
    while (!w->items || w->rows < a->variant[w->end - 1].rows) {
        uint32_t at = gw_serve_next(a);
        if (at == GW_SERVE_NONE) break;
        const struct gw_serve_arrival *r =
            gw_serve_waiting(a, at); /* it stays there until it is given back */
        if (!gw_serve_has_room(a, &a->session[r->session])) {
            gw_serve_park(a, at);
            continue;
        }
        if (gw_serve_turned_away(a, at, now)) continue;
        if (!w->items) gw_serve_begin(a, r, now);
        uint32_t variant = gw_serve_variant_for(a, w->variant, w->end, w->rows + r->rows);
        uint64_t first = r->deadline < deadline ? r->deadline : deadline;
        if (w->items && (variant == w->end || gw_serve_ends_late(a, variant, first, now))) break;
        gw_serve_take(a, r);
        gw_serve_give_back(a, gw_serve_leave(a, at));
        w->variant = variant;
        deadline = first;
    }
    return w->items != 0;
}

#endif
