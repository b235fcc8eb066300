/* SPDX-License-Identifier: Apache-2.0 */
/* The HTTP door of a server. */
#ifndef GW_SERVER_HTTP_HTTP_H
#define GW_SERVER_HTTP_HTTP_H

#include <stdint.h>

#include "src/server/requests/infer.h"
#include "src/server/lifecycle/server.h"

struct gw_http_door;

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
};

/* Listens. *door is for gw_server_add_door, or for another owner that tends and stops it. `infer` outlives
 * the door. `server` is that of the models, for RDMA sessions; NULL: they are on other hosts. 0 or a negative
 * errno with the reason in gw_last_error(). */
int gw_http_door_start(const struct gw_server_view *server, struct gw_infer *infer,
                       const struct gw_http_door_opts *opts, struct gw_server_door *door,
                       struct gw_http_door **out);
uint16_t gw_http_door_port(const struct gw_http_door *h);

#endif
