/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the host says of models and leases, in a ring of orders. The kernel takes them when it looks at the
 * board, and before it refuses a request that an order might allow. One thread, where there are several
 * models.
 */
#ifndef GW_SERVER_DEVICE_ORDERS_H
#define GW_SERVER_DEVICE_ORDERS_H

#include "src/server/device/answer.h"

/* Refuses all requests of a model that wait. Those whose peers must acknowledge answers first are parked, and
 * refused later. */
GW_DEV void gw_serve_send_away(const struct gw_serve_args *a, uint32_t model)
{
    const struct gw_serve_model *m = &a->model[model];
    GW_NO_UNROLL_
    while (m->first) {
        const struct gw_serve_arrival *first = &a->arrival[m->first - 1];
        uint32_t at = first->at - a->work->head;
        if (!gw_serve_has_room(a, &a->session[first->session])) {
            gw_serve_park(a, at);
            continue;
        }
        struct gw_serve_arrival r = gw_serve_dequeue(a, at);
        r.retry_ns = m->retry_ns;
        gw_serve_refuse(a, &r, r.priority ? GW_SERVE_NOT_THERE : (enum gw_serve_status)r.status);
    }
}

GW_DEV void gw_serve_take_model(const struct gw_serve_args *a, const struct gw_serve_order *o)
{
    struct gw_serve_work *w = a->work;
    uint32_t number = gw_ld_relaxed_u32(&o->number);
    struct gw_serve_model *m = &a->model[number];
    m->word = gw_ld_relaxed_u32(&o->word);
    m->state = m->word & 3;
    m->retry_ns = gw_ld_relaxed_u64(&o->retry_ns);
    if (m->state != GW_MODEL_PRESENT) gw_serve_send_away(a, number);
    bool runs = w->items && w->model == number;
    if (runs) w->leaving = m->state != GW_MODEL_PRESENT;
    if (runs && w->leaving) return; /* its batch is at work: gw_serve_let_go answers after it */
    /* Release: the host that sees the word sees all that was done before. */
    gw_st_release_u32(&a->model_board[number].seen, m->word);
}

/* The lease keeps the model's batches at max_rows, or below, until it would end, even if it is ended before.
 */
GW_DEV void gw_serve_keep_small(const struct gw_serve_args *a, const struct gw_serve_lease *l)
{
    const struct gw_serve_shape *s = &a->shape[l->model];
    uint32_t i = 0;
    if (!l->max_rows) return;
    while (i + 1 < s->variants && a->variant[s->first + i + 1].rows <= l->max_rows) i++;
    uint64_t *until = &a->model[l->model].kept_until[i];
    if (*until < l->until) *until = l->until;
}

GW_DEV void gw_serve_take_lease(const struct gw_serve_args *a, const struct gw_serve_order *o)
{
    struct gw_serve_lease *l = &a->lease[gw_ld_relaxed_u32(&o->number)];
    uint64_t key = gw_ld_relaxed_u64(&o->key);
    if (key != l->key) {
        l->key = key;
        l->life++;
        l->next = 0;
    }
    l->until = gw_ld_relaxed_u64(&o->until);
    l->interval_ns = gw_ld_relaxed_u64(&o->interval_ns);
    l->owner = gw_ld_relaxed_u32(&o->owner);
    l->model = gw_ld_relaxed_u32(&o->model);
    l->slots = gw_ld_relaxed_u32(&o->slots);
    l->max_rows = gw_ld_relaxed_u32(&o->max_rows);
    if (key) gw_serve_keep_small(a, l);
}

/* Takes all orders that there are. */
GW_DEV void gw_serve_take_orders(const struct gw_serve_args *a)
{
    struct gw_serve_work *w = a->work;
    uint32_t given = gw_ld_acquire_u32(&a->board->orders); /* acquire: the orders that it counts are whole */
    if (w->orders == given) return;
    GW_NO_UNROLL_
    for (; w->orders != given; w->orders++) {
        const struct gw_serve_order *o = &a->order[w->orders & (a->orders - 1)];
        if (gw_ld_relaxed_u32(&o->kind) == GW_ORDER_MODEL)
            gw_serve_take_model(a, o);
        else
            gw_serve_take_lease(a, o);
    }
    /* Release: the host writes to those places again, but only after they have been read. */
    gw_st_release_u32(&a->board->taken, given);
}

#endif
