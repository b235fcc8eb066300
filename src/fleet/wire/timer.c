/* SPDX-License-Identifier: Apache-2.0 */
/* A loop's timers: a binary heap, in which each timer knows its place. */
#include "src/fleet/wire/timer.h"

#include <errno.h>
#include <stdlib.h>

#include <gpuwire/error.h>

static void timers_place(struct fleet_timers *h, struct fleet_timer *t, uint32_t i)
{
    h->heap[i] = t;
    t->place = i;
}

static void timers_rise(struct fleet_timers *h, struct fleet_timer *t, uint32_t i)
{
    for (; i && h->heap[(i - 1) / 2]->at > t->at; i = (i - 1) / 2) timers_place(h, h->heap[(i - 1) / 2], i);
    timers_place(h, t, i);
}

static void timers_sink(struct fleet_timers *h, struct fleet_timer *t, uint32_t i)
{
    for (uint32_t k; (k = 2 * i + 1) < h->n; i = k) {
        if (k + 1 < h->n && h->heap[k + 1]->at < h->heap[k]->at) k++;
        if (h->heap[k]->at >= t->at) break;
        timers_place(h, h->heap[k], i);
    }
    timers_place(h, t, i);
}

void fleet_timers_take(struct fleet_timers *h, struct fleet_timer *t)
{
    if (!t->at) return;
    struct fleet_timer *last = h->heap[--h->n];
    uint32_t i = t->place;
    t->at = 0;
    if (last == t) return;
    timers_rise(h, last, i);
    timers_sink(h, last, last->place);
}

static int timers_room(struct fleet_timers *h)
{
    if (h->n < h->room) return 0;
    uint32_t room = h->room ? 2 * h->room : 64;
    struct fleet_timer **heap = realloc(h->heap, room * sizeof(struct fleet_timer *));
    if (!heap) return gw_error(-ENOMEM, "no memory for %u timers", room);
    h->heap = heap;
    h->room = room;
    return 0;
}

int fleet_timers_put(struct fleet_timers *h, struct fleet_timer *t, int64_t at)
{
    fleet_timers_take(h, t);
    int err = timers_room(h);
    if (err) return err;
    t->at = at > 0 ? at : 1;
    timers_rise(h, t, h->n++);
    return 0;
}
