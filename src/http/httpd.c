/* SPDX-License-Identifier: Apache-2.0 */
#include "src/http/httpd.h"

#include <errno.h>
#include <microhttpd.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <gpuwire/error.h>

#include "src/serve/door.h"
#include "src/serve/listen.h"

#define PATIENCE_NS 20000000000u
#define MAX_BODY    (16u << 10) /* no call of ours comes near; a longer body is refused, not kept */
#define MAX_DEPTH   16 /* of a body: jansson calls itself for each level, on the thread's small stack */
#define STACK_BYTES (256u << 10) /* of a connection's thread */

struct gw_httpd {
    struct MHD_Daemon *daemon;
    struct gw_httpd_handler handler;
    struct gw_door door;
    uint16_t port;
};

struct call { /* one call while its body arrives */
    char *body;
    size_t bytes;
    unsigned refused; /* the status to refuse it with, 0 when all is well */
};

static enum MHD_Result answer(struct MHD_Connection *c, unsigned status, json_t *reply)
{
    char *text = reply ? json_dumps(reply, JSON_COMPACT) : NULL;
    json_decref(reply);
    struct MHD_Response *r = text ? MHD_create_response_from_buffer(strlen(text), text, MHD_RESPMEM_MUST_FREE)
                                  : MHD_create_response_from_buffer(0, "", MHD_RESPMEM_PERSISTENT);
    if (!r) {
        free(text);
        return MHD_NO;
    }
    MHD_add_response_header(r, "Content-Type", "application/json");
    enum MHD_Result ok = MHD_queue_response(c, status, r);
    MHD_destroy_response(r);
    return ok;
}

static enum MHD_Result refuse(struct MHD_Connection *c, unsigned status, const char *why)
{
    return answer(c, status, json_pack("{s:s}", "error", why));
}

static void keep_body(struct call *call, const char *data, size_t bytes)
{
    char *bigger = call->refused                    ? NULL
                   : bytes > MAX_BODY - call->bytes ? NULL
                                                    : realloc(call->body, call->bytes + bytes);
    if (!bigger) {
        call->refused = MHD_HTTP_CONTENT_TOO_LARGE;
        return;
    }
    call->body = bigger;
    memcpy(call->body + call->bytes, data, bytes);
    call->bytes += bytes;
}

/* How many arrays and objects of a text that may be JSON lie in one another. */
static int depth_of(const char *text, size_t bytes)
{
    int depth = 0, deepest = 0, in_string = 0;
    for (size_t i = 0; i < bytes; i++) {
        if (text[i] == '"') in_string = !in_string;
        if (in_string && text[i] == '\\') i++;
        if (in_string) continue;
        if (text[i] == '[' || text[i] == '{') depth++;
        if (text[i] == ']' || text[i] == '}') depth--;
        if (depth > deepest) deepest = depth;
    }
    return deepest;
}

/* The call's body, or NULL and why it is refused; an empty one is none. */
static json_t *parse_body(const struct call *call, const char **why)
{
    json_error_t where;
    *why = NULL;
    if (!call->bytes) return NULL;
    if (depth_of(call->body, call->bytes) > MAX_DEPTH) {
        *why = "the body is nested too deeply";
        return NULL;
    }
    json_t *body = json_loadb(call->body, call->bytes, JSON_REJECT_DUPLICATES, &where);
    if (!body) *why = "the body is not JSON";
    return body;
}

static struct gw_visitor *visitor_of(struct MHD_Connection *c)
{
    const union MHD_ConnectionInfo *info = MHD_get_connection_info(c, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
    return info ? info->socket_context : NULL;
}

/* libmicrohttpd calls this once per call with the headers, then with pieces of the body, then without. */
static enum MHD_Result on_call(void *arg, struct MHD_Connection *c, const char *path, const char *method,
                               const char *version, const char *data, size_t *bytes, void **state)
{
    struct gw_httpd *h = arg;
    struct call *call = *state;
    (void)version;
    if (!call) {
        *state = calloc(1, sizeof(*call));
        return *state ? MHD_YES : MHD_NO;
    }
    if (*bytes) {
        keep_body(call, data, *bytes);
        *bytes = 0;
        return MHD_YES;
    }
    if (call->refused) return refuse(c, call->refused, "the body is too long");

    json_t *reply = NULL;
    const char *why;
    json_t *body = parse_body(call, &why);
    if (why) return refuse(c, MHD_HTTP_BAD_REQUEST, why);
    struct gw_visitor *v = visitor_of(c);
    const struct gw_http_request request = {method, path, body, c, v ? v->who : "?"};
    unsigned status = h->handler.call(h->handler.ctx, &request, &reply);
    json_decref(body);
    return answer(c, status, reply);
}

static void on_call_done(void *arg, struct MHD_Connection *c, void **state,
                         enum MHD_RequestTerminationCode why)
{
    struct gw_httpd *h = arg;
    struct call *call = *state;
    if (why == MHD_REQUEST_TERMINATED_COMPLETED_OK) gw_door_served(&h->door, visitor_of(c));
    if (call) free(call->body);
    free(call);
    *state = NULL;
}

/* With no room left a connection is closed at once: in the queue it would wait without knowing for what. */
static enum MHD_Result on_knock(void *arg, const struct sockaddr *address, socklen_t length)
{
    struct gw_httpd *h = arg;
    (void)address, (void)length;
    return gw_door_has_room(&h->door) ? MHD_YES : MHD_NO;
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
    if (!*socket) shutdown(fd, SHUT_RDWR);
}

static struct MHD_Daemon *start(struct gw_httpd *h, int fd)
{
    return MHD_start_daemon(MHD_USE_POLL_INTERNAL_THREAD | MHD_USE_THREAD_PER_CONNECTION, 0, on_knock, h,
                            on_call, h, MHD_OPTION_LISTEN_SOCKET, fd, MHD_OPTION_NOTIFY_COMPLETED,
                            on_call_done, h, MHD_OPTION_NOTIFY_CONNECTION, on_connection, h,
                            MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)(32 << 10),
                            MHD_OPTION_CONNECTION_LIMIT, 2 * GW_LISTEN_MOST, MHD_OPTION_THREAD_STACK_SIZE,
                            (size_t)STACK_BYTES, MHD_OPTION_END);
}

int gw_httpd_start(const struct gw_httpd_opts *o, const struct gw_httpd_handler *handler,
                   struct gw_httpd **out)
{
    struct gw_httpd *h = calloc(1, sizeof(*h));
    if (!h) return -ENOMEM;
    h->handler = *handler;
    int fd = gw_listen_tcp("HTTP", "--port", o->host, o->port, &h->port);
    if (fd < 0) {
        free(h);
        return fd;
    }
    uint32_t most = gw_listen_places(1), each = o->most_each ? o->most_each : most / 4;
    gw_door_open(&h->door, most, each < most - most / 4 ? each : most - most / 4,
                 o->patience_ns ? o->patience_ns : PATIENCE_NS);
    h->daemon = start(h, fd);
    if (!h->daemon) {
        close(fd);
        gw_door_close(&h->door);
        free(h);
        return gw_error(-EIO, "HTTP server: libmicrohttpd could not start");
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
    free(h);
}
