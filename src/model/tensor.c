/* SPDX-License-Identifier: Apache-2.0 */
/* A tensor of the file becomes a constant of the graph. */
#include "src/model/ops.h"

#include <errno.h>
#include <string.h>

const char *gwm_type_name(int32_t type)
{
    static const char *const names[] = {
        "undefined", "float32", "uint8",   "int8",   "uint16", "int16",     "int32",      "int64",   "string",
        "bool",      "float16", "float64", "uint32", "uint64", "complex64", "complex128", "bfloat16"};
    return type >= 0 && (size_t)type < sizeof(names) / sizeof(names[0]) ? names[type] : "an unknown type";
}

static int fail(const struct gwm_import *im, const Onnx__TensorProto *t, int code, const char *what)
{
    return gwm_fail(im->msg, code, "tensor '%.60s': %s", t->name ? t->name : "", what);
}

static int tensor_shape(const struct gwm_import *im, const Onnx__TensorProto *t, struct gwm_shape *s)
{
    if (t->n_dims > GW_MODEL_MAX_RANK) return fail(im, t, -ENOTSUP, "more than 8 dimensions");
    memset(s, 0, sizeof(*s));
    s->rank = (uint32_t)t->n_dims;
    for (uint32_t i = 0; i < s->rank; i++) {
        if (t->dims[i] < 0 || t->dims[i] > GWM_MAX_COUNT)
            return fail(im, t, -EBADMSG, "a dimension is negative or too large");
        s->d[i] = (int32_t)t->dims[i];
    }
    if (gwm_count(s) == 0 && t->data_type == ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT)
        return fail(im, t, -ENOTSUP, "it has no elements");
    return gwm_count(s) < 0 ? fail(im, t, -ENOTSUP, "more than 2^28 elements") : 0;
}

/* The elements lie in raw_data, or in the list for their type; -EBADMSG when their number is another. */
static int floats(const Onnx__TensorProto *t, int32_t count, float *out)
{
    size_t n = (size_t)count;

    if (t->has_raw_data) {
        if (t->raw_data.len != n * 4) return -EBADMSG;
        if (n) memcpy(out, t->raw_data.data, n * 4);
        return 0;
    }
    if (t->n_float_data != n) return -EBADMSG;
    if (n) memcpy(out, t->float_data, n * 4);
    return 0;
}

static int integers(const Onnx__TensorProto *t, int32_t count, int64_t *out)
{
    size_t n = (size_t)count;
    size_t width = t->data_type == ONNX__TENSOR_PROTO__DATA_TYPE__INT64   ? 8
                   : t->data_type == ONNX__TENSOR_PROTO__DATA_TYPE__INT32 ? 4
                                                                          : 1;

    if (t->has_raw_data ? t->raw_data.len != n * width
                        : (width == 8 ? t->n_int64_data : t->n_int32_data) != n)
        return -EBADMSG;
    for (size_t i = 0; i < n; i++) {
        int32_t v32;
        if (!t->has_raw_data) {
            out[i] = width == 8 ? t->int64_data[i] : t->int32_data[i];
        } else if (width == 8) {
            memcpy(&out[i], t->raw_data.data + i * 8, 8);
        } else if (width == 4) {
            memcpy(&v32, t->raw_data.data + i * 4, 4);
            out[i] = v32;
        } else {
            out[i] = t->raw_data.data[i] != 0;
        }
    }
    return 0;
}

int gwm_tensor(struct gwm_import *im, const Onnx__TensorProto *t)
{
    struct gwm_shape s;
    bool is_float = t->data_type == ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT;
    void *room;

    if (t->data_location == ONNX__TENSOR_PROTO__DATA_LOCATION__EXTERNAL || t->n_external_data)
        return fail(im, t, -ENOTSUP,
                    "its data is in another file (external data); save the model as a single file");
    if (t->segment) return fail(im, t, -ENOTSUP, "stored in segments");
    if (!is_float && t->data_type != ONNX__TENSOR_PROTO__DATA_TYPE__INT64 &&
        t->data_type != ONNX__TENSOR_PROTO__DATA_TYPE__INT32 &&
        t->data_type != ONNX__TENSOR_PROTO__DATA_TYPE__BOOL)
        return gwm_fail(im->msg, -ENOTSUP, "tensor '%.60s' has type %s; only float32 models are supported",
                        t->name ? t->name : "", gwm_type_name(t->data_type));
    int rc = tensor_shape(im, t, &s);
    if (rc) return rc;
    int v = gwm_const(im, is_float ? GWM_F32 : GWM_I64, &s, NULL, &room);
    if (v < 0) return fail(im, t, v, "out of memory");
    int32_t count = im->g->value[v].count;
    rc = is_float ? floats(t, count, room) : integers(t, count, room);
    if (rc) return fail(im, t, rc, "the data does not fill the shape exactly (a damaged file?)");
    return v;
}
