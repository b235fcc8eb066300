/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The requests that wait: a heap, the next one on top. A request comes before another of a lower priority,
 * then before one with a later deadline, then before one that came later. One thread.
 *
 * The heap holds keys of 16 bytes; the requests themselves stay where they are. Where priorities and
 * deadlines are the same, requests come in their order, and the heap is a sorted array. Then its first is
 * taken by moving the heap's begin (work->head), and nothing else is read or written.
 *
 * Where there are several models, each model's requests are also in a list, as they came. So a batch finds
 * more of its model.
 */
#ifndef GW_SERVER_DEVICE_QUEUE_H
#define GW_SERVER_DEVICE_QUEUE_H

#include <stdbool.h>

#include <gpuwire/kernel.h>
#include <gpuwire/detail/assert.h>

#include "src/server/device/ahead.h"
#include "src/server/device/shared.h"

GW_DEV bool gw_serve_before(const struct gw_serve_key *x, const struct gw_serve_key *y)
{
    return x->rank != y->rank ? x->rank < y->rank : (int32_t)(x->order - y->order) < 0;
}

/* One word to compare, not two: on a GPU each is a trip to the cache. Deadlines count in 16 ns. */
GW_DEV uint64_t gw_serve_rank(uint32_t priority, uint64_t deadline)
{
    return (uint64_t)priority << 60 | deadline >> 4;
}

/* ---- the heap ---- */

GW_DEV struct gw_serve_key *gw_serve_heap(const struct gw_serve_args *a)
{
    return a->heap + a->work->head;
}

/* The request at that place of the heap. */
GW_DEV struct gw_serve_arrival *gw_serve_waiting(const struct gw_serve_args *a, uint32_t at)
{
    return &a->arrival[gw_serve_heap(a)[at].arrival];
}

GW_DEV void gw_serve_put_key(const struct gw_serve_args *a, uint32_t at, const struct gw_serve_key *k)
{
    gw_serve_heap(a)[at] = *k;
    a->arrival[k->arrival].at = a->work->head + at;
}

/* Puts k where it belongs between place `at`, which is free, and the top. */
GW_DEV void gw_serve_sift_up(const struct gw_serve_args *a, uint32_t at, const struct gw_serve_key *k)
{
    const struct gw_serve_key *heap = gw_serve_heap(a);
    GW_NO_UNROLL_
    while (at && gw_serve_before(k, &heap[(at - 1) / 2])) {
        gw_serve_put_key(a, at, &heap[(at - 1) / 2]);
        at = (at - 1) / 2;
    }
    gw_serve_put_key(a, at, k);
}

/* Puts k where it belongs below or above place `at`, which is free. */
GW_DEV void gw_serve_sift(const struct gw_serve_args *a, uint32_t at, const struct gw_serve_key *k)
{
    const struct gw_serve_key *heap = gw_serve_heap(a);
    uint32_t n = a->work->waiting;
    GW_NO_UNROLL_
    for (uint32_t child; (child = 2 * at + 1) < n; at = child) {
        if (child + 1 < n && gw_serve_before(&heap[child + 1], &heap[child])) child++;
        if (!gw_serve_before(&heap[child], k)) break;
        gw_serve_put_key(a, at, &heap[child]);
    }
    gw_serve_sift_up(a, at, k);
}

/* Sees to a free place after the heap. The array has twice the room that is needed. So the heap moves back to
 * its begin once in half as many requests as it has places. */
GW_DEV void gw_serve_make_room(const struct gw_serve_args *a)
{
    struct gw_serve_work *w = a->work;
    if (w->waiting && w->head + w->waiting < 2 * gw_serve_arrivals(a->sessions, a->slots)) return;
    uint32_t from = w->head;
    w->head = 0;
    GW_NO_UNROLL_
    for (uint32_t i = 0; i < w->waiting; i++) gw_serve_put_key(a, i, &a->heap[from + i]);
}

GW_DEV void gw_serve_push(const struct gw_serve_args *a, const struct gw_serve_key *k)
{
    struct gw_serve_work *w = a->work;
    gw_serve_make_room(a);
    if (!w->waiting)
        w->sorted = 1;
    else if (gw_serve_before(k, &gw_serve_heap(a)[w->waiting - 1]))
        w->sorted = 0;
    gw_serve_sift_up(a, w->waiting++, k);
}

/* Takes out the key at place `at`. */
GW_DEV void gw_serve_pull(const struct gw_serve_args *a, uint32_t at)
{
    struct gw_serve_work *w = a->work;
    w->waiting--;
    if (w->sorted && !at) {
        w->head++;
    } else if (at < w->waiting) {
        struct gw_serve_key last = gw_serve_heap(a)[w->waiting];
        gw_serve_sift(a, at, &last);
        w->sorted = 0;
    }
}

/* ---- lists: of a model's requests, and of those that are parked ---- */

GW_DEV void gw_serve_append(const struct gw_serve_args *a, uint32_t *first, uint32_t *last, uint32_t n)
{
    struct gw_serve_arrival *r = &a->arrival[n];
    r->next = 0;
    r->prev = *last;
    if (*last)
        a->arrival[*last - 1].next = n + 1;
    else
        *first = n + 1;
    *last = n + 1;
}

GW_DEV void gw_serve_unlink(const struct gw_serve_args *a, uint32_t *first, uint32_t *last, uint32_t n)
{
    const struct gw_serve_arrival *r = &a->arrival[n];
    if (r->prev)
        a->arrival[r->prev - 1].next = r->next;
    else
        *first = r->next;
    if (r->next)
        a->arrival[r->next - 1].prev = r->prev;
    else
        *last = r->prev;
}

/* The host may see how many requests of a model wait. */
GW_DEV void gw_serve_tell_queue(const struct gw_serve_args *a, uint32_t model)
{
    const struct gw_serve_model *m = &a->model[model];
    if (gw_serve_is_many(a)) /* a number by itself */
        gw_st_relaxed_u64(&a->model_board[model].total.waiting, m->queued + m->parked);
}

/* Request number n, which has its rank, begins to wait. */
GW_DEV void gw_serve_enter(const struct gw_serve_args *a, uint32_t n)
{
    struct gw_serve_arrival *r = &a->arrival[n];
    struct gw_serve_model *m = &a->model[r->model];
    struct gw_serve_key k = {r->rank, r->order, n};
    if (gw_serve_is_many(a)) {
        gw_serve_ahead_add(a, r, m->queued_rows);
        gw_serve_append(a, &m->first, &m->last, n);
    }
    m->queued++;
    m->queued_rows += r->rows;
    gw_serve_push(a, &k);
    gw_serve_tell_queue(a, r->model);
}

/* Request number n is about to leave the queue: it counts no more. */
GW_DEV void gw_serve_uncount(const struct gw_serve_args *a, uint32_t n)
{
    const struct gw_serve_arrival *r = &a->arrival[n];
    struct gw_serve_model *m = &a->model[r->model];
    GW_ASSERT(m->queued && m->queued_rows >= r->rows);
    if (gw_serve_is_many(a)) {
        gw_serve_ahead_remove(a, r);
        gw_serve_unlink(a, &m->first, &m->last, n);
    }
    m->queued--;
    m->queued_rows -= r->rows;
    gw_serve_tell_queue(a, r->model);
}

/* The request at place `at` waits no more; its number. */
GW_DEV uint32_t gw_serve_leave(const struct gw_serve_args *a, uint32_t at)
{
    const struct gw_serve_work *w = a->work;
    GW_ASSERT(at < w->waiting);
    uint32_t n = a->heap[w->head + at].arrival;
    gw_serve_uncount(a, n);
    gw_serve_pull(a, at);
    return n;
}

/* ---- requests ---- */

GW_DEV void gw_serve_give_back(const struct gw_serve_args *a, uint32_t n)
{
    a->arrival[n].next = a->work->unused;
    a->work->unused = n + 1;
}

GW_DEV void gw_serve_enqueue(const struct gw_serve_args *a, const struct gw_serve_arrival *r)
{
    struct gw_serve_work *w = a->work;
    GW_ASSERT((uint64_t)w->waiting + w->parked < gw_serve_arrivals(a->sessions, a->slots));
    uint32_t n = w->unused ? w->unused - 1 : w->fresh++;
    if (w->unused) w->unused = a->arrival[n].next;
    a->arrival[n] = *r;
    gw_serve_enter(a, n);
}

/* Takes out the one at place `at`. */
GW_DEV struct gw_serve_arrival gw_serve_dequeue(const struct gw_serve_args *a, uint32_t at)
{
    uint32_t n = gw_serve_leave(a, at);
    gw_serve_give_back(a, n);
    return a->arrival[n];
}

/* The place of the one that came first. */
GW_DEV uint32_t gw_serve_oldest(const struct gw_serve_args *a)
{
    const struct gw_serve_key *heap = gw_serve_heap(a);
    uint32_t oldest = 0;
    GW_NO_UNROLL_
    for (uint32_t i = 1; i < a->work->waiting; i++)
        if ((int32_t)(heap[i].order - heap[oldest].order) < 0) oldest = i;
    return oldest;
}

/* ---- those whose peers must acknowledge answers first ---- */

GW_DEV void gw_serve_park(const struct gw_serve_args *a, uint32_t at)
{
    struct gw_serve_work *w = a->work;
    uint32_t n = gw_serve_leave(a, at);
    struct gw_serve_arrival *r = &a->arrival[n];
    a->session[r->session].parked++;
    a->model[r->model].parked++;
    r->next = w->first_parked;
    r->prev = 0;
    if (r->next) a->arrival[r->next - 1].prev = n + 1;
    w->first_parked = n + 1;
    w->parked++;
}

/* The request has left without an answer: its lease has room for another one. */
GW_DEV void gw_serve_lease_back(const struct gw_serve_args *a, uint32_t lease)
{
    if (!lease) return;
    GW_ASSERT(lease <= a->leases && a->lease[lease - 1].in_flight);
    a->lease[lease - 1].in_flight--;
}

/* Takes a session's requests out of the parked ones; `again`: into the queue. */
GW_DEV void gw_serve_unpark(const struct gw_serve_args *a, uint32_t session, int again)
{
    struct gw_serve_work *w = a->work;
    if (!a->session[session].parked) return;
    a->session[session].parked = 0;
    GW_NO_UNROLL_
    for (uint32_t next, n = w->first_parked; n; n = next) {
        struct gw_serve_arrival *r = &a->arrival[n - 1];
        uint32_t last = 0; /* this list's last is not known */
        next = r->next;
        if (r->session != session) continue;
        gw_serve_unlink(a, &w->first_parked, &last, n - 1);
        w->parked--;
        a->model[r->model].parked--;
        if (again) {
            gw_serve_enter(a, n - 1);
            continue;
        }
        gw_serve_lease_back(a, r->lease);
        gw_serve_tell_queue(a, r->model);
        gw_serve_give_back(a, n - 1);
    }
}

/* Forgets all requests of a session. */
GW_DEV void gw_serve_forget(const struct gw_serve_args *a, uint32_t session)
{
    struct gw_serve_work *w = a->work;
    uint32_t n = w->waiting, head = w->head;
    gw_serve_unpark(a, session, 0);
    w->waiting = 0;
    GW_NO_UNROLL_
    for (uint32_t i = 0; i < n; i++) { /* the new heap never reaches what has not been looked at */
        struct gw_serve_key k = a->heap[head + i];
        const struct gw_serve_arrival *r = &a->arrival[k.arrival];
        if (r->session != session) {
            gw_serve_push(a, &k);
            continue;
        }
        gw_serve_uncount(a, k.arrival);
        gw_serve_lease_back(a, r->lease);
        gw_serve_give_back(a, k.arrival);
    }
}

#endif
