/* SPDX-License-Identifier: Apache-2.0 */
/* A tensor of the file becomes a constant of the graph. */
#include <errno.h>
#include <string.h>

#include "src/model/import/tensor.h"

#include "src/model/graph/msg.h"
#include "src/model/ref/ref.h"

static const struct {
    const char *name;
    uint32_t type; /* 0: we do not have it */
} types[] = {
    {"undefined", 0},         {"float32", GW_DTYPE_F32},   {"uint8", GW_DTYPE_U8},
    {"int8", GW_DTYPE_I8},    {"uint16", GW_DTYPE_U16},    {"int16", GW_DTYPE_I16},
    {"int32", GW_DTYPE_I32},  {"int64", GW_DTYPE_I64},     {"string", 0},
    {"bool", GW_DTYPE_BOOL},  {"float16", GW_DTYPE_F16},   {"float64", GW_DTYPE_F64},
    {"uint32", GW_DTYPE_U32}, {"uint64", GW_DTYPE_U64},    {"complex64", 0},
    {"complex128", 0},        {"bfloat16", GW_DTYPE_BF16},
};
#define TYPES (int64_t)(sizeof(types) / sizeof(types[0]))

uint32_t gwm_type(int64_t type)
{
    return type >= 0 && type < TYPES ? types[type].type : 0;
}

const char *gwm_type_name(int64_t type)
{
    return type >= 0 && type < TYPES ? types[type].name : "an unknown type";
}

static int tensor_fail(const struct gwm_import *im, const Onnx__TensorProto *t, int code, const char *what)
{
    return gwm_fail(im->msg, code, "tensor '%.60s': %s", t->name ? t->name : "", what);
}

static int tensor_shape(const struct gwm_import *im, const Onnx__TensorProto *t, struct gwm_shape *s)
{
    if (t->n_dims > GW_MODEL_MAX_RANK) return tensor_fail(im, t, -ENOTSUP, "more than 8 dimensions");
    memset(s, 0, sizeof(*s));
    s->rank = (uint32_t)t->n_dims;
    for (uint32_t i = 0; i < s->rank; i++) {
        if (t->dims[i] < 0 || t->dims[i] > GWM_MAX_COUNT)
            return tensor_fail(im, t, -EBADMSG, "a dimension is negative or too large");
        s->d[i] = (int32_t)t->dims[i];
    }
    return gwm_count(s) < 0 ? tensor_fail(im, t, -ENOTSUP, "more than 2^28 elements") : 0;
}

/* Where `count` elements of a type lie as they are in memory, in raw_data or in the list for their type; NULL
 * when they do not, or when their number is another. */
static const void *as_they_are(const Onnx__TensorProto *t, uint32_t type, size_t count)
{
    if (t->has_raw_data) return t->raw_data.len == count * gw_dtype_bytes(type) ? t->raw_data.data : NULL;
    if (type == GW_DTYPE_F32 && t->n_float_data == count) return t->float_data;
    if (type == GW_DTYPE_F64 && t->n_double_data == count) return t->double_data;
    if (type == GW_DTYPE_I64 && t->n_int64_data == count) return t->int64_data;
    if (type == GW_DTYPE_U64 && t->n_uint64_data == count) return t->uint64_data;
    return NULL;
}

/* The other types lie in lists of wider numbers: their low bytes count. */
static void *narrowed(struct gwm_import *im, const Onnx__TensorProto *t, uint32_t type, size_t count)
{
    size_t width = gw_dtype_bytes(type);
    bool wide = type == GW_DTYPE_U32;
    char *p = width < 8 && type != GW_DTYPE_F32 && (wide ? t->n_uint64_data : t->n_int32_data) == count
                  ? gwm_alloc(im->g, count * width)
                  : NULL;

    for (size_t i = 0; p && i < count; i++)
        memcpy(p + i * width, wide ? (void *)&t->uint64_data[i] : (void *)&t->int32_data[i], width);
    return p;
}

int gwm_tensor(struct gwm_import *im, const Onnx__TensorProto *t)
{
    uint32_t type = gwm_type(t->data_type);
    struct gwm_shape s;

    if (!t->has_raw_data &&
        (t->data_location == ONNX__TENSOR_PROTO__DATA_LOCATION__EXTERNAL || t->n_external_data))
        return tensor_fail(
            im, t, -ENOTSUP,
            "its data is in another file (external data), which cannot be looked up from here");
    if (t->segment) return tensor_fail(im, t, -ENOTSUP, "stored in segments");
    if (!type)
        return gwm_fail(im->msg, -ENOTSUP, "tensor '%.60s' has type %s, which is not supported",
                        t->name ? t->name : "", gwm_type_name(t->data_type));
    int err = tensor_shape(im, t, &s);
    if (err) return err;
    int v = gwm_value_new(im->g, "", gwm_computed(type), &s);
    if (v < 0) return tensor_fail(im, t, v, "out of memory");
    struct gwm_value *val = &im->g->value[v];
    size_t count = (size_t)val->count;
    val->type = type;
    const void *from = count ? as_they_are(t, type, count) : gwm_alloc(im->g, 0);
    if (!from && !t->has_raw_data) from = narrowed(im, t, type, count);
    if (!from)
        return tensor_fail(im, t, -EBADMSG, "the data does not fill the shape exactly (a damaged file?)");
    if (val->dtype == type || !count) {
        val->data = from; /* in the file's message, which lives longer than the graph */
        return v;
    }
    void *room = gwm_alloc(im->g, gwm_bytes(val));
    if (!room) return tensor_fail(im, t, -ENOMEM, "out of memory");
    gwm_ref_convert(type, val->dtype, val->dtype, from, room, val->count);
    val->data = room;
    return v;
}
