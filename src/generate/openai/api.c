/* SPDX-License-Identifier: Apache-2.0 */
/* The short calls of the door: models, health, metrics. */
#include "src/generate/openai/shared.h"

#include <string.h>

static unsigned openai_api_refused(const struct gen_refusal *r, json_t **reply)
{
    *reply = gen_refusal_json(r);
    return r->status;
}

static unsigned openai_api_refuse(unsigned status, const char *why, json_t **reply)
{
    *reply = gen_refusal_door(status, why);
    return status;
}

static unsigned openai_api_done(json_t *body, json_t **reply)
{
    *reply = body;
    return body ? 200 : openai_api_refuse(503, "out of memory", reply);
}

static json_t *openai_api_model(const struct gen_openai_door *d, const struct gen_service *s)
{
    const struct gen_service_opts *o = gen_service_of(s);
    struct gen_source_shape shape;
    o->source->ops->shape(o->source->own, &shape);
    return json_pack("{s:s, s:s, s:I, s:s, s:s, s:n, s:I}", "id", o->name, "object", "model", "created",
                     (json_int_t)d->since, "owned_by", "gpuwire", "root", o->name, "parent", "max_model_len",
                     (json_int_t)shape.context);
}

static unsigned openai_api_models(const struct gen_openai_door *d, const char *rest, json_t **reply)
{
    struct gen_refusal refusal = {0};
    if (*rest == '/' && rest[1]) {
        const struct gen_service *s = gen_openai_find(d, rest + 1, &refusal);
        return s ? openai_api_done(openai_api_model(d, s), reply) : openai_api_refused(&refusal, reply);
    }
    json_t *list = json_array();
    for (uint32_t i = 0; i < gen_openai_services(d); i++)
        json_array_append_new(list, openai_api_model(d, d->service[i]));
    return openai_api_done(json_pack("{s:s, s:o}", "object", "list", "data", list), reply);
}

static unsigned openai_api_live(const struct gen_openai_door *d, const char *rest, json_t **reply)
{
    (void)d, (void)rest;
    return openai_api_done(json_object(), reply);
}

/* Not ready: a balancer sends nothing more. */
static unsigned openai_api_ready(const struct gen_openai_door *d, const char *rest, json_t **reply)
{
    (void)rest;
    for (uint32_t i = 0; i < gen_openai_services(d); i++)
        if (gen_service_draining(d->service[i]))
            return openai_api_refuse(503, "the server is about to end", reply);
    return openai_api_done(json_object(), reply);
}

static unsigned openai_api_version(const struct gen_openai_door *d, const char *rest, json_t **reply)
{
    (void)d, (void)rest;
    return openai_api_done(json_pack("{s:s}", "version", GW_VERSION), reply);
}

static unsigned openai_api_metrics(const struct gen_openai_door *d, const char *rest, json_t **reply)
{
    (void)rest;
    return openai_api_done(gen_openai_metrics(d), reply);
}

static const struct {
    const char *path;
    bool more; /* what begins with it and a slash is meant, too */
    unsigned (*call)(const struct gen_openai_door *d, const char *rest, json_t **reply);
} openai_api_calls[] = {
    {"/v1/models", true, openai_api_models},     {"/health", false, openai_api_ready},
    {"/v2/health/live", false, openai_api_live}, {"/v2/health/ready", false, openai_api_ready},
    {"/version", false, openai_api_version},     {"/metrics", false, openai_api_metrics},
};

/* What follows `path` in a call's path; NULL: the call is another one. `more`: a slash and more may follow.
 * */
static const char *openai_api_rest(const char *call, const char *path, bool more)
{
    size_t n = strlen(path);
    return strncmp(call, path, n) || (call[n] && !(more && call[n] == '/')) ? NULL : call + n;
}

unsigned gen_openai_call(void *ctx, const struct gw_http_request *r, json_t **reply)
{
    const struct gen_openai_door *d = ctx;
    if (d->beside.path && openai_api_rest(r->path, d->beside.path, true))
        return d->beside.call(d->beside.ctx, r, reply);
    for (size_t i = 0; i < sizeof(openai_api_calls) / sizeof(openai_api_calls[0]); i++) {
        const char *rest = openai_api_rest(r->path, openai_api_calls[i].path, openai_api_calls[i].more);
        if (!rest) continue;
        if (strcmp(r->method, "GET") && strcmp(r->method, "HEAD"))
            return openai_api_refuse(405, "GET only", reply);
        return openai_api_calls[i].call(d, rest, reply);
    }
    if (!gen_openai_is_post(r->path))
        return openai_api_refuse(404, "no such call; see docs/generation.md", reply);
    return strcmp(r->method, "POST") ? openai_api_refuse(405, "POST only", reply)
                                     : openai_api_refuse(503, "out of memory", reply);
}

unsigned gen_openai_call_metrics(void *ctx, const struct gw_http_request *r, json_t **reply)
{
    return strcmp(r->path, "/metrics") ? openai_api_refuse(404, "this port has metrics alone", reply)
                                       : gen_openai_call(ctx, r, reply);
}
