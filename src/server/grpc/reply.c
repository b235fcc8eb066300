/* SPDX-License-Identifier: Apache-2.0 */
/* Builds the answers to gRPC calls, and their errors. */
#include "src/server/grpc/reply.h"

#include <stdio.h>
#include <string.h>

#include "src/server/grpc/wire/pack.h"
#include "src/server/grpc/wire/split.h"

#define INFER_RESPONSE 2 /* the field's number in ModelStreamInferResponse */

typedef Inference__ModelInferResponse response_t;
typedef Inference__ModelInferResponse__InferOutputTensor tensor_t;

void gw_grpc_reply(struct gw_grpc_turn *turn, const ProtobufCMessage *message)
{
    gw_grpc_answer(turn, gw_grpc_pack(message));
}

void gw_grpc_fail(struct gw_grpc_turn *turn, const struct gw_infer_error *error)
{
    gw_grpc_refuse(turn, gw_infer_grpc_status(error->code), error->text);
}

const ProtobufCMessage *gw_grpc_request(struct gw_grpc_turn *turn, const ProtobufCMessageDescriptor *type,
                                        struct gw_grpc_arena *arena)
{
    char why[96];
    size_t bytes = 0;
    const uint8_t *message = gw_grpc_turn_message(turn, &bytes);
    gw_grpc_arena_open(arena, bytes);
    const ProtobufCMessage *m = protobuf_c_message_unpack(type, &arena->allocator, bytes, message);
    if (!m) {
        snprintf(why, sizeof(why), "the message is not a valid %s", type->short_name);
        gw_grpc_refuse(turn, GW_GRPC_INVALID_ARGUMENT, why);
    }
    return m;
}

/* ---- answers to inferences ---- */

/* All that an answer is made of but the tensors' elements. */
struct head {
    response_t message;
    tensor_t tensor[GW_MODEL_MAX_IO], *tensors[GW_MODEL_MAX_IO];
    int64_t dims[GW_MODEL_MAX_IO][GW_MODEL_MAX_RANK];
    /* Of tensors in shared memory, and of the whole. */
    Inference__InferParameter region[GW_MODEL_MAX_IO], size[GW_MODEL_MAX_IO], final;
    Inference__ModelInferResponse__InferOutputTensor__ParametersEntry entry[GW_MODEL_MAX_IO][2],
        *entries[GW_MODEL_MAX_IO][2];
    Inference__ModelInferResponse__ParametersEntry last, *lasts;
    char version[16];
};

static void describe_region(struct head *h, size_t i, const struct gw_infer_tensor *asked)
{
    inference__infer_parameter__init(&h->region[i]);
    inference__infer_parameter__init(&h->size[i]);
    h->region[i].parameter_choice_case = INFERENCE__INFER_PARAMETER__PARAMETER_CHOICE_STRING_PARAM;
    h->region[i].string_param = (char *)asked->region;
    h->size[i].parameter_choice_case = INFERENCE__INFER_PARAMETER__PARAMETER_CHOICE_INT64_PARAM;
    h->size[i].int64_param = (int64_t)asked->region_bytes;
    for (int k = 0; k < 2; k++) {
        inference__model_infer_response__infer_output_tensor__parameters_entry__init(&h->entry[i][k]);
        h->entries[i][k] = &h->entry[i][k];
    }
    h->entry[i][0].key = (char *)"shared_memory_region";
    h->entry[i][0].value = &h->region[i];
    h->entry[i][1].key = (char *)"shared_memory_byte_size";
    h->entry[i][1].value = &h->size[i];
    h->tensor[i].parameters = h->entries[i];
    h->tensor[i].n_parameters = 2;
}

static void grpc_reply_describe(struct head *h, size_t i, const struct gw_infer_output *o,
                                const struct gw_infer_request *asked)
{
    tensor_t *t = &h->tensor[i];
    inference__model_infer_response__infer_output_tensor__init(t);
    t->name = (char *)o->info->name;
    t->datatype = (char *)gw_dtype_name(o->info->dtype);
    memcpy(h->dims[i], o->dims, o->rank * sizeof(o->dims[0]));
    t->shape = h->dims[i];
    t->n_shape = o->rank;
    if (!o->data && asked->outputs) describe_region(h, i, &asked->output[o->asked]);
    h->tensors[i] = t;
}

/* A stream's client cannot know otherwise that its request has no further answers. */
static void say_final(struct head *h)
{
    inference__infer_parameter__init(&h->final);
    inference__model_infer_response__parameters_entry__init(&h->last);
    h->final.parameter_choice_case = INFERENCE__INFER_PARAMETER__PARAMETER_CHOICE_BOOL_PARAM;
    h->final.bool_param = 1;
    h->last.key = (char *)"triton_final_response";
    h->last.value = &h->final;
    h->lasts = &h->last;
    h->message.parameters = &h->lasts;
    h->message.n_parameters = 1;
}

static void grpc_reply_fill_head(struct head *h, const struct gw_infer_run *run,
                                 const struct gw_infer_request *asked, const char *id)
{
    const struct gw_infer_model *m = gw_infer_run_model(run);
    const struct gw_infer_output *o;
    inference__model_infer_response__init(&h->message);
    snprintf(h->version, sizeof(h->version), "%u", m->version);
    h->message.model_name = (char *)m->name;
    h->message.model_version = h->version;
    h->message.id = (char *)id;
    h->message.outputs = h->tensors;
    for (uint32_t i = 0; (o = gw_infer_output(run, i)) != NULL; i++) {
        grpc_reply_describe(h, i, o, asked);
        h->message.n_outputs++;
    }
}

/* The elements are copied: a client that takes its time must not keep the slot. */
struct gw_grpc_message *gw_grpc_infer_response(const struct gw_infer_run *run,
                                               const struct gw_infer_request *asked, const char *id,
                                               int streams)
{
    struct head h;
    struct gw_grpc_piece piece[GW_MODEL_MAX_IO];
    const struct gw_infer_output *o;
    uint32_t n = 0;
    grpc_reply_fill_head(&h, run, asked, id);
    if (streams) say_final(&h);
    for (; (o = gw_infer_output(run, n)) != NULL; n++)
        piece[n] = (struct gw_grpc_piece){o->data, o->data ? o->bytes : 0};
    return gw_grpc_pack_with(&h.message.base, GW_GRPC_RAW_OUTPUTS, piece, n, streams ? INFER_RESPONSE : 0);
}

struct gw_grpc_message *gw_grpc_stream_error(const char *id, const char *why)
{
    Inference__ModelStreamInferResponse m = INFERENCE__MODEL_STREAM_INFER_RESPONSE__INIT;
    response_t r = INFERENCE__MODEL_INFER_RESPONSE__INIT;
    r.id = (char *)id;
    m.error_message = (char *)why;
    m.infer_response = &r;
    return gw_grpc_pack(&m.base);
}
