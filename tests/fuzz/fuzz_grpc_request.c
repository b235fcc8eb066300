/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A ModelInferRequest as a client may send it: any bytes, or a message put together from the input. Three
 * things must hold. The decoder agrees with protobuf-c on the whole message. Tensors stay inside the message.
 * The decoder takes as many elements as the model wants, or none.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/server/grpc/decode.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define require(x)                                                                                           \
    do {                                                                                                     \
        if (!(x)) {                                                                                          \
            fprintf(stderr, "line %d: %s\n", __LINE__, #x);                                                  \
            abort();                                                                                         \
        }                                                                                                    \
    } while (0)

typedef Inference__ModelInferRequest message_t;
typedef Inference__ModelInferRequest__InferInputTensor input_t;
typedef Inference__ModelInferRequest__InferInputTensor__ParametersEntry input_entry_t;
typedef Inference__ModelInferRequest__ParametersEntry entry_t;

enum { INPUTS = GW_MODEL_MAX_IO + 2, ELEMENTS = 40, ROOM = 512 };

static const uint8_t *in, *end;

static uint8_t take(void)
{
    return in < end ? *in++ : 0;
}

/* ---- a message from choices ---- */

static struct {
    message_t message;
    input_t input[INPUTS], *inputs[INPUTS];
    Inference__InferTensorContents contents[INPUTS];
    int64_t shape[INPUTS][10], wide[ELEMENTS];
    int32_t narrow[ELEMENTS];
    float real[ELEMENTS];
    ProtobufCBinaryData raw[INPUTS];
    Inference__InferParameter value[INPUTS];
    input_entry_t entry[INPUTS], *entries[INPUTS];
    Inference__InferParameter timeout;
    entry_t timeout_entry, *timeout_entries[1];
} m;

static void choose_value(Inference__InferParameter *v)
{
    inference__infer_parameter__init(v);
    switch (take() % 5) {
    case 0:
        v->parameter_choice_case = INFERENCE__INFER_PARAMETER__PARAMETER_CHOICE_STRING_PARAM;
        v->string_param = (char *)"region";
        break;
    case 1:
        v->parameter_choice_case = INFERENCE__INFER_PARAMETER__PARAMETER_CHOICE_INT64_PARAM;
        v->int64_param = (int8_t)take();
        break;
    case 2:
        v->parameter_choice_case = INFERENCE__INFER_PARAMETER__PARAMETER_CHOICE_UINT64_PARAM;
        v->uint64_param = take();
        break;
    case 3: v->parameter_choice_case = INFERENCE__INFER_PARAMETER__PARAMETER_CHOICE_BOOL_PARAM; break;
    default: break;
    }
}

static void choose_input(size_t i)
{
    static const char *const keys[] = {"shared_memory_region", "shared_memory_offset",
                                       "shared_memory_byte_size", "classification", "binary_data"};
    input_t *t = m.inputs[i] = &m.input[i];
    uint8_t what = take();
    inference__model_infer_request__infer_input_tensor__init(t);
    t->name = (char *)(what & 1 ? "x" : "");
    t->n_shape = what >> 1 & 15;
    if (t->n_shape > 10) t->n_shape = 10;
    t->shape = m.shape[i];
    if (what & 32) {
        inference__infer_tensor_contents__init(&m.contents[i]);
        t->contents = &m.contents[i];
        t->contents->int_contents = m.narrow;
        t->contents->n_int_contents = take() % ELEMENTS;
        t->contents->int64_contents = m.wide;
        t->contents->n_int64_contents = take() % ELEMENTS;
        t->contents->fp32_contents = m.real;
        t->contents->n_fp32_contents = take() % ELEMENTS;
    }
    if (!(what & 64)) return;
    inference__model_infer_request__infer_input_tensor__parameters_entry__init(&m.entry[i]);
    choose_value(&m.value[i]);
    m.entry[i].key = (char *)keys[take() % 5];
    m.entry[i].value = take() & 1 ? &m.value[i] : NULL;
    m.entries[i] = &m.entry[i];
    t->parameters = &m.entries[i];
    t->n_parameters = 1;
}

static uint8_t *build(size_t *bytes)
{
    memset(&m, 0, sizeof(m));
    inference__model_infer_request__init(&m.message);
    m.message.n_inputs = take() % INPUTS;
    m.message.inputs = m.inputs;
    for (size_t i = 0; i < ELEMENTS; i++) {
        m.narrow[i] = take() == 7 ? INT32_MIN : (int8_t)take();
        m.wide[i] = m.narrow[i];
    }
    for (size_t i = 0; i < m.message.n_inputs; i++) choose_input(i);
    m.message.n_raw_input_contents = take() & 3 ? m.message.n_inputs : take() % INPUTS;
    m.message.raw_input_contents = m.raw;
    for (size_t i = 0; i < m.message.n_raw_input_contents; i++)
        m.raw[i] = (ProtobufCBinaryData){take() % 160, (uint8_t *)m.wide};
    if (take() & 1) {
        inference__model_infer_request__parameters_entry__init(&m.timeout_entry);
        choose_value(&m.timeout);
        m.timeout_entry.key = (char *)(take() & 1 ? "timeout" : "priority");
        m.timeout_entry.value = &m.timeout;
        m.timeout_entries[0] = &m.timeout_entry;
        m.message.parameters = m.timeout_entries;
        m.message.n_parameters = 1;
    }
    *bytes = inference__model_infer_request__get_packed_size(&m.message);
    uint8_t *message = malloc(*bytes ? *bytes : 1);
    require(message && inference__model_infer_request__pack(&m.message, message) == *bytes);
    return message;
}

/* ---- what must hold ---- */

static void check_fill(const struct gw_grpc_request *q, uint32_t i, uint32_t dtype, uint32_t elements)
{
    uint8_t to[ROOM];
    struct gw_infer_error error = {.text = ""};
    uint64_t bytes = elements * gw_dtype_bytes(dtype);
    if (bytes > ROOM - 1) return;
    memset(to, 0xa5, sizeof(to));
    int failed = gw_grpc_fill(q, i, dtype, to, bytes, &error);
    require(to[bytes] == 0xa5 && !failed == !error.text[0]);
    if (!failed && q->raw[i].data) require(q->raw[i].bytes == bytes && !memcmp(to, q->raw[i].data, bytes));
}

static void check_against(const struct gw_grpc_request *q, const message_t *whole, const uint8_t *message,
                          size_t bytes)
{
    uint32_t raws = 0;
    require(whole && whole->n_inputs == q->infer.inputs && whole->n_outputs == q->infer.outputs);
    require(!strcmp(whole->model_name, q->infer.model) && !strcmp(whole->id, q->id));
    for (uint32_t i = 0; i < q->infer.inputs; i++) {
        const struct gw_grpc_raw *r = &q->raw[i];
        require(!strcmp(whole->inputs[i]->name, q->infer.input[i].name) &&
                q->infer.input[i].rank <= GW_MODEL_MAX_RANK);
        require(!!r->data + !!q->contents[i] + !!q->infer.input[i].region == 1);
        if (!r->data) continue;
        require(r->data >= message && r->bytes <= bytes && r->data + r->bytes <= message + bytes);
        const ProtobufCBinaryData *theirs = &whole->raw_input_contents[raws++];
        require(theirs->len == r->bytes && (!r->bytes || !memcmp(theirs->data, r->data, r->bytes)));
    }
    require(raws == whole->n_raw_input_contents);
}

static void check(const uint8_t *message, size_t bytes, uint32_t dtype, uint32_t elements)
{
    struct gw_grpc_request q;
    struct gw_infer_error error = {.text = ""};
    int failed = gw_grpc_decode(message, bytes, &q, &error);
    require(!failed == !error.text[0]);
    if (!failed) {
        message_t *whole = inference__model_infer_request__unpack(NULL, bytes, message);
        check_against(&q, whole, message, bytes);
        inference__model_infer_request__free_unpacked(whole, NULL);
        for (uint32_t i = 0; i < q.infer.inputs; i++)
            if (q.raw[i].data || q.contents[i]) check_fill(&q, i, dtype, elements);
    }
    gw_grpc_request_free(&q);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    in = data;
    end = data + size;
    uint8_t how = take();
    uint32_t dtype = 1 + take() % 13, elements = take() % 64;
    if (how & 1) {
        size_t bytes;
        uint8_t *message = build(&bytes);
        for (uint8_t n = how >> 6; n && bytes; n--) { /* and a little of it is wrong */
            size_t at = (size_t)take() << 8 | take();
            message[at % bytes] ^= take();
        }
        check(message, bytes, dtype, elements);
        free(message);
    } else {
        uint8_t *message =
            malloc(end > in ? (size_t)(end - in) : 1); /* so that a step beyond it is noticed */
        require(message);
        if (end > in) memcpy(message, in, (size_t)(end - in));
        check(message, (size_t)(end - in), dtype, elements);
        free(message);
    }
    return 0;
}
