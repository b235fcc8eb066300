/* SPDX-License-Identifier: Apache-2.0 */
/* Reads the JSON of an inference request. */
#include "src/server/http/ask.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

static int http_ask_wrong(struct gw_infer_error *error, const char *what, const char *why)
{
    return gw_infer_fail(error, GW_INFER_INVALID, "%.100s: %s", what, why);
}

/* ---- parameters ---- */

/* A number that may be missing. */
static int http_ask_take_number(const json_t *parameters, const char *name, uint64_t *out,
                                struct gw_infer_error *error)
{
    const json_t *v = json_object_get(parameters, name);
    if (!v) return 0;
    if (!json_is_integer(v) || json_integer_value(v) < 0)
        return http_ask_wrong(error, name, "not a number from 0 on");
    *out = (uint64_t)json_integer_value(v);
    return 0;
}

static int take_flag(const json_t *parameters, const char *name, int *out, struct gw_infer_error *error)
{
    const json_t *v = json_object_get(parameters, name);
    if (!v) return 0;
    if (!json_is_boolean(v)) return http_ask_wrong(error, name, "expected true or false");
    *out = json_is_true(v);
    return 0;
}

static bool http_ask_is_set(const json_t *v)
{
    const char *text = json_string_value(v);
    return text ? *text != 0 : json_integer_value(v) != 0;
}

static int take_parameters(struct gw_http_ask *a, const json_t *p, struct gw_infer_error *error)
{
    if (p && !json_is_object(p)) return http_ask_wrong(error, "parameters", "not an object");
    if (http_ask_is_set(json_object_get(p, "sequence_id")))
        return gw_infer_fail(error, GW_INFER_UNSUPPORTED,
                             "sequence_id: models with sequences are not served here");
    if (http_ask_take_number(p, "priority", &a->request.priority, error)) return -1;
    if (http_ask_take_number(p, "timeout", &a->request.timeout_us, error)) return -1;
    return take_flag(p, "binary_data_output", &a->binary_all, error);
}

static int take_region(const json_t *p, struct gw_infer_tensor *t, struct gw_infer_error *error)
{
    const json_t *name = json_object_get(p, "shared_memory_region");
    if (!name) return 0;
    t->region = json_string_value(name);
    if (!t->region) return http_ask_wrong(error, "shared_memory_region", "not a string");
    if (!json_object_get(p, "shared_memory_byte_size"))
        return http_ask_wrong(error, "shared_memory_region", "shared_memory_byte_size is missing");
    if (http_ask_take_number(p, "shared_memory_offset", &t->region_offset, error)) return -1;
    return http_ask_take_number(p, "shared_memory_byte_size", &t->region_bytes, error);
}

/* ---- tensors ---- */

static int http_ask_take_name(const json_t *tensor, struct gw_infer_tensor *t, struct gw_infer_error *error)
{
    t->name = json_string_value(json_object_get(tensor, "name"));
    return t->name ? 0 : http_ask_wrong(error, "name", "an input or output lacks it");
}

static int take_shape(const json_t *tensor, struct gw_infer_tensor *t, struct gw_infer_error *error)
{
    const json_t *shape = json_object_get(tensor, "shape");
    if (!json_is_array(shape)) return http_ask_wrong(error, t->name, "its shape is not an array");
    t->rank = (uint32_t)json_array_size(shape);
    if (json_array_size(shape) > GW_MODEL_MAX_RANK)
        return http_ask_wrong(error, t->name, "its shape has too many dimensions");
    for (uint32_t i = 0; i < t->rank; i++) {
        const json_t *dim = json_array_get(shape, i);
        if (!json_is_integer(dim) || json_integer_value(dim) < 0)
            return http_ask_wrong(error, t->name, "a dimension of its shape is not a number");
        t->dims[i] = json_integer_value(dim);
    }
    return 0;
}

/* Where its elements are: one place, and no more. */
static int http_ask_take_place(struct gw_http_ask *a, const json_t *tensor, uint32_t i,
                               struct gw_infer_error *error)
{
    struct gw_infer_tensor *t = &a->request.input[i];
    struct gw_http_ask_input *in = &a->input[i];
    const json_t *p = json_object_get(tensor, "parameters"), *data = json_object_get(tensor, "data");
    if (p && !json_is_object(p)) return http_ask_wrong(error, t->name, "its parameters are not an object");
    if (take_region(p, t, error) || http_ask_take_number(p, "binary_data_size", &in->binary_bytes, error))
        return -1;
    in->binary = json_object_get(p, "binary_data_size") != NULL;
    if (data) {
        json_int_t span = json_is_integer(data) ? json_integer_value(data) : -1;
        if (span < 0 || span >= a->skeleton.spans)
            return http_ask_wrong(error, t->name, "its data is not an array");
        in->json = &a->skeleton.span[span];
    }
    int places = in->binary + (in->json != NULL) + (t->region != NULL);
    if (places == 1) return 0;
    return http_ask_wrong(
        error, t->name,
        places ? "it has data, binary_data_size or a shared memory region, but not only one of them"
               : "it has no data, no binary_data_size and no shared memory region");
}

static int take_inputs(struct gw_http_ask *a, struct gw_infer_error *error)
{
    const json_t *inputs = json_object_get(a->skeleton.json, "inputs"), *tensor;
    size_t i;
    if (!json_is_array(inputs)) return http_ask_wrong(error, "inputs", "the request lacks them");
    if (json_array_size(inputs) > GW_MODEL_MAX_IO)
        return http_ask_wrong(error, "inputs", "more than a model can have");
    a->request.inputs = (uint32_t)json_array_size(inputs);
    json_array_foreach((json_t *)inputs, i, tensor)
    {
        struct gw_infer_tensor *t = &a->request.input[i];
        if (http_ask_take_name(tensor, t, error) || take_shape(tensor, t, error)) return -1;
        t->datatype = json_string_value(json_object_get(tensor, "datatype"));
        if (!t->datatype) return http_ask_wrong(error, t->name, "it lacks a datatype");
        if (!strcmp(t->datatype, "BYTES"))
            return gw_infer_fail(error, GW_INFER_UNSUPPORTED,
                                 "input '%.100s': models here take numbers, not BYTES", t->name);
        if (http_ask_take_place(a, tensor, (uint32_t)i, error)) return -1;
    }
    return 0;
}

static int http_ask_take_outputs(struct gw_http_ask *a, struct gw_infer_error *error)
{
    const json_t *outputs = json_object_get(a->skeleton.json, "outputs"), *tensor;
    size_t i;
    if (!outputs) return 0;
    if (!json_is_array(outputs)) return http_ask_wrong(error, "outputs", "not an array");
    if (json_array_size(outputs) > GW_MODEL_MAX_IO)
        return http_ask_wrong(error, "outputs", "more than a model can have");
    a->request.outputs = (uint32_t)json_array_size(outputs);
    json_array_foreach((json_t *)outputs, i, tensor)
    {
        struct gw_infer_tensor *t = &a->request.output[i];
        const json_t *p = json_object_get(tensor, "parameters");
        int binary = a->binary_all;
        if (http_ask_take_name(tensor, t, error)) return -1;
        if (p && !json_is_object(p))
            return http_ask_wrong(error, t->name, "its parameters are not an object");
        if (http_ask_is_set(json_object_get(p, "classification")))
            return gw_infer_fail(error, GW_INFER_UNSUPPORTED,
                                 "output '%.100s': classification is not done here", t->name);
        if (take_region(p, t, error) || take_flag(p, "binary_data", &binary, error)) return -1;
        a->binary_output[i] = (uint8_t)binary;
    }
    return 0;
}

int gw_http_ask_parse(const char *text, size_t bytes, struct gw_http_ask *a, struct gw_infer_error *error)
{
    const char *why;
    memset(a, 0, sizeof(*a));
    if (gw_skeleton_parse(text, bytes, &a->skeleton, &why))
        return gw_infer_fail(error, GW_INFER_INVALID, "%s", why);
    const json_t *id = json_object_get(a->skeleton.json, "id");
    if (id && !json_is_string(id)) return http_ask_wrong(error, "id", "not a string");
    a->id = json_string_value(id);
    if (take_parameters(a, json_object_get(a->skeleton.json, "parameters"), error)) return -1;
    if (take_inputs(a, error)) return -1;
    return http_ask_take_outputs(a, error);
}

int gw_http_ask_raw(const struct gw_infer_model *m, uint64_t bytes, struct gw_http_ask *a,
                    struct gw_infer_error *error)
{
    memset(a, 0, sizeof(*a));
    if (gw_model_inputs(m->model) != 1)
        return gw_infer_fail(
            error, GW_INFER_INVALID,
            "Raw request must only have 1 input to be deduced but got %u inputs in '%s' model "
            "configuration",
            gw_model_inputs(m->model), m->name);
    const struct gw_tensor_info *info = gw_model_input(m->model, 0);
    struct gw_infer_tensor *t = &a->request.input[0];
    a->name = strdup(info->name); /* the model may be replaced before it is asked */
    if (!a->name) return gw_infer_fail(error, GW_INFER_INTERNAL, "out of memory");
    t->name = a->name;
    t->datatype = gw_dtype_name(info->dtype);
    t->rank = gw_infer_shape(m, info, t->dims);
    if (t->rank && t->dims[0] < 0) t->dims[0] = (int64_t)(bytes / (info->bytes ? info->bytes : 1));
    a->request.inputs = 1;
    a->input[0].binary = 1;
    a->input[0].binary_bytes = bytes;
    a->binary_all = 1;
    return 0;
}

void gw_http_ask_free(struct gw_http_ask *a)
{
    gw_skeleton_free(&a->skeleton);
    free(a->name);
    a->name = NULL;
}
