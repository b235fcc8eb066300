/* SPDX-License-Identifier: Apache-2.0 */
/* Any answer of a server over HTTP: what it says of a model, and of an inference. The client takes it, or says why
 * not; every tensor that it then shows lies in its memory, is aligned, and has the model's shape. */
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

/* Words of the protocol, so that bytes become JSON that means something. */
static const char *const words[] = {
    "{\"outputs\":[",
    "{\"inputs\":[",
    "{\"name\":\"y\"",
    "{\"name\":\"m\"",
    ",\"datatype\":\"FP32\"",
    ",\"datatype\":\"INT64\"",
    ",\"shape\":[1,4]",
    ",\"shape\":[2,4]",
    ",\"shape\":[2,3]",
    ",\"shape\":[-1,4]",
    ",\"shape\":[2,99999999999]",
    ",\"parameters\":{\"binary_data_size\":16}",
    ",\"parameters\":{\"binary_data_size\":48}",
    ",\"parameters\":{\"binary_data_size\":32}",
    ",\"data\":[1,2,3,4]",
    ",\"data\":[[1,2],[3,4,5,6]]",
    "}",
    "},",
    "]}",
    "],",
    "\"outputs\":[",
    "]",
    ",\"rdma\":{\"slots\":8,\"max_rows\":4}",
    "{\"model_stats\":[{\"batch_stats\":[{\"batch_size\":1}]",
    "{\"error\":\"no\"}",
};
#define WORDS (sizeof(words) / sizeof(words[0]))
#define TEXT  4096

/* Writes what the bytes stand for, up to the byte 0xff, and returns how many bytes it took. */
static size_t expand(const uint8_t *data, size_t size, char *text, size_t *length)
{
    size_t i = 0;
    *length = 0;
    for (; i < size && data[i] != 0xff; i++) {
        const char one[2] = {(char)data[i], 0}, *word = data[i] < WORDS ? words[data[i]] : one;
        size_t n = data[i] < WORDS ? strlen(word) : 1;
        if (n > TEXT - *length) break;
        memcpy(text + *length, word, n);
        *length += n;
    }
    return i < size ? i + 1 : i;
}

/* JSON, then a tensor's bytes; the header says how long the JSON is, or something else. */
static void answer(const uint8_t *data, size_t size)
{
    static char text[2 * TEXT], header[64];
    struct gw_client *c = calloc(1, sizeof(*c));
    struct gw_answer a = {.limit = 4096};
    struct gw_client_reply r = {0};
    uint32_t kind = size ? data[0] : 0, rows = 1 + kind % 3;
    size_t length, at = size ? 1 + expand(data + 1, size - 1, text, &length) : (length = 0);
    size_t rest = size - at < TEXT ? size - at : TEXT;
    if (!c) return;
    make_model(c);
    if (rest) memcpy(text + length, data + at, rest);
    gw_answer_begin(&a);
    int n = snprintf(header, sizeof(header), "inference-header-content-length: %zu\r\n",
                     kind & 64 ? kind : length);
    if (kind & 128) gw_answer_header(&a, header, (size_t)n);
    size_t half = length / 2;
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

static void description(const uint8_t *data, size_t size)
{
    static char text[TEXT];
    struct gw_client_shape shape = {.rank = 2, .dims = {1, 7}};
    struct gw_client_opts opts = {.model = "m", .shapes = &shape, .shape_count = 1};
    struct gw_client_model m;
    struct gw_client_stats s;
    size_t length;
    expand(data, size, text, &length);
    json_t *json = json_loadb(text, length, 0, NULL);
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
    if (!size) return 0;
    (data[0] & 1 ? description : answer)(data + 1, size - 1);
    return 0;
}
