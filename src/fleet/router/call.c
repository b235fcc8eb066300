/* SPDX-License-Identifier: Apache-2.0 */
/*
 * call.c: a request goes to the fleet's client, and its answer is kept until a door has sent it.
 *
 * The client's thread calls back once for each request. The door's thread waits until then, or no longer than
 * it likes. The one that is last frees the call.
 */
#include "src/fleet/router/call.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <gpuwire/error.h>
#include <gpuwire/exec.h>

#include "src/door/who.h"
#include "src/fleet/router/refuse.h"
#include "src/server/device/cost.h"

struct gw_infer_call {
    struct fleet_calls *calls;
    struct gw_infer_call *next, **link; /* of all calls */
    struct fleet_catalog_model *model;
    char who[GW_WHO_TEXT];
    uint32_t rows;
    uint64_t held;                   /* bytes of the room */
    uint8_t *in;                     /* the tensors of the request */
    pthread_mutex_t lock;            /* of the rest */
    pthread_cond_t ended;            /* on CLOCK_MONOTONIC */
    bool flying, left;               /* the client has it; no door waits for it */
    bool over, cancelled;            /* it has an answer; no answer is to be waited for */
    int64_t begun_at;                /* submitted */
    struct fleet_client_reply reply; /* its data is ours: `out` */
    char why[FLEET_WHY];
    uint8_t *out;
};

/* ---- all calls */

void fleet_calls_open(struct fleet_calls *calls, uint64_t memory, int64_t deadline_ns)
{
    *calls = (struct fleet_calls){.deadline_ns = deadline_ns};
    pthread_mutex_init(&calls->lock, NULL);
    gw_room_open(&calls->room, memory);
}

void fleet_calls_end(struct fleet_calls *calls)
{
    pthread_mutex_lock(&calls->lock);
    calls->over = true;
    for (struct gw_infer_call *c = calls->first; c; c = c->next) {
        fleet_call_cancel(c);
        pthread_cond_signal(&c->ended);
    }
    pthread_mutex_unlock(&calls->lock);
}

bool fleet_calls_are_busy(struct fleet_calls *calls)
{
    pthread_mutex_lock(&calls->lock);
    bool busy = calls->first != NULL;
    pthread_mutex_unlock(&calls->lock);
    return busy;
}

void fleet_calls_close(struct fleet_calls *calls)
{
    gw_room_close(&calls->room);
    pthread_mutex_destroy(&calls->lock);
}

/* False: the router ends. */
static bool router_call_enlist(struct gw_infer_call *c)
{
    struct fleet_calls *calls = c->calls;
    pthread_mutex_lock(&calls->lock);
    bool may = !calls->over;
    if (may) {
        c->next = calls->first;
        c->link = &calls->first;
        if (c->next) c->next->link = &c->next;
        calls->first = c;
    }
    pthread_mutex_unlock(&calls->lock);
    return may;
}

/* ---- a call's life */

static void router_call_make_lock(struct gw_infer_call *c)
{
    pthread_condattr_t attr;
    pthread_mutex_init(&c->lock, NULL);
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC); /* gw_deadline's */
    pthread_cond_init(&c->ended, &attr);
    pthread_condattr_destroy(&attr);
}

static void router_call_free(struct gw_infer_call *c)
{
    gw_room_give(&c->calls->room, c->who, c->held);
    pthread_mutex_lock(&c->calls->lock);
    if (c->link) {
        *c->link = c->next;
        if (c->next) c->next->link = c->link;
    }
    pthread_mutex_unlock(&c->calls->lock);
    pthread_cond_destroy(&c->ended);
    pthread_mutex_destroy(&c->lock);
    free(c->in);
    free(c->out);
    free(c);
}

int fleet_call_take(struct fleet_calls *calls, struct fleet_catalog_model *m, uint32_t rows, const char *who,
                    struct gw_infer_call **out)
{
    uint64_t in = gw_layout_bytes(&m->metadata.in, rows);
    struct gw_infer_call *c = calloc(1, sizeof(*c));
    uint8_t *memory = calloc(1, in ? in : 1); /* so that gaps between tensors carry nothing of others */
    uint64_t held = sizeof(*c) + in + gw_layout_bytes(&m->metadata.out, rows);
    int err = !c || !memory ? -ENOMEM : gw_room_take(&calls->room, who, held);
    if (err) {
        free(c);
        free(memory);
        return gw_error(err, err == -ENOMEM ? "the router has no memory left"
                                            : "the router has too many tensors of this client under way: "
                                              "send fewer requests at once");
    }
    *c = (struct gw_infer_call){.calls = calls, .model = m, .rows = rows, .held = held, .in = memory};
    snprintf(c->who, sizeof(c->who), "%s", who);
    router_call_make_lock(c);
    if (router_call_enlist(c)) {
        *out = c;
        return 0;
    }
    router_call_free(c);
    return gw_error(-ESHUTDOWN, "the router is being stopped");
}

void fleet_call_give(struct gw_infer_call *c)
{
    if (!c) return;
    pthread_mutex_lock(&c->lock);
    c->left = true;
    bool last = !c->flying;
    pthread_mutex_unlock(&c->lock);
    if (last) router_call_free(c);
}

/* ---- its tensors */

const struct gw_layout *fleet_call_layout(const struct gw_infer_call *c, int output)
{
    return output ? &c->model->metadata.out : &c->model->metadata.in;
}

void *fleet_call_input(struct gw_infer_call *c, uint32_t tensor, uint32_t rows, uint64_t *bytes)
{
    *bytes = gw_layout_tensor_bytes(&c->model->metadata.in, tensor, rows);
    return c->in + gw_layout_offset(&c->model->metadata.in, tensor, rows);
}

const void *fleet_call_output(const struct gw_infer_call *c, uint32_t tensor, uint64_t *bytes)
{
    *bytes = gw_layout_tensor_bytes(&c->model->metadata.out, tensor, c->rows);
    return c->out + gw_layout_offset(&c->model->metadata.out, tensor, c->rows);
}

/* ---- its answer */

static uint64_t router_call_length(int64_t ns)
{
    return ns > 0 ? (uint64_t)ns : 0;
}

/* `output` is the time that was spent on the way. */
static void router_call_count(struct gw_infer_call *c, const struct fleet_client_reply *r)
{
    struct fleet_catalog_model *m = c->model;
    uint64_t all = router_call_length(r->seen_at - c->begun_at), queue = router_call_length(r->queued_ns);
    uint64_t infer = router_call_length(r->model_ns), known = queue + infer;
    struct gw_infer_stats *s = &m->stats;
    pthread_mutex_lock(&m->lock);
    s->calls_taken--;
    if (!r->error) {
        s->successes++;
        s->executions++;
        s->inferences += c->rows;
        s->queue_ns += queue;
        s->infer_ns += infer;
        s->output_ns += all > known ? all - known : 0;
        s->latency[gw_serve_bucket_of(all)]++;
    } else if (r->error == -ETIME || r->error == -ETIMEDOUT) {
        s->late++;
    } else if (r->error == -EAGAIN || r->error == -EINVAL) {
        s->refused++;
    } else {
        s->failures++;
    }
    pthread_mutex_unlock(&m->lock);
}

/* Keeps the answer: what the client has is gone after its call. A worker's answer has the size that its own
 * description says, or it is none. */
static void router_call_keep(struct gw_infer_call *c, struct fleet_client_reply *r)
{
    if (r->error) return;
    if (r->bytes != gw_layout_bytes(&c->model->metadata.out, c->rows)) {
        r->error = -EPROTO;
        r->why = "a worker's answer has another size than its description says";
        return;
    }
    c->out = malloc(r->bytes ? r->bytes : 1);
    if (c->out) memcpy(c->out, r->data, r->bytes);
    if (!c->out) {
        r->error = -ENOMEM;
        r->why = "the router has no memory left";
    }
}

static void router_call_done(void *ctx, const struct fleet_client_reply *reply)
{
    struct gw_infer_call *c = ctx;
    struct fleet_client_reply r = *reply;
    pthread_mutex_lock(&c->lock);
    bool wanted = !c->left; /* without a door to send it the answer is not copied */
    pthread_mutex_unlock(&c->lock);
    if (wanted) router_call_keep(c, &r);
    router_call_count(c, &r);
    snprintf(c->why, sizeof(c->why), "%s", r.why ? r.why : "");
    r.data = NULL;
    r.why = NULL;
    pthread_mutex_lock(&c->lock);
    c->reply = r;
    c->over = true;
    c->flying = false;
    bool last = c->left;
    pthread_cond_signal(&c->ended);
    pthread_mutex_unlock(&c->lock);
    if (last) router_call_free(c);
}

/* ---- asking for it */

int fleet_call_submit(struct gw_infer_call *c, const struct gw_infer_ask *ask)
{
    int64_t now = (int64_t)gw_deadline(0);
    int64_t budget = ask->budget_ns
                         ? (int64_t)(ask->budget_ns < INT64_MAX / 2 ? ask->budget_ns : INT64_MAX / 2)
                         : c->calls->deadline_ns;
    struct fleet_client_request r = {.in = c->in,
                                     .bytes = gw_layout_bytes(&c->model->metadata.in, c->rows),
                                     .rows = c->rows,
                                     .priority = ask->priority,
                                     .deadline_at = budget ? now + budget : 0,
                                     .done = router_call_done,
                                     .ctx = c};
    c->begun_at = now;
    c->flying = true; /* before the client's thread can be done with it */
    pthread_mutex_lock(&c->model->lock);
    c->model->stats.calls_taken++;
    pthread_mutex_unlock(&c->model->lock);
    int err = fleet_client_submit(c->model->client, &r);
    if (!err) return 0;
    c->flying = false;
    pthread_mutex_lock(&c->model->lock);
    c->model->stats.calls_taken--;
    pthread_mutex_unlock(&c->model->lock);
    return err;
}

int fleet_call_wait(struct gw_infer_call *c, uint64_t deadline)
{
    struct timespec t = {.tv_sec = (time_t)(deadline / 1000000000u),
                         .tv_nsec = (long)(deadline % 1000000000u)};
    int err = 0;
    pthread_mutex_lock(&c->lock);
    while (!c->over && !c->cancelled && !err)
        err = deadline == GW_NEVER ? pthread_cond_wait(&c->ended, &c->lock)
                                   : pthread_cond_timedwait(&c->ended, &c->lock, &t);
    bool ended = c->over || c->cancelled;
    pthread_mutex_unlock(&c->lock);
    return ended ? 0 : -ETIMEDOUT;
}

/* The fleet's client takes nothing back: the door stops waiting, and the answer goes nowhere. */
int fleet_call_cancel(struct gw_infer_call *c)
{
    pthread_mutex_lock(&c->lock);
    c->cancelled = true;
    pthread_mutex_unlock(&c->lock);
    return 0;
}

int fleet_call_result(struct gw_infer_call *c, const struct gw_infer_model *m, struct gw_infer_times *times,
                      struct gw_infer_error *error)
{
    pthread_mutex_lock(&c->lock);
    bool over = c->over;
    pthread_mutex_unlock(&c->lock);
    if (!over)
        return gw_infer_fail(error, GW_INFER_UNAVAILABLE,
                             "the client has gone, or the router ends, before the request was answered");
    if (c->reply.error) return fleet_refuse(c->reply.error, c->why, c->reply.retry_ns, m->name, error);
    *times = (struct gw_infer_times){.queue_ns = router_call_length(c->reply.queued_ns),
                                     .compute_ns = router_call_length(c->reply.model_ns)};
    return 0;
}
