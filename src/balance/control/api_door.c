/* SPDX-License-Identifier: Apache-2.0 */
/* The API of the HTTP server, the page for people, and the rules for callers. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <gpuwire/error.h>

#include "src/balance/control/api.h"
#include "src/balance/control/page.h"
#include "src/balance/control/token.h"
#include "src/door/httpd.h"
#include "src/door/secret.h"

struct gw_bal_api {
    struct gw_bal_core *core;
    struct gw_httpd *httpd;
};

static unsigned api_door_call(void *ctx, const struct gw_http_request *r, json_t **reply)
{
    struct gw_bal_api *a = ctx;
    return gw_bal_api_call(a->core, r->method, r->path, r->body, reply);
}

static void closed(void *ctx, const void *connection)
{
    (void)ctx, (void)connection;
}

/* `top` and the page ask again and again, with pauses: the door's own patience is right for them. */
static bool api_door_stays(void *ctx, const void *connection)
{
    (void)ctx, (void)connection;
    return false;
}

struct secrets {
    char *token, *cert, *key;
};

/* Without a token of the operator's, root and this process' user need none. Others need that of run_dir. */
static int api_door_read_secrets(const struct gw_bal_global *g, struct secrets *s)
{
    int err = g->token_file[0] ? gw_secret_take_token(NULL, g->token_file, &s->token)
                               : gw_bal_make_token(g->run_dir, &s->token);
    if (!err && g->tls_cert[0]) err = gw_secret_read("tls_cert", g->tls_cert, &s->cert);
    if (!err && g->tls_key[0]) err = gw_secret_read("tls_key", g->tls_key, &s->key);
    return err;
}

int gw_bal_api_start(struct gw_bal_core *core, const struct gw_bal_global *g, struct gw_bal_api **out)
{
    static const struct gw_httpd_handler handler = {
        .call = api_door_call, .closed = closed, .stays = api_door_stays, .files = gw_bal_page};
    struct gw_httpd_handler mine = handler;
    struct secrets secrets = {0};
    struct gw_bal_api *a = calloc(1, sizeof(*a));
    int err = a ? api_door_read_secrets(g, &secrets) : -ENOMEM;
    if (!err) {
        struct gw_httpd_opts opts = {.option = "api in global_defs",
                                     .host = g->api_host,
                                     .port = g->api_port,
                                     .cert = secrets.cert,
                                     .key = secrets.key,
                                     .token = secrets.token,
                                     .owner_calls = !g->token_file[0],
                                     .host_option = "the token: a call that brings it may use any name"};
        a->core = core;
        mine.ctx = a;
        err = gw_httpd_start(&opts, &mine, &a->httpd);
    }
    gw_secret_forget(secrets.token);
    gw_secret_forget(secrets.cert);
    gw_secret_forget(secrets.key);
    if (err)
        free(a);
    else
        *out = a;
    return err;
}

uint16_t gw_bal_api_port(const struct gw_bal_api *a)
{
    return gw_httpd_port(a->httpd);
}

void gw_bal_api_tend(struct gw_bal_api *a)
{
    gw_httpd_tend(a->httpd);
}

void gw_bal_api_stop(struct gw_bal_api *a)
{
    if (!a) return;
    gw_httpd_stop(a->httpd);
    free(a);
}
