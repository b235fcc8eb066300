/* SPDX-License-Identifier: Apache-2.0 */
/* Takes a slot for an inference, submits it, and waits for the answer. */
#include "src/server/worker/calls.h"

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <gpuwire/exec.h>
#include <gpuwire/detail/held.h>

#include "src/trace/trace.h"

#define SEND_ROOM_NS 100000000u
#define AGAIN_NS     5000000u

static struct gw_slot *serve_call_slot_of(const struct gw_call *call)
{
    return (struct gw_slot *)call;
}

/* ---- taking and giving ---- */

/* May this client have one more? */
static bool has_share(const struct gw_calls *c, const char *who)
{
    GW_ASSERT_HELD(&c->lock);
    uint32_t most = gw_calls_total(c) - gw_calls_total(c) / 4, has = 0;
    for (uint32_t i = 0; i < gw_calls_total(c); i++)
        has += c->slot[i].state != CALL_FREE && !strncmp(c->slot[i].who, who, sizeof(c->slot[i].who) - 1);
    return has < most;
}

/* A free call of an open session. */
static struct gw_slot *find_free(struct gw_calls *c)
{
    GW_ASSERT_HELD(&c->lock);
    for (uint32_t i = 0; i < gw_calls_total(c); i++)
        if (c->slot[i].state == CALL_FREE && c->slot[i].lane->life == LANE_OPEN) return &c->slot[i];
    return NULL;
}

/* A session to be opened, when no other thread is at it. */
static struct gw_lane *find_closed(struct gw_calls *c)
{
    GW_ASSERT_HELD(&c->lock);
    struct gw_lane *closed = NULL;
    for (uint32_t i = 0; i < c->opts.sessions; i++) {
        if (c->lane[i].life == LANE_OPENING) return NULL;
        if (c->lane[i].life == LANE_CLOSED && !closed) closed = &c->lane[i];
    }
    if (closed) closed->life = LANE_OPENING;
    return closed;
}

/* One step towards a call: 1 when *out is one, 0 when the caller shall look again, or a negative errno. */
static int serve_call_step(struct gw_calls *c, const char *who, uint64_t deadline_ns, struct gw_slot **out)
{
    GW_ASSERT_HELD(&c->lock);
    struct timespec until = gw_calls_time(deadline_ns);
    struct gw_lane *closed = NULL;
    if (c->closing) return gw_error(-ESHUTDOWN, "model %s is being stopped", c->opts.name);
    int may = has_share(c, who);
    if (may && (*out = find_free(c))) return 1;
    if (may && (closed = find_closed(c))) {
        pthread_mutex_unlock(&c->lock);
        int err = gw_calls_open_lane(c, closed);
        pthread_mutex_lock(&c->lock);
        if (err != -EAGAIN) return err;
        /* One that was just closed is being made ready. */
        uint64_t soon = gw_deadline(AGAIN_NS);
        until = gw_calls_time(deadline_ns < soon ? deadline_ns : soon);
        pthread_cond_timedwait(&c->freed, &c->lock, &until);
        return gw_deadline(0) < deadline_ns ? 0 : -EAGAIN;
    }
    if (!deadline_ns) return gw_error(-EAGAIN, "model %s: every place for a request is taken", c->opts.name);
    if (pthread_cond_timedwait(&c->freed, &c->lock, &until) == ETIMEDOUT)
        return gw_error(-ETIMEDOUT, "model %s: every place for a request stayed taken", c->opts.name);
    return 0;
}

int gw_call_take(struct gw_calls *c, const char *who, uint64_t deadline_ns, struct gw_call **out)
{
    struct gw_slot *s = NULL;
    int got;
    pthread_mutex_lock(&c->lock);
    while (!(got = serve_call_step(c, who, deadline_ns, &s))) continue;
    if (got > 0) {
        GW_ASSERT(s->state == CALL_FREE && s->lane->life == LANE_OPEN);
        s->state = CALL_TAKEN;
        s->placed = 0;
        s->target = (struct gw_call_target){.in = &c->opts.in, .out = &c->opts.out, .rows = c->opts.rows};
        s->done = NULL;
        s->call.error = 0;
        strncpy(s->who, who, sizeof(s->who) - 1);
        *out = &s->call;
    }
    pthread_mutex_unlock(&c->lock);
    return got > 0 ? 0 : got;
}

int gw_call_aim(struct gw_call *call, const struct gw_call_target *t)
{
    struct gw_slot *s = serve_call_slot_of(call);
    const struct gw_calls *c = s->calls;
    if (sizeof(struct gw_serve_request) + gw_layout_bytes(t->in, t->rows) > c->in_stride ||
        sizeof(struct gw_serve_reply) + gw_layout_bytes(t->out, t->rows) > c->out_stride)
        return gw_error(-EFBIG, "%s: %u samples of that model do not fit into a slot", c->opts.name, t->rows);
    s->target = *t;
    return 0;
}

uint64_t gw_call_retry_ns(const struct gw_call *call)
{
    return call->reply->done > call->reply->arrived ? call->reply->done - call->reply->arrived : 0;
}

void gw_call_give(struct gw_call *call)
{
    if (!call) return;
    struct gw_slot *s = serve_call_slot_of(call);
    pthread_mutex_lock(&s->calls->lock);
    GW_ASSERT(s->state != CALL_FREE && s->state != CALL_LEFT);
    s->state = gw_calls_is_out(s) ? CALL_LEFT : CALL_FREE;
    if (s->state == CALL_FREE) pthread_cond_broadcast(&s->calls->freed);
    pthread_mutex_unlock(&s->calls->lock);
}

void *gw_call_input(struct gw_call *call, uint32_t i, uint32_t rows, uint64_t *bytes)
{
    const struct gw_layout *in = serve_call_slot_of(call)->target.in;
    *bytes = gw_layout_tensor_bytes(in, i, rows);
    return (uint8_t *)(gw_calls_request(serve_call_slot_of(call)) + 1) + gw_layout_offset(in, i, rows);
}

const void *gw_call_output(const struct gw_call *call, uint32_t i, uint64_t *bytes)
{
    const struct gw_layout *out = serve_call_slot_of(call)->target.out;
    uint32_t rows = serve_call_slot_of(call)->rows;
    *bytes = gw_layout_tensor_bytes(out, i, rows);
    return (const uint8_t *)(call->reply + 1) + gw_layout_offset(out, i, rows);
}

const struct gw_layout *gw_call_layout(const struct gw_call *call, int output)
{
    const struct gw_call_target *t = &serve_call_slot_of(call)->target;
    return output ? t->out : t->in;
}

/* ---- the slot at the worker ---- */

int gw_call_enter_slot(struct gw_call *call, uint8_t **in, uint8_t **out)
{
    struct gw_slot *s = serve_call_slot_of(call);
    struct gw_calls *c = s->calls;
    int err = 0;
    pthread_mutex_lock(&c->lock);
    int open = s->lane->life == LANE_OPEN; /* else its generation is about to change */
    if (open && s->state == CALL_TAKEN) s->generation = s->lane->generation; /* it has not been sent yet */
    if (!open || s->generation != s->lane->generation)
        err = gw_error(-EIO, "model %s: the session of the server's own broke", c->opts.name);
    if (!err) {
        s->lane->visitors++;
        s->placed = s->generation + 1;
        gw_session_slot(c->opts.pool, s->lane->grant.index, s->index, in, out);
    }
    pthread_mutex_unlock(&c->lock);
    return err;
}

void gw_call_leave_slot(struct gw_call *call)
{
    struct gw_calls *c = serve_call_slot_of(call)->calls;
    pthread_mutex_lock(&c->lock);
    GW_ASSERT(serve_call_slot_of(call)->lane->visitors > 0);
    serve_call_slot_of(call)->lane->visitors--;
    pthread_cond_broadcast(&c->freed);
    pthread_mutex_unlock(&c->lock);
}

/* ---- asking ---- */

/* The send queue holds twice as many requests as there are slots: so there is nearly always room, and else
 * there is when acknowledgements have come. */
static int serve_call_post(struct gw_calls *c, struct gw_lane *l, const struct gw_op *op, uint64_t id)
{
    GW_ASSERT_HELD(&l->post);
    uint32_t flags = ++l->sent % c->opts.slots == 0 ? GW_SIGNALED : 0;
    uint64_t end = gw_deadline(SEND_ROOM_NS);
    struct ibv_wc wc;
    for (;;) {
        while (gw_poll_cq(gw_cq_handle(l->send_cq), 1, &wc) > 0)
            if (wc.status != IBV_WC_SUCCESS) return -EIO;
        int err = gw_post_op(gw_qp_handle(l->qp), *op, flags, id);
        if (err != -EAGAIN) return err;
        if (gw_cq_wait(l->send_cq, end, NULL, -1) <= 0) return -EIO;
    }
}

static int post_request(struct gw_calls *c, const struct gw_slot *s, uint64_t bytes)
{
    const struct gw_lane *l = s->lane;
    struct gw_op op = gw_put_imm_op(l->in_addr + s->index * c->in_stride, c->in_mr->lkey,
                                    l->grant.request_addr + s->index * l->grant.request_stride,
                                    l->grant.request_rkey, (uint32_t)bytes, s->index);
    return serve_call_post(c, s->lane, &op, s->index);
}

/* The request is the worker's from now on, unless it cannot be sent. */
static int serve_call_begin(struct gw_slot *s, const struct gw_call_ask *ask)
{
    struct gw_calls *c = s->calls;
    int err = 0;
    pthread_mutex_lock(&c->lock);
    if (c->closing)
        err = gw_error(-ESHUTDOWN, "model %s is being stopped", c->opts.name);
    else if (s->lane->life != LANE_OPEN ||
             (ask->flags & GW_SERVE_PLACED && s->placed != s->lane->generation + 1))
        err = gw_error(-EIO, "model %s: the session of the server's own broke", c->opts.name);
    if (!err) {
        GW_ASSERT(s->state == CALL_TAKEN || s->state == CALL_DONE);
        s->state = CALL_SENT;
        s->id = ++c->ids;
        s->rows = ask->rows;
        s->generation = s->lane->generation;
        s->done = ask->done;
        s->ctx = ask->ctx;
    }
    pthread_mutex_unlock(&c->lock);
    return err;
}

int gw_call_submit(struct gw_call *call, const struct gw_call_ask *ask)
{
    struct gw_slot *s = serve_call_slot_of(call);
    struct gw_calls *c = s->calls;
    const struct gw_call_target *t = &s->target;
    if (ask->rows < 1 || ask->rows > t->rows)
        return gw_error(-EINVAL, "model %s takes 1 to %u samples at once, not %u", c->opts.name, t->rows,
                        ask->rows);
    uint64_t bytes = ask->flags & GW_SERVE_PLACED ? 0 : gw_layout_bytes(t->in, ask->rows);
    int err = serve_call_begin(s, ask);
    if (err) return err;
    *gw_calls_request(s) = (struct gw_serve_request){.magic = GW_SERVE_MAGIC,
                                                     .version = GW_SERVE_VERSION,
                                                     .slot = (uint16_t)s->index,
                                                     .id = s->id,
                                                     .bytes = bytes,
                                                     .rows = ask->rows,
                                                     .priority = ask->priority,
                                                     .flags = ask->flags,
                                                     .lease = t->lease,
                                                     .key = t->key,
                                                     .budget_ns = ask->budget_ns};
    call->submitted = gw_deadline(0);
    GW_TRACE(server, submitted, c->opts.name, s->id, ask->rows, ask->priority);
    pthread_mutex_lock(&s->lane->post);
    /* A session that broke in between has ended this call, or is about to. */
    if (s->generation == s->lane->generation)
        err = post_request(c, s, sizeof(struct gw_serve_request) + bytes);
    pthread_mutex_unlock(&s->lane->post);
    if (!err) return 0;
    gw_calls_break_lane(c, s->lane); /* the thread ends this call with the session's others */
    return 0;
}

/* The word goes into the slot after the request, and before the slot's next one, by the same queue pair. */
int gw_call_cancel(struct gw_call *call)
{
    const size_t at = offsetof(struct gw_serve_request, recalled);
    struct gw_slot *s = serve_call_slot_of(call);
    struct gw_calls *c = s->calls;
    struct gw_lane *l = s->lane;
    int err = -EIO;
    gw_calls_request(s)->recalled = s->id;
    struct gw_op op = gw_put_op(l->in_addr + s->index * c->in_stride + at, c->in_mr->lkey,
                                l->grant.request_addr + s->index * l->grant.request_stride + at,
                                l->grant.request_rkey, sizeof(s->id));
    pthread_mutex_lock(&l->post);
    if (s->generation == l->generation) err = serve_call_post(c, l, &op, s->index);
    pthread_mutex_unlock(&l->post);
    return err;
}

int gw_call_wait(struct gw_call *call, uint64_t deadline_ns)
{
    struct gw_slot *s = serve_call_slot_of(call);
    struct timespec until = gw_calls_time(deadline_ns);
    int late = 0;
    pthread_mutex_lock(&s->calls->lock);
    while (s->state == CALL_SENT && !late)
        late =
            pthread_cond_timedwait(&s->ended, &s->calls->lock, &until) == ETIMEDOUT && s->state == CALL_SENT;
    pthread_mutex_unlock(&s->calls->lock);
    return late ? gw_error(-ETIMEDOUT, "model %s has not answered in time", s->calls->opts.name) : 0;
}
