/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whether a request may come in, where there are several models: looked at once, when it arrives, before the
 * model sees anything of it. One thread.
 *
 * - Its lease has that number and key, has not ended, and is its session's owner's. The server's own sessions
 *   may use each lease, or name a model.
 * - The model is there.
 * - The lease has a slot and budget for it. The budget is a rate with bursts: `next` is when a client that
 *   sends at that rate would have sent all that came, and it may run ahead of the clock by `slots` samples.
 * - It can be answered by its deadline: after the rest of the batch that runs, those that are served before
 *   it, and its own run.
 */
#ifndef GW_SERVER_DEVICE_ADMIT_H
#define GW_SERVER_DEVICE_ADMIT_H

#include "src/server/device/orders.h"

#define GW_SERVE_PROBE 16 /* every Nth request that is late by the estimate of its own run is run */

/* What a request's header says of its lease. */
struct gw_serve_claim {
    uint32_t lease;
    uint64_t key;
};

/* The lease, or NULL: the claim is false. */
GW_DEV struct gw_serve_lease *gw_serve_find_lease(const struct gw_serve_args *a,
                                                  const struct gw_serve_arrival *r,
                                                  const struct gw_serve_claim *c)
{
    uint32_t owner = a->session[r->session].owner;
    if (!c->lease || c->lease > a->leases || !c->key) return NULL;
    struct gw_serve_lease *l = &a->lease[c->lease - 1];
    return l->key == c->key && (l->owner == owner || owner == GW_SERVE_OWN) && r->when < l->until ? l : NULL;
}

/* Finds the request's model; *l is its lease, or NULL where it needs none. */
GW_DEV enum gw_serve_status gw_serve_find_model(const struct gw_serve_args *a, struct gw_serve_arrival *r,
                                                const struct gw_serve_claim *c, struct gw_serve_lease **l)
{
    bool free = !c->lease && (!a->leases || a->session[r->session].owner == GW_SERVE_OWN);
    *l = NULL;
    if (free) {
        if (c->key >= a->models) return GW_SERVE_NOT_THERE;
        r->model = (uint32_t)c->key;
        return GW_SERVE_OK;
    }
    *l = gw_serve_find_lease(a, r, c);
    if (!*l) return GW_SERVE_NO_LEASE;
    r->model = (*l)->model;
    return GW_SERVE_OK;
}

/* As gw_serve_find_model; the model is there, too. An order that has just come counts. */
GW_DEV enum gw_serve_status gw_serve_find(const struct gw_serve_args *a, struct gw_serve_arrival *r,
                                          const struct gw_serve_claim *c, struct gw_serve_lease **l)
{
    enum gw_serve_status status = GW_SERVE_OK;
    for (uint32_t turn = 0; turn < 2; turn++) {
        if (turn) gw_serve_take_orders(a);
        status = gw_serve_find_model(a, r, c, l);
        if (status == GW_SERVE_OK && a->model[r->model].state == GW_MODEL_PRESENT) return GW_SERVE_OK;
    }
    if (status != GW_SERVE_OK) return status;
    r->retry_ns = a->model[r->model].retry_ns;
    return GW_SERVE_NOT_THERE;
}

/* Does the lease allow it now? */
GW_DEV bool gw_serve_in_budget(const struct gw_serve_lease *l, struct gw_serve_arrival *r)
{
    uint64_t ahead = l->interval_ns * (l->slots - 1);
    if (l->in_flight >= l->slots || (l->max_rows && r->rows > l->max_rows)) return false;
    if (l->next <= r->when + ahead) return true;
    r->retry_ns = l->next - ahead - r->when;
    return false;
}

GW_DEV void gw_serve_charge(struct gw_serve_lease *l, struct gw_serve_arrival *r)
{
    l->next = (l->next > r->when ? l->next : r->when) + l->interval_ns * r->rows;
    l->in_flight++;
    r->life = l->life;
}

/* Can it be answered in time? Every 16th that only the estimate of its own run makes late is let in, so that
 * a wrong estimate does not stay. */
GW_DEV bool gw_serve_in_time(const struct gw_serve_args *a, struct gw_serve_arrival *r)
{
    const struct gw_serve_work *w = a->work;
    if (r->deadline == UINT64_MAX) return true;
    uint32_t first = a->shape[r->model].first, end = gw_serve_end_of(a, r->model, r->when);
    uint32_t v = gw_serve_variant_for(a, first, end, r->rows);
    struct gw_serve_cost *cost = &a->variant[v < end ? v : first + a->shape[r->model].variants - 1].cost;
    uint64_t start = r->when, own = cost->p99_ns;
    if (start + own > r->deadline && ++cost->refused % GW_SERVE_PROBE == 0) {
        r->certain = 1;
        return true;
    }
    uint64_t busy = w->items ? w->started + a->variant[w->variant].cost.p99_ns : 0;
    if (busy > start) start = busy;
    start += gw_serve_ahead_ns(a, r->priority, r->deadline, r->when);
    if (start + own <= r->deadline) return true;
    r->retry_ns = start + own - r->deadline;
    return false;
}

/* Its budget and its deadline; the rest is known to be right. */
GW_DEV enum gw_serve_status gw_serve_admit(const struct gw_serve_args *a, struct gw_serve_arrival *r,
                                           struct gw_serve_lease *l)
{
    if (l && !gw_serve_in_budget(l, r)) return GW_SERVE_OVER_BUDGET;
    if (!gw_serve_in_time(a, r)) return GW_SERVE_LATE;
    if (!l) return GW_SERVE_OK;
    gw_serve_charge(l, r);
    r->lease = (uint32_t)(l - a->lease) + 1;
    return GW_SERVE_OK;
}

#endif
