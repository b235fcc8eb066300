/* SPDX-License-Identifier: Apache-2.0 */
/* Takes calls from libmicrohttpd: checks them, collects their bodies, sends the answers. */
#include "src/door/httpd.h"

#include <errno.h>
#include <limits.h>
#include <microhttpd.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

#include <gpuwire/error.h>
#include <gpuwire/exec.h>

#include "src/door/answer.h"
#include "src/door/depth.h"
#include "src/door/framing.h"
#include "src/door/inflate.h"
#include "src/door/origin.h"
#include "src/door/connections.h"
#include "src/door/listen.h"
#include "src/door/secret.h"

#define PATIENCE_NS      20000000000u
#define MAX_SHORT_BODY   (16u << 10) /* no call of ours comes near; a longer body is refused, not kept */
#define MAX_DEPTH        16 /* of a body: jansson calls itself for each level, on the thread's small stack */
#define STACK_BYTES      (256u << 10)                                 /* of a connection's thread */
#define TLS_VERSIONS     "NORMAL:-VERS-ALL:+VERS-TLS1.3:+VERS-TLS1.2" /* as GnuTLS writes it: nothing older */
#define CONNECTION_BYTES (128u << 10) /* of its buffers: larger means fewer pieces per body */

struct gw_httpd {
    struct MHD_Daemon *daemon;
    struct gw_httpd_handler handler;
    struct gw_door door;
    uint16_t port;
    uint64_t max_body;
    char *token, *host_names;
    const char *host_option;
    int open_health, owner_calls;
    struct gw_say_limit said;
};

struct call { /* one call while its body arrives */
    struct gw_httpd *h;
    void *stream; /* takes the body; NULL: it is kept here */
    struct gw_inflate *packed;
    char *body;
    size_t bytes;
    uint64_t total;   /* bytes that have come, unpacked */
    int json_only;    /* a body of another type is refused */
    unsigned refused; /* the status to refuse it with, 0 when all is well */
    const char *why;
    char reason[256];      /* where `why` points when it is about this client */
    char who[GW_WHO_TEXT]; /* the client, who may be behind a proxy */
};

json_t *gw_http_error(const char *why)
{
    char clean[1024];
    json_t *error = json_pack("{s:s}", "error", why);
    if (error) return error;
    size_t n = 0;
    for (; why[n] && n < sizeof(clean) - 1; n++) clean[n] = why[n] & 0x80 ? '?' : why[n];
    clean[n] = 0;
    return json_pack("{s:s}", "error", clean);
}

/* ---- answers ---- */

static struct gw_visitor *visitor_of(struct MHD_Connection *c)
{
    const union MHD_ConnectionInfo *info = MHD_get_connection_info(c, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
    return info ? info->socket_context : NULL;
}

static enum MHD_Result httpd_answer(struct gw_httpd *h, struct MHD_Connection *c, struct gw_http_answer *a)
{
    if (json_is_string(a->json)) {
        a->text = strdup(json_string_value(a->json));
        a->type = "text/plain; version=0.0.4; charset=utf-8";
    } else if (a->json) {
        a->text = json_dumps(a->json, JSON_COMPACT);
    }
    if (a->json && a->text) a->bytes = strlen(a->text);
    json_decref(a->json);
    struct MHD_Response *r = gw_http_response(a, &h->door, visitor_of(c));
    if (!r) return MHD_NO;
    if (a->last) MHD_add_response_header(r, "Connection", "close");
    if (a->status == MHD_HTTP_UNAUTHORIZED) MHD_add_response_header(r, "WWW-Authenticate", "Bearer");
    enum MHD_Result ok = MHD_queue_response(c, a->status, r);
    MHD_destroy_response(r);
    return ok;
}

static json_t *refusal_of(const struct gw_httpd *h, unsigned status, const char *why)
{
    return h->handler.error ? h->handler.error(status, why) : gw_http_error(why);
}

static enum MHD_Result httpd_refuse(struct gw_httpd *h, struct MHD_Connection *c, unsigned status,
                                    const char *why)
{
    struct gw_http_answer a = {.status = status, .json = refusal_of(h, status, why)};
    return httpd_answer(h, c, &a);
}

/* And no further call of this connection is read. */
static enum MHD_Result refuse_all(struct gw_httpd *h, struct MHD_Connection *c, unsigned status,
                                  const char *why)
{
    struct gw_http_answer a = {.status = status, .json = refusal_of(h, status, why), .last = 1};
    return httpd_answer(h, c, &a);
}

/* ---- bodies ---- */

static void refuse_later(struct call *call, unsigned status, const char *why)
{
    if (call->refused) return;
    call->refused = status;
    call->why = why;
}

static void keep_body(struct call *call, const char *data, size_t bytes)
{
    char *bigger = call->refused                          ? NULL
                   : bytes > MAX_SHORT_BODY - call->bytes ? NULL
                                                          : realloc(call->body, call->bytes + bytes);
    if (!bigger) {
        refuse_later(call, MHD_HTTP_CONTENT_TOO_LARGE, "the body is too long");
        return;
    }
    call->body = bigger;
    memcpy(call->body + call->bytes, data, bytes);
    call->bytes += bytes;
}

/* The next bytes of the body as the call means it. */
static void httpd_take_body(void *ctx, const char *data, size_t bytes)
{
    struct call *call = ctx;
    if (!bytes || call->refused) return;
    call->total += bytes;
    if (!call->stream)
        keep_body(call, data, bytes);
    else if (call->total > call->h->max_body)
        refuse_later(call, MHD_HTTP_CONTENT_TOO_LARGE,
                     "the body is longer than the server takes (--max-body)");
    else
        call->h->handler.piece(call->stream, data, bytes);
}

static void take_piece(struct call *call, const char *data, size_t bytes)
{
    if (call->refused) return;
    if (!call->packed)
        httpd_take_body(call, data, bytes);
    else if (gw_inflate_piece(call->packed, data, bytes, httpd_take_body, call))
        refuse_later(call, MHD_HTTP_BAD_REQUEST, "the body is not what its Content-Encoding says");
}

/* The call's body, or NULL and why it is refused; an empty one is none. */
static json_t *parse_body(const struct call *call, const char **why)
{
    json_error_t where;
    *why = NULL;
    if (!call->bytes) return NULL;
    if (gw_json_depth(call->body, call->bytes) > MAX_DEPTH) {
        *why = "the body is nested too deeply";
        return NULL;
    }
    json_t *body = json_loadb(call->body, call->bytes, JSON_REJECT_DUPLICATES, &where);
    if (!body) *why = "the body is not JSON";
    return body;
}

/* ---- calls ---- */

void gw_http_busy(const void *connection, int busy)
{
    struct gw_visitor *v = visitor_of((struct MHD_Connection *)connection);
    if (v) gw_door_busy(v, busy);
}

bool gw_http_is_here(const struct gw_http_request *r)
{
    const struct gw_visitor *v = visitor_of((struct MHD_Connection *)r->connection);
    return v && gw_door_is_here(v);
}

int gw_http_gone(void *connection)
{
    const struct gw_visitor *v = visitor_of(connection);
    struct pollfd p = {.fd = v ? v->fd : -1, .events = POLLRDHUP};
    return poll(&p, 1, 0) > 0;
}

int gw_http_wait(const void *connection, int fd, uint64_t deadline_ns)
{
    struct gw_visitor *v = visitor_of((struct MHD_Connection *)connection);
    if (!v) return -EPIPE;
    int was_busy = __atomic_load_n(&v->busy, __ATOMIC_RELAXED); /* only this thread writes it */
    gw_door_busy(v, 1);
    struct pollfd p[] = {{.fd = v->fd, .events = POLLRDHUP}, {.fd = fd, .events = POLLIN}};
    int n;
    do {
        uint64_t now = gw_deadline(0), left = deadline_ns > now ? deadline_ns - now : 0;
        uint64_t ms = left / 1000000u + (left % 1000000u != 0);
        n = poll(p, 2, deadline_ns == GW_NEVER ? -1 : ms < INT_MAX ? (int)ms : INT_MAX);
    } while (n < 0 && errno == EINTR);
    gw_door_busy(v, was_busy);
    return n == 0 ? -ETIMEDOUT : n < 0 || p[0].revents ? -EPIPE : 0;
}

static const char *header_of(struct MHD_Connection *c, const char *name)
{
    return MHD_lookup_connection_value(c, MHD_HEADER_KIND, name);
}

const char *gw_http_header(const struct gw_http_request *r, const char *name)
{
    return header_of((struct MHD_Connection *)r->connection, name);
}

static bool is_health(const char *path)
{
    return !strncmp(path, "/v2/health/", 11) || !strcmp(path, "/health");
}

static bool may_call(const struct gw_httpd *h, struct MHD_Connection *c, const char *path)
{
    if (h->open_health && is_health(path)) return true;
    return gw_secret_allows(h->token, header_of(c, "Authorization"));
}

/* Is it root, or the user that this process runs as? */
static bool is_owner(const struct gw_httpd *h, const struct gw_http_request *r)
{
    uint32_t uid;
    return h->owner_calls && gw_who_user(r->who, &uid) && (uid == 0 || uid == geteuid());
}

/* The page's parts hold no secret, and say nothing of this server: its script asks for what it shows. */
static const struct gw_http_file *httpd_find_file(const struct gw_httpd *h, const struct gw_http_request *r)
{
    if (strcmp(r->method, "GET") && strcmp(r->method, "HEAD")) return NULL;
    for (const struct gw_http_file *f = h->handler.files; f && f->path; f++)
        if (!strcmp(f->path, r->path)) return f;
    return NULL;
}

/* Nothing but these files runs in the page, and no other page shows it inside its own. */
static enum MHD_Result answer_file(struct MHD_Connection *c, const struct gw_http_file *f)
{
    static const char *const headers[][2] = {
        {"Content-Security-Policy",
         "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; "
         "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"},
        {"X-Content-Type-Options", "nosniff"},
        {"X-Frame-Options", "DENY"},
        {"Referrer-Policy", "no-referrer"},
        {"Cache-Control", "no-cache"},
    };
    struct MHD_Response *r =
        MHD_create_response_from_buffer(*f->bytes, (void *)f->data, MHD_RESPMEM_PERSISTENT);
    if (!r) return MHD_NO;
    MHD_add_response_header(r, "Content-Type", f->type);
    for (size_t i = 0; i < sizeof(headers) / sizeof(headers[0]); i++)
        MHD_add_response_header(r, headers[i][0], headers[i][1]);
    enum MHD_Result ok = MHD_queue_response(c, MHD_HTTP_OK, r);
    MHD_destroy_response(r);
    return ok;
}

/* ---- may the call be answered at all? ---- */

/* Why a page may have sent the call. With a token no page can: it does not know the token. */
static const char *foreign(const struct gw_httpd *h, struct MHD_Connection *c, const char *path)
{
    if (is_health(path)) return NULL;
    return gw_http_foreign(header_of(c, "Host"), header_of(c, "Origin"), h->host_names);
}

static enum MHD_Result refuse_page(struct gw_httpd *h, struct MHD_Connection *c, const char *who,
                                   const char *why)
{
    char text[512];
    gw_say(&h->said, "%s: %s (see %s)", who, why, h->host_option);
    snprintf(text, sizeof(text), "%s; further names of this server are set by %s", why, h->host_option);
    return refuse_all(h, c, MHD_HTTP_FORBIDDEN, text);
}

/* True: the answer has been queued, and goes to *result. */
static bool refused_at_once(struct gw_httpd *h, struct MHD_Connection *c, struct call *call,
                            const struct gw_http_request *r, enum MHD_Result *result)
{
    const char *why = gw_http_framing(c);
    int is_file = httpd_find_file(h, r) != NULL, by_token = may_call(h, c, r->path);
    int by_name = !by_token && is_owner(h, r);
    call->json_only = by_name;
    if (why) {
        *result = refuse_all(h, c, MHD_HTTP_BAD_REQUEST, why);
    } else if (!is_file && !by_token && !by_name) {
        gw_say(&h->said, "%s asks without the token, or with a wrong one", r->who);
        *result =
            httpd_refuse(h, c, MHD_HTTP_UNAUTHORIZED, "the call needs a token: Authorization: Bearer …");
    } else if (!is_file && (!h->token || by_name) && (why = foreign(h, c, r->path))) {
        *result = refuse_page(h, c, r->who, why);
    } else {
        return false;
    }
    return true;
}

/* The caller's name, by the connection or by what a proxy says. */
static void name_client(struct gw_httpd *h, struct MHD_Connection *c, char who[GW_WHO_TEXT])
{
    const struct gw_visitor *v = visitor_of(c);
    snprintf(who, GW_WHO_TEXT, "%s", v ? v->who : "?");
    if (v && v->is_proxy) gw_proxies_client(&h->door.proxies, header_of(c, "X-Forwarded-For"), who);
}

/* The headers are there. */
static enum MHD_Result httpd_begin(struct gw_httpd *h, struct MHD_Connection *c, struct gw_http_request *r,
                                   void **state)
{
    const struct gw_visitor *v = visitor_of(c);
    enum MHD_Result result;
    struct call *call = calloc(1, sizeof(*call));
    if (!call) return MHD_NO;
    *state = call;
    call->h = h;
    name_client(h, c, call->who);
    r->who = call->who;
    if (refused_at_once(h, c, call, r, &result)) return result;
    if (v && v->turned_away) {
        gw_door_reason(&h->door, v, call->reason, sizeof(call->reason));
        refuse_later(call, MHD_HTTP_SERVICE_UNAVAILABLE, call->reason);
        return MHD_YES;
    }
    int known = gw_inflate_open(header_of(c, "Content-Encoding"), &call->packed);
    if (known == 0)
        refuse_later(call, MHD_HTTP_UNSUPPORTED_MEDIA_TYPE, "Content-Encoding: gzip and deflate are known");
    if (known < 0) refuse_later(call, MHD_HTTP_INTERNAL_SERVER_ERROR, "out of memory");
    if (h->handler.open) call->stream = h->handler.open(h->handler.ctx, r);
    return MHD_YES;
}

/* The body is there. */
static enum MHD_Result httpd_finish(struct gw_httpd *h, struct MHD_Connection *c, struct call *call,
                                    const struct gw_http_request *r)
{
    struct gw_http_answer a = {0};
    if (call->packed && call->total && !gw_inflate_over(call->packed))
        refuse_later(call, MHD_HTTP_BAD_REQUEST, "the body is not what its Content-Encoding says");
    if (call->json_only && call->bytes && !gw_http_is_json(header_of(c, "Content-Type")))
        refuse_later(call, MHD_HTTP_UNSUPPORTED_MEDIA_TYPE,
                     "the body must be Content-Type: application/json");
    if (call->refused && call->stream) h->handler.refuse(call->stream, call->refused, call->why);
    if (call->reason[0]) return refuse_all(h, c, call->refused, call->why);
    if (call->refused) return httpd_refuse(h, c, call->refused, call->why);
    const struct gw_http_file *file = httpd_find_file(h, r);
    if (file) return answer_file(c, file);
    if (call->stream) {
        h->handler.finish(call->stream, &a);
        return httpd_answer(h, c, &a);
    }
    const char *why;
    struct gw_http_request with_body = *r;
    json_t *body = parse_body(call, &why);
    if (why) return httpd_refuse(h, c, MHD_HTTP_BAD_REQUEST, why);
    with_body.body = body;
    a.status = h->handler.call(h->handler.ctx, &with_body, &a.json);
    json_decref(body);
    return httpd_answer(h, c, &a);
}

/* libmicrohttpd calls this once per call with the headers, then with pieces of the body, then without. */
static enum MHD_Result on_call(void *arg, struct MHD_Connection *c, const char *path, const char *method,
                               const char *version, const char *data, size_t *bytes, void **state)
{
    struct gw_httpd *h = arg;
    struct call *call = *state;
    struct gw_http_request request = {method, path, NULL, c, call ? call->who : "?"};
    (void)version;
    if (!call) return httpd_begin(h, c, &request, state);
    if (!*bytes) return httpd_finish(h, c, call, &request);
    take_piece(call, data, *bytes);
    *bytes = 0;
    return MHD_YES;
}

static void on_call_done(void *arg, struct MHD_Connection *c, void **state,
                         enum MHD_RequestTerminationCode why)
{
    struct gw_httpd *h = arg;
    struct call *call = *state;
    if (why == MHD_REQUEST_TERMINATED_COMPLETED_OK) gw_door_served(&h->door, visitor_of(c));
    *state = NULL;
    if (!call) return;
    if (call->stream) h->handler.drop(call->stream);
    gw_inflate_free(call->packed);
    free(call->body);
    free(call);
}

/* With no room left a connection gets a refusal, or is closed at once: in the queue it would wait without a
 * reason. */
static enum MHD_Result on_knock(void *arg, const struct sockaddr *address, socklen_t length)
{
    struct gw_httpd *h = arg;
    (void)address, (void)length;
    return gw_door_has_room(&h->door) || gw_door_can_tell(&h->door) ? MHD_YES : MHD_NO;
}

static void on_connection(void *arg, struct MHD_Connection *c, void **socket,
                          enum MHD_ConnectionNotificationCode what)
{
    struct gw_httpd *h = arg;
    if (what != MHD_CONNECTION_NOTIFY_STARTED) {
        h->handler.closed(h->handler.ctx, c);
        gw_door_leave(&h->door, *socket);
        return;
    }
    int fd = MHD_get_connection_info(c, MHD_CONNECTION_INFO_CONNECTION_FD)->connect_fd;
    gw_listen_watch(fd);
    *socket = gw_door_enter(&h->door, fd, c);
    if (!*socket) *socket = gw_door_turn_away(&h->door, fd, c);
    if (!*socket) shutdown(fd, SHUT_RDWR);
}

static struct MHD_Daemon *httpd_start(struct gw_httpd *h, int fd, const struct gw_httpd_opts *o)
{
    struct MHD_OptionItem tls[] = {{MHD_OPTION_HTTPS_MEM_CERT, 0, (void *)o->cert},
                                   {MHD_OPTION_HTTPS_MEM_KEY, 0, (void *)o->key},
                                   {MHD_OPTION_HTTPS_PRIORITIES, 0, (void *)TLS_VERSIONS},
                                   {MHD_OPTION_END, 0, NULL}};
    unsigned flags = MHD_USE_POLL_INTERNAL_THREAD | MHD_USE_THREAD_PER_CONNECTION;
    if (o->cert) flags |= MHD_USE_TLS;
    return MHD_start_daemon(flags, 0, on_knock, h, on_call, h, MHD_OPTION_LISTEN_SOCKET, fd,
                            MHD_OPTION_NOTIFY_COMPLETED, on_call_done, h, MHD_OPTION_NOTIFY_CONNECTION,
                            on_connection, h, MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)CONNECTION_BYTES,
                            MHD_OPTION_CONNECTION_LIMIT, 2 * GW_LISTEN_MAX, MHD_OPTION_THREAD_STACK_SIZE,
                            (size_t)STACK_BYTES, MHD_OPTION_ARRAY, o->cert ? tls : tls + 3, MHD_OPTION_END);
}

static void free_httpd(struct gw_httpd *h)
{
    free(h->token);
    free(h->host_names);
    free(h);
}

int gw_httpd_start(const struct gw_httpd_opts *o, const struct gw_httpd_handler *handler,
                   struct gw_httpd **out)
{
    struct gw_httpd *h = calloc(1, sizeof(*h));
    if (!h) return -ENOMEM;
    h->handler = *handler;
    h->max_body = o->max_body ? o->max_body : GW_HTTP_MAX_BODY;
    h->open_health = o->open_health;
    h->owner_calls = o->owner_calls;
    h->host_option = o->host_option ? o->host_option : "--host-name";
    if ((o->token && !(h->token = strdup(o->token))) ||
        (o->host_names && !(h->host_names = strdup(o->host_names)))) {
        free_httpd(h);
        return -ENOMEM;
    }
    int fd = gw_listen_tcp("HTTP", o->option ? o->option : "--port", o->host, o->port, &h->port);
    if (fd < 0) {
        free_httpd(h);
        return fd;
    }
    uint32_t most = gw_listen_places(1), each = o->max_each ? o->max_each : most / 4;
    gw_door_open(&h->door, most, each < most - most / 4 ? each : most - most / 4,
                 o->patience_ns ? o->patience_ns : PATIENCE_NS);
    h->door.option = o->each_option;
    if (o->proxies) h->door.proxies = *o->proxies;
    h->daemon = httpd_start(h, fd, o);
    if (!h->daemon) {
        close(fd);
        gw_door_close(&h->door);
        free_httpd(h);
        return gw_error(-EIO, "HTTP server: libmicrohttpd could not start%s",
                        o->cert ? "; do certificate and key belong together, and was it built with TLS?"
                                : "");
    }
    *out = h;
    return 0;
}

uint16_t gw_httpd_port(const struct gw_httpd *h)
{
    return h->port;
}

void gw_httpd_tend(struct gw_httpd *h)
{
    gw_door_sweep(&h->door, h->handler.stays, h->handler.ctx);
}

void gw_httpd_stop(struct gw_httpd *h)
{
    if (!h) return;
    MHD_stop_daemon(h->daemon); /* closes the listening socket and every connection, reporting each */
    gw_door_close(&h->door);
    free_httpd(h);
}
