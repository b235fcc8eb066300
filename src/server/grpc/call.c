/* SPDX-License-Identifier: Apache-2.0 */
/* The life of a call: its messages come in, methods answer them, the answers leave. */
#include "src/server/grpc/call.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <gpuwire/exec.h>
#include <gpuwire/sync.h>
#include <gpuwire/detail/held.h>

#include "src/server/grpc/conn_impl.h"

#define OVERHEAD    1024u                      /* bytes that a message takes beside its own */
#define SMALL       (GW_GRPC_FIRST_WINDOW / 2) /* for such a message the window is wide enough */
#define MAX_ADVANCE (1u << 30)                 /* that a peer's window grows by at once */
#define MAX_WHY     1700                       /* bytes of a grpc-message: 512 of text, encoded */

enum answered { NOT_YET, ANSWERED, REFUSED };

struct gw_grpc_turn {
    struct gw_grpc_job job;         /* first, so that one is the other */
    struct gw_grpc_turn *next;      /* of its call */
    struct gw_grpc_turn *next_todo; /* of its connection */
    struct gw_grpc_call *call;
    struct gw_grpc_message *in, *out;
    uint64_t place; /* bytes */
    enum answered answered;
    enum gw_grpc_status status; /* of one that is refused, and why */
    char *why;
    int is_queued, is_at_work, is_running; /* the call has it; a job has it; the method has begun */
};

static void call_pump(struct gw_grpc_call *c);

/* ---- what leaves ---- */

static void submit_status(struct gw_grpc_call *c, int alone)
{
    char number[8], why[MAX_WHY];
    nghttp2_session *s = c->conn->h2.session;
    snprintf(number, sizeof(number), "%u", (unsigned)c->status);
    gw_grpc_percent_encode(why, sizeof(why), c->why ? c->why : "");
    const nghttp2_nv all[] = {gw_h2_header(":status", "200"),
                              gw_h2_header("content-type", "application/grpc"),
                              gw_h2_header("grpc-accept-encoding", "identity"),
                              gw_h2_header("grpc-status", number), gw_h2_header("grpc-message", why)};
    size_t n = sizeof(all) / sizeof(all[0]) - !*why;
    if (alone)
        nghttp2_submit_response(s, c->stream, all, n, NULL);
    else
        nghttp2_submit_trailer(s, c->stream, all + 3, n - 3);
}

/* Is this the last answer, so that the status can follow at once? */
static bool is_last(const struct gw_grpc_call *c, const struct gw_grpc_turn *t)
{
    if (t->next) return false;
    return c->done || !c->head.method->stream ||
           (c->has_all && !c->earlies && !c->waits && gw_grpc_inbox_is_empty(&c->inbox));
}

static ssize_t grpc_call_read_answer(nghttp2_session *s, int32_t stream, uint8_t *to, size_t most,
                                     uint32_t *flags, nghttp2_data_source *source, void *conn)
{
    struct gw_grpc_call *c = source->ptr;
    struct gw_grpc_turn *t = c->first;
    size_t left = t && t->out ? t->out->size - t->out->at : 0, n = left < most ? left : most;
    (void)s, (void)stream, (void)to, (void)conn;
    if (!n && (t || !c->done)) return NGHTTP2_ERR_DEFERRED;
    *flags |= NGHTTP2_DATA_FLAG_NO_COPY;
    if (n < left || (t && !is_last(c, t))) return (ssize_t)n;
    c->done = 1;
    *flags |= NGHTTP2_DATA_FLAG_EOF | NGHTTP2_DATA_FLAG_NO_END_STREAM;
    submit_status(c, 0);
    return (ssize_t)n;
}

/* Tells the session that there is something to send. */
static void call_send(struct gw_grpc_call *c)
{
    GW_ASSERT_HELD(&c->conn->lock);
    nghttp2_session *s = c->conn->h2.session;
    const nghttp2_data_provider answers = {{.ptr = c}, grpc_call_read_answer};
    const nghttp2_nv head[] = {gw_h2_header(":status", "200"),
                               gw_h2_header("content-type", "application/grpc"),
                               gw_h2_header("grpc-accept-encoding", "identity")};
    if (c->closed || c->conn->over) return;
    if (c->begun)
        nghttp2_session_resume_data(s, c->stream);
    else if (c->done && !c->first)
        submit_status(c, 1);
    else
        nghttp2_submit_response(s, c->stream, head, sizeof(head) / sizeof(head[0]), &answers);
    c->begun = 1;
}

/* ---- turns ---- */

static void grpc_call_free_place(struct gw_grpc_conn *n, uint64_t *place)
{
    n->freed += *place;
    *place = 0;
}

static void forget_message(struct gw_grpc_turn *t)
{
    free(t->in);
    t->in = NULL;
}

static void call_drop(struct gw_grpc_call *c)
{
    GW_ASSERT_HELD(&c->conn->lock);
    struct gw_grpc_conn *n = c->conn;
    if (--c->refs) return;
    *c->link = c->next;
    if (c->next) c->next->link = c->link;
    free(c->why);
    free(c);
    n->refs--; /* never the last one: this thread has another */
}

static void turn_release(struct gw_grpc_turn *t)
{
    if (t->is_queued || t->is_at_work) return;
    grpc_call_free_place(t->call->conn, &t->place);
    forget_message(t);
    free(t->out);
    free(t->why);
    call_drop(t->call);
    free(t);
}

/* Takes the first turn out. One that has not begun never will. */
static void turn_shift(struct gw_grpc_call *c)
{
    struct gw_grpc_turn *t = c->first;
    c->first = t->next;
    if (!c->first) c->last = &c->first;
    c->turns--;
    gw_add_relaxed_u32(&c->conn->env->turns, (uint32_t)-1); /* a number by itself */
    t->is_queued = 0;
    if (t->is_at_work && !t->is_running) {
        forget_message(t);
        grpc_call_free_place(c->conn, &t->place);
        if (gw_grpc_pool_cancel(c->conn->env->pool, &t->job)) t->is_at_work = 0;
    }
    turn_release(t);
}

/* Has its call gone before it began? Otherwise it begins. */
static int turn_begin(struct gw_grpc_turn *t)
{
    struct gw_grpc_conn *n = t->call->conn;
    pthread_mutex_lock(&n->lock);
    t->is_running = t->is_queued;
    int begins = t->is_running;
    pthread_mutex_unlock(&n->lock);
    return begins;
}

static void run_job(struct gw_grpc_job *job)
{
    struct gw_grpc_turn *t = (struct gw_grpc_turn *)job;
    if (!turn_begin(t)) return;
    if (gw_grpc_turn_budget(t))
        t->call->head.method->run(t->call->conn->env->ctx, t);
    else
        gw_grpc_refuse(t, GW_GRPC_DEADLINE_EXCEEDED, "the call's deadline has passed");
}

static void leave_job(struct gw_grpc_job *job)
{
    struct gw_grpc_turn *t = (struct gw_grpc_turn *)job;
    struct gw_grpc_conn *n = t->call->conn;
    gw_grpc_conn_enter(n);
    t->is_at_work = t->is_running = 0;
    turn_release(t);
    gw_grpc_conn_leave(n);
}

void gw_grpc_turns_run(struct gw_grpc_turn *todo)
{
    for (struct gw_grpc_turn *t = todo, *next; t; t = next) {
        next = t->next_todo;
        if (!t->call->head.method->waits) {
            run_job(&t->job);
            leave_job(&t->job);
        } else if (gw_grpc_pool_add(t->call->conn->env->pool, &t->job)) {
            gw_grpc_refuse(t, GW_GRPC_RESOURCE_EXHAUSTED, "the server has no thread left");
            leave_job(&t->job);
        }
    }
}

/* A message has come whole. */
static void turn_new(struct gw_grpc_call *c)
{
    struct gw_grpc_conn *n = c->conn;
    struct gw_grpc_turn *t = calloc(1, sizeof(*t));
    if (!t) {
        gw_grpc_call_finish(c, GW_GRPC_RESOURCE_EXHAUSTED, "the server has no memory left");
        return;
    }
    *t = (struct gw_grpc_turn){.job = {.run = run_job, .leave = leave_job, .running = &n->client->running},
                               .call = c,
                               .in = gw_grpc_inbox_take(&c->inbox),
                               .place = c->place,
                               .is_queued = 1,
                               .is_at_work = 1};
    c->place = 0;
    c->has_message = 1;
    c->refs++;
    *c->last = t;
    c->last = &t->next;
    c->turns++;
    gw_add_relaxed_u32(&n->env->turns, 1); /* a number by itself */
    *n->todo_last = t;
    n->todo_last = &t->next_todo;
    n->cost -= GW_GRPC_WORTH_MESSAGE;
    c->since_in = gw_deadline(0);
}

/* ---- what comes in ---- */

/* The peer may send as much again as was taken. */
static void widen(struct gw_grpc_call *c, size_t used)
{
    uint32_t before = used < c->advance ? (uint32_t)used : c->advance;
    c->advance -= before;
    c->owed += (uint32_t)used - before;
    if (c->owed < SMALL || c->has_all || c->conn->over) return;
    nghttp2_submit_window_update(c->conn->h2.session, NGHTTP2_FLAG_NONE, c->stream, (int32_t)c->owed);
    c->owed = 0;
}

/* The message whose length is known has its place. */
static void grpc_call_take_place(struct gw_grpc_call *c)
{
    uint32_t length = gw_grpc_inbox_length(&c->inbox);
    c->place = c->waiter.bytes;
    c->since_in = gw_deadline(0);
    if (gw_grpc_inbox_begin(&c->inbox)) {
        gw_grpc_call_finish(c, GW_GRPC_RESOURCE_EXHAUSTED, "the server has no memory left");
        return;
    }
    if (length > SMALL && !c->has_all && !c->conn->over) {
        c->advance = length < MAX_ADVANCE ? length : MAX_ADVANCE;
        nghttp2_submit_window_update(c->conn->h2.session, NGHTTP2_FLAG_NONE, c->stream, (int32_t)c->advance);
    }
    if (!length) turn_new(c);
}

/* A message's length is known. */
static void heed_length(struct gw_grpc_call *c)
{
    struct gw_grpc_env *env = c->conn->env;
    char why[120];
    uint64_t length = gw_grpc_inbox_length(&c->inbox);
    if (gw_grpc_inbox_flag(&c->inbox)) {
        gw_grpc_call_finish(c, GW_GRPC_INTERNAL, "the message says that it is compressed, the call does not");
    } else if (length > env->max_body) {
        snprintf(why, sizeof(why),
                 "the message is larger than max: it has %llu bytes, --max-body allows %llu",
                 (unsigned long long)length, (unsigned long long)env->max_body);
        gw_grpc_call_finish(c, GW_GRPC_RESOURCE_EXHAUSTED, why);
    } else {
        c->waiter.client = c->conn->client;
        c->waiter.bytes = length + OVERHEAD;
        c->since_in = gw_deadline(0);
        if (gw_grpc_place_take(&env->accounts, &c->waiter)) {
            grpc_call_take_place(c);
        } else {
            c->waits = 1;
            c->refs++;
        }
    }
}

/* A unary call has one message; a stream this number at once. */
static bool may_receive(const struct gw_grpc_call *c)
{
    if (c->waits) return false;
    return c->head.method->stream ? c->turns < GW_GRPC_WINDOW : !c->has_message;
}

static void keep_early(struct gw_grpc_call *c, const uint8_t *data, size_t n)
{
    struct gw_grpc_conn *conn = c->conn;
    int has_place = gw_grpc_place_grow(&conn->env->accounts, conn->client, n);
    uint8_t *more = has_place ? realloc(c->early, c->earlies + n) : NULL;
    if (!more) {
        if (has_place) conn->freed += n;
        gw_grpc_call_finish(c, GW_GRPC_RESOURCE_EXHAUSTED, "there is no memory for the message: try again");
        return;
    }
    memcpy(more + c->earlies, data, n);
    c->early = more;
    c->earlies += n;
}

/* Returns how many bytes were taken. */
static size_t take_data(struct gw_grpc_call *c, const uint8_t *data, size_t n)
{
    size_t at = 0;
    while (at < n && !c->done && may_receive(c)) {
        size_t used;
        enum gw_grpc_inbox_news news = gw_grpc_inbox_put(&c->inbox, data + at, n - at, &used);
        at += used;
        widen(c, used);
        if (news == GW_GRPC_INBOX_HEAD) heed_length(c);
        if (news == GW_GRPC_INBOX_WHOLE) turn_new(c);
    }
    return at;
}

static void feed_early(struct gw_grpc_call *c)
{
    uint8_t *early = c->early;
    size_t n = c->earlies;
    if (!n || !may_receive(c)) return;
    c->early = NULL; /* so that an end of the call leaves it alone */
    c->earlies = 0;
    size_t used = take_data(c, early, n);
    if (c->done) used = n;
    c->conn->freed += used;
    if (used == n) {
        free(early);
        return;
    }
    memmove(early, early + used, n - used);
    c->early = early;
    c->earlies = n - used;
}

static void drop_input(struct gw_grpc_call *c)
{
    struct gw_grpc_conn *n = c->conn;
    free(c->early);
    n->freed += c->earlies;
    c->early = NULL;
    c->earlies = 0;
    gw_grpc_inbox_free(&c->inbox);
    grpc_call_free_place(n, &c->place);
    if (c->waits && gw_grpc_place_withdraw(&n->env->accounts, &c->waiter)) {
        c->waits = 0;
        n->withdrew = 1;
        call_drop(c); /* the stream has a reference still */
    }
}

/* ---- a call's life ---- */

struct gw_grpc_call *gw_grpc_call_new(struct gw_grpc_conn *n, int32_t stream)
{
    GW_ASSERT_HELD(&n->lock);
    struct gw_grpc_call *c = calloc(1, sizeof(*c));
    if (!c) return NULL;
    c->conn = n;
    c->stream = stream;
    c->refs = 1;
    c->last = &c->first;
    c->head.timeout_ns = UINT64_MAX;
    c->deadline = UINT64_MAX;
    c->since_in = gw_deadline(0);
    c->next = n->calls;
    c->link = &n->calls;
    if (c->next) c->next->link = &c->next;
    n->calls = c;
    n->refs++;
    return c;
}

void gw_grpc_call_finish(struct gw_grpc_call *c, enum gw_grpc_status status, const char *why)
{
    GW_ASSERT_HELD(&c->conn->lock);
    if (c->done || c->closed) return;
    c->done = 1;
    c->status = status;
    c->why = strdup(why);
    c->since_in = gw_deadline(0); /* that it has to take the status */
    drop_input(c);
    while (c->first) turn_shift(c);
    call_send(c);
}

/* Another kind of client: HTTP has words for it. */
static void refuse_http(struct gw_grpc_call *c, const char *code)
{
    const nghttp2_nv head[] = {gw_h2_header(":status", code)};
    c->done = c->begun = 1;
    nghttp2_submit_response(c->conn->h2.session, c->stream, head, 1, NULL);
}

void gw_grpc_call_begin(struct gw_grpc_call *c)
{
    GW_ASSERT_HELD(&c->conn->lock);
    struct gw_grpc_env *env = c->conn->env;
    enum gw_grpc_status status;
    const char *why = NULL, *code = gw_grpc_request_check(&c->head, &env->rules, &status, &why);
    uint64_t now = gw_deadline(0), timeout = c->head.timeout_ns;
    if (strcmp(code, "200")) {
        refuse_http(c, code);
        return;
    }
    if (c->conn->finishing) {
        status = GW_GRPC_UNAVAILABLE;
        why = "the server ends";
    }
    if (!why && (why = gw_grpc_call_enter(&env->accounts, c->conn->client, c->head.method->stream)))
        status = GW_GRPC_RESOURCE_EXHAUSTED;
    else if (!why)
        c->is_entered = 1;
    if (timeout < UINT64_MAX - now) c->deadline = now + timeout;
    if (c->deadline < c->conn->due) c->conn->due = c->deadline;
    if (why) gw_grpc_call_finish(c, status, why);
}

void gw_grpc_call_data(struct gw_grpc_call *c, const uint8_t *data, size_t n)
{
    GW_ASSERT_HELD(&c->conn->lock);
    if (c->done) return;
    size_t used = take_data(c, data, n);
    if (used < n && !c->done) keep_early(c, data + used, n - used);
    call_pump(c);
}

void gw_grpc_call_end_of_input(struct gw_grpc_call *c)
{
    GW_ASSERT_HELD(&c->conn->lock);
    c->has_all = 1;
    call_pump(c);
}

/* Has everything that the client sent been looked at? */
static bool grpc_call_is_read(const struct gw_grpc_call *c)
{
    return c->has_all && !c->earlies && !c->waits;
}

/* Does what can be done: more is read, an answer that is due is sent, the end is said. */
static void call_pump(struct gw_grpc_call *c)
{
    struct gw_grpc_turn *t;
    if (c->done || c->closed) return;
    feed_early(c);
    t = c->first;
    if (c->done) return;
    if (t && t->answered == REFUSED) {
        c->is_served = 1;
        gw_grpc_call_finish(c, t->status, t->why ? t->why : "");
    } else if (t && t->out) {
        call_send(c);
    } else if (!t && grpc_call_is_read(c)) {
        int is_cut = !gw_grpc_inbox_is_empty(&c->inbox), lacks = !c->head.method->stream && !c->has_message;
        gw_grpc_call_finish(c, is_cut || lacks ? GW_GRPC_INTERNAL : GW_GRPC_OK,
                            is_cut  ? "the call ends inside a message"
                            : lacks ? "the call has no message"
                                    : "");
    }
}

void gw_grpc_call_closed(struct gw_grpc_call *c, int orderly)
{
    GW_ASSERT_HELD(&c->conn->lock);
    struct gw_grpc_conn *n = c->conn;
    if (c->closed) return;
    c->closed = c->done = 1;
    c->refs++; /* until the end of this function */
    drop_input(c);
    while (c->first) turn_shift(c);
    if (c->is_entered) gw_grpc_call_leave(&n->env->accounts, n->client, c->head.method->stream);
    c->is_entered = 0;
    if (c->is_served)
        n->cost -= GW_GRPC_WORTH_CALL;
    else if (orderly && c->begun)
        n->cost -= GW_GRPC_WORTH_REFUSAL;
    n->last = gw_deadline(0);
    call_drop(c); /* the stream's */
    call_drop(c);
}

void gw_grpc_call_placed(struct gw_grpc_call *c)
{
    GW_ASSERT_HELD(&c->conn->lock);
    struct gw_grpc_conn *n = c->conn;
    c->waits = 0;
    if (c->done || c->closed) {
        n->freed += c->waiter.bytes;
    } else {
        grpc_call_take_place(c);
        call_pump(c);
    }
    call_drop(c);
}

bool gw_grpc_call_is_idle(const struct gw_grpc_call *c)
{
    GW_ASSERT_HELD(&c->conn->lock);
    return !c->turns && !c->done;
}

int gw_grpc_call_send_data(struct gw_grpc_call *c, const uint8_t *head, size_t n)
{
    GW_ASSERT_HELD(&c->conn->lock);
    struct gw_grpc_turn *t = c->first;
    if (!t || !t->out) return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE; /* it has ended since */
    int err = gw_h2_put_data(&c->conn->h2, head, t->out->bytes + t->out->at, n);
    if (err) return err;
    c->conn->cost -= GW_GRPC_WORTH_FRAME;
    t->out->at += n;
    if (t->out->at < t->out->size) return 0;
    c->is_served = 1;
    c->since_out = gw_deadline(0);
    turn_shift(c);
    call_pump(c);
    return 0;
}

/* ---- time ---- */

/* Until when the client may be silent, or not take what it has asked for. */
static uint64_t grpc_call_patience_ends(const struct gw_grpc_call *c)
{
    const struct gw_grpc_env *env = c->conn->env;
    if (c->first && c->first->out) return c->since_out + env->patience_ns;
    if (c->waits) return c->since_in + 2 * env->patience_ns;
    if (c->turns && gw_grpc_inbox_is_empty(&c->inbox)) return UINT64_MAX;
    int pauses = c->head.method && c->head.method->stream && gw_grpc_inbox_is_empty(&c->inbox);
    return c->since_in + (pauses ? env->idle_ns : env->patience_ns);
}

void gw_grpc_call_look(struct gw_grpc_call *c, uint64_t now)
{
    GW_ASSERT_HELD(&c->conn->lock);
    uint64_t late = grpc_call_patience_ends(c);
    int slow = c->first && c->first->out, waits = c->waits;
    if (c->closed) return;
    if (now >= late && (slow || c->done)) {
        nghttp2_submit_rst_stream(c->conn->h2.session, NGHTTP2_FLAG_NONE, c->stream, NGHTTP2_CANCEL);
        c->since_in = c->since_out = now;
    } else if (now >= late) {
        gw_grpc_call_finish(c, waits ? GW_GRPC_RESOURCE_EXHAUSTED : GW_GRPC_DEADLINE_EXCEEDED,
                            waits ? "there was no memory for the message in time: try again"
                                  : "no message came in time");
    } else if (now >= c->deadline && !c->done) {
        gw_grpc_call_finish(c, GW_GRPC_DEADLINE_EXCEEDED, "the call's deadline has passed");
    }
}

/* ---- what methods do ---- */

const uint8_t *gw_grpc_turn_message(struct gw_grpc_turn *t, size_t *bytes)
{
    *bytes = gw_grpc_message_length(t->in);
    return gw_grpc_message_body(t->in);
}

uint64_t gw_grpc_turn_budget(const struct gw_grpc_turn *t)
{
    uint64_t now = gw_deadline(0), end = t->call->deadline;
    return end == UINT64_MAX ? end : end > now ? end - now : 0;
}

int gw_grpc_turn_cancelled(struct gw_grpc_turn *t)
{
    struct gw_grpc_conn *n = t->call->conn;
    pthread_mutex_lock(&n->lock);
    int gone = !t->is_queued;
    pthread_mutex_unlock(&n->lock);
    return gone;
}

const char *gw_grpc_turn_who(const struct gw_grpc_turn *t)
{
    return t->call->conn->client->who;
}

int gw_grpc_turn_is_here(struct gw_grpc_turn *t)
{
    struct gw_grpc_conn *n = t->call->conn;
    pthread_mutex_lock(&n->lock);
    int here = !n->over && gw_who_is_here(n->h2.fd, n->client->who);
    pthread_mutex_unlock(&n->lock);
    return here;
}

int gw_grpc_turn_streams(const struct gw_grpc_turn *t)
{
    return t->call->head.method->stream;
}

/* The answer takes the place of the request. False: there is not enough. */
static bool resize_place(struct gw_grpc_turn *t, uint64_t bytes)
{
    struct gw_grpc_conn *n = t->call->conn;
    if (bytes > t->place && !gw_grpc_place_grow(&n->env->accounts, n->client, bytes - t->place)) return false;
    if (bytes < t->place) n->freed += t->place - bytes;
    t->place = bytes;
    return true;
}

static void refuse_turn(struct gw_grpc_turn *t, enum gw_grpc_status status, const char *why)
{
    GW_ASSERT_HELD(&t->call->conn->lock);
    t->answered = REFUSED;
    t->status = status;
    t->why = strdup(why);
}

static void end_turn(struct gw_grpc_turn *t, struct gw_grpc_message *out, enum gw_grpc_status status,
                     const char *why)
{
    struct gw_grpc_conn *n = t->call->conn;
    gw_grpc_conn_enter(n);
    forget_message(t);
    if (why) {
        refuse_turn(t, status, why);
    } else if (t->is_queued && !resize_place(t, out->size + OVERHEAD)) {
        refuse_turn(t, GW_GRPC_RESOURCE_EXHAUSTED,
                    "the answers under way leave no memory for this one: try again");
    } else if (t->is_queued) {
        t->out = out;
        t->answered = ANSWERED;
        out = NULL;
        if (t == t->call->first) t->call->since_out = gw_deadline(0);
    }
    free(out);
    call_pump(t->call);
    gw_grpc_conn_leave(n);
}

void gw_grpc_answer(struct gw_grpc_turn *t, struct gw_grpc_message *answer)
{
    end_turn(t, answer, GW_GRPC_RESOURCE_EXHAUSTED, answer ? NULL : "the server has no memory left");
}

void gw_grpc_refuse(struct gw_grpc_turn *t, enum gw_grpc_status status, const char *why)
{
    end_turn(t, NULL, status, why);
}
