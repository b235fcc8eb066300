/* SPDX-License-Identifier: Apache-2.0 */
/* Any answer of a server over HTTP: what it says of a model, and of an inference. The client takes it, or
 * says why not; every tensor that it then shows lies in its memory, is aligned, and has the model's shape. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/client/http_answer.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Two outputs: one of a size that varies, and one that leaves it open. */
static void make_model(struct gw_client *c)
{
    struct gw_client_tensor y = {
        .name = "y", .dtype = GW_DTYPE_F32, .rank = 2, .dims = {1, 4}, .bytes = 16, .batched = 1};
    struct gw_client_tensor m = {.name = "m", .dtype = GW_DTYPE_I64, .rank = 2, .dims = {2, -1}};
    c->model.outputs = 2;
    c->model.output[0] = y;
    c->model.output[1] = m;
}

static volatile uint64_t touch; /* so that every byte is read */

static void look_at(const struct gw_client *c, const struct gw_client_reply *r, uint32_t rows)
{
    if (r->error ? r->outputs || !r->why[0] : r->outputs != 2 || r->why[0]) abort();
    for (uint32_t i = 0; i < r->outputs; i++) {
        const struct gw_client_output *o = &r->out[i];
        uint64_t bytes = gw_dtype_bytes(o->dtype);
        for (uint32_t k = 0; k < o->rank; k++) bytes *= (uint64_t)o->dims[k];
        if (bytes != o->bytes || o->dtype != c->model.output[i].dtype || (uintptr_t)o->data % 64) abort();
        if (i == 0 && o->dims[0] != rows) abort();
        for (uint64_t k = 0; k < bytes; k++) touch += ((const uint8_t *)o->data)[k];
    }
}

/* The bytes choose what each part of the JSON says; 0 is what is right. */
static const char *const names[] = {"y", "m", "x", ""};
static const char *const types[] = {"FP32", "INT64", "BYTES", "BF16"};
static const char *const shapes[] = {"[1,4]",  "[2,3]",   "[2,4]",           "[3,4]",
                                     "[-1,4]", "[-1,-1]", "[2,-1]",          "[0]",
                                     "[2,0]",  "7",       "[2,99999999999]", "[1,1,1,1,1,1,1,1,1]"};
static const char *const payloads[] = {"\"parameters\":{\"binary_data_size\":16}",
                                       "\"parameters\":{\"binary_data_size\":48}",
                                       "\"parameters\":{\"binary_data_size\":32}",
                                       "\"parameters\":{\"binary_data_size\":-1}",
                                       "\"data\":[1,2,3,4.5]",
                                       "\"data\":[[1,2,3],[4,5,6]]",
                                       "\"data\":[true,null]"};
#define PICK(list, n) (list)[(n) % (sizeof(list) / sizeof((list)[0]))]
#define TEXT          8192

struct bytes {
    const uint8_t *at;
    size_t left;
};

static uint8_t next(struct bytes *b)
{
    if (!b->left) return 0;
    b->left--;
    return *b->at++;
}

static size_t tensors(struct bytes *b, char *to, const char *list)
{
    uint32_t count = 1 + next(b) % 3;
    size_t n = (size_t)sprintf(to, "\"%s\":[", list);
    for (uint32_t i = 0; i < count; i++) {
        const char *name = PICK(names, i + next(b)), *type = PICK(types, i + next(b));
        const char *shape = PICK(shapes, i + next(b)), *payload = PICK(payloads, i + next(b));
        n += (size_t)sprintf(to + n, "%s{\"name\":\"%s\",\"datatype\":\"%s\",\"shape\":%s,%s}", i ? "," : "",
                             name, type, shape, payload);
    }
    return n + (size_t)sprintf(to + n, "]");
}

/* Some bytes become others. */
static void damage(struct bytes *b, char *text, size_t length)
{
    for (uint32_t i = next(b) % 4; i > 0 && length; i--) {
        size_t at = (size_t)(next(b) << 8 | next(b)) % length;
        text[at] = (char)next(b);
    }
}

/* JSON, then the tensors' bytes; the header says how long the JSON is, or something else. */
static void answer(struct bytes *b)
{
    static char text[TEXT];
    char header[64];
    struct gw_client *c = calloc(1, sizeof(*c));
    struct gw_answer a = {.limit = 4096};
    struct gw_client_reply r = {0};
    if (!c) return;
    uint32_t rows = 1 + next(b) % 3, lie = next(b);
    size_t length = (size_t)sprintf(text, "{");
    length += tensors(b, text + length, "outputs");
    length += (size_t)sprintf(text + length, "}");
    damage(b, text, length);
    size_t rest = b->left < 512 ? b->left : 512, half = length / 2;
    if (rest) memcpy(text + length, b->at, rest);
    make_model(c);
    gw_answer_begin(&a);
    int n = snprintf(header, sizeof(header), "inference-header-content-length: %zu\r\n",
                     lie & 4 ? lie * lie : length);
    if (!(lie & 1)) gw_answer_header(&a, header, (size_t)n);
    if (!gw_answer_take(&a, text, half, length + rest) &&
        !gw_answer_take(&a, text + half, length + rest - half, 0)) {
        gw_answer_read(c, &a, 200, rows, &r);
        look_at(c, &r, rows);
        gw_answer_read(c, &a, 503, rows, &r);
        look_at(c, &r, rows);
    }
    gw_answer_free(&a);
    free(c);
}

static void description(struct bytes *b)
{
    static char text[TEXT];
    struct gw_client_shape shape = {.rank = 2, .dims = {1, 7}};
    struct gw_client_opts opts = {.model = "m", .shapes = &shape, .shape_count = 1};
    struct gw_client_model m;
    struct gw_client_stats s;
    size_t n = (size_t)sprintf(text,
                               "{\"rdma\":{\"slots\":%d,\"max_rows\":%d},\"model_stats\":[{\"batch_stats\":["
                               "{\"batch_size\":%u,\"compute_infer\":{\"count\":3}}]}],",
                               (int8_t)next(b), (int8_t)next(b), next(b));
    n += tensors(b, text + n, "inputs");
    n += (size_t)sprintf(text + n, ",");
    n += tensors(b, text + n, "outputs");
    n += (size_t)sprintf(text + n, "}");
    damage(b, text, n);
    json_t *json = json_loadb(text, n, 0, NULL);
    if (!json) return;
    if (!gw_describe_model(json, &opts, &m)) {
        for (uint32_t i = 0; i < m.inputs; i++)
            if (!m.input[i].bytes || m.input[i].rank > GW_CLIENT_MAX_RANK || !m.input[i].dtype) abort();
        if (!m.inputs || !m.outputs) abort();
    }
    if (!gw_describe_stats(json, &s) && s.batches > 32) abort();
    json_decref(json);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct bytes b = {data, size};
    (next(&b) & 1 ? description : answer)(&b);
    return 0;
}
