/* SPDX-License-Identifier: Apache-2.0 */
/* What the doors that speak HTTP have in common for their owners: options, secrets in files, a port for
 * metrics. */
#ifndef GW_DOOR_HTTP_DOOR_H
#define GW_DOOR_HTTP_DOOR_H

#include <stdint.h>

#include "src/door/fork.h"
#include "src/door/text.h"

struct gw_http_door_opts {
    const char *host;            /* numeric; NULL: 127.0.0.1 */
    uint16_t port;               /* 0: any free one */
    uint64_t max_body;           /* bytes of an inference's body; 0: GW_HTTP_MAX_BODY */
    const char *cert, *key;      /* files: TLS; NULL: none */
    const char *token;           /* that every call must bring; NULL: see token_file */
    const char *token_file;      /* holds a token that every call must bring; NULL: none */
    int open_health;             /* 1: v2/health needs no token */
    uint32_t connections_each;   /* of one client; 0: 64, or more when its sessions need more */
    const char *host_names;      /* further names of the server, as calls may say them; NULL: none */
    const char *trusted_proxies; /* whose X-Forwarded-For counts (src/door/proxies.h); NULL: none */
    uint16_t metrics_port;       /* `metrics` is answered there, too, and nothing else; 0: nowhere else */
    /* NULL, or a handler for the calls whose paths is_beside knows; its ctx is is_beside's, too. */
    const struct gw_httpd_handler *beside;
    bool (*is_beside)(void *ctx, const char *path);
    int (*beside_metrics)(const void *ctx, struct gw_text *t); /* what it adds to `metrics`; 0 or -ENOMEM */
};

/* The servers of a door. */
struct gw_http_ports {
    struct gw_httpd *httpd;
    struct gw_httpd *metrics; /* NULL: they have no port of their own */
    struct gw_http_fork fork; /* with a handler beside the first one */
};

/* Listens on the ports that the options name. `metrics` answers on metrics_port. A client may have `max_each`
 * connections. 0, or a negative errno with the reason in gw_last_error(); then what is there is stopped by
 * gw_http_ports_stop. */
int gw_http_ports_open(const struct gw_http_door_opts *o, uint32_t max_each,
                       const struct gw_httpd_handler *handler, const struct gw_httpd_handler *metrics,
                       struct gw_http_ports *out);
/* As gw_httpd_tend. */
void gw_http_ports_tend(struct gw_http_ports *p);
void gw_http_ports_stop(struct gw_http_ports *p);

#endif
