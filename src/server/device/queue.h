/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The requests that wait: a heap, the next one on top. A request comes before another of a lower priority,
 * then before one with a later deadline, then before one that came later. One thread.
 *
 * Where priorities and deadlines are the same, requests come in their order, and the heap is a sorted array.
 * Then its first is taken by moving the heap's begin (work->head), and nothing else is read or written.
 */
#ifndef GW_SERVER_DEVICE_QUEUE_H
#define GW_SERVER_DEVICE_QUEUE_H

#include <stdbool.h>

#include <gpuwire/kernel.h>
#include <gpuwire/detail/assert.h>

#include "src/server/device/shared.h"

GW_DEV bool gw_serve_before(const struct gw_serve_arrival *x, const struct gw_serve_arrival *y)
{
    return x->rank != y->rank ? x->rank < y->rank : x->order < y->order;
}

/* One word to compare, not two: on a GPU each is a trip to the cache. Deadlines count in 16 ns. */
GW_DEV uint64_t gw_serve_rank(uint32_t priority, uint64_t deadline)
{
    return (uint64_t)priority << 60 | deadline >> 4;
}

/* Puts r where it belongs between place `at`, which is free, and the top. */
GW_DEV void gw_serve_sift_up(struct gw_serve_arrival *heap, uint32_t at, const struct gw_serve_arrival *r)
{
    GW_NO_UNROLL_
    while (at && gw_serve_before(r, &heap[(at - 1) / 2])) {
        heap[at] = heap[(at - 1) / 2];
        at = (at - 1) / 2;
    }
    heap[at] = *r;
}

/* Puts r where it belongs below or above place `at`, which is free, in a heap of n places. */
GW_DEV void gw_serve_sift(struct gw_serve_arrival *heap, uint32_t n, uint32_t at,
                          const struct gw_serve_arrival *r)
{
    GW_NO_UNROLL_
    for (uint32_t child; (child = 2 * at + 1) < n; at = child) {
        if (child + 1 < n && gw_serve_before(&heap[child + 1], &heap[child])) child++;
        if (!gw_serve_before(&heap[child], r)) break;
        heap[at] = heap[child];
    }
    gw_serve_sift_up(heap, at, r);
}

GW_DEV struct gw_serve_arrival *gw_serve_heap(const struct gw_serve_args *a)
{
    return a->arrival + a->work->head;
}

/* Sees to a free place between the heap and those that are parked at the array's end. The array has twice the
 * room that is needed. So the heap moves back to its begin once in half as many requests as it has places. */
GW_DEV void gw_serve_make_room(const struct gw_serve_args *a)
{
    struct gw_serve_work *w = a->work;
    if (w->waiting && (uint64_t)w->head + w->waiting + w->parked < gw_serve_arrivals(a->sessions, a->slots))
        return;
    GW_NO_UNROLL_
    for (uint32_t i = 0; i < w->waiting; i++) a->arrival[i] = a->arrival[w->head + i];
    w->head = 0;
}

GW_DEV void gw_serve_enqueue(const struct gw_serve_args *a, const struct gw_serve_arrival *r)
{
    struct gw_serve_work *w = a->work;
    gw_serve_make_room(a);
    struct gw_serve_arrival *heap = gw_serve_heap(a);
    if (!w->waiting)
        w->sorted = 1;
    else if (gw_serve_before(r, &heap[w->waiting - 1]))
        w->sorted = 0;
    GW_ASSERT((uint64_t)w->head + w->waiting + w->parked < gw_serve_arrivals(a->sessions, a->slots));
    w->waiting_rows += r->rows;
    gw_serve_sift_up(heap, w->waiting++, r);
}

/* Takes out the one at place `at`. */
GW_DEV struct gw_serve_arrival gw_serve_dequeue(const struct gw_serve_args *a, uint32_t at)
{
    struct gw_serve_work *w = a->work;
    struct gw_serve_arrival *heap = gw_serve_heap(a), r = heap[at];
    GW_ASSERT(at < w->waiting && w->waiting_rows >= r.rows);
    w->waiting--;
    w->waiting_rows -= r.rows;
    if (w->sorted && !at) {
        w->head++;
    } else if (at < w->waiting) {
        struct gw_serve_arrival last = heap[w->waiting];
        gw_serve_sift(heap, w->waiting, at, &last);
        w->sorted = 0;
    }
    return r;
}

/* The place of the one that came first. */
GW_DEV uint32_t gw_serve_oldest(const struct gw_serve_args *a)
{
    const struct gw_serve_arrival *heap = gw_serve_heap(a);
    uint32_t oldest = 0;
    GW_NO_UNROLL_
    for (uint32_t i = 1; i < a->work->waiting; i++)
        if (heap[i].order < heap[oldest].order) oldest = i;
    return oldest;
}

/* ---- those whose peers must acknowledge answers first ---- */

GW_DEV struct gw_serve_arrival *gw_serve_parked(const struct gw_serve_args *a, uint32_t i)
{
    return &a->arrival[gw_serve_arrivals(a->sessions, a->slots) - 1 - i];
}

/* They are at the array's other end; all together are no more than it has places. */
GW_DEV void gw_serve_park(const struct gw_serve_args *a, uint32_t at)
{
    struct gw_serve_arrival r = gw_serve_dequeue(a, at);
    gw_serve_make_room(a);
    a->session[r.session].parked++;
    *gw_serve_parked(a, a->work->parked++) = r;
}

/* Takes a session's requests out of the parked ones; `again`: into the queue. */
GW_DEV void gw_serve_unpark(const struct gw_serve_args *a, uint32_t session, int again)
{
    struct gw_serve_work *w = a->work;
    if (!a->session[session].parked) return;
    a->session[session].parked = 0;
    GW_NO_UNROLL_
    for (uint32_t i = w->parked; i-- > 0;) {
        struct gw_serve_arrival r = *gw_serve_parked(a, i);
        if (r.session != session) continue;
        *gw_serve_parked(a, i) = *gw_serve_parked(a, --w->parked);
        if (again) gw_serve_enqueue(a, &r);
    }
}

/* Forgets all requests of a session. */
GW_DEV void gw_serve_forget(const struct gw_serve_args *a, uint32_t session)
{
    struct gw_serve_work *w = a->work;
    uint32_t n = w->waiting, head = w->head;
    gw_serve_unpark(a, session, 0);
    w->waiting = 0;
    w->waiting_rows = 0;
    GW_NO_UNROLL_
    for (uint32_t i = 0; i < n; i++) { /* the new heap never reaches what has not been looked at */
        struct gw_serve_arrival r = a->arrival[head + i];
        if (r.session != session) gw_serve_enqueue(a, &r);
    }
}

#endif
