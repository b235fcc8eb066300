/* SPDX-License-Identifier: Apache-2.0 */
/* v2/models and v2/repository: what the models are, and what they have done. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/server/http/calls.h"
#include "src/server/requests/stats.h"
#include "src/server/lifecycle/cputime.h"

static const char *http_models_version_of(const struct gw_infer_model *m, char text[16])
{
    snprintf(text, 16, "%u", m->version);
    return text;
}

/* ---- metadata and configuration ---- */

static json_t *http_models_tensors(const struct gw_infer_model *m, int output,
                                   json_t *(*one)(const struct gw_infer_model *m,
                                                  const struct gw_tensor_info *t))
{
    uint32_t n = output ? gw_model_outputs(m->model) : gw_model_inputs(m->model);
    json_t *all = json_array();
    for (uint32_t i = 0; i < n; i++)
        json_array_append_new(all,
                              one(m, output ? gw_model_output(m->model, i) : gw_model_input(m->model, i)));
    return all;
}

json_t *gw_http_tensors(const struct gw_infer_model *m, int output)
{
    return http_models_tensors(m, output, gw_http_tensor);
}

static json_t *metadata(const struct gw_infer_model *m)
{
    char version[16];
    json_t *all = json_pack("{s:s, s:[s], s:s, s:o, s:o}", "name", m->name, "versions",
                            http_models_version_of(m, version), "platform", gw_model_kind(m->model), "inputs",
                            gw_http_tensors(m, 0), "outputs", gw_http_tensors(m, 1));
    if (m->rdma_slots)
        json_object_set_new(all, "rdma", json_pack("{s:I}", "slots", (json_int_t)m->rdma_slots));
    return all;
}

/* As a model configuration has it: a type's name of its own, and no dimension for the batch. */
static json_t *config_tensor(const struct gw_infer_model *m, const struct gw_tensor_info *t)
{
    char type[24];
    int64_t dims[GW_MODEL_MAX_RANK];
    uint32_t rank = gw_infer_shape(m, t, dims);
    json_t *shape = json_array();
    for (uint32_t i = rank && dims[0] < 0; i < rank; i++) json_array_append_new(shape, json_integer(dims[i]));
    snprintf(type, sizeof(type), "TYPE_%s", gw_dtype_name(t->dtype));
    return json_pack("{s:s, s:s, s:o, s:b}", "name", t->name, "data_type", type, "dims", shape,
                     "is_shape_tensor", 0);
}

/* Triton's clients look for all of this. */
static json_t *config_input(const struct gw_infer_model *m, const struct gw_tensor_info *t)
{
    json_t *one = config_tensor(m, t);
    json_object_set_new(one, "format", json_string("FORMAT_NONE"));
    json_object_set_new(one, "allow_ragged_batch", json_false());
    json_object_set_new(one, "optional", json_false());
    return one;
}

static json_t *config_output(const struct gw_infer_model *m, const struct gw_tensor_info *t)
{
    json_t *one = config_tensor(m, t);
    json_object_set_new(one, "label_filename", json_string(""));
    return one;
}

static json_t *http_models_config(const struct gw_infer_model *m)
{
    const char *kind = gw_model_kind(m->model);
    uint32_t most = m->max_batch;
    json_t *all =
        json_pack("{s:s, s:s, s:s, s:{s:{s:i}}, s:I, s:o, s:o, s:{}}", "name", m->name, "platform", kind,
                  "backend", kind, "version_policy", "latest", "num_versions", 1, "max_batch_size",
                  (json_int_t)most, "input", http_models_tensors(m, 0, config_input), "output",
                  http_models_tensors(m, 1, config_output), "parameters");
    if (most) json_object_set_new(all, "dynamic_batching", json_object());
    return all;
}

/* ---- statistics ---- */

static json_t *http_models_duration(uint64_t count, uint64_t ns)
{
    return json_pack("{s:I, s:I}", "count", (json_int_t)count, "ns", (json_int_t)ns);
}

static json_t *batch_stats(const struct gw_infer_stats *s)
{
    json_t *all = json_array();
    for (uint32_t i = 0; i < s->batches; i++)
        if (s->batch[i].executions)
            json_array_append_new(
                all, json_pack("{s:I, s:o}", "batch_size", (json_int_t)s->batch[i].rows, "compute_infer",
                               http_models_duration(s->batch[i].executions, s->batch[i].infer_ns)));
    return all;
}

static json_t *model_stats(const struct gw_infer_model *m, const struct gw_infer_stats *s)
{
    char version[16];
    uint64_t n = s->successes, all = s->queue_ns + s->input_ns + s->infer_ns + s->output_ns;
    json_t *parts =
        json_pack("{s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "success", http_models_duration(n, all), "fail",
                  http_models_duration(s->failures + s->refused + s->late, 0), "queue",
                  http_models_duration(n, s->queue_ns), "compute_input", http_models_duration(n, s->input_ns),
                  "compute_infer", http_models_duration(n, s->infer_ns), "compute_output",
                  http_models_duration(n, s->output_ns), "cache_hit", http_models_duration(0, 0),
                  "cache_miss", http_models_duration(0, 0));
    return json_pack("{s:s, s:s, s:I, s:I, s:o, s:o}", "name", m->name, "version",
                     http_models_version_of(m, version), "inference_count", (json_int_t)s->inferences,
                     "execution_count", (json_int_t)s->executions, "inference_stats", parts, "batch_stats",
                     batch_stats(s));
}

static json_t *all_stats(struct gw_api *api)
{
    json_t *all = json_array();
    struct gw_infer_model m;
    struct gw_infer_stats s;
    for (size_t i = 0; gw_infer_model(api->infer, i, &m); i++) {
        gw_infer_stats(api->infer, &m, &s);
        json_array_append_new(all, model_stats(&m, &s));
    }
    return json_pack("{s:o}", "model_stats", all);
}

/* Triton's, and beside them what only this server has. */
static json_t *http_models_stats(struct gw_api *api, const struct gw_infer_model *m)
{
    struct gw_cputime cpu = {0};
    struct gw_infer_stats s;
    gw_cputime_read(&cpu);
    gw_infer_stats(api->infer, m, &s);
    return json_pack("{s:[o], s:s, s:I, s:I, s:I, s:I, s:I, s:I}", "model_stats", model_stats(m, &s), "name",
                     m->name, "answered", (json_int_t)s.successes, "refused", (json_int_t)s.refused,
                     "sessions_open", (json_int_t)s.sessions_open, "sessions", (json_int_t)s.sessions,
                     "cpu_own_ns", (json_int_t)cpu.own_ns, "cpu_nic_ns", (json_int_t)cpu.nic_ns);
}

/* ---- the calls ---- */

/* Every model that is there is ready when the server is. */
static unsigned http_models_ready(struct gw_api *api, json_t **reply)
{
    unsigned no = gw_http_unready(api, reply);
    return no ? no : gw_http_done(200, reply, json_object());
}

/* The model that the path names: 0 and *m, or the status of a refusal. *what is what follows in the path. */
static unsigned http_models_find(struct gw_api *api, const char *rest, const char **what,
                                 struct gw_infer_model *m, json_t **reply)
{
    char name[GW_INFER_NAME], version[32] = "";
    struct gw_infer_error error = {.code = GW_INFER_NOT_FOUND, .text = "no such model here"};
    size_t n = strcspn(rest, "/"), v = 0;
    *what = rest + n;
    if (!strncmp(*what, "/versions/", 10)) {
        v = strcspn(*what + 10, "/");
        snprintf(version, sizeof(version), "%.*s", v < sizeof(version) ? (int)v : 31, *what + 10);
        *what += 10 + v;
    }
    snprintf(name, sizeof(name), "%.*s", n < sizeof(name) ? (int)n : 255, rest);
    if (n >= sizeof(name) || v >= sizeof(version) || gw_infer_find(api->infer, name, version, m, &error))
        return gw_http_fail_infer(&error, reply);
    return 0;
}

unsigned gw_http_models(struct gw_api *api, const struct gw_http_request *r, const char *rest, json_t **reply)
{
    struct gw_infer_model m;
    const char *what;
    if (!*rest) return gw_http_nothing(reply);
    if (!strcmp(rest, "/stats")) return gw_http_done(200, reply, all_stats(api));
    unsigned status = http_models_find(api, rest + 1, &what, &m, reply);
    if (status) return status;
    if (!strcmp(what, "/infer")) return gw_http_fail(405, reply, "POST only");
    if (!strncmp(what, "/trace", 6)) return gw_http_fail(501, reply, "the server does not support tracing");
    if (*what && strcmp(what, "/ready") && strcmp(what, "/config") && strcmp(what, "/stats"))
        return gw_http_nothing(reply);
    if (strcmp(r->method, "GET")) return gw_http_fail(405, reply, "GET only");
    if (!*what) return gw_http_done(200, reply, metadata(&m));
    if (!strcmp(what, "/ready")) return http_models_ready(api, reply);
    return gw_http_done(200, reply,
                        strcmp(what, "/config") ? http_models_stats(api, &m) : http_models_config(&m));
}

static void list_missing(struct gw_api *api, json_t *all)
{
    const struct gw_missing_model *m;
    for (size_t i = 0; (m = gw_infer_missing(api->infer, i)); i++) {
        char version[16];
        snprintf(version, sizeof(version), "%u", m->version);
        json_t *one = json_pack("{s:s, s:s, s:s}", "name", m->name, "state", "UNAVAILABLE", "reason", m->why);
        if (m->version) json_object_set_new(one, "version", json_string(version));
        json_array_append_new(all, one);
    }
}

static json_t *http_models_list_models(struct gw_api *api, int all_there_are)
{
    char version[16];
    json_t *all = json_array();
    struct gw_infer_model m;
    for (size_t i = 0; gw_infer_model(api->infer, i, &m); i++)
        json_array_append_new(all,
                              json_pack("{s:s, s:s, s:s, s:s}", "name", m.name, "version",
                                        http_models_version_of(&m, version), "state", "READY", "reason", ""));
    if (all_there_are) list_missing(api, all);
    return all;
}

unsigned gw_http_model_index(struct gw_api *api, const struct gw_http_request *r, const char *rest,
                             json_t **reply)
{
    if (strcmp(r->method, "POST")) return gw_http_fail(405, reply, "POST only");
    if (strcmp(rest, "/index")) return gw_http_nothing(reply);
    int only_ready = json_is_true(json_object_get(r->body, "ready"));
    return gw_http_done(200, reply, http_models_list_models(api, !only_ready));
}

/* POST v2/repository/models/M/load and unload. */
unsigned gw_http_control(struct gw_api *api, const struct gw_http_request *r, const char *rest,
                         json_t **reply)
{
    char name[GW_INFER_NAME];
    struct gw_infer_error error;
    size_t n = strcspn(rest + 1, "/");
    const char *what = *rest ? rest + 1 + n : "";
    int load = !strcmp(what, "/load");
    if (!*rest || n >= sizeof(name) || (!load && strcmp(what, "/unload"))) return gw_http_nothing(reply);
    if (strcmp(r->method, "POST")) return gw_http_fail(405, reply, "POST only");
    if (load && json_object_size(json_object_get(r->body, "parameters")))
        return gw_http_fail(501, reply, "a model is loaded as the repository has it: no parameters");
    memcpy(name, rest + 1, n);
    name[n] = 0;
    gw_http_busy(r->connection, 1); /* models take their time to come and go */
    int wrong = gw_infer_change(api->infer, load ? GW_CONTROL_LOAD : GW_CONTROL_UNLOAD, name, &error);
    gw_http_busy(r->connection, 0);
    return wrong ? gw_http_fail_infer(&error, reply) : gw_http_done(200, reply, json_object());
}
