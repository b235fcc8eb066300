/* SPDX-License-Identifier: Apache-2.0 */
/* ModelMetadata and ModelConfig: what a model takes and gives. */
#include <stdio.h>
#include <stdlib.h>

#include "inference.pb-c.h"
#include "src/grpc/methods.h"
#include "src/grpc/reply.h"

typedef Inference__ModelMetadataResponse__TensorMetadata metadata_t;

/* The model that a request with these two fields names. NULL: there is none, and the turn has ended. */
static struct gw_worker *find(struct gw_grpc_service *s, struct gw_grpc_turn *turn, const char *name,
                              const char *version)
{
    struct gw_infer_error error;
    struct gw_worker *w = NULL;
    if (!gw_infer_find(s->infer, name, version, &w, &error)) return w;
    gw_grpc_fail(turn, &error);
    return NULL;
}

struct metadata {
    Inference__ModelMetadataResponse message;
    metadata_t tensor[2][GW_MODEL_MAX_IO], *tensors[2][GW_MODEL_MAX_IO];
    int64_t dims[2][GW_MODEL_MAX_IO][GW_MODEL_MAX_RANK];
    char version[16], *versions[1], platform[64];
};

static size_t describe(struct metadata *d, const struct gw_worker *w, int output)
{
    const struct gw_model *m = gw_worker_model(w);
    size_t n = output ? gw_model_outputs(m) : gw_model_inputs(m);
    for (size_t i = 0; i < n; i++) {
        const struct gw_tensor_info *info =
            output ? gw_model_output(m, (uint32_t)i) : gw_model_input(m, (uint32_t)i);
        metadata_t *t = &d->tensor[output][i];
        inference__model_metadata_response__tensor_metadata__init(t);
        t->name = (char *)info->name;
        t->datatype = (char *)gw_dtype_name(info->dtype);
        t->n_shape = gw_infer_shape(w, info, d->dims[output][i]);
        t->shape = d->dims[output][i];
        d->tensors[output][i] = t;
    }
    return n;
}

static void answer_metadata(struct gw_grpc_turn *turn, const struct gw_worker *w)
{
    struct metadata *d = calloc(1, sizeof(*d));
    if (!d) {
        gw_grpc_answer(turn, NULL);
        return;
    }
    inference__model_metadata_response__init(&d->message);
    snprintf(d->version, sizeof(d->version), "%u", gw_worker_version(w));
    snprintf(d->platform, sizeof(d->platform), "gpuwire_%s", gw_model_kind(gw_worker_model(w)));
    d->versions[0] = d->version;
    d->message.name = (char *)gw_worker_name(w);
    d->message.versions = d->versions;
    d->message.n_versions = 1;
    d->message.platform = d->platform;
    d->message.n_inputs = describe(d, w, 0);
    d->message.n_outputs = describe(d, w, 1);
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
    struct gw_worker *w = q ? find(service, turn, q->name, q->version) : NULL;
    if (w) answer_metadata(turn, w);
    gw_grpc_arena_close(&arena);
}
