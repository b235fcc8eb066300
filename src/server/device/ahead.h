/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How long a request that comes now must wait: the time that those take which are served before it. Each
 * request in the queue adds its share, by priority and by deadline: the time that its model's queue takes
 * with it, less what it takes without. Deadlines are counted in spans of a millisecond, in a ring of 256;
 * later ones count together. One thread, where there are several models.
 */
#ifndef GW_SERVER_DEVICE_AHEAD_H
#define GW_SERVER_DEVICE_AHEAD_H

#include <stdbool.h>

#include <gpuwire/kernel.h>

#include "src/server/device/shared.h"

#define GW_SERVE_AHEAD_LATER GW_SERVE_AHEAD_SPANS /* due later than all spans, or never */

/* One after the last batch size that the model's leases allow now. */
GW_DEV uint32_t gw_serve_end_of(const struct gw_serve_args *a, uint32_t model, uint64_t now)
{
    const struct gw_serve_shape *s = &a->shape[model];
    uint32_t i = 0;
    if (!gw_serve_is_many(a)) return s->first + s->variants;
    while (i < s->variants - 1 && a->model[model].kept_until[i] <= now) i++;
    return s->first + i + 1;
}

/* The smallest batch size, from number v on, that holds `rows` rows; `end`: there is none before it. */
GW_DEV uint32_t gw_serve_variant_for(const struct gw_serve_args *a, uint32_t v, uint32_t end, uint64_t rows)
{
    while (v < end && a->variant[v].rows < rows) v++;
    return v;
}

/* What a number of a model's rows takes: the largest batches, and one for the rest. */
GW_DEV uint64_t gw_serve_rows_ns(const struct gw_serve_args *a, uint32_t model, uint64_t rows, uint64_t now)
{
    uint32_t end = gw_serve_end_of(a, model, now);
    const struct gw_serve_variant *largest = &a->variant[end - 1];
    uint64_t whole = rows / largest->rows, rest = rows % largest->rows;
    uint32_t v = gw_serve_variant_for(a, a->shape[model].first, end, rest);
    return whole * largest->cost.p99_ns + (rest ? a->variant[v].cost.p99_ns : 0);
}

GW_DEV uint32_t gw_serve_ahead_bucket(uint64_t deadline, uint64_t now)
{
    uint64_t due = deadline >> GW_SERVE_AHEAD_SHIFT, is = now >> GW_SERVE_AHEAD_SHIFT;
    return deadline < now || due - is >= GW_SERVE_AHEAD_SPANS ? GW_SERVE_AHEAD_LATER
                                                              : due % GW_SERVE_AHEAD_SPANS;
}

/* The request comes to `rows` rows of its model that wait. */
GW_DEV void gw_serve_ahead_add(const struct gw_serve_args *a, struct gw_serve_arrival *r, uint64_t rows)
{
    uint64_t without = rows ? gw_serve_rows_ns(a, r->model, rows, r->when) : 0;
    uint64_t with = r->rows ? gw_serve_rows_ns(a, r->model, rows + r->rows, r->when) : 0;
    r->share_ns = with > without ? with - without : 0;
    r->bucket = gw_serve_ahead_bucket(r->deadline, r->when);
    a->ahead->priority[r->priority].all += r->share_ns;
    if (r->bucket == GW_SERVE_AHEAD_LATER) return;
    a->ahead->priority[r->priority].span[r->bucket] += r->share_ns;
    a->ahead->priority[r->priority].group[r->bucket / GW_SERVE_AHEAD_GROUPS] += r->share_ns;
}

GW_DEV void gw_serve_ahead_remove(const struct gw_serve_args *a, const struct gw_serve_arrival *r)
{
    a->ahead->priority[r->priority].all -= r->share_ns;
    if (r->bucket == GW_SERVE_AHEAD_LATER) return;
    a->ahead->priority[r->priority].span[r->bucket] -= r->share_ns;
    a->ahead->priority[r->priority].group[r->bucket / GW_SERVE_AHEAD_GROUPS] -= r->share_ns;
}

/* Of one priority, those that are due by the deadline. Spans in the past are left out: what is due there is
 * late, and takes no time. */
GW_DEV uint64_t gw_serve_ahead_due(const struct gw_serve_args *a, uint32_t priority, uint64_t deadline,
                                   uint64_t now)
{
    uint64_t sum = 0, span = now >> GW_SERVE_AHEAD_SHIFT, last = deadline >> GW_SERVE_AHEAD_SHIFT;
    if (gw_serve_ahead_bucket(deadline, now) == GW_SERVE_AHEAD_LATER) return a->ahead->priority[priority].all;
    while (span <= last) {
        uint32_t at = span % GW_SERVE_AHEAD_SPANS;
        bool whole = at % GW_SERVE_AHEAD_GROUPS == 0 && span + GW_SERVE_AHEAD_GROUPS - 1 <= last;
        sum += whole ? a->ahead->priority[priority].group[at / GW_SERVE_AHEAD_GROUPS]
                     : a->ahead->priority[priority].span[at];
        span += whole ? GW_SERVE_AHEAD_GROUPS : 1;
    }
    return sum;
}

/* What a request of that priority and deadline that comes now must wait for, after the batch in work. */
GW_DEV uint64_t gw_serve_ahead_ns(const struct gw_serve_args *a, uint32_t priority, uint64_t deadline,
                                  uint64_t now)
{
    uint64_t sum = 0;
    for (uint32_t p = 0; p < priority; p++) sum += a->ahead->priority[p].all;
    return sum + gw_serve_ahead_due(a, priority, deadline, now);
}

#endif
