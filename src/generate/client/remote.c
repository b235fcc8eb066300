/* SPDX-License-Identifier: Apache-2.0 */
/* Opens sessions of a generator over HTTP. A session lives as long as the connection that opened it. */
#include "src/generate/client/remote.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <gpuwire/error.h>
#include <gpuwire/verbs.h>

#include "src/client/http_client.h"
#include "src/client/url.h"

#define TIMEOUT_NS UINT64_C(10000000000)

struct gen_remote {
    struct gw_url url;
    struct gw_http *http;
    char *token, *ca_file;
    char model[256];
    struct gen_source_shape shape;
    uint32_t slots;
};

/* ---- the model ---- */

static uint32_t remote_number(const json_t *object, const char *name, uint32_t max)
{
    json_int_t n = json_integer_value(json_object_get(object, name));
    return n < 1 || n > max ? 0 : (uint32_t)n;
}

static int remote_take_model(struct gen_remote *r, const json_t *m)
{
    const char *name = json_string_value(json_object_get(m, "name"));
    r->shape.vocab = remote_number(m, "vocab", 1u << 24);
    r->shape.context = remote_number(m, "context", 1u << 24);
    r->shape.lanes = remote_number(m, "lanes", UINT32_MAX);
    r->slots = remote_number(m, "slots", GEN_MAX_SLOTS);
    r->shape.max_tokens = r->shape.context;
    if (!name || strlen(name) >= sizeof(r->model) || !r->shape.vocab || r->shape.context < 2 || !r->slots)
        return gw_error(-EPROTO, "%s: its list of models is not one that gpuwire gives", r->url.base);
    strcpy(r->model, name);
    return 0;
}

static int remote_find_model(struct gen_remote *r, const char *wanted)
{
    json_t *reply = NULL;
    const json_t *m, *found = NULL;
    size_t i;
    int err = gw_http_call(r->http, "GET", "v2/generate", NULL, &reply);
    if (err == -ENOENT) return gw_error(err, "%s: no generator answers there", r->url.base);
    if (err) return err;
    const json_t *models = json_object_get(reply, "models");
    json_array_foreach(models, i, m)
    {
        const char *name = json_string_value(json_object_get(m, "name"));
        if (wanted ? name && !strcmp(name, wanted) : json_array_size(models) == 1) found = m;
    }
    if (found)
        err = remote_take_model(r, found);
    else if (wanted)
        err = gw_error(-ENOENT, "%s: it has no model %s", r->url.base, wanted);
    else
        err = gw_error(-ENOENT, "%s: it has %zu models; name one", r->url.base, json_array_size(models));
    json_decref(reply);
    return err;
}

int gen_remote_open(const struct gen_remote_opts *o, struct gen_remote **out)
{
    struct gen_remote *r = calloc(1, sizeof(*r));
    if (!r) return gw_error_errno(-ENOMEM, "generate");
    int err = gw_url_parse(o->url, &r->url);
    if (!err && r->url.door != GW_URL_RDMA && r->url.door != GW_URL_HTTP)
        err = gw_error(-ENOTSUP, "%s: a generator is at http://HOST:PORT", o->url);
    r->token = o->token ? strdup(o->token) : NULL;
    r->ca_file = o->ca_file ? strdup(o->ca_file) : NULL;
    if (!err && ((o->token && !r->token) || (o->ca_file && !r->ca_file)))
        err = gw_error_errno(-ENOMEM, "generate");
    const struct gw_http_opts http = {.base = r->url.base,
                                      .token = r->token,
                                      .ca_file = r->ca_file,
                                      .timeout_ns = TIMEOUT_NS,
                                      .program = "gpuwire generate"};
    if (!err) err = gw_http_open(&http, &r->http);
    if (!err) err = remote_find_model(r, o->model);
    if (err)
        gen_remote_close(r);
    else
        *out = r;
    return err;
}

int gen_remote_cpu(struct gen_remote *r, double *seconds)
{
    json_t *reply = NULL;
    int err = gw_http_call(r->http, "GET", "v2/generate", NULL, &reply);
    const json_t *us = json_object_get(reply, "cpu_us");
    if (!err && !json_is_integer(us))
        err = gw_error(-EPROTO, "%s: it does not say its CPU time", r->url.base);
    if (!err) *seconds = (double)json_integer_value(us) / 1e6;
    json_decref(reply);
    return err;
}

void gen_remote_close(struct gen_remote *r)
{
    if (!r) return;
    if (r->http) gw_http_close(r->http);
    gw_url_free(&r->url);
    free(r->token);
    free(r->ca_file);
    free(r);
}

/* ---- sessions ---- */

static int remote_take_grant(const json_t *reply, const struct gen_wish *wish, struct gen_grant *g)
{
    const char *id = json_string_value(json_object_get(reply, "id"));
    const char *endpoint = json_string_value(json_object_get(reply, "endpoint"));
    const char *addr = json_string_value(json_object_get(reply, "request_addr"));
    json_int_t stride = json_integer_value(json_object_get(reply, "request_stride"));
    json_int_t rkey = json_integer_value(json_object_get(reply, "request_rkey"));
    memset(g, 0, sizeof(*g));
    g->slots = remote_number(reply, "slots", wish->slots);
    if (!id || strlen(id) >= sizeof(g->id) || strpbrk(id, "/?#% ") || !endpoint ||
        gw_endpoint_parse(endpoint, &g->endpoint) || !addr ||
        sscanf(addr, "0x%" SCNx64, &g->request_addr) != 1 || !g->slots ||
        stride < (json_int_t)sizeof(struct gen_request) || rkey < 0 || rkey > UINT32_MAX)
        return gw_error(-EPROTO, "the generator's answer to a new session is not one that gpuwire gives");
    strcpy(g->id, id);
    g->request_stride = (uint64_t)stride;
    g->request_rkey = (uint32_t)rkey;
    return 0;
}

static int remote_open(void *ctx, const struct gen_wish *wish, struct gen_grant *grant)
{
    struct gen_remote *r = ctx;
    char endpoint[GW_ENDPOINT_TEXT], addr[24];
    json_t *reply = NULL;
    gw_endpoint_format(&wish->endpoint, endpoint);
    snprintf(addr, sizeof(addr), "0x%" PRIx64, wish->event_addr);
    json_t *body =
        json_pack("{s:s, s:I, s:I, s:s, s:s, s:I, s:I}", "model", r->model, "slots", (json_int_t)wish->slots,
                  "ring", (json_int_t)wish->ring, "endpoint", endpoint, "event_addr", addr, "event_stride",
                  (json_int_t)wish->event_stride, "event_rkey", (json_int_t)wish->event_rkey);
    if (!body) return gw_error_errno(-ENOMEM, "generate");
    int err = gw_http_call(r->http, "POST", "v2/generate/sessions", body, &reply);
    json_decref(body);
    if (err) return err;
    err = remote_take_grant(reply, wish, grant);
    json_decref(reply);
    return err;
}

static int remote_call(struct gen_remote *r, const char *method, const struct gen_grant *grant)
{
    char path[96];
    json_t *reply = NULL;
    snprintf(path, sizeof(path), "v2/generate/sessions/%s", grant->id);
    int err = gw_http_call(r->http, method, path, NULL, &reply);
    json_decref(reply);
    return err;
}

static void remote_close(void *ctx, const struct gen_grant *grant)
{
    if (grant->id[0]) remote_call(ctx, "DELETE", grant); /* a server that is gone needs no telling */
}

/* A server, or a network, that has too much to do is no end. */
static int remote_confirm(void *ctx, const struct gen_grant *grant)
{
    int err = remote_call(ctx, "PUT", grant);
    return err == -ENOENT || err == -ECONNREFUSED || err == -EHOSTUNREACH ? err : 0;
}

/* The server's own metrics have them. */
static void remote_stats(void *ctx, struct gen_source_stats *out)
{
    (void)ctx;
    memset(out, 0, sizeof(*out));
}

static const struct gen_link_ops remote_ops = {
    .open = remote_open, .close = remote_close, .confirm = remote_confirm, .stats = remote_stats};

struct gen_link gen_remote_link(struct gen_remote *r)
{
    return (struct gen_link){&remote_ops, r};
}

const char *gen_remote_model(const struct gen_remote *r)
{
    return r->model;
}

void gen_remote_shape(const struct gen_remote *r, struct gen_source_shape *out, uint32_t *slots)
{
    *out = r->shape;
    *slots = r->slots;
}
