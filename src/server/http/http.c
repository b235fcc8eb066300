/* SPDX-License-Identifier: Apache-2.0 */
/* Makes the HTTP door, and ends it with the server. */
#include "src/server/http/http.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <gpuwire/error.h>
#include <gpuwire/exec.h>

#include "src/server/http/api.h"
#include "src/server/http/page.h"

struct gw_http_door {
    struct gw_api api;
    struct gw_http_ports ports;
};

/* The models stay while it looks at them. */
static void http_look_at_models(struct gw_api *api)
{
    struct gw_infer_model m;
    struct gw_infer_stats s;
    uint64_t now = gw_deadline(0);
    if (!gw_past_begin(&api->past, now)) return;
    gw_infer_enter(api->infer);
    for (size_t i = 0; gw_infer_known_model(api->infer, &i, &m);) {
        gw_infer_stats(api->infer, &m, &s);
        gw_past_add(&api->past, m.name, m.version, &s);
    }
    gw_infer_leave(api->infer);
    gw_past_end(&api->past, now);
}

static void http_tend(void *door)
{
    struct gw_http_door *h = door;
    http_look_at_models(&h->api);
    gw_http_ports_tend(&h->ports);
}

static void http_stop(void *door)
{
    struct gw_http_door *h = door;
    gw_http_ports_stop(&h->ports);
    gw_room_close(&h->api.room);
    gw_past_close(&h->api.past);
    free(h);
}

/* A client has a connection for each of its sessions, and some for questions. */
static uint32_t max_each(const struct gw_api *api, const struct gw_http_door_opts *o)
{
    if (o->connections_each) return o->connections_each;
    uint64_t sessions =
        api->server.sessions ? *api->server.workers * (uint64_t)api->server.sessions->max_each : 0;
    return sessions > 32 ? (uint32_t)sessions + 32 : 64;
}

/* ---- starting ---- */

static int listen_for(struct gw_http_door *h, const struct gw_http_door_opts *o)
{
    struct gw_httpd_handler handler = {.ctx = &h->api,
                                       .call = gw_api_call,
                                       .closed = gw_api_connection_closed,
                                       .stays = gw_api_connection_stays,
                                       .open = gw_api_open,
                                       .piece = gw_api_piece,
                                       .finish = gw_api_finish,
                                       .refuse = gw_api_refuse,
                                       .drop = gw_api_drop,
                                       .files = gw_http_page()};
    struct gw_httpd_handler metrics = {.ctx = &h->api,
                                       .call = gw_api_call_metrics,
                                       .closed = gw_api_connection_closed,
                                       .stays = gw_api_connection_stays};
    struct gw_http_door_opts opts = *o;
    opts.max_body = h->api.max_body;
    return gw_http_ports_open(&opts, max_each(&h->api, o), &handler, &metrics, &h->ports);
}

int gw_http_door_start(const struct gw_server_view *server, struct gw_infer *infer,
                       const struct gw_http_door_opts *o, struct gw_server_door *door,
                       struct gw_http_door **out)
{
    struct gw_http_door *h = calloc(1, sizeof(*h));
    if (!h) return -ENOMEM;
    if (server) h->api.server = *server;
    h->api.infer = infer;
    h->api.max_body = o->max_body ? o->max_body : GW_HTTP_MAX_BODY;
    if (o->beside) h->api.beside = o->beside->ctx, h->api.beside_metrics = o->beside_metrics;
    gw_room_open(&h->api.room, 4 * h->api.max_body);
    gw_past_open(&h->api.past);
    int err = listen_for(h, o);
    if (err) {
        http_stop(h);
        return err;
    }
    *door = (struct gw_server_door){
        .door = h, .tend = http_tend, .stop = http_stop}; /* calls stand for its answers */
    *out = h;
    return 0;
}

uint16_t gw_http_door_port(const struct gw_http_door *h)
{
    return gw_httpd_port(h->ports.httpd);
}
