/* SPDX-License-Identifier: Apache-2.0 */
/* ModelMetadata and ModelConfig: what a model takes and gives. */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#include "inference.pb-c.h"
#include "src/server/grpc/methods.h"
#include "src/server/grpc/reply.h"

typedef Inference__ModelMetadataResponse__TensorMetadata metadata_t;

/* The model that a request with these two fields names. False: there is none, and the turn has ended. */
static bool grpc_models_find(struct gw_grpc_turn *turn, struct gw_infer *infer, const char *name,
                             const char *version, struct gw_infer_model *m)
{
    struct gw_infer_error error;
    if (!gw_infer_find(infer, name, version, m, &error)) return true;
    gw_grpc_fail(turn, &error);
    return false;
}

struct metadata {
    Inference__ModelMetadataResponse message;
    metadata_t tensor[2][GW_MODEL_MAX_IO], *tensors[2][GW_MODEL_MAX_IO];
    int64_t dims[2][GW_MODEL_MAX_IO][GW_MODEL_MAX_RANK];
    char version[16], *versions[1];
};

static size_t grpc_models_describe(struct metadata *d, const struct gw_infer_model *m, int output)
{
    size_t n = output ? gw_model_outputs(m->model) : gw_model_inputs(m->model);
    for (size_t i = 0; i < n; i++) {
        const struct gw_tensor_info *info =
            output ? gw_model_output(m->model, (uint32_t)i) : gw_model_input(m->model, (uint32_t)i);
        metadata_t *t = &d->tensor[output][i];
        inference__model_metadata_response__tensor_metadata__init(t);
        t->name = (char *)info->name;
        t->datatype = (char *)gw_dtype_name(info->dtype);
        t->n_shape = gw_infer_shape(m, info, d->dims[output][i]);
        t->shape = d->dims[output][i];
        d->tensors[output][i] = t;
    }
    return n;
}

static void answer_metadata(struct gw_grpc_turn *turn, const struct gw_infer_model *m)
{
    struct metadata *d = calloc(1, sizeof(*d));
    if (!d) {
        gw_grpc_answer(turn, NULL);
        return;
    }
    inference__model_metadata_response__init(&d->message);
    snprintf(d->version, sizeof(d->version), "%u", m->version);
    d->versions[0] = d->version;
    d->message.name = (char *)m->name;
    d->message.versions = d->versions;
    d->message.n_versions = 1;
    d->message.platform = (char *)gw_model_kind(m->model);
    d->message.n_inputs = grpc_models_describe(d, m, 0);
    d->message.n_outputs = grpc_models_describe(d, m, 1);
    d->message.inputs = d->tensors[0];
    d->message.outputs = d->tensors[1];
    gw_grpc_reply(turn, &d->message.base);
    free(d);
}

void gw_grpc_model_metadata(void *service, struct gw_grpc_turn *turn)
{
    struct gw_grpc_arena arena;
    const Inference__ModelMetadataRequest *q = (const Inference__ModelMetadataRequest *)gw_grpc_request(
        turn, &inference__model_metadata_request__descriptor, &arena);
    struct gw_infer *infer = ((struct gw_grpc_service *)service)->infer;
    gw_infer_enter(infer); /* the model stays until it is described */
    struct gw_infer_model m;
    if (q && grpc_models_find(turn, infer, q->name, q->version, &m)) answer_metadata(turn, &m);
    gw_infer_leave(infer);
    gw_grpc_arena_close(&arena);
}

/* ---- the configuration, in Triton's form ---- */

struct config {
    Inference__ModelConfigResponse message;
    Inference__ModelConfig config;
    Inference__ModelInput input[GW_MODEL_MAX_IO], *inputs[GW_MODEL_MAX_IO];
    Inference__ModelOutput output[GW_MODEL_MAX_IO], *outputs[GW_MODEL_MAX_IO];
    int64_t dims[2][GW_MODEL_MAX_IO][GW_MODEL_MAX_RANK];
    Inference__ModelVersionPolicy policy;
    Inference__ModelVersionPolicy__Specific specific;
    Inference__ModelDynamicBatching batching;
    int64_t version;
};

static Inference__DataType grpc_models_type_of(uint32_t dtype)
{
    static const Inference__DataType type[] = {
        [GW_DTYPE_F32] = INFERENCE__DATA_TYPE__TYPE_FP32,  [GW_DTYPE_F16] = INFERENCE__DATA_TYPE__TYPE_FP16,
        [GW_DTYPE_BF16] = INFERENCE__DATA_TYPE__TYPE_BF16, [GW_DTYPE_F64] = INFERENCE__DATA_TYPE__TYPE_FP64,
        [GW_DTYPE_BOOL] = INFERENCE__DATA_TYPE__TYPE_BOOL, [GW_DTYPE_U8] = INFERENCE__DATA_TYPE__TYPE_UINT8,
        [GW_DTYPE_I8] = INFERENCE__DATA_TYPE__TYPE_INT8,   [GW_DTYPE_U16] = INFERENCE__DATA_TYPE__TYPE_UINT16,
        [GW_DTYPE_I16] = INFERENCE__DATA_TYPE__TYPE_INT16, [GW_DTYPE_U32] = INFERENCE__DATA_TYPE__TYPE_UINT32,
        [GW_DTYPE_I32] = INFERENCE__DATA_TYPE__TYPE_INT32, [GW_DTYPE_U64] = INFERENCE__DATA_TYPE__TYPE_UINT64,
        [GW_DTYPE_I64] = INFERENCE__DATA_TYPE__TYPE_INT64,
    };
    return dtype < sizeof(type) / sizeof(type[0]) ? type[dtype] : INFERENCE__DATA_TYPE__TYPE_INVALID;
}

/* Without the dimension that counts samples, where the model takes several. Returns how many are left. */
static size_t grpc_models_shape_of(const struct gw_infer_model *m, const struct gw_tensor_info *info,
                                   int64_t *dims)
{
    int64_t all[GW_MODEL_MAX_RANK];
    uint32_t rank = gw_infer_shape(m, info, all), n = 0;
    for (uint32_t i = rank && all[0] < 0; i < rank; i++) dims[n++] = all[i];
    return n;
}

static void configure_tensors(struct config *c, const struct gw_infer_model *m)
{
    const struct gw_tensor_info *info;
    for (uint32_t i = 0; (info = gw_model_input(m->model, i)) != NULL; i++) {
        inference__model_input__init(&c->input[i]);
        c->input[i].name = (char *)info->name;
        c->input[i].data_type = grpc_models_type_of(info->dtype);
        c->input[i].n_dims = grpc_models_shape_of(m, info, c->dims[0][i]);
        c->input[i].dims = c->dims[0][i];
        c->inputs[i] = &c->input[i];
    }
    for (uint32_t i = 0; (info = gw_model_output(m->model, i)) != NULL; i++) {
        inference__model_output__init(&c->output[i]);
        c->output[i].name = (char *)info->name;
        c->output[i].data_type = grpc_models_type_of(info->dtype);
        c->output[i].n_dims = grpc_models_shape_of(m, info, c->dims[1][i]);
        c->output[i].dims = c->dims[1][i];
        c->outputs[i] = &c->output[i];
    }
    c->config.n_input = gw_model_inputs(m->model);
    c->config.n_output = gw_model_outputs(m->model);
    c->config.input = c->inputs;
    c->config.output = c->outputs;
}

static void configure(struct config *c, const struct gw_infer_model *m)
{
    inference__model_config_response__init(&c->message);
    inference__model_config__init(&c->config);
    inference__model_version_policy__init(&c->policy);
    inference__model_version_policy__specific__init(&c->specific);
    inference__model_dynamic_batching__init(&c->batching);
    c->version = m->version;
    c->specific.versions = &c->version;
    c->specific.n_versions = 1;
    c->policy.policy_choice_case = INFERENCE__MODEL_VERSION_POLICY__POLICY_CHOICE_SPECIFIC;
    c->policy.specific = &c->specific;
    c->config.name = (char *)m->name;
    c->config.platform = c->config.backend = (char *)gw_model_kind(m->model);
    c->config.version_policy = &c->policy;
    c->config.max_batch_size = (int32_t)m->max_batch;
    if (c->config.max_batch_size) {
        c->config.scheduling_choice_case = INFERENCE__MODEL_CONFIG__SCHEDULING_CHOICE_DYNAMIC_BATCHING;
        c->config.dynamic_batching = &c->batching;
    }
    configure_tensors(c, m);
    c->message.config = &c->config;
}

void gw_grpc_model_config(void *service, struct gw_grpc_turn *turn)
{
    struct gw_grpc_arena arena;
    const Inference__ModelConfigRequest *q = (const Inference__ModelConfigRequest *)gw_grpc_request(
        turn, &inference__model_config_request__descriptor, &arena);
    struct gw_infer *infer = ((struct gw_grpc_service *)service)->infer;
    gw_infer_enter(infer); /* as above */
    struct gw_infer_model m;
    bool found = q && grpc_models_find(turn, infer, q->name, q->version, &m);
    struct config *c = found ? calloc(1, sizeof(*c)) : NULL;
    if (c) {
        configure(c, &m);
        gw_grpc_reply(turn, &c->message.base);
    } else if (found) {
        gw_grpc_answer(turn, NULL);
    }
    gw_infer_leave(infer);
    free(c);
    gw_grpc_arena_close(&arena);
}
