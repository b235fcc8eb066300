/* SPDX-License-Identifier: Apache-2.0 */
/* Reads an HTTP answer while it arrives: headers, JSON, then tensors. */
#include "src/client/http_answer.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "src/client/http_json.h"
#include "src/door/plain.h"

#define LENGTH_HEADER "Inference-Header-Content-Length:"

static size_t http_answer_up(size_t v)
{
    return (v + GW_SERVE_ALIGN - 1) / GW_SERVE_ALIGN * GW_SERVE_ALIGN;
}

/* ---- as it comes ---- */

void gw_answer_begin(struct gw_answer *a)
{
    a->bytes = a->shift = 0;
    a->json = UINT64_MAX;
    a->why[0] = 0;
}

void gw_answer_free(struct gw_answer *a)
{
    free(a->buffer);
    free(a->apart);
}

void gw_answer_header(struct gw_answer *a, const char *line, size_t bytes)
{
    const size_t name = strlen(LENGTH_HEADER);
    char number[24] = "", *end;
    if (bytes >= 5 && !strncmp(line, "HTTP/", 5)) gw_answer_begin(a); /* another answer than "100 Continue" */
    if (bytes <= name || bytes - name >= sizeof(number) || strncasecmp(line, LENGTH_HEADER, name)) return;
    memcpy(number, line + name, bytes - name);
    char *begin = number + strspn(number, " \t");
    uint64_t json = strtoull(begin, &end, 10);
    /* What is no number is more than any body has, and refused when the body is there. */
    a->json = *begin >= '0' && *begin <= '9' && !end[strspn(end, " \t\r\n")] ? json : UINT64_MAX - 1;
}

static int http_answer_grow(uint8_t **buffer, size_t *room, size_t wanted)
{
    if (wanted <= *room) return 0;
    size_t size = http_answer_up(wanted > *room + *room / 2 ? wanted : *room + *room / 2);
    uint8_t *bigger = aligned_alloc(GW_SERVE_ALIGN, size);
    if (!bigger) return -ENOMEM;
    if (*room) memcpy(bigger, *buffer, *room);
    free(*buffer);
    *buffer = bigger;
    *room = size;
    return 0;
}

int gw_answer_take(struct gw_answer *a, const void *data, size_t bytes, uint64_t expected)
{
    if (!bytes) return 0;
    if (bytes > a->limit - a->bytes) return -1;
    if (!a->bytes) a->shift = a->json < a->limit ? http_answer_up(a->json) - a->json : 0;
    uint64_t whole = a->bytes + bytes;
    if (expected > whole && expected <= a->limit) whole = expected;
    if (http_answer_grow(&a->buffer, &a->room, a->shift + whole)) return -1;
    memcpy(a->buffer + a->shift + a->bytes, data, bytes);
    a->bytes += bytes;
    return 0;
}

/* ---- as it is read ---- */

struct reading {
    struct gw_client *c;
    struct gw_answer *a;
    struct gw_client_reply *reply;
    const uint8_t *at, *end; /* what is left of the binary part */
    size_t apart;            /* bytes of a->apart in use */
};

static int http_answer_wrong(struct gw_answer *a, int err, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
static int http_answer_wrong(struct gw_answer *a, int err, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(a->why, sizeof(a->why), format, args);
    va_end(args);
    return err;
}

/* Triton and KServe use one status for several reasons; their words tell them apart. */
static int http_answer_error_of(long status, const char *said)
{
    switch (status) {
    case 401:
    case 403: return -EACCES;
    case 408:
    case 504: return -ETIME;
    case 429: return -EBUSY;
    case 503: return strcasestr(said, "timeout") || strcasestr(said, "deadline") ? -ETIME : -ESHUTDOWN;
    default: return status >= 400 && status < 500 ? -EINVAL : -EREMOTEIO;
    }
}

static int http_answer_refused(struct gw_answer *a, const json_t *head, long status)
{
    const char *said = json_string_value(json_object_get(head, "error"));
    char plain[240];
    if (!said) said = "no reason given";
    return http_answer_wrong(a, http_answer_error_of(status, said), "refused with status %ld: %s", status,
                             gw_plain_text(plain, sizeof(plain), said));
}

static int http_answer_find_output(const struct gw_client *c, const json_t *output)
{
    const char *name = json_string_value(json_object_get(output, "name"));
    for (uint32_t i = 0; name && i < c->model.outputs; i++)
        if (!strcmp(c->model.output[i].name, name)) return (int)i;
    return -1;
}

/* The shape that the answer gives, and the bytes that it takes. */
static int http_answer_read_shape(const json_t *shape, const struct gw_client_tensor *t, uint32_t rows,
                                  struct gw_client_output *out)
{
    out->dtype = t->dtype;
    out->rank = (uint32_t)json_array_size(shape);
    out->bytes = gw_dtype_bytes(t->dtype);
    if (!json_is_array(shape) || out->rank != t->rank) return -EPROTO;
    for (uint32_t i = 0; i < t->rank; i++) {
        json_int_t dim = json_integer_value(json_array_get(shape, i));
        int64_t want = i == 0 && t->batched ? (int64_t)rows : t->dims[i];
        if (dim < 0 || (want != -1 && dim != want) ||
            __builtin_mul_overflow(out->bytes, (uint64_t)dim, &out->bytes))
            return -EPROTO;
        out->dims[i] = dim;
    }
    return 0;
}

/* Tensors lie one after the other; those that begin at a multiple of 64 may stay there. */
static int take_binary(struct reading *r, uint64_t bytes, struct gw_client_output *out)
{
    const uint8_t *at = r->at;
    if (bytes != out->bytes || bytes > (uint64_t)(r->end - at)) return -EPROTO;
    r->at += bytes;
    out->data = at;
    if ((uintptr_t)at % GW_SERVE_ALIGN == 0) return 0;
    memcpy(r->a->apart + r->apart, at, bytes);
    out->data = r->a->apart + r->apart;
    r->apart += http_answer_up(bytes);
    return 0;
}

static int take_text(struct reading *r, const json_t *data, struct gw_client_output *out)
{
    uint8_t *to = r->a->apart + r->apart;
    out->data = to;
    r->apart += http_answer_up(out->bytes);
    return gw_json_numbers(data, out->dtype, to, out->bytes / gw_dtype_bytes(out->dtype));
}

static int read_output(struct reading *r, const json_t *output, uint32_t rows)
{
    int i = http_answer_find_output(r->c, output);
    if (i < 0) return http_answer_wrong(r->a, -EPROTO, "the answer has an output that the model has not");
    const struct gw_client_tensor *t = &r->c->model.output[i];
    struct gw_client_output *out = &r->reply->out[i];
    const char *type = json_string_value(json_object_get(output, "datatype"));
    const json_t *size = json_object_get(json_object_get(output, "parameters"), "binary_data_size");
    if (out->data) return http_answer_wrong(r->a, -EPROTO, "output %s comes twice", t->name);
    if (!type || gw_dtype_parse(type) != t->dtype ||
        http_answer_read_shape(json_object_get(output, "shape"), t, rows, out))
        return http_answer_wrong(r->a, -EPROTO, "output %s has not the type or shape that the model has",
                                 t->name);
    /* What is kept apart takes no more than was sent: a number as text has a digit and a comma at least. */
    size_t room = r->apart + http_answer_up(out->bytes);
    if (room < out->bytes || room > GW_CLIENT_MAX_BYTES || (!size && out->bytes > 8 * r->a->bytes) ||
        (size && out->bytes > r->a->bytes))
        return http_answer_wrong(r->a, -EPROTO, "output %s is longer than the answer", t->name);
    int err = size ? take_binary(r, (uint64_t)json_integer_value(size), out)
                   : take_text(r, json_object_get(output, "data"), out);
    return err ? http_answer_wrong(r->a, err, "output %s has not the numbers that its shape promises",
                                   t->name)
               : 0;
}

/* All tensors that the answer promises, one beside the other: a place that does not move while they are
 * read. */
static int http_answer_reserve(struct reading *r, const json_t *outputs, uint32_t rows)
{
    size_t need = GW_SERVE_ALIGN; /* also a tensor without elements lies somewhere */
    for (size_t k = 0; k < json_array_size(outputs); k++) {
        const json_t *output = json_array_get(outputs, k);
        int i = http_answer_find_output(r->c, output);
        struct gw_client_output out;
        if (i < 0 ||
            http_answer_read_shape(json_object_get(output, "shape"), &r->c->model.output[i], rows, &out))
            continue;
        if (out.bytes > 8 * r->a->bytes || need > GW_CLIENT_MAX_BYTES) continue; /* refused when it is read */
        need += http_answer_up(out.bytes);
    }
    return http_answer_grow(&r->a->apart, &r->a->apart_room, need);
}

static int read_outputs(struct reading *r, const json_t *head, uint32_t rows)
{
    const json_t *outputs = json_object_get(head, "outputs");
    if (json_array_size(outputs) != r->c->model.outputs)
        return http_answer_wrong(r->a, -EPROTO, "the answer has %zu outputs, the model %u",
                                 json_array_size(outputs), r->c->model.outputs);
    int err = http_answer_reserve(r, outputs, rows);
    if (err) return http_answer_wrong(r->a, err, "no memory for the answer");
    for (size_t i = 0; !err && i < r->c->model.outputs; i++)
        err = read_output(r, json_array_get(outputs, i), rows);
    if (!err && r->at != r->end)
        err = http_answer_wrong(r->a, -EPROTO, "the answer is longer than its tensors");
    return err;
}

void gw_answer_read(struct gw_client *c, struct gw_answer *a, long status, uint32_t rows,
                    struct gw_client_reply *reply)
{
    const uint8_t *body = a->bytes ? a->buffer + a->shift : (const uint8_t *)"";
    uint64_t text = a->json == UINT64_MAX ? a->bytes : a->json > a->bytes ? 0 : a->json;
    struct reading r = {.c = c, .a = a, .reply = reply, .at = body + text, .end = body + a->bytes};
    json_error_t where;
    json_t *head = text ? json_loadb((const char *)body, text, 0, &where) : NULL;
    memset(reply->out, 0, sizeof(reply->out));
    if (status < 200 || status > 299)
        reply->error = http_answer_refused(a, head, status);
    else if (!head)
        reply->error = http_answer_wrong(a, -EPROTO, "the answer is not one of the Open Inference Protocol");
    else
        reply->error = read_outputs(&r, head, rows);
    json_decref(head);
    reply->why = a->why;
    reply->outputs = reply->error ? 0 : c->model.outputs;
}
