/* SPDX-License-Identifier: Apache-2.0 */
/* The JSON-over-HTTP server under the serving API: a thread of libmicrohttpd for each connection, all of
 * which sleep when nobody calls. So a call that takes its time delays no other connection's. */
#ifndef GW_HTTP_HTTPD_H
#define GW_HTTP_HTTPD_H

#include <jansson.h>
#include <stdint.h>

struct gw_httpd;

struct gw_http_request {
    const char *method, *path;
    const json_t *body;     /* NULL: it had none */
    const void *connection; /* names the TCP connection until closed() is called with it */
    const char *who;        /* the client, as src/serve/who.h tells clients apart */
};

/* All may be called by several threads at once. */
struct gw_httpd_handler {
    void *ctx;
    /* Answers one call: returns the HTTP status and sets *reply to a new reference. */
    unsigned (*call)(void *ctx, const struct gw_http_request *request, json_t **reply);
    void (*closed)(void *ctx, const void *connection);
    /* May the connection be silent for as long as it likes? */
    int (*stays)(void *ctx, const void *connection);
};

struct gw_httpd_opts {
    const char *host;     /* a numeric address; NULL: 127.0.0.1 */
    uint16_t port;        /* 0: any free one */
    uint32_t most_each;   /* connections that one client may have; 0: a quarter of all there may be */
    uint64_t patience_ns; /* a connection that nothing vouches for has so long for each call; 0: 20 s */
};

/* Listens. How many connections there may be follows from the descriptors that the process may have:
 * some are left over. 0 or a negative errno with the reason in gw_last_error(). */
int gw_httpd_start(const struct gw_httpd_opts *opts, const struct gw_httpd_handler *handler,
                   struct gw_httpd **out);
uint16_t gw_httpd_port(const struct gw_httpd *h);
/* Closes connections that have stayed too long. It is called now and then, by one thread. */
void gw_httpd_tend(struct gw_httpd *h);
void gw_httpd_stop(struct gw_httpd *h);

#endif
