/* SPDX-License-Identifier: Apache-2.0 */
/* The API behind the HTTP server, and the page for people. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <gpuwire/error.h>

#include "src/balance/control/api.h"
#include "src/balance/control/page.h"
#include "src/http/httpd.h"
#include "src/serve/secret.h"

struct gw_bal_api {
    struct gw_bal_core *core;
    struct gw_httpd *httpd;
};

static unsigned call(void *ctx, const struct gw_http_request *r, json_t **reply)
{
    struct gw_bal_api *a = ctx;
    return gw_bal_api_call(a->core, r->method, r->path, r->body, reply);
}

static void closed(void *ctx, const void *connection)
{
    (void)ctx, (void)connection;
}

/* `top` and the page ask again and again, with pauses: the door's own patience is right for them. */
static int stays(void *ctx, const void *connection)
{
    (void)ctx, (void)connection;
    return 0;
}

/* The page is the one answer that is not JSON or plain text: it goes as a stream does. */
static char page_stream;

static void *open_page(void *ctx, const struct gw_http_request *r)
{
    (void)ctx;
    return !strcmp(r->method, "GET") && !strcmp(r->path, "/") ? &page_stream : NULL;
}

static void page_piece(void *stream, const char *data, size_t bytes)
{
    (void)stream, (void)data, (void)bytes;
}

static void page_finish(void *stream, struct gw_http_answer *answer)
{
    (void)stream;
    answer->text = strdup(gw_bal_page);
    answer->status = answer->text ? 200 : 500;
    answer->bytes = answer->text ? strlen(answer->text) : 0;
    answer->type = "text/html; charset=utf-8";
}

static void page_drop(void *stream)
{
    (void)stream;
}

struct secrets {
    char *token, *cert, *key;
};

static int read_secrets(const struct gw_bal_global *g, struct secrets *s)
{
    int error = g->token_file[0] ? gw_secret_take_token(NULL, g->token_file, &s->token) : 0;
    if (!error && g->tls_cert[0]) error = gw_secret_read("tls_cert", g->tls_cert, &s->cert);
    if (!error && g->tls_key[0]) error = gw_secret_read("tls_key", g->tls_key, &s->key);
    return error;
}

int gw_bal_api_start(struct gw_bal_core *core, const struct gw_bal_global *g, struct gw_bal_api **out)
{
    static const struct gw_httpd_handler handler = {.call = call,
                                                    .closed = closed,
                                                    .stays = stays,
                                                    .open = open_page,
                                                    .piece = page_piece,
                                                    .finish = page_finish,
                                                    .drop = page_drop};
    struct gw_httpd_handler mine = handler;
    struct secrets secrets = {0};
    struct gw_bal_api *a = calloc(1, sizeof(*a));
    int error = a ? read_secrets(g, &secrets) : -ENOMEM;
    if (!error) {
        struct gw_httpd_opts opts = {.option = "api in global_defs",
                                     .host = g->api_host,
                                     .port = g->api_port,
                                     .cert = secrets.cert,
                                     .key = secrets.key,
                                     .token = secrets.token,
                                     .open_page = 1};
        a->core = core;
        mine.ctx = a;
        error = gw_httpd_start(&opts, &mine, &a->httpd);
    }
    gw_secret_forget(secrets.token);
    gw_secret_forget(secrets.cert);
    gw_secret_forget(secrets.key);
    if (error)
        free(a);
    else
        *out = a;
    return error;
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
