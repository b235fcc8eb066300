/* SPDX-License-Identifier: Apache-2.0 */
#include "src/serve/api.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

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
    return json_pack("{s:s, s:s, s:o}", "name", t->name, "datatype", "FP32", "shape", shape);
}

static json_t *metadata(const struct gw_worker *w)
{
    char version[16];
    snprintf(version, sizeof(version), "%u", gw_worker_version(w));
    return json_pack("{s:s, s:[s], s:s, s:[o], s:[o], s:{s:I}}", "name", gw_worker_name(w), "versions",
                     version, "platform", "onnx", "inputs", tensor(gw_model_input(gw_worker_model(w), 0)),
                     "outputs", tensor(gw_model_output(gw_worker_model(w), 0)), "rdma", "slots",
                     (json_int_t)gw_worker_slots(w));
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
    json_int_t slots = json_integer_value(json_object_get(body, "slots"));
    json_int_t stride = json_integer_value(json_object_get(body, "reply_stride"));
    json_t *rkey = json_object_get(body, "reply_rkey");
    const char *endpoint = json_string_value(json_object_get(body, "endpoint"));
    if (slots < 0 || slots > UINT32_MAX) return "slots: a number from 0 (as many as there are)";
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

static struct gw_api_session *remember(struct gw_api *api, struct gw_worker *w, uint32_t index,
                                       const void *connection)
{
    uint8_t random[16];
    struct gw_api_session *s = calloc(1, sizeof(*s));
    if (!s || getrandom(random, sizeof(random), 0) != sizeof(random)) {
        free(s);
        return NULL;
    }
    for (int i = 0; i < 16; i++) snprintf(s->id + 2 * i, 3, "%02x", random[i]);
    s->connection = connection;
    s->worker = w;
    s->index = index;
    s->next = api->open;
    api->open = s;
    return s;
}

static json_t *grant_json(const struct gw_api *api, const struct gw_api_session *s,
                          const struct gw_session_grant *g)
{
    char endpoint[GW_ENDPOINT_TEXT], addr[24];
    gw_endpoint_format(&g->endpoint, endpoint);
    snprintf(addr, sizeof(addr), "0x%llx", (unsigned long long)g->request_addr);
    return json_pack("{s:s, s:I, s:s, s:s, s:I, s:I, s:s, s:o, s:o}", "id", s->id, "slots",
                     (json_int_t)g->slots, "endpoint", endpoint, "request_addr", addr, "request_stride",
                     (json_int_t)g->request_stride, "request_rkey", (json_int_t)g->request_rkey, "clock",
                     api->clock, "input", tensor(gw_model_input(gw_worker_model(s->worker), 0)), "output",
                     tensor(gw_model_output(gw_worker_model(s->worker), 0)));
}

static unsigned open_session(struct gw_api *api, const json_t *body, const void *connection, json_t **reply)
{
    struct gw_session_wish wish = {0};
    struct gw_session_grant grant;
    const char *model = json_string_value(json_object_get(body, "model"));
    if (!model) return fail(400, reply, "model: a model's name");
    const char *wrong = parse_wish(body, &wish);
    if (wrong) return fail(400, reply, wrong);
    struct gw_worker *w = find_worker(api, model, strlen(model));
    if (!w) return fail(404, reply, "no such model here");

    int error = gw_session_open(gw_worker_sessions(w), &wish, &grant);
    if (error) return fail(error == -EBUSY ? 503 : error == -EINVAL ? 400 : 500, reply, gw_last_error());
    struct gw_api_session *s = remember(api, w, grant.index, connection);
    if (!s) {
        gw_session_close(gw_worker_sessions(w), grant.index);
        return fail(500, reply, "out of memory");
    }
    return done(201, reply, grant_json(api, s, &grant));
}

static void close_session(struct gw_api_session **link)
{
    struct gw_api_session *s = *link;
    gw_session_close(gw_worker_sessions(s->worker), s->index);
    *link = s->next;
    free(s);
}

static unsigned delete_session(struct gw_api *api, const char *id, json_t **reply)
{
    for (struct gw_api_session **link = &api->open; *link; link = &(*link)->next)
        if (!strcmp((*link)->id, id)) {
            close_session(link);
            return done(200, reply, json_object());
        }
    return fail(404, reply, "no such session");
}

/* ---- the paths ---- */

static unsigned route(struct gw_api *api, const char *method, const char *path, const json_t *body,
                      const void *connection, json_t **reply)
{
    if (!strcmp(path, "/v2"))
        return done(
            200, reply,
            json_pack("{s:s, s:s, s:[s]}", "name", "gpuwire", "version", GW_VERSION, "extensions", "rdma"));
    if (!strcmp(path, "/v2/health/live") || !strcmp(path, "/v2/health/ready"))
        return done(200, reply, json_object());
    if (!strncmp(path, "/v2/models/", 11)) return call_model(api, method, path + 11, reply);
    if (!strcmp(path, "/v2/rdma/sessions")) {
        if (strcmp(method, "POST")) return fail(405, reply, "POST only");
        return open_session(api, body, connection, reply);
    }
    if (!strncmp(path, "/v2/rdma/sessions/", 18)) {
        if (strcmp(method, "DELETE")) return fail(405, reply, "DELETE only");
        return delete_session(api, path + 18, reply);
    }
    return fail(404, reply, "no such call; see docs/serving.md");
}

unsigned gw_api_call(void *ctx, const char *method, const char *path, const json_t *body,
                     const void *connection, json_t **reply)
{
    struct gw_api *api = ctx;
    pthread_mutex_lock(&api->lock);
    unsigned status = route(api, method, path, body, connection, reply);
    pthread_mutex_unlock(&api->lock);
    return status;
}

void gw_api_connection_closed(void *ctx, const void *connection)
{
    struct gw_api *api = ctx;
    pthread_mutex_lock(&api->lock);
    for (struct gw_api_session **link = &api->open; *link;)
        if ((*link)->connection == connection)
            close_session(link);
        else
            link = &(*link)->next;
    pthread_mutex_unlock(&api->lock);
}

/* Closes the worker's sessions whose queue pair has failed, and says so. */
static void close_failed(struct gw_api *api, const struct gw_worker *w)
{
    for (struct gw_api_session **link = &api->open; *link;) {
        struct gw_api_session *s = *link;
        struct gw_fault fault;
        char why[160];
        if (s->worker != w || !gw_session_failed(gw_worker_sessions(w), s->index, &fault)) {
            link = &s->next;
            continue;
        }
        gw_fault_text(&fault, why, sizeof(why));
        fprintf(stderr, "gpuwire serve: session %.8s of model %s closed: %s\n", s->id, gw_worker_name(w),
                why);
        close_session(link);
    }
}

void gw_api_tend(struct gw_api *api)
{
    if (pthread_mutex_trylock(&api->lock)) return; /* a session is being opened: next time */
    for (size_t i = 0; i < api->workers; i++) {
        struct gw_worker *w = api->worker[i];
        struct gw_session_pool *pool = gw_worker_sessions(w);
        uint64_t failures = gw_session_pool_failures(pool);
        if (failures)
            fprintf(stderr, "gpuwire serve: model %s could not answer %llu requests: %s\n", gw_worker_name(w),
                    (unsigned long long)failures, strerror(-gw_worker_run_error(w)));
        if (gw_session_pool_broken(pool)) close_failed(api, w);
        gw_session_pool_tend(pool);
    }
    pthread_mutex_unlock(&api->lock);
}

void gw_api_free(struct gw_api *api)
{
    while (api->open) {
        struct gw_api_session *next = api->open->next;
        free(api->open);
        api->open = next;
    }
    free(api->worker);
    pthread_mutex_destroy(&api->lock);
}
