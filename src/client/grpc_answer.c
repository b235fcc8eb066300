/* SPDX-License-Identifier: Apache-2.0 */
/* Reads gRPC answers: tensors become a reply, descriptions become JSON. */
#include "src/client/grpc_answer.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>

#include "src/server/grpc/wire/split.h"

typedef Inference__ModelInferResponse response_t;
typedef Inference__ModelInferResponse__InferOutputTensor output_t;

static size_t grpc_answer_up(size_t v)
{
    return (v + GW_SERVE_ALIGN - 1) / GW_SERVE_ALIGN * GW_SERVE_ALIGN;
}

void gw_grpc_outputs_free(struct gw_grpc_outputs *to)
{
    free(to->data);
}

/* ---- answers to inferences ---- */

__attribute__((format(printf, 3, 4))) static int grpc_answer_wrong(struct gw_grpc_outputs *to, int err,
                                                                   const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(to->why, sizeof(to->why), format, args);
    va_end(args);
    return err;
}

static int grpc_answer_find_output(const struct gw_client *c, const char *name)
{
    for (uint32_t i = 0; i < c->model.outputs; i++)
        if (!strcmp(c->model.output[i].name, name)) return (int)i;
    return -1;
}

/* The shape that the answer gives, and the bytes that it takes. */
static int grpc_answer_read_shape(const output_t *o, const struct gw_client_tensor *t, uint32_t rows,
                                  struct gw_client_output *out)
{
    out->dtype = t->dtype;
    out->rank = t->rank;
    out->bytes = gw_dtype_bytes(t->dtype);
    if (o->n_shape != t->rank || gw_dtype_parse(o->datatype) != t->dtype) return -EPROTO;
    for (uint32_t i = 0; i < t->rank; i++) {
        int64_t want = i == 0 && t->batched ? (int64_t)rows : t->dims[i];
        if (o->shape[i] < 0 || (want != -1 && o->shape[i] != want) ||
            __builtin_mul_overflow(out->bytes, (uint64_t)o->shape[i], &out->bytes))
            return -EPROTO;
        out->dims[i] = o->shape[i];
    }
    return out->bytes <= GW_CLIENT_MAX_BYTES ? 0 : -EPROTO;
}

/* An answer while it is read. */
struct reading {
    const struct gw_client *c;
    struct gw_grpc_outputs *to;
    const response_t *m;
    const struct gw_grpc_parts *parts;
    struct gw_client_output *out;
    size_t bytes; /* of the message */
    uint32_t rows;
    uint32_t index[GW_CLIENT_MAX_IO]; /* of the model's outputs, in the answer's order */
};

/* Output k of the answer: which of the model's it is, and what it takes. */
static int grpc_answer_describe(struct reading *r, uint32_t k, uint32_t *seen)
{
    const output_t *o = r->m->outputs[k];
    int i = grpc_answer_find_output(r->c, o->name);
    if (i < 0) return grpc_answer_wrong(r->to, -EPROTO, "the answer has an output that the model has not");
    const char *name = r->c->model.output[i].name;
    if (*seen >> i & 1) return grpc_answer_wrong(r->to, -EPROTO, "output %s comes twice", name);
    *seen |= 1u << i;
    r->index[k] = (uint32_t)i;
    if (grpc_answer_read_shape(o, &r->c->model.output[i], r->rows, &r->out[i]))
        return grpc_answer_wrong(r->to, -EPROTO, "output %s has not the type or shape that the model has",
                                 name);
    /* A number in a message takes one byte at least, and eight here at most. */
    uint64_t bytes = r->out[i].bytes;
    if (r->parts->raws ? r->parts->raw[k].bytes != bytes : !o->contents || bytes > 8 * (uint64_t)r->bytes)
        return grpc_answer_wrong(r->to, -EPROTO, "output %s has not the numbers that its shape promises",
                                 name);
    return 0;
}

/* All of them, once each. Returns what they take, one beside the other. */
static ssize_t describe_all(struct reading *r)
{
    size_t n = r->c->model.outputs, room = GW_SERVE_ALIGN; /* also a tensor without elements lies somewhere */
    uint32_t seen = 0;
    if (r->m->n_outputs != n || (r->parts->raws && r->parts->raws != n))
        return grpc_answer_wrong(r->to, -EPROTO, "the answer has %zu outputs and %u tensors, the model %zu",
                                 r->m->n_outputs, r->parts->raws, n);
    for (uint32_t k = 0; k < n; k++) {
        int err = grpc_answer_describe(r, k, &seen);
        if (err) return err;
        room += grpc_answer_up(r->out[r->index[k]].bytes);
    }
    return (ssize_t)room;
}

static int grpc_answer_make_room(struct gw_grpc_outputs *to, size_t room)
{
    if (room <= to->room) return 0;
    free(to->data);
    to->room = 0;
    to->data = aligned_alloc(GW_SERVE_ALIGN, room);
    if (!to->data) return grpc_answer_wrong(to, -ENOMEM, "no memory for the answer");
    to->room = room;
    return 0;
}

static int copy_all(struct reading *r)
{
    uint8_t *at = r->to->data;
    for (uint32_t k = 0; k < r->c->model.outputs; k++) {
        struct gw_client_output *out = &r->out[r->index[k]];
        size_t has, count = out->bytes / gw_dtype_bytes(out->dtype);
        out->data = at;
        if (r->parts->raws && out->bytes)
            memcpy(at, r->parts->raw[k].data, out->bytes);
        else if (!r->parts->raws && gw_grpc_contents(r->m->outputs[k]->contents, out->dtype, at, count, &has))
            return grpc_answer_wrong(r->to, -EPROTO, "output %s has not the numbers that its shape promises",
                                     r->c->model.output[r->index[k]].name);
        at += grpc_answer_up(out->bytes);
    }
    return 0;
}

static int grpc_answer_read_all(struct reading *r)
{
    if (!r->m) return grpc_answer_wrong(r->to, -EPROTO, "the answer is not a valid ModelInferResponse");
    ssize_t room = describe_all(r);
    if (room < 0) return (int)room;
    int err = grpc_answer_make_room(r->to, (size_t)room);
    return err ? err : copy_all(r);
}

void gw_grpc_read_answer(const struct gw_client *c, struct gw_grpc_outputs *to, const uint8_t *message,
                         size_t bytes, uint32_t rows, struct gw_client_reply *reply)
{
    struct gw_grpc_arena arena;
    struct gw_grpc_parts parts;
    const ProtobufCMessage *m = gw_grpc_split(message, bytes, GW_GRPC_RAW_OUTPUTS,
                                              &inference__model_infer_response__descriptor, &arena, &parts);
    struct reading r = {.c = c,
                        .to = to,
                        .m = (const response_t *)m,
                        .parts = &parts,
                        .out = reply->out,
                        .bytes = bytes,
                        .rows = rows};
    to->why[0] = 0;
    memset(reply->out, 0, sizeof(reply->out));
    reply->error = grpc_answer_read_all(&r);
    reply->why = to->why;
    reply->outputs = reply->error ? 0 : c->model.outputs;
    gw_grpc_arena_close(&arena);
}

/* ---- descriptions ---- */

static const ProtobufCMessage *grpc_answer_unpack(const ProtobufCMessageDescriptor *type,
                                                  const uint8_t *message, size_t bytes,
                                                  struct gw_grpc_arena *arena)
{
    gw_grpc_arena_open(arena, bytes);
    return protobuf_c_message_unpack(type, &arena->allocator, bytes, message);
}

typedef Inference__ModelMetadataResponse__TensorMetadata metadata_t;

/* NULL: a name is no text, or there is no memory. */
static json_t *grpc_answer_tensors(metadata_t *const *t, size_t n)
{
    json_t *list = json_array();
    for (size_t i = 0; i < n; i++) {
        json_t *shape = json_array();
        for (size_t k = 0; k < t[i]->n_shape; k++) json_array_append_new(shape, json_integer(t[i]->shape[k]));
        json_t *one =
            json_pack("{s:s, s:s, s:o}", "name", t[i]->name, "datatype", t[i]->datatype, "shape", shape);
        if (json_array_append_new(list, one)) {
            json_decref(list);
            return NULL;
        }
    }
    return list;
}

json_t *gw_grpc_read_metadata(const uint8_t *message, size_t bytes)
{
    struct gw_grpc_arena arena;
    const Inference__ModelMetadataResponse *m = (const Inference__ModelMetadataResponse *)grpc_answer_unpack(
        &inference__model_metadata_response__descriptor, message, bytes, &arena);
    json_t *in = m ? grpc_answer_tensors(m->inputs, m->n_inputs) : NULL,
           *out = m ? grpc_answer_tensors(m->outputs, m->n_outputs) : NULL;
    json_t *answer = in && out ? json_pack("{s:O, s:O}", "inputs", in, "outputs", out) : NULL;
    json_decref(in);
    json_decref(out);
    gw_grpc_arena_close(&arena);
    return answer;
}

json_t *gw_grpc_read_config(const uint8_t *message, size_t bytes)
{
    struct gw_grpc_arena arena;
    const Inference__ModelConfigResponse *m = (const Inference__ModelConfigResponse *)grpc_answer_unpack(
        &inference__model_config_response__descriptor, message, bytes, &arena);
    json_t *answer =
        m && m->config ? json_pack("{s:I}", "max_batch_size", (json_int_t)m->config->max_batch_size) : NULL;
    gw_grpc_arena_close(&arena);
    return answer;
}

static json_t *grpc_answer_duration(const Inference__StatisticDuration *d)
{
    return json_pack("{s:I, s:I}", "count", d ? (json_int_t)d->count : 0, "ns", d ? (json_int_t)d->ns : 0);
}

static json_t *grpc_answer_batches(const Inference__ModelStatistics *s)
{
    json_t *list = json_array();
    for (size_t i = 0; i < s->n_batch_stats; i++) {
        const Inference__InferBatchStatistics *b = s->batch_stats[i];
        json_array_append_new(list, json_pack("{s:I, s:o}", "batch_size", (json_int_t)b->batch_size,
                                              "compute_infer", grpc_answer_duration(b->compute_infer)));
    }
    return list;
}

static json_t *grpc_answer_statistics(const Inference__ModelStatistics *s)
{
    static const Inference__InferStatistics none = INFERENCE__INFER_STATISTICS__INIT;
    const Inference__InferStatistics *t = s->inference_stats ? s->inference_stats : &none;
    json_t *times = json_pack("{s:o, s:o, s:o, s:o, s:o, s:o}", "success", grpc_answer_duration(t->success),
                              "fail", grpc_answer_duration(t->fail), "queue", grpc_answer_duration(t->queue),
                              "compute_input", grpc_answer_duration(t->compute_input), "compute_infer",
                              grpc_answer_duration(t->compute_infer), "compute_output",
                              grpc_answer_duration(t->compute_output));
    return json_pack("{s:I, s:I, s:o, s:o}", "inference_count", (json_int_t)s->inference_count,
                     "execution_count", (json_int_t)s->execution_count, "inference_stats", times,
                     "batch_stats", grpc_answer_batches(s));
}

json_t *gw_grpc_read_statistics(const uint8_t *message, size_t bytes)
{
    struct gw_grpc_arena arena;
    const Inference__ModelStatisticsResponse *m =
        (const Inference__ModelStatisticsResponse *)grpc_answer_unpack(
            &inference__model_statistics_response__descriptor, message, bytes, &arena);
    json_t *list = m ? json_array() : NULL;
    for (size_t i = 0; m && i < m->n_model_stats; i++)
        json_array_append_new(list, grpc_answer_statistics(m->model_stats[i]));
    gw_grpc_arena_close(&arena);
    return list ? json_pack("{s:o}", "model_stats", list) : NULL;
}
