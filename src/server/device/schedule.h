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
 */
#ifndef GW_SERVER_DEVICE_SCHEDULE_H
#define GW_SERVER_DEVICE_SCHEDULE_H

#include <stdbool.h>

#include <gpuwire/detail/assert.h>

#include "src/server/device/answer.h"
#include "src/server/device/queue.h"
#include "src/trace/trace.h"

#define GW_SERVE_FAIR  16 /* every Nth batch begins with the oldest request */
#define GW_SERVE_PROBE 16 /* every Nth request that is late by the estimate is run */

/* The smallest batch size, from number v on, that holds `rows` rows; a->variants: there is none. */
GW_DEV uint32_t gw_serve_variant_for(const struct gw_serve_args *a, uint32_t v, uint64_t rows)
{
    while (v < a->variants && a->variant[v].rows < rows) v++;
    return v;
}

GW_DEV bool gw_serve_ends_late(const struct gw_serve_args *a, uint32_t variant, uint64_t deadline,
                               uint64_t now)
{
    return deadline != UINT64_MAX && now + a->variant[variant].cost.p99_ns > deadline;
}

GW_DEV bool gw_serve_is_late(const struct gw_serve_args *a, const struct gw_serve_arrival *r, uint64_t now)
{
    if (r->deadline == UINT64_MAX) return false;
    uint32_t v = gw_serve_variant_for(a, 0, r->rows);
    if (!gw_serve_ends_late(a, v, r->deadline, now)) return false;
    return now > r->deadline || ++a->variant[v].cost.refused % GW_SERVE_PROBE != 0;
}

/* Is it time to make a batch, or may others come to share it? */
GW_DEV bool gw_serve_is_time(const struct gw_serve_args *a, uint64_t now)
{
    struct gw_serve_work *w = a->work;
    uint64_t last = a->variant[a->variants - 1].cost.p99_ns;
    w->again = UINT64_MAX;
    if (!w->waiting) return false;
    if (!a->delay_ns || w->closing || w->waiting_rows >= a->rows) return true;
    for (uint32_t i = 0; i < w->waiting; i++) { /* fewer than the largest batch has rows */
        const struct gw_serve_arrival *r = &gw_serve_heap(a)[i];
        uint64_t until = r->when + a->delay_ns;
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

/* The request at the top, or the oldest, at place `at`, is not for the model: true, and it is out of the
 * queue. */
GW_DEV bool gw_serve_turned_away(const struct gw_serve_args *a, uint32_t at, uint64_t now)
{
    struct gw_serve_arrival *r = &gw_serve_heap(a)[at];
    enum gw_serve_status status = r->closing                    ? GW_SERVE_CLOSING
                                  : !r->priority                ? GW_SERVE_BAD_REQUEST
                                  : gw_serve_is_late(a, r, now) ? GW_SERVE_LATE
                                  : gw_serve_is_recalled(a, r)  ? GW_SERVE_RECALLED
                                                                : GW_SERVE_OK;
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
    GW_ASSERT(w->rows + r->rows <= a->rows && w->items < a->rows);
    struct gw_serve_item *item = &a->item[w->items++];
    item->id = r->id;
    item->arrived = r->when;
    item->session = r->session;
    item->slot = r->slot;
    item->rows = r->rows;
    item->flags = r->flags;
    item->at = w->rows;
    GW_TRACE(server, batched, a->name, r->session, r->id, r->rows);
    w->rows += r->rows;
    a->session[r->session].in_work++;
}

/* Makes a batch of the requests that wait: true; false: there is none to be made now. */
GW_DEV bool gw_serve_schedule(const struct gw_serve_args *a)
{
    struct gw_serve_work *w = a->work;
    uint64_t now = gw_clock_ns(), deadline = UINT64_MAX;
    w->items = w->rows = 0;
    if (!gw_serve_is_time(a, now)) return false;
    while (w->waiting && w->rows < a->rows) {
        uint32_t at =
            !w->items && w->total.executions % GW_SERVE_FAIR == GW_SERVE_FAIR - 1 ? gw_serve_oldest(a) : 0;
        struct gw_serve_arrival r = gw_serve_heap(a)[at];
        if (!gw_serve_has_room(a, &a->session[r.session])) {
            gw_serve_park(a, at);
            continue;
        }
        if (gw_serve_turned_away(a, at, now)) continue;
        uint32_t variant = gw_serve_variant_for(a, w->items ? w->variant : 0, w->rows + r.rows);
        uint64_t first = r.deadline < deadline ? r.deadline : deadline;
        if (w->items && (variant == a->variants || gw_serve_ends_late(a, variant, first, now))) break;
        gw_serve_dequeue(a, at);
        gw_serve_take(a, &r);
        w->variant = variant;
        deadline = first;
    }
    return w->items != 0;
}

#endif
