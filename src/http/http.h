/* SPDX-License-Identifier: Apache-2.0 */
/* The HTTP door of a server. */
#ifndef GW_HTTP_HTTP_H
#define GW_HTTP_HTTP_H

#include <stdint.h>

#include "src/infer/infer.h"
#include "src/serve/server.h"

struct gw_http;

struct gw_http_opts {
    const char *host; /* numeric; NULL: 127.0.0.1 */
    uint16_t port;    /* 0: any free one */
};

/* Listens, and adds itself to the server, which ends it. `infer` outlives the server. 0 or a negative errno with
 * the reason in gw_last_error(). */
int gw_http_start(struct gw_server *server, struct gw_infer *infer, const struct gw_http_opts *opts,
                  struct gw_http **out);
uint16_t gw_http_port(const struct gw_http *h);

#endif
