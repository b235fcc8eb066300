/* SPDX-License-Identifier: Apache-2.0 */
/* Answers to a session: with results, and without. One thread for each session at a time. */
#ifndef GW_SERVER_DEVICE_ANSWER_H
#define GW_SERVER_DEVICE_ANSWER_H

#include <stdbool.h>

#include "src/server/device/queue.h"
#include "src/server/wire/wire.h"
#include "src/trace/trace.h"

GW_DEV struct gw_serve_request *gw_serve_request_of(const struct gw_serve_args *a,
                                                    const struct gw_serve_session *s, uint32_t slot)
{
    return (struct gw_serve_request *)(s->in + slot * a->in_stride);
}

GW_DEV struct gw_serve_reply *gw_serve_reply_of(const struct gw_serve_args *a,
                                                const struct gw_serve_session *s, uint32_t slot)
{
    return (struct gw_serve_reply *)(s->out + slot * a->out_stride);
}

/* Tells the host how many requests wait: it may wait until none does. */
GW_DEV void gw_serve_tell_waiting(const struct gw_serve_args *a)
{
    uint64_t waiting = a->work->waiting + a->work->parked;
    if (gw_serve_is_many(a)) /* release: a batch that has taken some was told before (gw_many_idle) */
        gw_st_release_u64(&a->board->total.waiting, waiting);
    else
        gw_st_relaxed_u64(&a->board->total.waiting, waiting); /* a number by itself */
}

/* Tells the host that the session is in use: it closes those that are not. */
GW_DEV void gw_serve_active(const struct gw_serve_args *a, uint32_t i)
{
    gw_st_relaxed_u32(&a->notice[i].activity, ++a->session[i].activity); /* a number by itself */
}

/* Is there room in the session's send queue for one more answer than those in work? A peer whose NIC
 * acknowledges nothing must wait for it, and no other peer. */
GW_DEV bool gw_serve_has_room(const struct gw_serve_args *a, const struct gw_serve_session *s)
{
    return s->posted - s->acked + s->in_work < a->slots;
}

/* Its queue pair has failed: nothing more is done for it. The host finds out how from gw_qp_fault, and closes
 * it. One thread, alone. */
GW_DEV void gw_serve_broken(const struct gw_serve_args *a, uint32_t i)
{
    a->session[i].open = 0;
    gw_serve_forget(a, i);
    /* Release: the host that sees the count sees the queue pair's fault. */
    gw_st_release_u32(&a->board->broken, gw_ld_relaxed_u32(&a->board->broken) + 1);
}

/* Posts a receive for the slot's next request. 0, or the queue pair has failed. */
GW_DEV int gw_serve_post_receive(const struct gw_serve_args *a, uint32_t i)
{
    return gw_recv_empty(a->session[i].qp, 1, gw_serve_id(i, a->session[i].word, 0));
}

/* Sends the reply header in the slot, and `bytes` after it, to the session's client. 0, or the queue pair
 * has failed. */
GW_DEV int gw_serve_post(const struct gw_serve_args *a, uint32_t i, uint32_t slot, uint64_t bytes)
{
    struct gw_serve_session *s = &a->session[i];
    /* Queue space comes back with signalled completions; half a queue apart, one is always under way before
     * it is full. */
    uint32_t interval = a->slots > 1 ? a->slots / 2 : 1;
    uint32_t flags = ++s->posted % interval == 0 ? GW_SIGNALED : 0;
    uint64_t start = gw_clock_ns();
    int err = gw_post_op(s->qp,
                         gw_put_imm_op(s->out_addr + slot * a->out_stride, s->out_lkey,
                                       s->reply_addr + slot * s->reply_stride, s->reply_rkey,
                                       (uint32_t)(sizeof(struct gw_serve_reply) + bytes), slot),
                         flags, gw_serve_id(i, s->word, s->posted));
    gw_serve_active(a, i);
    s->last_post_ns = (uint32_t)(gw_clock_ns() - start);
    return err;
}

/* For tracepoints. */
GW_DEV const char *gw_serve_name(const struct gw_serve_args *a, uint32_t model)
{
    return a->shape[model].name;
}

/* Counts a refusal. */
GW_DEV void gw_serve_count_refused(const struct gw_serve_args *a, const struct gw_serve_arrival *r,
                                   enum gw_serve_status status)
{
    struct gw_serve_counters *t = &a->work->total;
    if (status == GW_SERVE_LATE)
        gw_st_relaxed_u64(&a->board->total.late, ++t->late);
    else if (status == GW_SERVE_CLOSING)
        gw_st_relaxed_u64(&a->board->total.closing, ++t->closing);
    else
        gw_st_relaxed_u64(&a->board->total.refused, ++t->refused);
    if (!gw_serve_is_many(a) || status == GW_SERVE_NO_LEASE) return; /* without a lease it has no model */
    struct gw_serve_model_counters *own = &a->model[r->model].total;
    struct gw_serve_model_counters *told = &a->model_board[r->model].total;
    if (status == GW_SERVE_LATE)
        gw_st_relaxed_u64(&told->late, ++own->late);
    else
        gw_st_relaxed_u64(&told->refused, ++own->refused);
}

/* Answers a request that the model does not get; its slot may be none of the session's. It waits no more. */
GW_DEV void gw_serve_refuse(const struct gw_serve_args *a, const struct gw_serve_arrival *r,
                            enum gw_serve_status status)
{
    struct gw_serve_session *s = &a->session[r->session];
    GW_TRACE(server, refused, gw_serve_name(a, r->model), r->session, r->id, status);
    gw_serve_count_refused(a, r, status);
    gw_serve_lease_back(a, r->lease);
    if (gw_serve_post_receive(a, r->session)) {
        gw_serve_broken(a, r->session);
        return;
    }
    if (r->slot >= s->slots) return; /* there is no slot to answer into */
    struct gw_serve_reply *reply = gw_serve_reply_of(a, s, r->slot);
    reply->magic = GW_SERVE_MAGIC;
    reply->version = GW_SERVE_VERSION;
    reply->status = (uint16_t)status;
    reply->id = r->id;
    reply->bytes = 0;
    reply->arrived = r->when;
    reply->started = reply->done = reply->posted = gw_clock_ns();
    if (gw_serve_is_many(a)) reply->done = r->when + r->retry_ns;
    reply->last_post_ns = s->last_post_ns;
    reply->batch = 0;
    if (gw_serve_post(a, r->session, r->slot, 0)) gw_serve_broken(a, r->session);
}

#endif
