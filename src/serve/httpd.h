/* SPDX-License-Identifier: Apache-2.0 */
/* The JSON-over-HTTP server under the serving API: one thread of libmicrohttpd that sleeps when nobody calls.
 */
#ifndef GW_SERVE_HTTPD_H
#define GW_SERVE_HTTPD_H

#include <jansson.h>
#include <stdint.h>

struct gw_httpd;

struct gw_httpd_handler {
    void *ctx;
    /* Answers one call: returns the HTTP status and sets *reply to a new reference. `body` is NULL when the
     * call had none. `connection` names the TCP connection until closed() is called with it. Both run on the
     * one server thread, so they need no lock among themselves. */
    unsigned (*call)(void *ctx, const char *method, const char *path, const json_t *body,
                     const void *connection, json_t **reply);
    void (*closed)(void *ctx, const void *connection);
};

/* Listens at `host` (a numeric address; NULL: every address) and `port` (0: any free one). 0 or a negative
 * errno with the reason in gw_last_error(). */
int gw_httpd_start(const char *host, uint16_t port, const struct gw_httpd_handler *handler,
                   struct gw_httpd **out);
uint16_t gw_httpd_port(const struct gw_httpd *h);
void gw_httpd_stop(struct gw_httpd *h);

#endif
