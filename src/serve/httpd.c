/* SPDX-License-Identifier: Apache-2.0 */
#include "src/serve/httpd.h"

#include <arpa/inet.h>
#include <errno.h>
#include <microhttpd.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <gpuwire/error.h>

#define SILENT_S 60           /* so long a connection may say nothing that has made nothing here */
#define MAX_BODY (256u << 10) /* no call of ours comes near; a longer body is refused, not kept */

struct gw_httpd {
    struct MHD_Daemon *daemon;
    struct gw_httpd_handler handler;
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

    json_t *body = NULL, *reply = NULL;
    if (call->bytes) {
        json_error_t where;
        body = json_loadb(call->body, call->bytes, JSON_REJECT_DUPLICATES, &where);
        if (!body) return refuse(c, MHD_HTTP_BAD_REQUEST, "the body is not JSON");
    }
    unsigned status = h->handler.call(h->handler.ctx, method, path, body, c, &reply);
    json_decref(body);
    /* From the first thing it has made on, the connection stands for that and may be silent for as long as it
     * likes. */
    if (status == MHD_HTTP_CREATED) MHD_set_connection_option(c, MHD_CONNECTION_OPTION_TIMEOUT, 0);
    return answer(c, status, reply);
}

static void on_call_done(void *arg, struct MHD_Connection *c, void **state,
                         enum MHD_RequestTerminationCode why)
{
    struct call *call = *state;
    (void)arg, (void)c, (void)why;
    if (call) free(call->body);
    free(call);
    *state = NULL;
}

/* A client's machine that vanishes closes nothing: keep-alive finds out within about half a minute. */
static void watch_peer(int fd)
{
    int on = 1, idle = 10, interval = 5, count = 4;
    setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle, sizeof(idle));
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &interval, sizeof(interval));
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &count, sizeof(count));
}

static void on_connection(void *arg, struct MHD_Connection *c, void **socket,
                          enum MHD_ConnectionNotificationCode what)
{
    struct gw_httpd *h = arg;
    (void)socket;
    if (what == MHD_CONNECTION_NOTIFY_STARTED)
        watch_peer(MHD_get_connection_info(c, MHD_CONNECTION_INFO_CONNECTION_FD)->connect_fd);
    else
        h->handler.closed(h->handler.ctx, c);
}

/* We bind the socket ourselves: libmicrohttpd does not say why it could not. */
static int listen_at(const char *host, uint16_t port, uint16_t *bound)
{
    struct sockaddr_in6 any6 = {
        .sin6_family = AF_INET6, .sin6_port = htons(port), .sin6_addr = IN6ADDR_ANY_INIT};
    struct sockaddr_in any4 = {.sin_family = AF_INET, .sin_port = htons(port)};
    struct sockaddr *address = (struct sockaddr *)&any4;
    socklen_t length = sizeof(any4);
    if (host && inet_pton(AF_INET, host, &any4.sin_addr) != 1) {
        if (inet_pton(AF_INET6, host, &any6.sin6_addr) != 1)
            return gw_error(-EINVAL, "HTTP address %s: not a numeric IPv4 or IPv6 address", host);
        address = (struct sockaddr *)&any6;
        length = sizeof(any6);
    }
    const char *shown = host ? host : "0.0.0.0";
    int on = 1, fd = socket(address->sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0) return gw_error(-errno, "HTTP socket: %s", strerror(errno));
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    if (bind(fd, address, length) || listen(fd, 1024)) {
        int error = errno;
        close(fd);
        return gw_error(-error, "HTTP address %s port %u: %s%s", shown, port, strerror(error),
                        error == EADDRINUSE ? "; choose another with --port"
                        : error == EACCES   ? "; ports below 1024 need privilege"
                                            : "");
    }
    if (getsockname(fd, address, &length)) {
        close(fd);
        return -errno;
    }
    *bound = ntohs(address->sa_family == AF_INET6 ? any6.sin6_port : any4.sin_port);
    return fd;
}

int gw_httpd_start(const char *host, uint16_t port, const struct gw_httpd_handler *handler,
                   struct gw_httpd **out)
{
    struct gw_httpd *h = calloc(1, sizeof(*h));
    if (!h) return -ENOMEM;
    h->handler = *handler;
    int fd = listen_at(host, port, &h->port);
    if (fd < 0) {
        free(h);
        return fd;
    }
    h->daemon =
        MHD_start_daemon(MHD_USE_EPOLL_INTERNAL_THREAD, 0, NULL, NULL, on_call, h, MHD_OPTION_LISTEN_SOCKET,
                         fd, MHD_OPTION_NOTIFY_COMPLETED, on_call_done, NULL, MHD_OPTION_NOTIFY_CONNECTION,
                         on_connection, h, MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)(64 << 10),
                         MHD_OPTION_CONNECTION_TIMEOUT, (unsigned)SILENT_S, MHD_OPTION_END);
    if (!h->daemon) {
        close(fd);
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

void gw_httpd_stop(struct gw_httpd *h)
{
    if (!h) return;
    MHD_stop_daemon(h->daemon); /* closes the listening socket and every connection, reporting each */
    free(h);
}
