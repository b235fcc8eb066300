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
#include "src/door/httpd.h"
#include "src/server/http/page.h"
#include "src/door/secret.h"

struct gw_http_door {
    struct gw_api api;
    struct gw_httpd *httpd;
    struct gw_httpd *metrics; /* NULL: it has no port of its own */
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
    gw_httpd_tend(h->httpd);
    if (h->metrics) gw_httpd_tend(h->metrics);
}

static void http_stop(void *door)
{
    struct gw_http_door *h = door;
    gw_httpd_stop(h->metrics);
    gw_httpd_stop(h->httpd);
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

/* The texts that the daemon needs, and only while it starts. */
struct secrets {
    char *cert, *key, *token;
};

static int http_read_secrets(const struct gw_http_door_opts *o, struct secrets *s)
{
    int err = 0;
    if (!o->cert != !o->key) return gw_error(-EINVAL, "--tls-cert and --tls-key go together");
    if (o->cert) err = gw_secret_read("--tls-cert", o->cert, &s->cert);
    if (!err && o->key) err = gw_secret_read("--tls-key", o->key, &s->key);
    if (!err) err = gw_secret_take_token(o->token, o->token_file, &s->token);
    return err;
}

/* ---- starting ---- */

static int listen_for(struct gw_http_door *h, const struct gw_http_door_opts *o)
{
    struct secrets secrets = {0};
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
    struct gw_proxies proxies;
    int err = gw_proxies_parse("--trusted-proxy", o->trusted_proxies, &proxies);
    if (!err) err = http_read_secrets(o, &secrets);
    struct gw_httpd_opts opts = {.host = o->host,
                                 .port = o->port,
                                 .max_each = max_each(&h->api, o),
                                 .each_option = "--connections-per-client",
                                 .host_names = o->host_names,
                                 .proxies = &proxies,
                                 .max_body = h->api.max_body,
                                 .cert = secrets.cert,
                                 .key = secrets.key,
                                 .token = secrets.token,
                                 .open_health = o->open_health};
    if (!err) err = gw_httpd_start(&opts, &handler, &h->httpd);
    handler.call = gw_api_call_metrics;
    handler.open = NULL;
    handler.files = NULL;
    opts.option = "--metrics-port";
    opts.port = o->metrics_port;
    if (!err && o->metrics_port) err = gw_httpd_start(&opts, &handler, &h->metrics);
    gw_secret_forget(secrets.cert);
    gw_secret_forget(secrets.key);
    gw_secret_forget(secrets.token);
    return err;
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
    return gw_httpd_port(h->httpd);
}
