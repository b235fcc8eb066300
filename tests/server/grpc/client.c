/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/server/grpc/client.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define QUEUE (sizeof(((struct stream *)0)->out) / sizeof(((struct stream *)0)->out[0]))

static uint64_t now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

static void check(int ok, const char *what)
{
    if (ok) return;
    fprintf(stderr, "the test's client: %s: %s\n", what, strerror(errno));
    abort();
}

/* ---- nghttp2's callbacks ---- */

static struct stream *stream_of(nghttp2_session *s, int32_t id)
{
    return nghttp2_session_get_stream_user_data(s, id);
}

static int on_header(nghttp2_session *session, const nghttp2_frame *frame, const uint8_t *name, size_t names,
                     const uint8_t *value, size_t values, uint8_t flags, void *client)
{
    struct stream *s = stream_of(session, frame->hd.stream_id);
    (void)flags, (void)client;
    if (s && gw_h2_is(name, names, "grpc-status")) s->status = (int)gw_grpc_status_parse(value, values);
    if (s && gw_h2_is(name, names, "grpc-message"))
        gw_grpc_percent_decode(s->why, sizeof(s->why), value, values);
    return 0;
}

static int on_data(nghttp2_session *session, uint8_t flags, int32_t id, const uint8_t *data, size_t n,
                   void *c)
{
    struct stream *s = stream_of(session, id);
    (void)flags, (void)c;
    while (s && n) {
        size_t used;
        enum gw_grpc_inbox_news news = gw_grpc_inbox_put(&s->inbox, data, n, &used);
        data += used;
        n -= used;
        if (news == GW_GRPC_INBOX_HEAD) check(!gw_grpc_inbox_begin(&s->inbox), "no memory");
        if (news != GW_GRPC_INBOX_WHOLE && (!s->inbox.message || gw_grpc_inbox_length(&s->inbox))) continue;
        check(s->come - s->taken < QUEUE, "too many answers");
        s->in[s->come++ % QUEUE] = gw_grpc_inbox_take(&s->inbox);
    }
    return 0;
}

static int on_close(nghttp2_session *session, int32_t id, uint32_t code, void *client)
{
    struct stream *s = stream_of(session, id);
    (void)client;
    if (s && s->status < 0) s->status = code == NGHTTP2_CANCEL ? GW_GRPC_CANCELLED : GW_GRPC_UNAVAILABLE;
    if (s) s->over = 1;
    return 0;
}

static int on_frame(nghttp2_session *session, const nghttp2_frame *frame, void *client)
{
    struct stream *s = stream_of(session, frame->hd.stream_id);
    (void)client;
    if (s && (frame->hd.flags & NGHTTP2_FLAG_END_STREAM) && frame->hd.type == NGHTTP2_HEADERS) s->over = 1;
    return 0;
}

static ssize_t read_out(nghttp2_session *session, int32_t id, uint8_t *to, size_t most, uint32_t *flags,
                        nghttp2_data_source *source, void *client)
{
    struct stream *s = stream_of(session, id);
    (void)source, (void)client;
    if (!s) return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
    size_t n = 0;
    while (s->first != s->last && n < most) {
        struct gw_grpc_message *m = s->out[s->first % QUEUE];
        size_t part = m->size - m->at < most - n ? m->size - m->at : most - n;
        memcpy(to + n, m->bytes + m->at, part);
        n += part;
        m->at += part;
        if (m->at < m->size) break;
        free(m);
        s->first++;
    }
    if (s->first == s->last && s->no_more) *flags |= NGHTTP2_DATA_FLAG_EOF;
    return n || s->no_more ? (ssize_t)n : NGHTTP2_ERR_DEFERRED;
}

/* ---- the connection ---- */

/* Sends and receives, and sleeps `ms` at most in between. -1: the connection has gone. */
static int turn(struct client *c, int ms)
{
    int error = gw_h2_send(&c->h2);
    struct pollfd p = {.fd = c->h2.fd, .events = (short)(POLLIN | (c->h2.stuck ? POLLOUT : 0))};
    if (error && error != -EAGAIN) return -1;
    poll(&p, 1, ms);
    do error = gw_h2_receive(&c->h2, c->room, sizeof(c->room));
    while (!error);
    gw_h2_send(&c->h2);
    return error == -EAGAIN ? 0 : -1;
}

void client_open(struct client *c, const char *server)
{
    struct sockaddr_in to = {.sin_family = AF_INET};
    nghttp2_session_callbacks *cb;
    char host[64];
    const char *colon = strrchr(server, ':');
    snprintf(host, sizeof(host), "%.*s", (int)(colon - server), server);
    to.sin_port = htons((uint16_t)atoi(colon + 1));
    check(inet_pton(AF_INET, host, &to.sin_addr) == 1, server);
    *c = (struct client){.h2 = {.fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), .shaken = 1}};
    setsockopt(c->h2.fd, IPPROTO_TCP, TCP_NODELAY, &(int){1}, sizeof(int));
    check(!connect(c->h2.fd, (struct sockaddr *)&to, sizeof(to)), server);
    check(!nghttp2_session_callbacks_new(&cb), "no memory");
    nghttp2_session_callbacks_set_on_header_callback(cb, on_header);
    nghttp2_session_callbacks_set_on_data_chunk_recv_callback(cb, on_data);
    nghttp2_session_callbacks_set_on_stream_close_callback(cb, on_close);
    nghttp2_session_callbacks_set_on_frame_recv_callback(cb, on_frame);
    check(!nghttp2_session_client_new(&c->h2.session, cb, c), "no memory");
    nghttp2_session_callbacks_del(cb);
    nghttp2_submit_settings(c->h2.session, NGHTTP2_FLAG_NONE, NULL, 0);
    check(!fcntl(c->h2.fd, F_SETFL, O_NONBLOCK), "fcntl");
}

void client_close(struct client *c)
{
    gw_h2_close(&c->h2);
    close(c->h2.fd);
}

void client_work(struct client *c)
{
    turn(c, 0);
}

/* ---- calls ---- */

static void begin(struct client *c, const struct ask *q, struct stream *s)
{
    const nghttp2_data_provider provider = {{.ptr = NULL}, read_out};
    char timeout[GW_GRPC_TIMEOUT];
    gw_grpc_timeout_format(timeout, (q->timeout_ms ? q->timeout_ms : 30000) * UINT64_C(1000000));
    nghttp2_nv head[] = {gw_h2_header(":method", "POST"),
                         gw_h2_header(":scheme", "http"),
                         gw_h2_header(":path", q->method),
                         gw_h2_header(":authority", "localhost"),
                         gw_h2_header("te", "trailers"),
                         gw_h2_header("content-type", "application/grpc"),
                         gw_h2_header("grpc-timeout", timeout),
                         gw_h2_header("authorization", q->authorization ? q->authorization : "")};
    *s = (struct stream){.client = c, .status = -1};
    s->id = nghttp2_submit_request(c->h2.session, NULL, head, 7 + (q->authorization != NULL), &provider, s);
    check(s->id > 0, q->method);
}

static void wait_for(struct stream *s, int (*what)(const struct stream *s), unsigned ms)
{
    uint64_t until = now_ms() + ms;
    while (!what(s) && !s->over) {
        uint64_t now = now_ms();
        if (now >= until) {
            nghttp2_submit_rst_stream(s->client->h2.session, NGHTTP2_FLAG_NONE, s->id, NGHTTP2_CANCEL);
            s->status = GW_GRPC_DEADLINE_EXCEEDED;
            s->over = 1;
            gw_h2_send(&s->client->h2);
        } else if (turn(s->client, (int)(until - now))) {
            if (s->status < 0) s->status = GW_GRPC_UNAVAILABLE;
            s->over = 1;
        }
    }
}

static int never(const struct stream *s)
{
    (void)s;
    return 0;
}

static int has_answer(const struct stream *s)
{
    return s->come != s->taken;
}

static int has_room(const struct stream *s)
{
    return s->last - s->first < QUEUE;
}

static void drop(struct stream *s)
{
    nghttp2_session *session = s->client->h2.session;
    if (session) nghttp2_session_set_stream_user_data(session, s->id, NULL);
    while (s->first != s->last) free(s->out[s->first++ % QUEUE]);
    while (s->taken != s->come) free(s->in[s->taken++ % QUEUE]);
    gw_grpc_inbox_free(&s->inbox);
}

struct answer client_ask(struct client *c, const struct ask *q)
{
    struct stream *s = malloc(sizeof(*s));
    check(s != NULL, "no memory");
    begin(c, q, s);
    stream_send(s, q->bytes ? q->bytes : "", q->size); /* the server may have refused it by then */
    stream_end_of_input(s);
    wait_for(s, never, q->timeout_ms ? q->timeout_ms : 30000);
    struct answer a = has_answer(s) ? stream_receive(s) : (struct answer){0};
    a.status = s->status;
    memcpy(a.why, s->why, sizeof(a.why));
    drop(s);
    free(s);
    return a;
}

void answer_free(struct answer *a)
{
    free(a->bytes);
    *a = (struct answer){0};
}

/* ---- streams ---- */

void stream_open(struct client *c, const char *method, struct stream *s)
{
    begin(c, &(struct ask){.method = method}, s);
    turn(c, 0);
}

int stream_send(struct stream *s, const void *bytes, size_t size)
{
    wait_for(s, has_room, 30000);
    if (s->over) return -1;
    struct gw_grpc_message *m = gw_grpc_message_new(size);
    check(m != NULL, "no memory");
    memcpy(gw_grpc_message_body(m), bytes, size);
    s->out[s->last++ % QUEUE] = m;
    nghttp2_session_resume_data(s->client->h2.session, s->id);
    turn(s->client, 0);
    return s->over ? -1 : 0;
}

struct answer stream_receive(struct stream *s)
{
    struct answer a = {0};
    wait_for(s, has_answer, 30000);
    if (!has_answer(s)) return a;
    struct gw_grpc_message *m = s->in[s->taken++ % QUEUE];
    a.size = gw_grpc_message_length(m);
    a.bytes = malloc(a.size + 1);
    check(a.bytes != NULL, "no memory");
    memcpy(a.bytes, gw_grpc_message_body(m), a.size);
    free(m);
    return a;
}

void stream_end_of_input(struct stream *s)
{
    s->no_more = 1;
    nghttp2_session_resume_data(s->client->h2.session, s->id);
    turn(s->client, 0);
}

int stream_close(struct stream *s)
{
    wait_for(s, never, 30000);
    drop(s);
    return s->status;
}

void stream_cancel(struct stream *s)
{
    nghttp2_submit_rst_stream(s->client->h2.session, NGHTTP2_FLAG_NONE, s->id, NGHTTP2_CANCEL);
    gw_h2_send(&s->client->h2);
    drop(s);
}
