/* SPDX-License-Identifier: Apache-2.0 */
/* Reads a model's description and statistics from the server's JSON. */
#include "src/client/describe.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "src/door/plain.h"

/* ---- tensors ---- */

static const struct gw_client_shape *describe_shape_of(const struct gw_client_opts *opts, const char *name)
{
    for (uint32_t i = 0; i < opts->shape_count; i++)
        if (!opts->shapes[i].name || !strcmp(opts->shapes[i].name, name)) return &opts->shapes[i];
    return NULL;
}

/* Dimensions as the server gives them: -1 is open. An open first one counts samples. */
static int read_dims(const json_t *shape, struct gw_client_tensor *t)
{
    if (!json_is_array(shape) || json_array_size(shape) > GW_CLIENT_MAX_RANK)
        return gw_error(-EPROTO, "tensor %s: the server gives no shape of up to %d dimensions", t->name,
                        GW_CLIENT_MAX_RANK);
    t->rank = (uint32_t)json_array_size(shape);
    for (uint32_t i = 0; i < t->rank; i++) {
        t->dims[i] = json_integer_value(json_array_get(shape, i));
        if (t->dims[i] < -1 || (t->dims[i] == 0 && i == 0) || !json_is_integer(json_array_get(shape, i)))
            return gw_error(-EPROTO, "tensor %s: the server gives a dimension that is none", t->name);
    }
    t->batched = t->rank && t->dims[0] == -1;
    if (t->batched) t->dims[0] = 1;
    return 0;
}

/* A shape that the caller gives closes what the model leaves open, and must agree with the rest. How many
 * samples there are is said with each request. */
static int close_dims(struct gw_client_tensor *t, const struct gw_client_shape *s)
{
    int fits = s->rank == t->rank;
    for (uint32_t i = t->batched ? 1 : 0; fits && i < t->rank; i++) {
        fits = s->dims[i] > 0 && (t->dims[i] == -1 || t->dims[i] == s->dims[i]);
        t->dims[i] = s->dims[i];
    }
    return fits ? 0
                : gw_error(-EINVAL, "input %s: the shape given for it is not one that the model takes",
                           t->name);
}

static bool is_open(const struct gw_client_tensor *t)
{
    for (uint32_t i = 0; i < t->rank; i++)
        if (t->dims[i] == -1) return true;
    return false;
}

static int count_bytes(struct gw_client_tensor *t, int output)
{
    t->bytes = gw_dtype_bytes(t->dtype);
    for (uint32_t i = 0; i < t->rank; i++) {
        if (t->dims[i] == -1) {
            t->bytes = 0;
            return output
                       ? 0
                       : gw_error(-EINVAL, "input %s: the model leaves its dimension %u open; give its shape",
                                  t->name, i);
        }
        if (__builtin_mul_overflow(t->bytes, (uint64_t)t->dims[i], &t->bytes) || t->bytes > UINT32_MAX / 2)
            return gw_error(-EPROTO, "tensor %s: more than 2 GiB", t->name);
    }
    return t->bytes ? 0 : gw_error(-EPROTO, "tensor %s: it has no elements", t->name);
}

static int describe_read_tensor(const json_t *answer, const struct gw_client_opts *opts, int output,
                                struct gw_client_tensor *t)
{
    const char *name = json_string_value(json_object_get(answer, "name"));
    const char *type = json_string_value(json_object_get(answer, "datatype"));
    char plain[32];
    if (!name || !*name || strlen(name) >= sizeof(t->name) || !type)
        return gw_error(-EPROTO, "model %s: the server describes a tensor without a name or type",
                        opts->model);
    strcpy(t->name, name);
    t->dtype = gw_dtype_parse(type);
    if (!t->dtype)
        return gw_error(-ENOTSUP,
                        "model %s: tensor %s has elements of type %s, which this client cannot send",
                        opts->model, t->name, gw_plain_text(plain, sizeof(plain), type));
    int err = read_dims(json_object_get(answer, "shape"), t);
    if (err) return err;
    const struct gw_client_shape *given = output || !is_open(t) ? NULL : describe_shape_of(opts, t->name);
    if (given) err = close_dims(t, given);
    return err ? err : count_bytes(t, output);
}

static int read_tensors(const json_t *list, const struct gw_client_opts *opts, int output,
                        struct gw_client_model *m)
{
    struct gw_client_tensor *t = output ? m->output : m->input;
    size_t n = json_array_size(list);
    if (!n || n > GW_CLIENT_MAX_IO)
        return gw_error(-EPROTO, "model %s: the server names %zu %s; 1 to %d can be sent", opts->model, n,
                        output ? "outputs" : "inputs", GW_CLIENT_MAX_IO);
    for (size_t i = 0; i < n; i++) {
        int err = describe_read_tensor(json_array_get(list, i), opts, output, &t[i]);
        if (err) return err;
        m->batched |= t[i].batched;
    }
    *(output ? &m->outputs : &m->inputs) = (uint32_t)n;
    return 0;
}

static uint32_t number_of(const json_t *object, const char *name)
{
    json_int_t n = json_integer_value(json_object_get(object, name));
    return n > 0 && n <= UINT32_MAX ? (uint32_t)n : 0;
}

int gw_describe_model(const json_t *answer, const struct gw_client_opts *opts, struct gw_client_model *m)
{
    const json_t *rdma = json_object_get(answer, "rdma");
    memset(m, 0, sizeof(*m));
    int err = read_tensors(json_object_get(answer, "inputs"), opts, 0, m);
    if (!err) err = read_tensors(json_object_get(answer, "outputs"), opts, 1, m);
    m->rdma_slots = number_of(rdma, "slots");
    m->max_rows = number_of(rdma, "max_rows");
    return err;
}

/* ---- statistics ---- */

static uint64_t part(const json_t *stats, const char *name, const char *what)
{
    json_int_t n = json_integer_value(json_object_get(json_object_get(stats, name), what));
    return n > 0 ? (uint64_t)n : 0;
}

static void describe_add_batches(const json_t *list, struct gw_client_stats *s)
{
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *b = json_array_get(list, i);
        uint32_t size = number_of(b, "batch_size"), at = 0;
        while (at < s->batches && s->batch[at] != size) at++;
        if (!size || at == 32) continue;
        s->batches += at == s->batches;
        s->batch[at] = size;
        s->batch_count[at] += part(b, "compute_infer", "count");
    }
}

int gw_describe_stats(const json_t *answer, struct gw_client_stats *s)
{
    const json_t *models = json_object_get(answer, "model_stats");
    memset(s, 0, sizeof(*s));
    if (!json_is_array(models)) return gw_error(-ENOTSUP, "this server gives no statistics of its models");
    for (size_t i = 0; i < json_array_size(models); i++) { /* one for each version */
        const json_t *m = json_array_get(models, i), *t = json_object_get(m, "inference_stats");
        json_int_t inferences = json_integer_value(json_object_get(m, "inference_count"));
        json_int_t executions = json_integer_value(json_object_get(m, "execution_count"));
        s->inferences += inferences > 0 ? (uint64_t)inferences : 0;
        s->executions += executions > 0 ? (uint64_t)executions : 0;
        s->success += part(t, "success", "count");
        s->fail += part(t, "fail", "count");
        s->success_ns += part(t, "success", "ns");
        s->queue_ns += part(t, "queue", "ns");
        s->input_ns += part(t, "compute_input", "ns");
        s->infer_ns += part(t, "compute_infer", "ns");
        s->output_ns += part(t, "compute_output", "ns");
        describe_add_batches(json_object_get(m, "batch_stats"), s);
    }
    return 0;
}
