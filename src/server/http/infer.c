/* SPDX-License-Identifier: Apache-2.0 */
/* An inference over HTTP, from its path to its answer. */
#include "src/server/http/infer.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <gpuwire/exec.h>

#include "src/server/http/ask.h"
#include "src/server/http/elements.h"
#include "src/door/text.h"
#include "src/trace/trace.h"

#define NO_HEADER UINT64_MAX /* no Inference-Header-Content-Length: the whole body is JSON */
#define STEP      (64u << 10)
#define GONE      499 /* in the access log alone: the client had gone */

enum stage {
    HEADER, /* the JSON comes */
    TENSORS,
    FAILED /* what still comes is thrown away */
};

struct gw_http_infer {
    struct gw_http_infer_opts opts;
    const void *connection;
    char model[GW_INFER_NAME], version[32], who[64];
    uint64_t body;   /* the Content-Length; NO_HEADER: not told */
    uint64_t header; /* bytes of JSON, or NO_HEADER */
    struct gw_text json;
    uint64_t held; /* of opts.room */
    enum stage stage;
    struct gw_http_ask ask;
    struct gw_infer_run *run;
    uint32_t input; /* the one whose elements come next */
    uint64_t done;  /* bytes of them that have come */
    struct gw_infer_error error;
    struct gw_access_request line; /* what the access log will say, once the answer is written */
    uint64_t began;
};

/* ---- the path and the headers ---- */

static int split_path(const char *path, char *model, size_t model_room, char *version, size_t version_room)
{
    const char *name = path + strlen("/v2/models/");
    size_t n = strcspn(name, "/"), v = 0;
    const char *rest = name + n, *number = "";
    if (!strncmp(rest, "/versions/", 10)) {
        number = rest + 10;
        v = strcspn(number, "/");
        rest = number + v;
    }
    if (strcmp(rest, "/infer") || !n || n >= model_room || v >= version_room) return -1;
    memcpy(model, name, n);
    model[n] = 0;
    memcpy(version, number, v);
    version[v] = 0;
    return 0;
}

bool gw_http_is_infer(const char *path)
{
    char model[GW_INFER_NAME], version[32];
    return !strncmp(path, "/v2/models/", 11) &&
           !split_path(path, model, sizeof(model), version, sizeof(version));
}

/* A header's number; -1: it is none. */
static int header_number(const struct gw_http_request *r, const char *name, uint64_t *out)
{
    const char *text = gw_http_header(r, name);
    char *end;
    *out = NO_HEADER;
    if (!text) return 0;
    errno = 0;
    *out = strtoull(text, &end, 10);
    return errno || *end || *text < '0' || *text > '9' ? -1 : 0;
}

static void http_infer_fail(struct gw_http_infer *c, enum gw_infer_code code, const char *why)
{
    if (c->stage != FAILED) gw_infer_fail(&c->error, code, "%s", why);
    c->stage = FAILED;
}

struct gw_http_infer *gw_http_infer_open(const struct gw_http_infer_opts *opts,
                                         const struct gw_http_request *r)
{
    struct gw_http_infer *c = calloc(1, sizeof(*c));
    if (!c) return NULL;
    c->opts = *opts;
    c->began = gw_deadline(0);
    c->connection = r->connection;
    snprintf(c->who, sizeof(c->who), "%s", r->who);
    split_path(r->path, c->model, sizeof(c->model), c->version, sizeof(c->version));
    GW_TRACE(server, http_request, r->who, r->path);
    if (header_number(r, "Content-Length", &c->body) ||
        header_number(r, "Inference-Header-Content-Length", &c->header))
        http_infer_fail(c, GW_INFER_INVALID, "Inference-Header-Content-Length: not a number of bytes");
    else if (c->header != NO_HEADER && c->header > c->opts.most)
        http_infer_fail(c, GW_INFER_INVALID,
                        "Inference-Header-Content-Length: more than the server takes (--max-body)");
    return c;
}

/* ---- the JSON is there ---- */

/* Elements that the JSON holds. */
static int read_elements(struct gw_http_infer *c)
{
    for (uint32_t i = 0; i < c->ask.request.inputs; i++) {
        const struct gw_span *span = c->ask.input[i].json;
        const struct gw_tensor_info *info = gw_infer_input_info(c->run, i);
        const char *why = "its datatype has no numbers in JSON: send it as binary data";
        uint64_t bytes;
        if (!span) continue;
        void *to = gw_infer_input(c->run, i, &bytes);
        if (gw_elements_in_json(info->dtype) &&
            !gw_elements_read(span->at, span->bytes, info->dtype, bytes / gw_dtype_bytes(info->dtype), to,
                              &why))
            continue;
        return gw_infer_fail(&c->error, GW_INFER_INVALID, "input '%.100s': %s", info->name, why);
    }
    return 0;
}

static int http_infer_check_sizes(struct gw_http_infer *c)
{
    for (uint32_t i = 0; i < c->ask.request.inputs; i++) {
        uint64_t bytes;
        gw_infer_input(c->run, i, &bytes);
        if (c->ask.input[i].binary && c->ask.input[i].binary_bytes != bytes)
            return gw_infer_fail(&c->error, GW_INFER_INVALID,
                                 "input '%.100s' got unexpected byte size %llu, expected %llu",
                                 gw_infer_input_info(c->run, i)->name,
                                 (unsigned long long)c->ask.input[i].binary_bytes, (unsigned long long)bytes);
    }
    return 0;
}

static int http_infer_parse(struct gw_http_infer *c)
{
    struct gw_infer_model m;
    if (gw_infer_find(c->opts.infer, c->model, c->version, &m, &c->error)) return -1;
    if (c->header == 0) return gw_http_ask_raw(&m, c->body == NO_HEADER ? 0 : c->body, &c->ask, &c->error);
    if (!c->json.bytes) return gw_infer_fail(&c->error, GW_INFER_INVALID, "the request has no body");
    return gw_http_ask_parse(c->json.at, c->json.bytes, &c->ask, &c->error);
}

/* Is the request refused before its elements? c->error says why. */
static bool http_infer_refused(struct gw_http_infer *c)
{
    gw_http_busy(c->connection, 1); /* it may wait for a slot, which is not the client's fault */
    gw_infer_enter(c->opts.infer);
    int wrong = http_infer_parse(c);
    gw_infer_leave(c->opts.infer); /* before gw_infer_begin, which enters itself */
    c->ask.request.model = c->model;
    c->ask.request.version = c->version;
    c->ask.request.who = c->who;
    c->ask.request.gone = gw_http_gone;
    c->ask.request.ctx = (void *)c->connection;
    wrong = wrong || gw_infer_begin(c->opts.infer, &c->ask.request, &c->run, &c->error);
    gw_http_busy(c->connection, 0);
    return wrong || http_infer_check_sizes(c) || read_elements(c);
}

/* To the next input whose elements come after the JSON. */
static void next_input(struct gw_http_infer *c)
{
    while (c->input < c->ask.request.inputs &&
           (!c->ask.input[c->input].binary || c->done == c->ask.input[c->input].binary_bytes)) {
        c->input++;
        c->done = 0;
    }
}

static void header_is_there(struct gw_http_infer *c)
{
    c->stage = http_infer_refused(c) ? FAILED : TENSORS;
    if (c->stage == TENSORS) next_input(c);
}

/* ---- the body ---- */

/* Counts memory for bodies that are being received: no client may take all there is. */
static bool may_hold(struct gw_http_infer *c, uint64_t bytes)
{
    uint64_t more = bytes > c->held ? (bytes - c->held + STEP - 1) / STEP * STEP : 0;
    if (bytes > c->opts.most) {
        http_infer_fail(c, GW_INFER_INVALID, "the body's JSON is longer than the server takes (--max-body)");
        return false;
    }
    if (gw_room_take(c->opts.room, c->who, more)) {
        http_infer_fail(
            c, GW_INFER_UNAVAILABLE,
            "the server is receiving too many long requests of this client in JSON: send binary data, or "
            "fewer "
            "at once");
        return false;
    }
    c->held += more;
    return true;
}

static size_t take_json(struct gw_http_infer *c, const char *data, size_t bytes)
{
    uint64_t left = c->header == NO_HEADER ? bytes : c->header - c->json.bytes;
    size_t n = bytes < left ? bytes : (size_t)left;
    if (may_hold(c, c->json.bytes + n)) gw_text_add(&c->json, data, n);
    if (c->json.broken) http_infer_fail(c, GW_INFER_INTERNAL, "out of memory");
    return n;
}

static size_t take_elements(struct gw_http_infer *c, const char *data, size_t bytes)
{
    uint64_t size;
    if (c->input == c->ask.request.inputs) {
        http_infer_fail(c, GW_INFER_INVALID,
                        "unexpected additional input data: the body is longer than the inputs it announces");
        return bytes;
    }
    uint8_t *to = gw_infer_input(c->run, c->input, &size);
    size_t n = size - c->done < bytes ? (size_t)(size - c->done) : bytes;
    memcpy(to + c->done, data, n);
    c->done += n;
    next_input(c);
    return n;
}

void gw_http_infer_piece(struct gw_http_infer *c, const char *data, size_t bytes)
{
    c->line.in += bytes;
    while (bytes && c->stage != FAILED) {
        if (c->stage == HEADER && c->json.bytes == c->header) {
            header_is_there(c);
            continue;
        }
        size_t n = c->stage == HEADER ? take_json(c, data, bytes) : take_elements(c, data, bytes);
        data += n;
        bytes -= n;
    }
}

/* ---- the answer ---- */

static int is_binary(const struct gw_http_infer *c, const struct gw_infer_output *o)
{
    return c->ask.request.outputs ? c->ask.binary_output[o->asked] : c->ask.binary_all;
}

static json_t *http_infer_describe(const struct gw_http_infer *c, const struct gw_infer_output *o)
{
    const struct gw_infer_tensor *asked = &c->ask.request.output[o->asked];
    json_t *shape = json_array(), *parameters = json_object();
    for (uint32_t i = 0; i < o->rank; i++) json_array_append_new(shape, json_integer(o->dims[i]));
    if (!o->data) {
        json_object_set_new(parameters, "shared_memory_region", json_string(asked->region));
        json_object_set_new(parameters, "shared_memory_byte_size", json_integer((json_int_t)o->bytes));
        if (asked->region_offset)
            json_object_set_new(parameters, "shared_memory_offset",
                                json_integer((json_int_t)asked->region_offset));
    } else if (is_binary(c, o)) {
        json_object_set_new(parameters, "binary_data_size", json_integer((json_int_t)o->bytes));
    }
    json_t *all = json_pack("{s:s, s:s, s:o}", "name", o->info->name, "datatype",
                            gw_dtype_name(o->info->dtype), "shape", shape);
    if (json_object_size(parameters)) json_object_set(all, "parameters", parameters);
    json_decref(parameters);
    return all;
}

static int write_output(struct gw_http_infer *c, const struct gw_infer_output *o, struct gw_text *t,
                        struct gw_http_answer *answer)
{
    gw_text_json(t, http_infer_describe(c, o));
    if (!o->data) return 0;
    if (is_binary(c, o)) {
        answer->part[answer->parts++] = (struct gw_http_part){o->data, o->bytes};
        return 0;
    }
    if (!gw_elements_in_json(o->info->dtype))
        return gw_infer_fail(&c->error, GW_INFER_INVALID,
                             "output '%.100s': its datatype has no numbers in JSON: ask for binary_data",
                             o->info->name);
    if (t->broken) return 0;
    t->bytes--; /* the brace that ends it */
    gw_text_add(t, ",\"data\":", 8);
    gw_elements_write(t, o->info->dtype, o->bytes / gw_dtype_bytes(o->info->dtype), o->data);
    gw_text_add(t, "}", 1);
    return 0;
}

static int write_answer(struct gw_http_infer *c, struct gw_text *t, struct gw_http_answer *answer)
{
    const struct gw_infer_model *m = gw_infer_run_model(c->run);
    const struct gw_infer_output *o;
    gw_text_add(t, "{", 1);
    if (c->ask.id) {
        gw_text_add(t, "\"id\":", 5);
        gw_text_json(t, json_string(c->ask.id));
        gw_text_add(t, ",", 1);
    }
    gw_text_add(t, "\"model_name\":", 13);
    gw_text_json(t, json_string(m->name));
    gw_text_printf(t, ",\"model_version\":\"%u\",\"outputs\":[", m->version);
    for (uint32_t i = 0; (o = gw_infer_output(c->run, i)); i++) {
        if (i) gw_text_add(t, ",", 1);
        if (write_output(c, o, t, answer)) return -1;
    }
    gw_text_add(t, "]}", 2);
    return t->broken ? gw_infer_fail(&c->error, GW_INFER_INTERNAL, "out of memory") : 0;
}

static void http_infer_release(void *ctx)
{
    gw_infer_end(ctx);
}

static int http_infer_run(struct gw_http_infer *c)
{
    gw_http_busy(c->connection, 1); /* the model takes its time, not the client */
    int wrong = gw_infer_wait(c->run, &c->error);
    gw_http_busy(c->connection, 0);
    return wrong;
}

/* While the run is there. */
static void http_infer_account(struct gw_http_infer *c)
{
    if (c->run) gw_infer_account(c->run, &c->line);
    c->line.model = c->model; /* the worker may go before the line is written */
}

void gw_http_infer_refuse(struct gw_http_infer *c, unsigned status, const char *why)
{
    c->line.status = status;
    c->line.error = why;
    http_infer_account(c);
}

/* The answer has left, or never will. */
static void http_infer_log_line(struct gw_http_infer *c)
{
    if (!c->line.status) {
        c->line.status = GONE;
        c->line.error = "the client has gone before its request was complete";
        http_infer_account(c);
    }
    c->line.client = c->who;
    c->line.door = "http";
    c->line.id = c->ask.id;
    c->line.total_ns = gw_deadline(0) - c->began;
    gw_access_log(gw_infer_access(c->opts.infer), &c->line);
}

static void write_refusal(struct gw_http_infer *c, struct gw_http_answer *answer)
{
    json_t *why = gw_http_error(c->error.text);
    *answer =
        (struct gw_http_answer){.status = gw_infer_http_status(c->error.code), .retry_ns = c->error.retry_ns};
    answer->text = json_dumps(why, JSON_COMPACT);
    if (answer->text) answer->bytes = strlen(answer->text);
    json_decref(why);
    c->line.error = c->error.text;
    c->line.status = answer->status;
    c->line.out = answer->bytes;
    http_infer_account(c);
}

void gw_http_infer_finish(struct gw_http_infer *c, struct gw_http_answer *answer)
{
    struct gw_text t = {0};
    if (c->stage == HEADER && c->header != NO_HEADER && c->json.bytes < c->header)
        http_infer_fail(c, GW_INFER_INVALID, "Inference-Header-Content-Length: the body is shorter");
    if (c->stage == HEADER) header_is_there(c);
    if (c->stage == TENSORS && c->input < c->ask.request.inputs)
        http_infer_fail(c, GW_INFER_INVALID, "the body is shorter than the inputs it announces");
    if (c->stage == FAILED || http_infer_run(c) || write_answer(c, &t, answer)) {
        free(t.at);
        write_refusal(c, answer);
        return;
    }
    answer->status = 200;
    c->line.status = 200;
    c->line.out = t.bytes;
    for (uint32_t i = 0; i < answer->parts; i++) c->line.out += answer->part[i].bytes;
    http_infer_account(c);
    answer->text = t.at;
    answer->bytes = t.bytes;
    answer->release = http_infer_release; /* the outputs stay until they are sent */
    answer->ctx = c->run;
    c->run = NULL;
}

void gw_http_infer_free(struct gw_http_infer *c)
{
    if (!c) return;
    http_infer_log_line(c);
    gw_room_give(c->opts.room, c->who, c->held);
    gw_infer_end(c->run);
    gw_http_ask_free(&c->ask);
    free(c->json.at);
    free(c);
}
