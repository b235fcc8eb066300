/* SPDX-License-Identifier: Apache-2.0 */
/* The streams of calls in HTTP/2: what is sent, what comes back, and what ends them. */
#include "src/grpc/rpc.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <gpuwire/error.h>
#include <gpuwire/exec.h>

#include "src/door/plain.h"

#define MAX_WINDOW (1u << 30)
#define MAX_TOKEN  (16u << 10) /* bytes of the header with the token */

static void end_rpc(struct gw_rpc *r, unsigned status, const char *why)
{
    if (r->seen) return;
    r->seen = gw_deadline(0);
    if (r->has_status) return;
    r->has_status = 1;
    r->status = status;
    snprintf(r->why, sizeof(r->why), "%s", why);
}

void gw_rpc_lost(struct gw_rpc *r, const char *why)
{
    if (!r->seen) r->is_gone = !r->has_status;
    end_rpc(r, GW_GRPC_UNAVAILABLE, why);
}

/* The server learns that the client no longer waits. */
void gw_rpc_forget(struct gw_rpc *r)
{
    nghttp2_session *s = r->link->h2.session;
    if (!s || !r->stream) return;
    nghttp2_session_set_stream_user_data(s, r->stream, NULL);
    nghttp2_submit_rst_stream(s, NGHTTP2_FLAG_NONE, r->stream, NGHTTP2_CANCEL);
    r->stream = 0;
}

void gw_rpc_late(struct gw_rpc *r)
{
    gw_rpc_forget(r);
    r->has_status = 0;
    end_rpc(r, GW_GRPC_DEADLINE_EXCEEDED, "Deadline Exceeded");
}

/* ---- nghttp2's callbacks ---- */

static struct gw_rpc *rpc_of(nghttp2_session *s, int32_t stream)
{
    return nghttp2_session_get_stream_user_data(s, stream);
}

static int grpc_rpc_on_header(nghttp2_session *s, const nghttp2_frame *frame, const uint8_t *name,
                              size_t names, const uint8_t *value, size_t values, uint8_t flags, void *link)
{
    struct gw_rpc *r = rpc_of(s, frame->hd.stream_id);
    (void)flags, (void)link;
    if (!r) return 0;
    if (gw_h2_is(name, names, ":status")) {
        r->http = gw_grpc_status_parse(value, values);
    } else if (gw_h2_is(name, names, "grpc-status")) {
        r->status = gw_grpc_status_parse(value, values);
        r->has_status = 1;
    } else if (gw_h2_is(name, names, "grpc-message")) {
        gw_grpc_percent_decode(r->why, sizeof(r->why), value, values);
    }
    return 0;
}

/* Ends a call whose answer makes no sense, or is too long. */
static void refuse_answer(struct gw_rpc *r, unsigned status, const char *why)
{
    r->has_status = 0;
    end_rpc(r, status, why);
    gw_rpc_forget(r);
}

/* The lists are short: who sends or takes does so before there are many. */
void gw_rpc_append(struct gw_grpc_message **list, struct gw_grpc_message *m)
{
    while (*list) list = &(*list)->next;
    m->next = NULL;
    *list = m;
}

static void grpc_rpc_take_answer(struct gw_rpc *r, const uint8_t *data, size_t n)
{
    while (n && !r->seen) {
        size_t used;
        enum gw_grpc_inbox_news news = gw_grpc_inbox_put(&r->inbox, data, n, &used);
        data += used;
        n -= used;
        if (news == GW_GRPC_INBOX_HEAD) {
            uint32_t length = gw_grpc_inbox_length(&r->inbox);
            if ((r->in && !r->is_stream) || gw_grpc_inbox_flag(&r->inbox))
                refuse_answer(r, GW_GRPC_INTERNAL, "the answer is more than one message, or compressed");
            else if (length > r->link->opts.most)
                refuse_answer(r, GW_GRPC_RESOURCE_EXHAUSTED, "the answer is larger than max");
            else if (gw_grpc_inbox_begin(&r->inbox))
                refuse_answer(r, GW_GRPC_RESOURCE_EXHAUSTED, "no memory for the answer");
            else if (!length)
                gw_rpc_append(&r->in, gw_grpc_inbox_take(&r->inbox));
        } else if (news == GW_GRPC_INBOX_WHOLE) {
            gw_rpc_append(&r->in, gw_grpc_inbox_take(&r->inbox));
        }
    }
}

static int grpc_rpc_on_data(nghttp2_session *s, uint8_t flags, int32_t stream, const uint8_t *data, size_t n,
                            void *link)
{
    struct gw_rpc *r = rpc_of(s, stream);
    (void)flags, (void)link;
    if (r) grpc_rpc_take_answer(r, data, n);
    return 0;
}

/* What it means that a stream ended without a status. */
static unsigned status_of(unsigned http, uint32_t code)
{
    switch (code) {
    case NGHTTP2_NO_ERROR: break;
    case NGHTTP2_REFUSED_STREAM: return GW_GRPC_UNAVAILABLE;
    case NGHTTP2_CANCEL: return GW_GRPC_CANCELLED;
    case NGHTTP2_ENHANCE_YOUR_CALM: return GW_GRPC_RESOURCE_EXHAUSTED;
    default: return GW_GRPC_INTERNAL;
    }
    switch (http) {
    case 400: return GW_GRPC_INTERNAL;
    case 401: return GW_GRPC_UNAUTHENTICATED;
    case 403: return GW_GRPC_PERMISSION_DENIED;
    case 404: return GW_GRPC_UNIMPLEMENTED;
    case 429:
    case 502:
    case 503:
    case 504: return GW_GRPC_UNAVAILABLE;
    default: return GW_GRPC_UNKNOWN;
    }
}

static int grpc_rpc_on_stream_close(nghttp2_session *s, int32_t stream, uint32_t code, void *link)
{
    struct gw_link *l = link;
    struct gw_rpc *r = rpc_of(s, stream);
    char why[80];
    if (!r) return 0;
    r->stream = 0;
    if (code == NGHTTP2_REFUSED_STREAM && l->is_going) {
        gw_rpc_lost(r, *l->why ? l->why : "it takes no more calls on this connection");
        return 0;
    }
    snprintf(why, sizeof(why), "no gRPC status (HTTP status %u, stream error %u)", r->http, code);
    end_rpc(r, status_of(r->http, code), why);
    return 0;
}

/* The server takes no more calls, and may say why. */
static void heed_goaway(struct gw_link *l, const nghttp2_goaway *g)
{
    char said[160];
    l->is_going = 1;
    snprintf(said, sizeof(said), "%.*s", (int)g->opaque_data_len, (const char *)g->opaque_data);
    gw_plain_text(l->why, sizeof(l->why), said);
    l->error = g->error_code == NGHTTP2_ENHANCE_YOUR_CALM ? -EBUSY : -ECONNRESET;
}

static int grpc_rpc_on_frame(nghttp2_session *s, const nghttp2_frame *frame, void *link)
{
    struct gw_rpc *r = rpc_of(s, frame->hd.stream_id);
    if (frame->hd.type == NGHTTP2_GOAWAY) heed_goaway(link, &frame->goaway);
    int ends = (frame->hd.type == NGHTTP2_HEADERS || frame->hd.type == NGHTTP2_DATA) &&
               (frame->hd.flags & NGHTTP2_FLAG_END_STREAM);
    /* The status is there; what was left to be sent is of no use. */
    if (r && ends) end_rpc(r, status_of(r->http, NGHTTP2_NO_ERROR), "the answer has no gRPC status");
    return 0;
}

static int on_not_sent(nghttp2_session *s, const nghttp2_frame *frame, int err, void *link)
{
    struct gw_rpc *r = rpc_of(s, frame->hd.stream_id);
    (void)link;
    if (r && frame->hd.type == NGHTTP2_HEADERS) {
        r->stream = 0;
        gw_rpc_lost(r, nghttp2_strerror(err));
    }
    return 0;
}

static ssize_t grpc_rpc_read_request(nghttp2_session *s, int32_t stream, uint8_t *to, size_t most,
                                     uint32_t *flags, nghttp2_data_source *source, void *link)
{
    struct gw_rpc *r = rpc_of(s, stream);
    (void)to, (void)source, (void)link;
    if (!r || !r->out) return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE; /* it was given up */
    if (r->out->at == r->out->size && r->out->next) free(gw_grpc_message_first(&r->out));
    size_t left = r->out->size - r->out->at;
    r->is_deferred = !left;
    if (!left) return NGHTTP2_ERR_DEFERRED;
    int ends = left <= most && !r->is_stream;
    *flags |= NGHTTP2_DATA_FLAG_NO_COPY | (ends ? NGHTTP2_DATA_FLAG_EOF : 0);
    return (ssize_t)(left < most ? left : most);
}

static int grpc_rpc_send_data(nghttp2_session *s, nghttp2_frame *frame, const uint8_t *head, size_t n,
                              nghttp2_data_source *source, void *link)
{
    struct gw_rpc *r = rpc_of(s, frame->hd.stream_id);
    (void)source;
    if (!r || !r->out || n > r->out->size - r->out->at) return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
    int err = gw_h2_put_data(&((struct gw_link *)link)->h2, head, r->out->bytes + r->out->at, n);
    if (!err) r->out->at += n;
    return err;
}

static int grpc_rpc_set_up(struct gw_link *l, nghttp2_session_callbacks *cb)
{
    uint32_t window =
        l->opts.most < MAX_WINDOW - GW_GRPC_PREFIX ? (uint32_t)l->opts.most + GW_GRPC_PREFIX : MAX_WINDOW;
    const nghttp2_settings_entry settings[] = {
        {NGHTTP2_SETTINGS_ENABLE_PUSH, 0},
        {NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE,
         window > NGHTTP2_INITIAL_WINDOW_SIZE ? window : NGHTTP2_INITIAL_WINDOW_SIZE},
    };
    nghttp2_session_callbacks_set_on_header_callback(cb, grpc_rpc_on_header);
    nghttp2_session_callbacks_set_on_data_chunk_recv_callback(cb, grpc_rpc_on_data);
    nghttp2_session_callbacks_set_on_frame_recv_callback(cb, grpc_rpc_on_frame);
    nghttp2_session_callbacks_set_on_frame_not_send_callback(cb, on_not_sent);
    nghttp2_session_callbacks_set_on_stream_close_callback(cb, grpc_rpc_on_stream_close);
    nghttp2_session_callbacks_set_send_data_callback(cb, grpc_rpc_send_data);
    if (nghttp2_session_client_new(&l->h2.session, cb, l)) return -ENOMEM;
    nghttp2_session_set_local_window_size(l->h2.session, NGHTTP2_FLAG_NONE, 0, MAX_WINDOW);
    return nghttp2_submit_settings(l->h2.session, NGHTTP2_FLAG_NONE, settings, 2) ? -ENOMEM : 0;
}

int gw_rpc_session(struct gw_link *l)
{
    nghttp2_session_callbacks *cb = NULL;
    int err = nghttp2_session_callbacks_new(&cb) ? -ENOMEM : grpc_rpc_set_up(l, cb);
    nghttp2_session_callbacks_del(cb);
    return err;
}

/* ---- how a call begins ---- */

int gw_rpc_submit(struct gw_link *l, struct gw_rpc *r, const char *method)
{
    const nghttp2_data_provider request = {{.ptr = NULL}, grpc_rpc_read_request};
    char timeout[GW_GRPC_TIMEOUT], token[MAX_TOKEN];
    nghttp2_nv head[10 + GW_LINK_HEADERS] = {
        gw_h2_header(":method", "POST"),       gw_h2_header(":scheme", l->tls ? "https" : "http"),
        gw_h2_header(":path", method),         gw_h2_header(":authority", l->opts.authority),
        gw_h2_header("te", "trailers"),        gw_h2_header("content-type", "application/grpc"),
        gw_h2_header("user-agent", "gpuwire"), gw_h2_header("grpc-accept-encoding", "identity"),
    };
    size_t n = 8;
    if (r->deadline != GW_NEVER) {
        uint64_t now = gw_deadline(0);
        gw_grpc_timeout_format(timeout, r->deadline > now ? r->deadline - now : 0);
        head[n++] = gw_h2_header("grpc-timeout", timeout);
    }
    if (l->opts.token) {
        snprintf(token, sizeof(token), "Bearer %s", l->opts.token);
        head[n] = gw_h2_header("authorization", token);
        head[n++].flags = NGHTTP2_NV_FLAG_NO_INDEX;
    }
    for (int i = 0; i < GW_LINK_HEADERS; i++) {
        if (!l->opts.header[i][0]) continue;
        head[n] = gw_h2_header(l->opts.header[i][0], l->opts.header[i][1]);
        head[n++].flags = NGHTTP2_NV_FLAG_NO_INDEX;
    }
    r->stream = nghttp2_submit_request(l->h2.session, NULL, head, n, &request, r);
    if (r->stream >= 0) return 0;
    r->stream = 0;
    return -ENOMEM;
}
