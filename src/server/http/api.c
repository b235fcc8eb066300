/* SPDX-License-Identifier: Apache-2.0 */
/* Finds the call that a path means, and answers the short ones. */
#include "src/server/http/api.h"

#include <stdbool.h>
#include <string.h>

#include <gpuwire/exec.h>

#include "src/server/http/calls.h"
#include "src/server/http/infer.h"

unsigned gw_http_fail(unsigned status, json_t **reply, const char *why)
{
    *reply = gw_http_error(why);
    return status;
}

unsigned gw_http_fail_infer(const struct gw_infer_error *error, json_t **reply)
{
    return gw_http_fail(gw_infer_http_status(error->code), reply, error->text);
}

unsigned gw_http_draining(struct gw_api *api, json_t **reply)
{
    struct gw_infer_error error;
    if (!gw_infer_draining(api->infer)) return 0;
    gw_infer_refuse_draining(&error);
    return gw_http_fail_infer(&error, reply);
}

unsigned gw_http_unready(struct gw_api *api, json_t **reply)
{
    struct gw_infer_error error;
    return gw_infer_check_ready(api->infer, &error) ? gw_http_fail_infer(&error, reply) : 0;
}

unsigned gw_http_done(unsigned status, json_t **reply, json_t *body)
{
    *reply = body;
    return body ? status : gw_http_fail(500, reply, "out of memory");
}

unsigned gw_http_nothing(json_t **reply)
{
    return gw_http_fail(404, reply, "no such call; see docs/serving.md");
}

json_t *gw_http_tensor(const struct gw_infer_model *m, const struct gw_tensor_info *t)
{
    int64_t dims[GW_MODEL_MAX_RANK];
    uint32_t rank = gw_infer_shape(m, t, dims);
    json_t *shape = json_array();
    for (uint32_t i = 0; i < rank; i++) json_array_append_new(shape, json_integer(dims[i]));
    return json_pack("{s:s, s:s, s:o}", "name", t->name, "datatype", gw_dtype_name(t->dtype), "shape", shape);
}

static unsigned http_api_server_metadata(struct gw_api *api, const struct gw_http_request *r,
                                         const char *rest, json_t **reply)
{
    (void)r;
    if (*rest) return gw_http_nothing(reply);
    json_t *all = json_pack("{s:s, s:s, s:[s, s, s, s, s]}", "name", "gpuwire", "version", GW_VERSION,
                            "extensions", "binary_tensor_data", "model_repository", "model_configuration",
                            "statistics", "system_shared_memory");
    if (api->server.sessions)
        json_array_insert_new(json_object_get(all, "extensions"), 0, json_string("rdma"));
    return gw_http_done(200, reply, all);
}

static unsigned http_api_health(struct gw_api *api, const struct gw_http_request *r, const char *rest,
                                json_t **reply)
{
    (void)r;
    if (strcmp(rest, "/live") && strcmp(rest, "/ready")) return gw_http_nothing(reply);
    unsigned not_ready = strcmp(rest, "/ready") ? 0 : gw_http_unready(api, reply);
    return not_ready ? not_ready : gw_http_done(200, reply, json_object());
}

static unsigned not_here(struct gw_api *api, const struct gw_http_request *r, const char *rest,
                         json_t **reply)
{
    (void)api, (void)r, (void)rest;
    return gw_http_fail(501, reply, "trace and log settings cannot be changed over HTTP");
}

static unsigned http_api_history(struct gw_api *api, const struct gw_http_request *r, const char *rest,
                                 json_t **reply)
{
    if (*rest) return gw_http_nothing(reply);
    if (strcmp(r->method, "GET")) return gw_http_fail(405, reply, "GET only");
    return gw_http_done(200, reply, gw_past_json(&api->past, gw_deadline(0)));
}

static unsigned http_api_call(struct gw_api *api, const struct gw_http_request *r, json_t **reply)
{
    /* A path belongs to the first entry that equals it, or that it begins with and that a slash follows. */
    static const struct {
        const char *path;
        unsigned (*call)(struct gw_api *api, const struct gw_http_request *r, const char *rest,
                         json_t **reply);
    } calls[] = {
        {"/v2/models", gw_http_models},
        {"/v2/rdma/sessions", gw_http_sessions},
        {"/v2/health", http_api_health},
        {"/v2/repository", gw_http_model_index},
        {"/v2/systemsharedmemory", gw_http_regions},
        {"/v2/trace", not_here},
        {"/v2/logging", not_here},
        {"/metrics", gw_http_metrics},
        {"/history", http_api_history},
    };
    if (!strcmp(r->path, "/v2") || !strcmp(r->path, "/v2/"))
        return http_api_server_metadata(api, r, "", reply);
    for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
        const char *rest = r->path + strlen(calls[i].path);
        if (!strncmp(r->path, calls[i].path, strlen(calls[i].path)) && (!*rest || *rest == '/'))
            return calls[i].call(api, r, rest, reply);
    }
    return gw_http_nothing(reply);
}

/* The models that it finds stay during the call. */
unsigned gw_api_call(void *ctx, const struct gw_http_request *r, json_t **reply)
{
    struct gw_api *api = ctx;
    static const char control[] = "/v2/repository/models", cuda[] = "/v2/cudasharedmemory";
    /* These wait for models to go, or to pause. */
    if (!strncmp(r->path, control, sizeof(control) - 1) && r->path[sizeof(control) - 1] == '/')
        return gw_http_control(api, r, r->path + sizeof(control) - 1, reply);
    if (!strncmp(r->path, cuda, sizeof(cuda) - 1) && r->path[sizeof(cuda) - 1] == '/')
        return gw_http_cuda_regions(api, r, r->path + sizeof(cuda) - 1, reply);
    gw_infer_enter(api->infer);
    unsigned status = http_api_call(api, r, reply);
    gw_infer_leave(api->infer);
    return status;
}

unsigned gw_api_call_metrics(void *ctx, const struct gw_http_request *r, json_t **reply)
{
    return strcmp(r->path, "/metrics") ? gw_http_nothing(reply) : gw_api_call(ctx, r, reply);
}

void gw_api_connection_closed(void *ctx, const void *connection)
{
    struct gw_api *api = ctx;
    if (api->server.sessions) gw_table_close_all_of(api->server.sessions, connection);
}

bool gw_api_connection_stays(void *ctx, const void *connection)
{
    struct gw_api *api = ctx;
    return api->server.sessions && gw_table_holds(api->server.sessions, connection);
}

/* ---- bodies that may be long ---- */

void *gw_api_open(void *ctx, const struct gw_http_request *r)
{
    struct gw_api *api = ctx;
    if (strcmp(r->method, "POST") || !gw_http_is_infer(r->path)) return NULL;
    struct gw_http_infer_opts opts = {api->infer, api->max_body, &api->room};
    return gw_http_infer_open(&opts, r);
}

void gw_api_piece(void *stream, const char *data, size_t bytes)
{
    gw_http_infer_piece(stream, data, bytes);
}

void gw_api_finish(void *stream, struct gw_http_answer *answer)
{
    gw_http_infer_finish(stream, answer);
}

void gw_api_refuse(void *stream, unsigned status, const char *why)
{
    gw_http_infer_refuse(stream, status, why);
}

void gw_api_drop(void *stream)
{
    gw_http_infer_free(stream);
}
