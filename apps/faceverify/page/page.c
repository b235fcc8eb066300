/* SPDX-License-Identifier: Apache-2.0 */
/* Serves the page's files and its numbers by HTTP. It only answers GET and HEAD, only by address or as
 * localhost: a page of another site that has its name's address changed to ours gets nothing. */
#include "apps/faceverify/page/page.h"

#include <arpa/inet.h>
#include <errno.h>
#include <microhttpd.h>
#include <netdb.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include <gpuwire/error.h>

#include "apps/faceverify/page/watch.h"

enum { MAX_CONNECTIONS = 64, MAX_EACH = 32, PATIENCE_S = 10, HOST_ROOM = 64 };

struct face_page {
    struct MHD_Daemon *daemon;
    struct face_watch *watch;
    int fd;
    char name[NI_MAXHOST + NI_MAXSERV + 4];
};

#define PAGE_EMBEDDED(name)                                                                                  \
    extern const unsigned char gw_embedded_##name[];                                                         \
    extern const size_t gw_embedded_##name##_bytes
PAGE_EMBEDDED(page_html);
PAGE_EMBEDDED(page_css);
PAGE_EMBEDDED(page_js);
PAGE_EMBEDDED(common_css); /* what every page of gpuwire has */
PAGE_EMBEDDED(common_js);

static const struct page_file {
    const char *path, *type;
    const unsigned char *data;
    const size_t *bytes;
} files[] = {
    {"/", "text/html; charset=utf-8", gw_embedded_page_html, &gw_embedded_page_html_bytes},
    {"/page.css", "text/css; charset=utf-8", gw_embedded_page_css, &gw_embedded_page_css_bytes},
    {"/common.css", "text/css; charset=utf-8", gw_embedded_common_css, &gw_embedded_common_css_bytes},
    {"/common.js", "text/javascript; charset=utf-8", gw_embedded_common_js, &gw_embedded_common_js_bytes},
    {"/page.js", "text/javascript; charset=utf-8", gw_embedded_page_js, &gw_embedded_page_js_bytes},
};

/* Does a Host header say localhost, or a numeric address? */
static bool page_host_is_ours(const char *host)
{
    char name[HOST_ROOM];
    uint8_t bytes[16];
    size_t n;
    if (!host) return true; /* HTTP/1.0: no browser */
    bool v6 = host[0] == '[';
    n = strcspn(host + v6, v6 ? "]" : ":");
    if (!n || n >= sizeof(name) || (v6 && host[1 + n] != ']')) return false;
    memcpy(name, host + v6, n);
    name[n] = 0;
    return !strcasecmp(name, "localhost") || inet_pton(v6 ? AF_INET6 : AF_INET, name, bytes) == 1;
}

static enum MHD_Result page_send(struct MHD_Connection *c, unsigned status, struct MHD_Response *r,
                                 const char *type)
{
    if (!r) return MHD_NO;
    MHD_add_response_header(r, "Content-Type", type);
    MHD_add_response_header(r, "Cache-Control", "no-store");
    MHD_add_response_header(r, "X-Content-Type-Options", "nosniff");
    MHD_add_response_header(r, "Cross-Origin-Resource-Policy", "same-origin");
    MHD_add_response_header(r, "Referrer-Policy", "no-referrer");
    MHD_add_response_header(
        r, "Content-Security-Policy",
        "default-src 'self'; img-src data:; frame-ancestors 'none'; base-uri 'none'; form-action 'none'");
    enum MHD_Result sent = MHD_queue_response(c, status, r);
    MHD_destroy_response(r);
    return sent;
}

static enum MHD_Result page_say(struct MHD_Connection *c, unsigned status, const char *text)
{
    return page_send(c, status,
                     MHD_create_response_from_buffer(strlen(text), (void *)text, MHD_RESPMEM_PERSISTENT),
                     "text/plain; charset=utf-8");
}

static enum MHD_Result page_state(struct face_page *page, struct MHD_Connection *c)
{
    size_t bytes;
    char *json = face_watch_json(page->watch, &bytes);
    if (!json) return MHD_NO;
    struct MHD_Response *r = MHD_create_response_from_buffer(bytes, json, MHD_RESPMEM_MUST_FREE);
    if (!r) free(json);
    return page_send(c, MHD_HTTP_OK, r, "application/json");
}

static enum MHD_Result page_answer(void *ctx, struct MHD_Connection *c, const char *path, const char *method,
                                   const char *version, const char *upload, size_t *upload_bytes,
                                   void **state)
{
    static char seen;
    (void)version;
    (void)upload;
    if (!*state) { /* its head; an answer now would end the connection */
        *state = &seen;
        return MHD_YES;
    }
    if (*upload_bytes) {
        *upload_bytes = 0; /* a body is read, and ignored */
        return MHD_YES;
    }
    if (strcmp(method, "GET") && strcmp(method, "HEAD"))
        return page_say(c, MHD_HTTP_METHOD_NOT_ALLOWED, "only GET\n");
    if (!page_host_is_ours(MHD_lookup_connection_value(c, MHD_HEADER_KIND, "Host")))
        return page_say(c, MHD_HTTP_FORBIDDEN,
                        "the Host header names another host; call by address, or as localhost\n");
    if (!strcmp(path, "/state")) return page_state(ctx, c);
    for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++)
        if (!strcmp(path, files[i].path))
            return page_send(c, MHD_HTTP_OK,
                             MHD_create_response_from_buffer(*files[i].bytes, (void *)files[i].data,
                                                             MHD_RESPMEM_PERSISTENT),
                             files[i].type);
    return page_say(c, MHD_HTTP_NOT_FOUND, "there is no such page\n");
}

static int page_listen(struct face_page *page, const struct sockaddr_storage *address)
{
    struct sockaddr_storage got;
    socklen_t len = address->ss_family == AF_INET6 ? sizeof(struct sockaddr_in6) : sizeof(struct sockaddr_in);
    int one = 1;
    page->fd = socket(address->ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (page->fd < 0) return gw_error_errno(-errno, "the page has no socket");
    setsockopt(page->fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
    if (bind(page->fd, (const struct sockaddr *)address, len) || listen(page->fd, MAX_CONNECTIONS))
        return gw_error_errno(-errno, "cannot listen for the page; --page chooses another port");
    len = sizeof(got);
    if (getsockname(page->fd, (struct sockaddr *)&got, &len))
        return gw_error_errno(-errno, "the page's port is not known");
    char host[NI_MAXHOST] = "?", port[NI_MAXSERV] = "?";
    getnameinfo((struct sockaddr *)&got, len, host, sizeof(host), port, sizeof(port),
                NI_NUMERICHOST | NI_NUMERICSERV);
    snprintf(page->name, sizeof(page->name), strchr(host, ':') ? "[%s]:%s" : "%s:%s", host, port);
    return 0;
}

int face_page_start(const struct sockaddr_storage *address, const struct face_page_source *source,
                    struct face_page **out)
{
    struct face_page *page = calloc(1, sizeof(*page));
    if (!page) return gw_error(-ENOMEM, "no memory for the page");
    page->fd = -1;
    int err = page_listen(page, address);
    if (!err) err = face_watch_start(source, &page->watch);
    if (!err) {
        page->daemon = MHD_start_daemon(MHD_USE_AUTO_INTERNAL_THREAD, 0, NULL, NULL, page_answer, page,
                                        MHD_OPTION_LISTEN_SOCKET, page->fd, MHD_OPTION_CONNECTION_LIMIT,
                                        (unsigned)MAX_CONNECTIONS, MHD_OPTION_PER_IP_CONNECTION_LIMIT,
                                        (unsigned)MAX_EACH, MHD_OPTION_CONNECTION_TIMEOUT,
                                        (unsigned)PATIENCE_S, MHD_OPTION_END);
        if (page->daemon)
            page->fd = -1; /* the daemon's */
        else
            err = gw_error(-EAGAIN, "the page cannot be served");
    }
    if (err) {
        face_page_stop(page);
        return err;
    }
    *out = page;
    return 0;
}

const char *face_page_name(const struct face_page *page)
{
    return page->name;
}

void face_page_stop(struct face_page *page)
{
    if (!page) return;
    if (page->daemon) MHD_stop_daemon(page->daemon);
    if (page->watch) face_watch_stop(page->watch);
    if (page->fd >= 0) close(page->fd);
    free(page);
}
