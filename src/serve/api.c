/* SPDX-License-Identifier: Apache-2.0 */
#include "src/serve/api.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <gpuwire/error.h>

#include "src/serve/cputime.h"
#include "src/serve/wire.h"

static unsigned fail(unsigned status, json_t **reply, const char *why)
{
    *reply = json_pack("{s:s}", "error", why);
    return status;
}

static unsigned done(unsigned status, json_t **reply, json_t *body)
{
    *reply = body;
    return body ? status : fail(500, reply, "out of memory");
}

static struct gw_worker *find_worker(const struct gw_api *api, const char *name, size_t length)
{
    for (size_t i = 0; i < api->workers; i++) {
        const char *have = gw_worker_name(api->worker[i]);
        if (strlen(have) == length && !memcmp(have, name, length)) return api->worker[i];
    }
    return NULL;
}

/* ---- what a model is ---- */

static json_t *tensor(const struct gw_tensor_info *t)
{
    json_t *shape = json_array();
    for (uint32_t i = 0; i < t->rank; i++) json_array_append_new(shape, json_integer((json_int_t)t->dims[i]));
    return json_pack("{s:s, s:s, s:o}", "name", t->name, "datatype", gw_dtype_name(t->dtype), "shape", shape);
}

static json_t *tensors(const struct gw_worker *w, int output)
{
    const struct gw_model *m = gw_worker_model(w);
    json_t *list = json_array();
    for (uint32_t i = 0; i < (output ? gw_model_outputs(m) : gw_model_inputs(m)); i++)
        json_array_append_new(list, tensor(output ? gw_model_output(m, i) : gw_model_input(m, i)));
    return list;
}

static json_t *metadata(const struct gw_worker *w)
{
    char version[16];
    snprintf(version, sizeof(version), "%u", gw_worker_version(w));
    return json_pack("{s:s, s:[s], s:s, s:o, s:o, s:{s:I, s:I}}", "name", gw_worker_name(w), "versions",
                     version, "platform", gw_model_kind(gw_worker_model(w)), "inputs", tensors(w, 0),
                     "outputs", tensors(w, 1), "rdma", "slots", (json_int_t)gw_worker_slots(w), "max_rows",
                     (json_int_t)gw_worker_max_rows(w));
}

static json_t *stats(const struct gw_worker *w)
{
    struct gw_cputime cpu = {0};
    uint64_t answered, refused;
    gw_session_pool_totals(gw_worker_sessions(w), &answered, &refused);
    gw_cputime_read(&cpu);
    return json_pack("{s:s, s:I, s:I, s:I, s:I, s:I, s:I}", "name", gw_worker_name(w), "answered",
                     (json_int_t)answered, "refused", (json_int_t)refused, "sessions_open",
                     (json_int_t)gw_session_pool_open_count(gw_worker_sessions(w)), "sessions",
                     (json_int_t)gw_session_pool_size(gw_worker_sessions(w)), "cpu_own_ns",
                     (json_int_t)cpu.own_ns, "cpu_nic_ns", (json_int_t)cpu.nic_ns);
}

static unsigned call_model(struct gw_api *api, const char *method, const char *rest, json_t **reply)
{
    size_t length = strcspn(rest, "/");
    struct gw_worker *w = find_worker(api, rest, length);
    const char *what = rest + length;
    if (!w) return fail(404, reply, "no such model here");
    if (!strncmp(what, "/versions/", 10)) {
        char *end;
        if (strtoul(what + 10, &end, 10) != gw_worker_version(w))
            return fail(404, reply, "no such version here");
        what = end;
    }
    if (!strcmp(what, "/infer"))
        return fail(501, reply, "tensors come by RDMA here, not over HTTP; see POST v2/rdma/sessions");
    if (strcmp(method, "GET")) return fail(405, reply, "GET only");
    if (!*what) return done(200, reply, metadata(w));
    if (!strcmp(what, "/ready")) return done(200, reply, json_object());
    if (!strcmp(what, "/stats")) return done(200, reply, stats(w));
    return fail(404, reply, "no such call; see docs/serving.md");
}

/* ---- sessions ---- */

static int parse_address(const json_t *value, uint64_t *out)
{
    const char *text = json_string_value(value);
    char *end;
    if (!text || strncmp(text, "0x", 2) || !text[2]) return -EINVAL;
    errno = 0;
    *out = strtoull(text + 2, &end, 16);
    return errno || *end || text[2] == '-' || text[2] == '+' ? -EINVAL : 0;
}

static const char *parse_wish(const json_t *body, struct gw_session_wish *wish)
{
    json_t *wanted = json_object_get(body, "slots");
    json_int_t slots = json_integer_value(wanted);
    json_int_t stride = json_integer_value(json_object_get(body, "reply_stride"));
    json_t *rkey = json_object_get(body, "reply_rkey");
    const char *endpoint = json_string_value(json_object_get(body, "endpoint"));
    if ((wanted && !json_is_integer(wanted)) || slots < 0 || slots > UINT32_MAX)
        return "slots: a number from 0 (as many as there are)";
    if (!endpoint || gw_endpoint_parse(endpoint, &wish->endpoint)) return "endpoint: not of the form gw:1:…";
    if (parse_address(json_object_get(body, "reply_addr"), &wish->reply_addr))
        return "reply_addr: not a string \"0x…\"";
    if (stride <= 0) return "reply_stride: a positive number of bytes";
    if (!json_is_integer(rkey) || json_integer_value(rkey) < 0 || json_integer_value(rkey) > UINT32_MAX)
        return "reply_rkey: a 32-bit number";
    wish->slots = (uint32_t)slots;
    wish->reply_stride = (uint64_t)stride;
    wish->reply_rkey = (uint32_t)json_integer_value(rkey);
    return NULL;
}

static json_t *grant_json(const struct gw_api *api, const struct gw_worker *w, const char *id,
                          const struct gw_session_grant *g)
{
    char endpoint[GW_ENDPOINT_TEXT], addr[24];
    gw_endpoint_format(&g->endpoint, endpoint);
    snprintf(addr, sizeof(addr), "0x%llx", (unsigned long long)g->request_addr);
    return json_pack("{s:s, s:I, s:s, s:s, s:I, s:I, s:I, s:s, s:I, s:I, s:o, s:o}", "id", id, "slots",
                     (json_int_t)g->slots, "endpoint", endpoint, "request_addr", addr, "request_stride",
                     (json_int_t)g->request_stride, "request_rkey", (json_int_t)g->request_rkey, "max_rows",
                     (json_int_t)gw_worker_max_rows(w), "clock", api->clock, "unused_ms",
                     (json_int_t)(api->sessions.unused_ns / 1000000), "idle_ms",
                     (json_int_t)(api->sessions.idle_ns / 1000000), "inputs", tensors(w, 0), "outputs",
                     tensors(w, 1));
}

static unsigned refuse_session(int error, json_t **reply)
{
    if (error == -EAGAIN) { /* some are being made ready for the next client: it may ask again soon */
        *reply = json_pack("{s:s, s:b}", "error", gw_last_error(), "retry", 1);
        return 503;
    }
    return fail(error == -EBUSY    ? 503
                : error == -EDQUOT ? 429
                : error == -EINVAL ? 400
                                   : 500,
                reply, gw_last_error());
}

/* A queue pair of this server's own as the peer would have it talk to itself. */
static int is_ours(const struct gw_api *api, const struct gw_endpoint *ep)
{
    for (size_t i = 0; i < api->workers; i++)
        if (gw_session_pool_has(gw_worker_sessions(api->worker[i]), ep)) return 1;
    return 0;
}

static unsigned open_session(struct gw_api *api, const struct gw_http_request *r, json_t **reply)
{
    struct gw_session_wish wish = {0};
    struct gw_session_grant grant;
    char id[GW_SESSION_ID];
    const char *model = json_string_value(json_object_get(r->body, "model"));
    if (!model) return fail(400, reply, "model: a model's name");
    const char *wrong = parse_wish(r->body, &wish);
    if (wrong) return fail(400, reply, wrong);
    if (is_ours(api, &wish.endpoint)) return fail(400, reply, "endpoint: it is one of this server's own");
    struct gw_worker *w = find_worker(api, model, strlen(model));
    if (!w) return fail(404, reply, "no such model here");

    int error = gw_table_add(&api->sessions, w, &wish, r->connection, r->who, &grant, id);
    return error ? refuse_session(error, reply) : done(201, reply, grant_json(api, w, id, &grant));
}

static unsigned call_session(struct gw_api *api, const char *method, const char *id, json_t **reply)
{
    int renew = !strcmp(method, "PUT");
    if (!renew && strcmp(method, "DELETE")) return fail(405, reply, "PUT and DELETE only");
    int error = renew ? gw_table_renew(&api->sessions, id) : gw_table_close(&api->sessions, id);
    if (error) return fail(error == -ENOENT ? 404 : 409, reply, gw_last_error());
    return done(200, reply, json_object());
}

/* ---- the paths ---- */

unsigned gw_api_call(void *ctx, const struct gw_http_request *r, json_t **reply)
{
    struct gw_api *api = ctx;
    if (!strcmp(r->path, "/v2"))
        return done(
            200, reply,
            json_pack("{s:s, s:s, s:[s]}", "name", "gpuwire", "version", GW_VERSION, "extensions", "rdma"));
    if (!strcmp(r->path, "/v2/health/live") || !strcmp(r->path, "/v2/health/ready"))
        return done(200, reply, json_object());
    if (!strncmp(r->path, "/v2/models/", 11)) return call_model(api, r->method, r->path + 11, reply);
    if (!strcmp(r->path, "/v2/rdma/sessions")) {
        if (strcmp(r->method, "POST")) return fail(405, reply, "POST only");
        return open_session(api, r, reply);
    }
    if (!strncmp(r->path, "/v2/rdma/sessions/", 18)) return call_session(api, r->method, r->path + 18, reply);
    return fail(404, reply, "no such call; see docs/serving.md");
}

void gw_api_connection_closed(void *ctx, const void *connection)
{
    struct gw_api *api = ctx;
    gw_table_close_all_of(&api->sessions, connection);
}

int gw_api_connection_stays(void *ctx, const void *connection)
{
    struct gw_api *api = ctx;
    return gw_table_holds(&api->sessions, connection);
}
