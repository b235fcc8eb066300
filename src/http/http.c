/* SPDX-License-Identifier: Apache-2.0 */
#include "src/http/http.h"

#include <errno.h>
#include <stdlib.h>

#include "src/http/api.h"
#include "src/http/httpd.h"

struct gw_http {
    struct gw_api api;
    struct gw_httpd *httpd;
};

static void tend(void *door)
{
    struct gw_http *h = door;
    gw_httpd_tend(h->httpd);
}

static void stop(void *door)
{
    struct gw_http *h = door;
    gw_httpd_stop(h->httpd);
    free(h);
}

/* A client has a connection for each of its sessions, and some for questions. */
static uint32_t most_each(const struct gw_api *api)
{
    uint64_t sessions = *api->server.workers * (uint64_t)api->server.sessions->most_each;
    return sessions > 32 ? (uint32_t)sessions + 32 : 64;
}

int gw_http_start(struct gw_server *server, struct gw_infer *infer, const struct gw_http_opts *o,
                  struct gw_http **out)
{
    struct gw_http *h = calloc(1, sizeof(*h));
    if (!h) return -ENOMEM;
    gw_server_view(server, &h->api.server);
    h->api.infer = infer;
    struct gw_httpd_opts opts = {.host = o->host, .port = o->port, .most_each = most_each(&h->api)};
    struct gw_httpd_handler handler = {&h->api, gw_api_call, gw_api_connection_closed,
                                       gw_api_connection_stays};
    int error = gw_httpd_start(&opts, &handler, &h->httpd);
    struct gw_server_door door = {h, tend, stop};
    if (!error) error = gw_server_add_door(server, &door);
    if (error) {
        gw_httpd_stop(h->httpd);
        free(h);
        return error;
    }
    *out = h;
    return 0;
}

uint16_t gw_http_port(const struct gw_http *h)
{
    return gw_httpd_port(h->httpd);
}
