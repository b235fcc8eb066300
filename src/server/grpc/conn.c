/* SPDX-License-Identifier: Apache-2.0 */
/* A gRPC connection: nghttp2's callbacks, and what each call may use. */
#include "src/server/grpc/conn_impl.h"

#include <errno.h>
#include <openssl/err.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/socket.h>

#include <gpuwire/exec.h>
#include <gpuwire/detail/held.h>

#define STREAMS       100u      /* calls of one connection */
#define WINDOW        (8 << 20) /* of the connection: what a call may keep bounds memory, not this */
#define ACKS          64u       /* to the peer's PINGs and SETTINGS, that may wait */
#define CONTINUATIONS 8u        /* frames after one HEADERS */
#define MAX_CREDIT    5000      /* of one connection, and what comes back */
#define CREDIT_SECOND 500
#define TICK_NS       1000000000ull /* how often calls are looked at whose client may be late */
#define FULL_FRAME    256u          /* bytes of DATA that are worth a frame */

/* ---- what the peer's frames cost ---- */

/* Two budgets: the connection's, and its client's. False: one is used up. The account is asked once in a
 * read, which brings a few thousand frames at most. */
static bool conn_pay(struct gw_grpc_conn *n)
{
    uint64_t now = gw_deadline(0), more = (now - n->credited) / (1000000000u / CREDIT_SECOND);
    int64_t cost = n->cost;
    n->cost = 0;
    if (more) n->credited = now;
    n->credit += (int64_t)(more < MAX_CREDIT ? more : MAX_CREDIT) - cost;
    if (n->credit > MAX_CREDIT) n->credit = MAX_CREDIT;
    return gw_grpc_client_pay(&n->env->accounts, n->client, cost) && n->credit > 0;
}

/* ---- nghttp2's callbacks ---- */

static struct gw_grpc_call *call_of(struct gw_grpc_conn *n, int32_t stream)
{
    return nghttp2_session_get_stream_user_data(n->h2.session, stream);
}

static int on_begin_frame(nghttp2_session *s, const nghttp2_frame_hd *hd, void *conn)
{
    struct gw_grpc_conn *n = conn;
    (void)s;
    if (hd->type != NGHTTP2_DATA || hd->length < FULL_FRAME) n->cost += GW_GRPC_COST_FRAME;
    return 0;
}

static int on_begin_headers(nghttp2_session *s, const nghttp2_frame *frame, void *conn)
{
    struct gw_grpc_conn *n = conn;
    if (frame->hd.type != NGHTTP2_HEADERS || frame->headers.cat != NGHTTP2_HCAT_REQUEST) return 0;
    struct gw_grpc_call *c = gw_grpc_call_new(n, frame->hd.stream_id);
    if (!c) return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
    nghttp2_session_set_stream_user_data(s, frame->hd.stream_id, c);
    n->cost += GW_GRPC_COST_CALL;
    return 0;
}

static int grpc_conn_on_header(nghttp2_session *s, const nghttp2_frame *frame, const uint8_t *name,
                               size_t names, const uint8_t *value, size_t values, uint8_t flags, void *conn)
{
    struct gw_grpc_conn *n = conn;
    struct gw_grpc_call *c = call_of(n, frame->hd.stream_id);
    (void)s, (void)flags;
    if (!c) return 0;
    return gw_grpc_request_header(&c->head, &n->env->rules, name, names, value, values)
               ? NGHTTP2_ERR_CALLBACK_FAILURE
               : 0;
}

static int grpc_conn_on_frame(nghttp2_session *s, const nghttp2_frame *frame, void *conn)
{
    struct gw_grpc_conn *n = conn;
    struct gw_grpc_call *c = call_of(n, frame->hd.stream_id);
    (void)s;
    if (!c || (frame->hd.type != NGHTTP2_HEADERS && frame->hd.type != NGHTTP2_DATA)) return 0;
    if (frame->hd.type == NGHTTP2_HEADERS && frame->headers.cat == NGHTTP2_HCAT_REQUEST)
        gw_grpc_call_begin(c);
    if (frame->hd.flags & NGHTTP2_FLAG_END_STREAM) gw_grpc_call_end_of_input(c);
    return 0;
}

static int grpc_conn_on_data(nghttp2_session *s, uint8_t flags, int32_t stream, const uint8_t *data,
                             size_t bytes, void *conn)
{
    struct gw_grpc_conn *n = conn;
    struct gw_grpc_call *c = call_of(n, stream);
    (void)flags;
    nghttp2_session_consume_connection(s, bytes); /* the stream's own window bounds what is kept */
    if (c) gw_grpc_call_data(c, data, bytes);
    return 0;
}

static int on_sent(nghttp2_session *s, const nghttp2_frame *frame, void *conn)
{
    struct gw_grpc_conn *n = conn;
    if (frame->hd.type == NGHTTP2_RST_STREAM && frame->rst_stream.error_code != NGHTTP2_NO_ERROR)
        n->cost += GW_GRPC_COST_ERROR;
    struct gw_grpc_call *c = call_of(n, frame->hd.stream_id);
    /* The answer is complete, so the rest of the request is of no use. */
    if (c && frame->hd.type == NGHTTP2_HEADERS && (frame->hd.flags & NGHTTP2_FLAG_END_STREAM) && !c->has_all)
        nghttp2_submit_rst_stream(s, NGHTTP2_FLAG_NONE, frame->hd.stream_id, NGHTTP2_NO_ERROR);
    return 0;
}

static int grpc_conn_on_stream_close(nghttp2_session *s, int32_t stream, uint32_t code, void *conn)
{
    struct gw_grpc_call *c = call_of(conn, stream);
    (void)s;
    if (c) gw_grpc_call_closed(c, code == NGHTTP2_NO_ERROR);
    return 0;
}

static int grpc_conn_send_data(nghttp2_session *s, nghttp2_frame *frame, const uint8_t *head, size_t bytes,
                               nghttp2_data_source *source, void *conn)
{
    (void)s, (void)frame, (void)conn;
    return gw_grpc_call_send_data(source->ptr, head, bytes);
}

static int grpc_conn_set_up(struct gw_grpc_conn *n, nghttp2_session_callbacks *cb, nghttp2_option *option)
{
    static const nghttp2_settings_entry settings[] = {
        {NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, STREAMS},
        {NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE, GW_GRPC_HEADERS},
        {NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, GW_GRPC_FIRST_WINDOW},
        {NGHTTP2_SETTINGS_NO_RFC7540_PRIORITIES, 1},
    };
    nghttp2_session_callbacks_set_on_begin_frame_callback(cb, on_begin_frame);
    nghttp2_session_callbacks_set_on_begin_headers_callback(cb, on_begin_headers);
    nghttp2_session_callbacks_set_on_header_callback(cb, grpc_conn_on_header);
    nghttp2_session_callbacks_set_on_frame_recv_callback(cb, grpc_conn_on_frame);
    nghttp2_session_callbacks_set_on_data_chunk_recv_callback(cb, grpc_conn_on_data);
    nghttp2_session_callbacks_set_on_frame_send_callback(cb, on_sent);
    nghttp2_session_callbacks_set_on_stream_close_callback(cb, grpc_conn_on_stream_close);
    nghttp2_session_callbacks_set_send_data_callback(cb, grpc_conn_send_data);
    nghttp2_option_set_no_auto_window_update(option, 1);
    nghttp2_option_set_no_closed_streams(option, 1);
    nghttp2_option_set_max_outbound_ack(option, ACKS);
    nghttp2_option_set_max_continuations(option, CONTINUATIONS);
    if (nghttp2_session_server_new2(&n->h2.session, cb, n, option)) return -ENOMEM;
    nghttp2_session_set_local_window_size(n->h2.session, NGHTTP2_FLAG_NONE, 0, WINDOW);
    return nghttp2_submit_settings(n->h2.session, NGHTTP2_FLAG_NONE, settings,
                                   sizeof(settings) / sizeof(settings[0]))
               ? -ENOMEM
               : 0;
}

static int grpc_conn_make_session(struct gw_grpc_conn *n)
{
    nghttp2_session_callbacks *cb = NULL;
    nghttp2_option *option = NULL;
    int err = nghttp2_session_callbacks_new(&cb) || nghttp2_option_new(&option) ? -ENOMEM : 0;
    if (!err) err = grpc_conn_set_up(n, cb, option);
    nghttp2_session_callbacks_del(cb);
    nghttp2_option_del(option);
    return err;
}

/* ---- sending, and letting go ---- */

static void end_io(struct gw_grpc_conn *n)
{
    GW_ASSERT_HELD(&n->lock);
    if (n->over) return;
    n->over = 1;
    shutdown(n->h2.fd, SHUT_RDWR); /* its owner notices */
}

/* The peer hears why, if it listens. */
static void grpc_conn_cut_off(struct gw_grpc_conn *n)
{
    static const char why[] = "too many frames, calls and connections that come to nothing: wait a little";
    gw_say(&n->env->said, "%s: %s", n->client->who, why);
    nghttp2_submit_goaway(n->h2.session, NGHTTP2_FLAG_NONE,
                          nghttp2_session_get_last_proc_stream_id(n->h2.session), NGHTTP2_ENHANCE_YOUR_CALM,
                          (const uint8_t *)why, sizeof(why) - 1);
    gw_h2_send(&n->h2);
    end_io(n);
}

/* Sends what there is. While the socket takes no more, the server reads nothing from it either. So a peer
 * that takes no answers asks for no more. */
static void push_out(struct gw_grpc_conn *n)
{
    GW_ASSERT_HELD(&n->lock);
    if (n->over || !n->h2.shaken) return;
    int err = gw_h2_send(&n->h2);
    if (err && err != -EAGAIN) end_io(n);
    if (!err && !nghttp2_session_want_read(n->h2.session) && !nghttp2_session_want_write(n->h2.session))
        end_io(n);
    if (!n->over && n->cost && !conn_pay(n)) grpc_conn_cut_off(n);
}

static void watch_for(struct gw_grpc_conn *n)
{
    if (n->over || n->h2.stuck == n->watches_out) return;
    n->watches_out = n->h2.stuck;
    n->stuck_since = gw_deadline(0);
    n->watch(n->watch_ctx, n->watches_out);
}

static void free_conn(struct gw_grpc_conn *n)
{
    gw_h2_close(&n->h2);
    gw_grpc_client_leave(&n->env->accounts, n->client);
    pthread_mutex_destroy(&n->lock);
    free(n);
}

void gw_grpc_conn_enter(struct gw_grpc_conn *n)
{
    pthread_mutex_lock(&n->lock);
    n->refs++;
}

/* The work that a connection leaves until its lock is free. */
struct rest {
    struct gw_grpc_turn *todo;
    int others; /* places may have become free */
};

/* The thread's reference stays. */
static struct rest leave_lock(struct gw_grpc_conn *n)
{
    GW_ASSERT_HELD(&n->lock);
    push_out(n);
    watch_for(n);
    struct rest rest = {.todo = n->todo, .others = n->freed || n->withdrew};
    if (n->freed) gw_grpc_place_give(&n->env->accounts, n->client, n->freed);
    n->todo = NULL;
    n->todo_last = &n->todo;
    n->freed = 0;
    n->withdrew = 0;
    pthread_mutex_unlock(&n->lock);
    return rest;
}

static void drop_ref(struct gw_grpc_conn *n)
{
    pthread_mutex_lock(&n->lock);
    GW_ASSERT(n->refs > 0);
    int left = (int)--n->refs;
    pthread_mutex_unlock(&n->lock);
    if (!left) free_conn(n);
}

/* Calls that have waited for a place, also those of other connections, go on. */
static void pass_places_on(struct gw_grpc_env *env)
{
    struct gw_grpc_waiter *w;
    while ((w = gw_grpc_place_next(&env->accounts))) {
        struct gw_grpc_call *c = (struct gw_grpc_call *)w;
        struct gw_grpc_conn *n = c->conn;
        gw_grpc_conn_enter(n);
        gw_grpc_call_placed(c);
        struct rest rest = leave_lock(n); /* what it has freed itself is looked at by this loop */
        gw_grpc_turns_run(rest.todo);
        drop_ref(n);
    }
}

void gw_grpc_conn_leave(struct gw_grpc_conn *n)
{
    struct gw_grpc_env *env = n->env;
    struct rest rest = leave_lock(n);
    gw_grpc_turns_run(rest.todo);
    if (rest.others) pass_places_on(env);
    drop_ref(n);
}

/* ---- a connection's life ---- */

struct gw_grpc_conn *gw_grpc_conn_open(struct gw_grpc_env *env, int fd, const char *who, gw_grpc_watch *watch,
                                       void *ctx)
{
    struct gw_grpc_conn *n = calloc(1, sizeof(*n));
    if (!n) return NULL;
    *n = (struct gw_grpc_conn){.refs = 1,
                               .env = env,
                               .h2 = {.fd = fd, .shaken = !env->tls},
                               .watch = watch,
                               .watch_ctx = ctx,
                               .credit = MAX_CREDIT,
                               .credited = gw_deadline(0),
                               .cost = GW_GRPC_COST_CONNECTION,
                               .due = UINT64_MAX};
    n->todo_last = &n->todo;
    n->client = gw_grpc_client_join(&env->accounts, who);
    if (!n->client || grpc_conn_make_session(n) || (env->tls && gw_h2_encrypt(&n->h2, env->tls, 1))) {
        gw_h2_close(&n->h2);
        if (n->client) gw_grpc_client_leave(&env->accounts, n->client);
        free(n);
        return NULL;
    }
    pthread_mutex_init(&n->lock, NULL);
    return n;
}

static void read_in(struct gw_grpc_conn *n, uint8_t *room, size_t size)
{
    if (n->over) return;
    int err = gw_h2_shake(&n->h2);
    ERR_clear_error();
    if (!err) err = gw_h2_receive(&n->h2, room, size);
    if (err && err != -EAGAIN) end_io(n);
}

/* Tells its owner when it has to be looked at again. */
static int conn_done(struct gw_grpc_conn *n, uint64_t *due)
{
    uint64_t tick = gw_deadline(TICK_NS);
    int over = n->over;
    *due = !n->calls && !n->watches_out ? UINT64_MAX : n->due < tick ? n->due : tick;
    gw_grpc_conn_leave(n);
    return over ? -ECONNRESET : 0;
}

int gw_grpc_conn_work(struct gw_grpc_conn *n, uint8_t *room, size_t size, uint64_t *due)
{
    gw_grpc_conn_enter(n);
    read_in(n, room, size);
    return conn_done(n, due);
}

int gw_grpc_conn_look(struct gw_grpc_conn *n, uint64_t now, uint64_t *due)
{
    gw_grpc_conn_enter(n);
    n->due = UINT64_MAX;
    for (struct gw_grpc_call *c = n->calls, *after; c; c = after) {
        after = c->next;
        gw_grpc_call_look(c, now);
        if (c->deadline > now && c->deadline < n->due) n->due = c->deadline;
    }
    if (n->watches_out && now - n->stuck_since >= n->env->patience_ns) end_io(n);
    return conn_done(n, due);
}

int gw_grpc_conn_finish(struct gw_grpc_conn *n)
{
    gw_grpc_conn_enter(n);
    if (!n->finishing && !n->over) {
        n->finishing = 1;
        nghttp2_submit_goaway(n->h2.session, NGHTTP2_FLAG_NONE,
                              nghttp2_session_get_last_proc_stream_id(n->h2.session), NGHTTP2_NO_ERROR, NULL,
                              0);
    }
    for (struct gw_grpc_call *c = n->calls, *after; c; c = after) {
        after = c->next;
        if (gw_grpc_call_is_idle(c)) gw_grpc_call_finish(c, GW_GRPC_UNAVAILABLE, "the server ends");
    }
    int over = n->over;
    gw_grpc_conn_leave(n);
    return over ? -ECONNRESET : 0;
}

void gw_grpc_conn_end(struct gw_grpc_conn *n)
{
    gw_grpc_conn_enter(n);
    n->over = 1;
    for (struct gw_grpc_call *c = n->calls, *after; c; c = after) {
        after = c->next;
        gw_grpc_call_closed(c, 0);
    }
    gw_h2_close(&n->h2);
    n->refs--; /* the owner's; this thread has another */
    gw_grpc_conn_leave(n);
}

int gw_grpc_conn_is_used(struct gw_grpc_conn *n, uint64_t idle_ns)
{
    pthread_mutex_lock(&n->lock);
    int yes = n->calls || (n->last && gw_deadline(0) - n->last < idle_ns);
    pthread_mutex_unlock(&n->lock);
    return yes;
}
