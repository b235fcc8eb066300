/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A gRPC server's answer to a client: any bytes, or a ModelInferResponse put together from the input. A
 * tensor that the client is shown has the model's type and shape, and all its bytes can be read. The server's
 * answer about a model becomes a description that fits, or none.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/client/grpc_answer.h"
#include "src/server/grpc/wire/split.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

typedef Inference__ModelInferResponse__InferOutputTensor output_t;

enum { OUTPUTS = 4, ELEMENTS = 24, ROOM = 2048 };

static const uint8_t *in, *end;

static uint8_t take(void)
{
    return in < end ? *in++ : 0;
}

/* ---- a message from choices ---- */

static struct {
    Inference__ModelInferResponse message;
    output_t output[OUTPUTS], *outputs[OUTPUTS];
    Inference__InferTensorContents contents[OUTPUTS];
    ProtobufCBinaryData raw[OUTPUTS];
    int64_t shape[OUTPUTS][3], wide[ELEMENTS];
    float real[ELEMENTS];
} m;

static void choose_output(size_t i)
{
    static const char *const names[] = {"a", "b", "c", ""}, *const types[] = {"FP32", "INT64", "BOOL", ""};
    output_t *o = m.outputs[i] = &m.output[i];
    uint8_t what = take();
    inference__model_infer_response__infer_output_tensor__init(o);
    o->name = (char *)names[what & 3];
    o->datatype = (char *)types[what >> 2 & 3];
    o->n_shape = what >> 4 & 3;
    for (size_t k = 0; k < 3; k++) m.shape[i][k] = (int8_t)take();
    o->shape = m.shape[i];
    if (what & 64) {
        inference__infer_tensor_contents__init(&m.contents[i]);
        o->contents = &m.contents[i];
        o->contents->n_fp32_contents = take() % ELEMENTS;
        o->contents->fp32_contents = m.real;
        o->contents->n_int64_contents = take() % ELEMENTS;
        o->contents->int64_contents = m.wide;
    }
    m.raw[i] = (ProtobufCBinaryData){take() % sizeof(m.wide), (uint8_t *)m.wide};
}

static size_t build(uint8_t *bytes)
{
    memset(&m, 0, sizeof(m));
    inference__model_infer_response__init(&m.message);
    m.message.n_outputs = take() % (OUTPUTS + 1);
    m.message.outputs = m.outputs;
    for (size_t i = 0; i < m.message.n_outputs; i++) choose_output(i);
    m.message.n_raw_output_contents = take() & 1 ? m.message.n_outputs : take() % (OUTPUTS + 1);
    m.message.raw_output_contents = m.raw;
    size_t size = inference__model_infer_response__get_packed_size(&m.message);
    return size <= ROOM ? inference__model_infer_response__pack(&m.message, bytes) : 0;
}

/* ---- what becomes of it ---- */

static const struct gw_client_tensor a = {.name = "a",
                                          .dtype = GW_DTYPE_F32,
                                          .rank = 2,
                                          .dims = {1, 3},
                                          .bytes = 12,
                                          .batched = 1},
                                     b = {.name = "b", .dtype = GW_DTYPE_I64, .rank = 1, .dims = {-1}};

static void answer(const uint8_t *bytes, size_t size)
{
    static struct gw_client c;
    struct gw_grpc_outputs outputs = {0};
    struct gw_client_reply reply = {0};
    c.model.outputs = 2;
    c.model.output[0] = a;
    c.model.output[1] = b;
    gw_grpc_read_answer(&c, &outputs, bytes, size, 2, &reply);
    if (reply.error ? !*reply.why || reply.outputs : reply.outputs != 2) abort();
    for (uint32_t i = 0; i < reply.outputs; i++) {
        const struct gw_client_output *o = &reply.out[i];
        uint64_t elements = 1;
        uint8_t sum = 0;
        for (uint32_t k = 0; k < o->rank; k++) elements *= (uint64_t)o->dims[k];
        if (o->bytes != elements * gw_dtype_bytes(o->dtype) || (uintptr_t)o->data % GW_SERVE_ALIGN) abort();
        for (uint64_t k = 0; k < o->bytes; k++) sum ^= ((const uint8_t *)o->data)[k];
        __asm__ volatile("" : : "r"(sum)); /* every byte was read */
    }
    if (!reply.error && (reply.out[0].bytes != 24 || reply.out[0].dims[0] != 2)) abort();
    gw_grpc_outputs_free(&outputs);
}

static void describe(const uint8_t *bytes, size_t size)
{
    struct gw_client_opts opts = {.model = "m"};
    struct gw_client_model model;
    struct gw_client_stats stats;
    json_t *metadata = gw_grpc_read_metadata(bytes, size), *config = gw_grpc_read_config(bytes, size),
           *counted = gw_grpc_read_statistics(bytes, size);
    if (metadata && !gw_describe_model(metadata, &opts, &model))
        for (uint32_t i = 0; i < model.inputs; i++)
            if (!model.input[i].bytes || !gw_dtype_bytes(model.input[i].dtype)) abort();
    if (counted && !gw_describe_stats(counted, &stats) && stats.batches > 32) abort();
    json_decref(metadata);
    json_decref(config);
    json_decref(counted);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    uint8_t built[ROOM];
    if (!size) return 0;
    in = data + 1;
    end = data + size;
    switch (data[0] % 3) {
    case 0: answer(in, size - 1); break;
    case 1: answer(built, build(built)); break;
    default: describe(in, size - 1);
    }
    return 0;
}
