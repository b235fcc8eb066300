/* SPDX-License-Identifier: Apache-2.0 */
#include "src/grpc/call.h"

#include <errno.h>
#include <grpc/byte_buffer_reader.h>
#include <grpc/support/alloc.h>
#include <grpc/support/time.h>
#include <stdlib.h>
#include <string.h>

#include <gpuwire/exec.h>

#include "src/serve/secret.h"

#define ASKED 32 /* new calls that gRPC may hand us before we have asked for more */

enum answered { NOT_YET, ANSWERED, REFUSED };

struct gw_grpc_turn {
    struct gw_grpc_job job; /* first, so that one is the other */
    struct gw_grpc_turn *next;
    struct call *call;
    grpc_byte_buffer *in, *out;
    grpc_slice flat;
    int has_flat;
    enum answered answered;
    uint32_t refs; /* the call's queue, and the pool or whoever answers */
};

/* A tag of the completion queue. */
struct event {
    void (*happened)(struct call *call, int ok);
    struct call *call;
};

struct call {
    struct gw_grpc_waiter waiter; /* first, so that one is the other */
    struct call *next, **link;
    struct gw_grpc_calls *calls;
    grpc_call *call;
    grpc_call_details details;
    grpc_metadata_array metadata;
    struct event asked, received, sent, ended;
    const struct gw_grpc_method *method;
    struct gw_grpc_client *client;
    char *peer;
    pthread_mutex_t lock;
    uint32_t refs;              /* operations and turns; with the lock */
    struct gw_grpc_turn *first; /* not yet sent, in order */
    struct gw_grpc_turn **last;
    uint32_t turns;
    grpc_byte_buffer *in, *out; /* the messages that are being received and sent */
    int receiving, sending, begun, half_closed, over, cancelled, is_stream;
    grpc_status_code status;
    char *why;
    uint64_t since; /* it has been the client's turn since then */
};

struct gw_grpc_calls {
    struct gw_grpc_calls_opts opts;
    pthread_mutex_t lock; /* of the list */
    struct call *first;
    struct gw_grpc_admission admission;
};

static void on_asked(struct call *c, int ok);
static void on_received(struct call *c, int ok);
static void on_sent(struct call *c, int ok);
static void on_ended(struct call *c, int ok);

void gw_grpc_event(void *tag, int ok)
{
    struct event *e = tag;
    e->happened(e->call, ok);
}

/* ---- a call's life ---- */

static void free_call(struct call *c)
{
    struct gw_grpc_calls *all = c->calls;
    pthread_mutex_lock(&all->lock);
    *c->link = c->next;
    if (c->next) c->next->link = c->link;
    pthread_mutex_unlock(&all->lock);
    if (c->is_stream) gw_grpc_admission_stream_left(&all->admission, &c->client->share);
    if (c->client) gw_grpc_gate_end(all->opts.gate, c->client, c->peer);
    if (c->call) grpc_call_unref(c->call);
    grpc_call_details_destroy(&c->details);
    grpc_metadata_array_destroy(&c->metadata);
    if (c->in) grpc_byte_buffer_destroy(c->in);
    if (c->out) grpc_byte_buffer_destroy(c->out);
    gpr_free(c->peer);
    free(c->why);
    pthread_mutex_destroy(&c->lock);
    free(c);
}

static void drop(struct call *c)
{
    pthread_mutex_lock(&c->lock);
    int left = (int)--c->refs;
    pthread_mutex_unlock(&c->lock);
    if (!left) free_call(c);
}

static void ask_for_another(struct gw_grpc_calls *all)
{
    struct call *c = calloc(1, sizeof(*c));
    if (!c) return;
    c->calls = all;
    c->refs = 1;
    c->last = &c->first;
    c->asked = (struct event){on_asked, c};
    c->received = (struct event){on_received, c};
    c->sent = (struct event){on_sent, c};
    c->ended = (struct event){on_ended, c};
    pthread_mutex_init(&c->lock, NULL);
    grpc_call_details_init(&c->details);
    grpc_metadata_array_init(&c->metadata);
    pthread_mutex_lock(&all->lock);
    c->next = all->first;
    c->link = &all->first;
    if (c->next) c->next->link = &c->next;
    all->first = c;
    pthread_mutex_unlock(&all->lock);
    if (grpc_server_request_call(all->opts.server, &c->call, &c->details, &c->metadata, all->opts.cq,
                                 all->opts.cq, &c->asked) != GRPC_CALL_OK)
        drop(c);
}

/* ---- operations; each with the lock held. One that cannot start leaves the call to its end. ---- */

static int start(struct call *c, const grpc_op *op, size_t n, struct event *e)
{
    c->refs++;
    if (grpc_call_start_batch(c->call, op, n, e, NULL) == GRPC_CALL_OK) return 0;
    c->refs--;
    return -EIO;
}

static void receive(struct call *c)
{
    grpc_op op = {.op = GRPC_OP_RECV_MESSAGE, .data.recv_message.recv_message = &c->in};
    if (c->receiving || c->half_closed || c->over || c->turns >= GW_GRPC_WINDOW) return;
    c->receiving = !start(c, &op, 1, &c->received);
    c->since = gw_deadline(0);
}

/* The one message of a unary call: at once, or when there is a place for it. */
static void receive_admitted(struct call *c)
{
    c->waiter.share = &c->client->share;
    c->refs++;
    if (!gw_grpc_admission_message(&c->calls->admission, &c->waiter)) return;
    c->refs--;
    receive(c);
}

/* The answer that is due, if any, and the status when it was the last. */
static void send(struct call *c, grpc_byte_buffer *answer, int last)
{
    grpc_op op[3] = {{0}};
    size_t n = 0;
    grpc_slice why = grpc_slice_from_copied_string(c->why ? c->why : "");
    if (!c->begun) op[n++].op = GRPC_OP_SEND_INITIAL_METADATA;
    if (answer) {
        op[n].op = GRPC_OP_SEND_MESSAGE;
        op[n++].data.send_message.send_message = answer;
    }
    if (last) {
        op[n].op = GRPC_OP_SEND_STATUS_FROM_SERVER;
        op[n].data.send_status_from_server.status = c->status;
        op[n++].data.send_status_from_server.status_details = &why;
    }
    c->begun = 1;
    c->over = last;
    c->out = answer;
    c->sending = !start(c, op, n, &c->sent);
    c->since = gw_deadline(0);
    grpc_slice_unref(why);
}

static void free_out(struct call *c)
{
    if (c->out) grpc_byte_buffer_destroy(c->out);
    c->out = NULL;
}

static void free_turn(struct gw_grpc_turn *t)
{
    gw_grpc_turn_forget(t);
    if (t->out) grpc_byte_buffer_destroy(t->out);
    free(t);
}

/* Takes the first turn out; the lock is held. Whoever works on it has it still. */
static struct gw_grpc_turn *shift(struct call *c)
{
    struct gw_grpc_turn *t = c->first;
    c->first = t->next;
    if (!c->first) c->last = &c->first;
    c->turns--;
    return t;
}

static void release_locked(struct gw_grpc_turn *t)
{
    if (--t->refs) return;
    t->call->refs--; /* never the last one: the caller has one of its own */
    free_turn(t);
}

/* Sends what can be sent; with the lock held. */
static void pump(struct call *c)
{
    if (c->sending || c->over) return;
    if (c->first && c->first->answered != NOT_YET) {
        struct gw_grpc_turn *t = shift(c);
        int last = t->answered == REFUSED || !c->method->stream;
        free_out(c);
        send(c, t->out, last);
        t->out = NULL;
        release_locked(t);
        if (!last) receive(c);
    } else if (!c->first && c->half_closed) {
        send(c, NULL, 1);
    }
}

/* ---- what happens to a call ---- */

static const struct gw_grpc_method *find(const struct gw_grpc_calls *all, grpc_slice path)
{
    for (const struct gw_grpc_method *m = all->opts.method; m->path; m++)
        if (!grpc_slice_str_cmp(path, m->path)) return m;
    return NULL;
}

static int allowed(const struct call *c)
{
    const struct gw_grpc_calls_opts *o = &c->calls->opts;
    if (!o->token || (c->method->health && o->open_health)) return 1;
    for (size_t i = 0; i < c->metadata.count; i++) {
        if (grpc_slice_str_cmp(c->metadata.metadata[i].key, "authorization")) continue;
        char *value = grpc_slice_to_c_string(c->metadata.metadata[i].value);
        int yes = gw_secret_allows(o->token, value);
        gpr_free(value);
        return yes;
    }
    return 0;
}

static void end_with(struct call *c, grpc_status_code status, const char *why)
{
    if (!c->why) {
        c->status = status;
        c->why = strdup(why);
    }
}

/* A call has come: it is refused at once, or its first message is read. */
static void begin(struct call *c)
{
    const char *why = NULL;
    c->peer = grpc_call_get_peer(c->call);
    c->method = find(c->calls, c->details.method);
    if (!c->method)
        end_with(c, GRPC_STATUS_UNIMPLEMENTED, "the server has no such method");
    else if (!allowed(c))
        end_with(c, GRPC_STATUS_UNAUTHENTICATED,
                 "a bearer token is wanted: metadata `authorization: Bearer TOKEN`");
    else if (!(c->client = gw_grpc_gate_begin(c->calls->opts.gate, c->peer, &why)))
        end_with(c, GRPC_STATUS_RESOURCE_EXHAUSTED, why);
    else if (c->method->stream &&
             !(c->is_stream = gw_grpc_admission_stream(&c->calls->admission, &c->client->share)))
        end_with(c, GRPC_STATUS_RESOURCE_EXHAUSTED, "there are as many streams as there may be: try again");
    if (c->why)
        send(c, NULL, 1);
    else if (c->is_stream)
        receive(c);
    else
        receive_admitted(c);
}

static void on_asked(struct call *c, int ok)
{
    if (ok) {
        grpc_op op = {.op = GRPC_OP_RECV_CLOSE_ON_SERVER,
                      .data.recv_close_on_server.cancelled = &c->cancelled};
        ask_for_another(c->calls);
        pthread_mutex_lock(&c->lock);
        if (!start(c, &op, 1, &c->ended)) begin(c);
        pthread_mutex_unlock(&c->lock);
    }
    drop(c);
}

static void on_ended(struct call *c, int ok)
{
    (void)ok;
    pthread_mutex_lock(&c->lock);
    c->over = 1; /* what is not sent yet never will be */
    while (c->first) release_locked(shift(c));
    pthread_mutex_unlock(&c->lock);
    drop(c);
}

static void on_sent(struct call *c, int ok)
{
    (void)ok; /* a failure is the call's end, which on_ended hears of */
    pthread_mutex_lock(&c->lock);
    c->sending = 0;
    c->since = gw_deadline(0);
    free_out(c);
    pump(c);
    pthread_mutex_unlock(&c->lock);
    drop(c);
}

static void run_job(struct gw_grpc_job *job)
{
    struct gw_grpc_turn *t = (struct gw_grpc_turn *)job;
    t->call->method->run(t->call->calls->opts.ctx, t);
}

static void leave_job(struct gw_grpc_job *job)
{
    struct gw_grpc_turn *t = (struct gw_grpc_turn *)job;
    struct call *c = t->call;
    pthread_mutex_lock(&c->lock);
    c->refs++; /* so that the turn's is not the last one */
    release_locked(t);
    pthread_mutex_unlock(&c->lock);
    drop(c);
}

/* A message has come; with the lock held. NULL: there is none, and the client is told why. */
static struct gw_grpc_turn *new_turn(struct call *c)
{
    struct gw_grpc_turn *t = calloc(1, sizeof(*t));
    if (!t) {
        end_with(c, GRPC_STATUS_RESOURCE_EXHAUSTED, "the server has no memory left");
        c->half_closed = 1;
        return NULL;
    }
    t->job = (struct gw_grpc_job){.run = run_job, .leave = leave_job, .running = &c->client->running};
    t->call = c;
    t->in = c->in;
    t->refs = 3; /* the queue's, the job's, and the one who answers */
    c->in = NULL;
    c->refs++;
    *c->last = t;
    c->last = &t->next;
    c->turns++;
    return t;
}

/* A unary call gives its place up, and another call receives its message. */
static void pass_place_on(struct call *c)
{
    struct gw_grpc_admission *a = &c->calls->admission;
    struct gw_grpc_waiter *w = gw_grpc_admission_left(a, &c->client->share);
    while (w) {
        struct call *next = (struct call *)w;
        pthread_mutex_lock(&next->lock);
        receive(next);
        int started = next->receiving;
        pthread_mutex_unlock(&next->lock);
        w = started ? NULL : gw_grpc_admission_left(a, &next->client->share); /* it has ended meanwhile */
        drop(next);
    }
}

static void on_received(struct call *c, int ok)
{
    struct gw_grpc_turn *t = NULL;
    pthread_mutex_lock(&c->lock);
    c->receiving = 0;
    if (!ok || !c->in) {
        c->half_closed = 1;
        if (!c->method->stream && !c->first && !c->over)
            end_with(c, GRPC_STATUS_INTERNAL, "the call has no message");
    } else if (!c->over) {
        t = new_turn(c);
        if (c->is_stream) receive(c);
    }
    pump(c);
    pthread_mutex_unlock(&c->lock);
    if (!c->is_stream) pass_place_on(c);
    if (t && !c->method->waits) {
        run_job(&t->job);
        leave_job(&t->job);
    } else if (t && gw_grpc_pool_add(c->calls->opts.pool, &t->job)) {
        gw_grpc_refuse(t, GRPC_STATUS_RESOURCE_EXHAUSTED, "the server has no thread left");
        leave_job(&t->job);
    }
    drop(c);
}

/* ---- turns ---- */

const uint8_t *gw_grpc_turn_message(struct gw_grpc_turn *t, size_t *bytes)
{
    grpc_byte_buffer_reader reader;
    if (!t->has_flat) {
        if (!t->in || !grpc_byte_buffer_reader_init(&reader, t->in)) return NULL;
        t->flat = grpc_byte_buffer_reader_readall(&reader);
        t->has_flat = 1;
        grpc_byte_buffer_reader_destroy(&reader);
        grpc_byte_buffer_destroy(t->in);
        t->in = NULL;
    }
    *bytes = GRPC_SLICE_LENGTH(t->flat);
    return GRPC_SLICE_START_PTR(t->flat);
}

void gw_grpc_turn_forget(struct gw_grpc_turn *t)
{
    if (t->in) grpc_byte_buffer_destroy(t->in);
    if (t->has_flat) grpc_slice_unref(t->flat);
    t->in = NULL;
    t->has_flat = 0;
}

uint64_t gw_grpc_turn_budget(const struct gw_grpc_turn *t)
{
    gpr_timespec end = t->call->details.deadline;
    if (!gpr_time_cmp(end, gpr_inf_future(end.clock_type))) return UINT64_MAX;
    gpr_timespec left = gpr_time_sub(end, gpr_now(end.clock_type));
    if (left.tv_sec < 0) return 0;
    return left.tv_sec > 1000000000 ? UINT64_MAX
                                    : (uint64_t)left.tv_sec * 1000000000u + (uint64_t)left.tv_nsec;
}

int gw_grpc_turn_cancelled(struct gw_grpc_turn *t)
{
    pthread_mutex_lock(&t->call->lock);
    int over = t->call->over;
    pthread_mutex_unlock(&t->call->lock);
    return over;
}

const char *gw_grpc_turn_who(const struct gw_grpc_turn *t)
{
    return t->call->client->who;
}

int gw_grpc_turn_streams(const struct gw_grpc_turn *t)
{
    return t->call->method->stream;
}

static void end_turn(struct gw_grpc_turn *t, grpc_byte_buffer *out, grpc_status_code status, const char *why)
{
    struct call *c = t->call;
    pthread_mutex_lock(&c->lock);
    c->refs++; /* so that the turn's is not the last one */
    gw_grpc_turn_forget(t);
    t->out = out;
    t->answered = why ? REFUSED : ANSWERED;
    if (why) end_with(c, status, why);
    pump(c);
    release_locked(t);
    pthread_mutex_unlock(&c->lock);
    drop(c);
}

void gw_grpc_answer(struct gw_grpc_turn *t, grpc_byte_buffer *answer)
{
    end_turn(t, answer, GRPC_STATUS_RESOURCE_EXHAUSTED, answer ? NULL : "the server has no memory left");
}

void gw_grpc_refuse(struct gw_grpc_turn *t, grpc_status_code status, const char *why)
{
    end_turn(t, NULL, status, why);
}

/* ---- all of them ---- */

int gw_grpc_calls_create(const struct gw_grpc_calls_opts *opts, struct gw_grpc_calls **out)
{
    struct gw_grpc_calls *all = calloc(1, sizeof(*all));
    if (!all) return -ENOMEM;
    all->opts = *opts;
    pthread_mutex_init(&all->lock, NULL);
    gw_grpc_admission_open(&all->admission, opts->messages, opts->streams);
    *out = all;
    return 0;
}

void gw_grpc_calls_open(struct gw_grpc_calls *all)
{
    for (int i = 0; i < ASKED; i++) ask_for_another(all);
}

/* Why the call is to be cancelled: its client has kept us waiting for too long. NULL: it has not. */
static const char *overdue(struct call *c, uint64_t now)
{
    const struct gw_grpc_calls_opts *o = &c->calls->opts;
    pthread_mutex_lock(&c->lock);
    uint64_t waited = now - c->since;
    int silent = c->receiving && !c->turns, slow = c->sending;
    uint64_t may = slow || !c->method || !c->method->stream ? o->patience_ns : o->idle_ns;
    int late = (silent || slow) && now > c->since && waited > may;
    pthread_mutex_unlock(&c->lock);
    return !late ? NULL : slow ? "the client did not take the answer in time" : "no message came in time";
}

void gw_grpc_calls_tick(struct gw_grpc_calls *all)
{
    uint64_t now = gw_deadline(0);
    pthread_mutex_lock(&all->lock); /* no call is freed meanwhile */
    for (struct call *c = all->first; c; c = c->next) {
        const char *why = overdue(c, now);
        if (why) grpc_call_cancel_with_status(c->call, GRPC_STATUS_DEADLINE_EXCEEDED, why, NULL);
    }
    pthread_mutex_unlock(&all->lock);
}

int gw_grpc_calls_busy(struct gw_grpc_calls *all)
{
    int busy = 0;
    pthread_mutex_lock(&all->lock);
    for (struct call *c = all->first; c && !busy; c = c->next) {
        pthread_mutex_lock(&c->lock);
        busy = c->turns || c->sending;
        pthread_mutex_unlock(&c->lock);
    }
    pthread_mutex_unlock(&all->lock);
    return busy;
}

void gw_grpc_calls_free(struct gw_grpc_calls *all)
{
    if (!all) return;
    gw_grpc_admission_close(&all->admission);
    pthread_mutex_destroy(&all->lock);
    free(all);
}
