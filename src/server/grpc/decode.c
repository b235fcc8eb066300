/* SPDX-License-Identifier: Apache-2.0 */
/* Turns a ModelInferRequest into the request that every door gives the model. */
#include "src/server/grpc/decode.h"

#include <assert.h>
#include <errno.h>
#include <stdbool.h>
#include <string.h>

static_assert(GW_GRPC_TENSORS == GW_MODEL_MAX_IO, "a request's tensors");

typedef Inference__ModelInferRequest message_t;
typedef Inference__ModelInferRequest__InferInputTensor input_t;
typedef Inference__ModelInferRequest__InferRequestedOutputTensor output_t;

static int broken(struct gw_infer_error *error)
{
    return gw_infer_fail(error, GW_INFER_INVALID, "the message is not a valid ModelInferRequest");
}

/* ---- parameters ---- */

/* A number, in whichever of the integer types it came. */
static int grpc_decode_number(const char *key, const Inference__InferParameter *v, uint64_t *out,
                              struct gw_infer_error *error)
{
    int64_t n = 0;
    if (v && v->parameter_choice_case == INFERENCE__INFER_PARAMETER__PARAMETER_CHOICE_UINT64_PARAM) {
        *out = v->uint64_param;
        return 0;
    }
    if (v && v->parameter_choice_case == INFERENCE__INFER_PARAMETER__PARAMETER_CHOICE_INT64_PARAM)
        n = v->int64_param;
    else
        n = -1;
    *out = (uint64_t)n;
    return n >= 0
               ? 0
               : gw_infer_fail(error, GW_INFER_INVALID, "parameter '%s': must be a whole number from 0", key);
}

static int grpc_decode_text(const char *key, const Inference__InferParameter *v, const char **out,
                            struct gw_infer_error *error)
{
    if (!v || v->parameter_choice_case != INFERENCE__INFER_PARAMETER__PARAMETER_CHOICE_STRING_PARAM)
        return gw_infer_fail(error, GW_INFER_INVALID, "parameter '%s': expected a string", key);
    *out = v->string_param;
    return 0;
}

/* Parameters of a tensor: where it lies in shared memory. Others are none of ours. */
static int grpc_decode_place(const char *key, const Inference__InferParameter *v, struct gw_infer_tensor *t,
                             struct gw_infer_error *error)
{
    if (!strcmp(key, "shared_memory_region")) return grpc_decode_text(key, v, &t->region, error);
    if (!strcmp(key, "shared_memory_offset")) return grpc_decode_number(key, v, &t->region_offset, error);
    if (!strcmp(key, "shared_memory_byte_size")) return grpc_decode_number(key, v, &t->region_bytes, error);
    if (!strcmp(key, "classification"))
        return gw_infer_fail(error, GW_INFER_UNSUPPORTED, "the classification extension is not supported");
    return 0;
}

/* A sequence's number, or its name; 0 and "" are none. */
static bool grpc_decode_is_set(const Inference__InferParameter *v)
{
    if (!v) return false;
    switch (v->parameter_choice_case) {
    case INFERENCE__INFER_PARAMETER__PARAMETER_CHOICE_INT64_PARAM: return v->int64_param != 0;
    case INFERENCE__INFER_PARAMETER__PARAMETER_CHOICE_UINT64_PARAM: return v->uint64_param != 0;
    case INFERENCE__INFER_PARAMETER__PARAMETER_CHOICE_STRING_PARAM: return *v->string_param != 0;
    default: return false;
    }
}

static int parameters(const message_t *m, struct gw_infer_request *q, struct gw_infer_error *error)
{
    for (size_t i = 0; i < m->n_parameters; i++) {
        const char *key = m->parameters[i]->key;
        const Inference__InferParameter *v = m->parameters[i]->value;
        uint64_t *to = !strcmp(key, "priority")  ? &q->priority
                       : !strcmp(key, "timeout") ? &q->timeout_us
                                                 : NULL;
        if (to && grpc_decode_number(key, v, to, error)) return -1;
        if (!strcmp(key, "sequence_id") && grpc_decode_is_set(v))
            return gw_infer_fail(error, GW_INFER_UNSUPPORTED,
                                 "sequence_id: models with sequences are not served here");
    }
    return 0;
}

/* ---- tensors ---- */

static int grpc_decode_input(const input_t *in, struct gw_infer_tensor *t, struct gw_infer_error *error)
{
    t->name = in->name;
    t->datatype = in->datatype;
    if (!strcmp(t->datatype, "BYTES"))
        return gw_infer_fail(error, GW_INFER_UNSUPPORTED,
                             "input '%.100s': models here take numbers, not BYTES", in->name);
    if (in->n_shape > GW_MODEL_MAX_RANK)
        return gw_infer_fail(error, GW_INFER_INVALID, "input '%.100s' has more than %d dimensions", in->name,
                             GW_MODEL_MAX_RANK);
    t->rank = (uint32_t)in->n_shape;
    if (t->rank) memcpy(t->dims, in->shape, t->rank * sizeof(t->dims[0]));
    for (size_t i = 0; i < in->n_parameters; i++)
        if (grpc_decode_place(in->parameters[i]->key, in->parameters[i]->value, t, error)) return -1;
    return 0;
}

/* Raw contents belong to the inputs in order, but for those in shared memory. */
static int data_of(const message_t *m, const struct gw_grpc_parts *p, struct gw_grpc_request *q,
                   struct gw_infer_error *error)
{
    uint32_t next = 0;
    for (uint32_t i = 0; i < q->infer.inputs; i++) {
        const input_t *in = m->inputs[i];
        if (p->raws && in->contents)
            return gw_infer_fail(
                error, GW_INFER_INVALID,
                "contents field must not be specified when using raw_input_contents for '%.100s'", in->name);
        if (q->infer.input[i].region) continue;
        if (p->raws && next < p->raws)
            q->raw[i] = p->raw[next++];
        else if (!p->raws && in->contents)
            q->contents[i] = in->contents;
        else
            return gw_infer_fail(error, GW_INFER_INVALID, "input '%.100s' has no data", in->name);
    }
    return next == p->raws
               ? 0
               : gw_infer_fail(error, GW_INFER_INVALID,
                               "raw_input_contents has %u entries, and %u inputs need one", p->raws, next);
}

static int translate(const message_t *m, const struct gw_grpc_parts *p, struct gw_grpc_request *q,
                     struct gw_infer_error *error)
{
    struct gw_infer_request *r = &q->infer;
    if (m->n_inputs > GW_MODEL_MAX_IO || m->n_outputs > GW_MODEL_MAX_IO || p->raws > GW_MODEL_MAX_IO)
        return gw_infer_fail(error, GW_INFER_INVALID, "more than %d inputs or outputs", GW_MODEL_MAX_IO);
    r->model = m->model_name;
    r->version = m->model_version;
    q->id = m->id;
    r->inputs = (uint32_t)m->n_inputs;
    r->outputs = (uint32_t)m->n_outputs;
    for (uint32_t i = 0; i < r->inputs; i++)
        if (grpc_decode_input(m->inputs[i], &r->input[i], error)) return -1;
    for (uint32_t i = 0; i < r->outputs; i++) {
        const output_t *o = m->outputs[i];
        r->output[i].name = o->name;
        for (size_t k = 0; k < o->n_parameters; k++)
            if (grpc_decode_place(o->parameters[k]->key, o->parameters[k]->value, &r->output[i], error))
                return -1;
    }
    return parameters(m, r, error) ? -1 : data_of(m, p, q, error);
}

int gw_grpc_decode(const uint8_t *message, size_t bytes, struct gw_grpc_request *q,
                   struct gw_infer_error *error)
{
    struct gw_grpc_parts p;
    memset(q, 0, sizeof(*q));
    q->id = "";
    const message_t *m = (const message_t *)gw_grpc_split(
        message, bytes, GW_GRPC_RAW_INPUTS, &inference__model_infer_request__descriptor, &q->arena, &p);
    return m ? translate(m, &p, q, error) : broken(error);
}

void gw_grpc_request_free(struct gw_grpc_request *q)
{
    gw_grpc_arena_close(&q->arena);
}

/* ---- elements ---- */

static int fill_typed(const struct gw_grpc_request *q, uint32_t i, uint32_t dtype, uint8_t *to,
                      uint64_t bytes, struct gw_infer_error *error)
{
    const char *name = q->infer.input[i].name;
    size_t count = bytes / gw_dtype_bytes(dtype), has = 0;
    switch (gw_grpc_contents(q->contents[i], dtype, to, count, &has)) {
    case 0: return 0;
    case -EINVAL:
        return gw_infer_fail(error, GW_INFER_INVALID,
                             "input '%.100s' of type %s must come in raw_input_contents", name,
                             gw_dtype_name(dtype));
    case -EMSGSIZE:
        return gw_infer_fail(error, GW_INFER_INVALID,
                             "input '%.100s' got unexpected element count %zu, expected %zu", name, has,
                             count);
    default:
        return gw_infer_fail(error, GW_INFER_INVALID, "input '%.100s': element %zu is out of %s's range",
                             name, has, gw_dtype_name(dtype));
    }
}

int gw_grpc_fill(const struct gw_grpc_request *q, uint32_t i, uint32_t dtype, void *to, uint64_t bytes,
                 struct gw_infer_error *error)
{
    if (q->contents[i]) return fill_typed(q, i, dtype, to, bytes, error);
    if (q->raw[i].bytes != bytes)
        return gw_infer_fail(error, GW_INFER_INVALID,
                             "input '%.100s' got unexpected byte size %zu, expected %llu",
                             q->infer.input[i].name, q->raw[i].bytes, (unsigned long long)bytes);
    if (bytes) memcpy(to, q->raw[i].data, bytes);
    return 0;
}
