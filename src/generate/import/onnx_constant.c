/* SPDX-License-Identifier: Apache-2.0 */
/* Reads tensors of an ONNX file and checks that their bytes are all there. */
#include "src/generate/import/onnx_constant.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <gpuwire/error.h>

#include "src/generate/program/number.h"
#include "src/model/import/external.h"
#include "src/model/import/tensor.h"

static int constant_fail(const struct gwm_msg *msg, const Onnx__TensorProto *t, int code, const char *what)
{
    return gwm_fail(msg, code, "tensor '%.60s': %s", t->name ? t->name : "", what);
}

/* The bytes of a tensor in another file, which is mapped. */
static int constant_external(const Onnx__TensorProto *t, struct gen_externals *x, const struct gwm_msg *msg,
                             struct gen_constant *out)
{
    struct gwm_place p;
    int err = gwm_external_place(t, msg, &p);

    if (err) return err;
    if (!x->name || strcmp(x->name, p.file)) {
        int fd = x->dir < 0 ? -EINVAL : gwm_external_open(x->dir, t, &p, msg);
        if (fd < 0) return x->dir < 0 ? constant_fail(msg, t, -ENOTSUP, "its data is in another file") : fd;
        err = gen_maps_file(x->maps, fd, p.file, &x->at, &x->size);
        close(fd);
        free(x->name);
        x->name = err ? NULL : strdup(p.file);
        if (err) return constant_fail(msg, t, err, gw_last_error());
        if (!x->name) return constant_fail(msg, t, -ENOMEM, "no memory");
    }
    if (p.offset > x->size || (p.has_length && p.length > x->size - p.offset))
        return constant_fail(msg, t, -EBADMSG, "external data: the file ends before the tensor does");
    out->data = x->at + p.offset;
    if ((p.has_length ? p.length : x->size - p.offset) < out->bytes)
        return constant_fail(msg, t, -EBADMSG, "external data: it has fewer bytes than its shape");
    return 0;
}

/* The bytes within the message. */
static bool constant_inline(const Onnx__TensorProto *t, struct gen_constant *out)
{
    if (t->has_raw_data) {
        out->data = t->raw_data.data;
        return t->raw_data.len == out->bytes;
    }
    if (t->data_type == ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT) {
        out->data = (const uint8_t *)t->float_data;
        return t->n_float_data == out->count;
    }
    if (t->data_type == ONNX__TENSOR_PROTO__DATA_TYPE__INT64) {
        out->data = (const uint8_t *)t->int64_data;
        return t->n_int64_data == out->count;
    }
    out->data = (const uint8_t *)t->int32_data;
    return t->data_type == ONNX__TENSOR_PROTO__DATA_TYPE__INT32 && t->n_int32_data == out->count;
}

static int constant_shape(const Onnx__TensorProto *t, const struct gwm_msg *msg, struct gen_constant *c)
{
    bool half = t->data_type == GEN_ONNX_UINT4 || t->data_type == GEN_ONNX_INT4;
    size_t width = half ? 1 : gw_dtype_bytes(gwm_type(t->data_type));

    if (!width) return constant_fail(msg, t, -ENOTSUP, "its type is not supported");
    if (t->n_dims > GEN_CONSTANT_RANK) return constant_fail(msg, t, -ENOTSUP, "more than 4 dimensions");
    c->rank = (uint32_t)t->n_dims;
    c->count = 1;
    for (uint32_t i = 0; i < c->rank; i++) {
        if (t->dims[i] < 0 || __builtin_mul_overflow(c->count, (uint64_t)t->dims[i], &c->count))
            return constant_fail(msg, t, -EBADMSG, "a dimension is negative or too large");
        c->dim[i] = (uint64_t)t->dims[i];
    }
    if (__builtin_mul_overflow(c->count, width, &c->bytes))
        return constant_fail(msg, t, -EBADMSG, "a dimension is too large");
    if (half) c->bytes = c->count / 2 + c->count % 2;
    return 0;
}

int gen_constant_read(const Onnx__TensorProto *t, struct gen_externals *x, const struct gwm_msg *msg,
                      struct gen_constant *out)
{
    int err;

    *out = (struct gen_constant){.name = t->name ? t->name : "", .type = t->data_type};
    err = constant_shape(t, msg, out);
    if (err) return err;
    if (t->data_location == ONNX__TENSOR_PROTO__DATA_LOCATION__EXTERNAL)
        return constant_external(t, x, msg, out);
    if (!constant_inline(t, out))
        return constant_fail(msg, t, -EBADMSG,
                             "its data does not fill its shape, or is not stored as raw data");
    return 0;
}

bool gen_constant_format(int32_t type, enum gen_format *out)
{
    switch (type) {
    case ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT: *out = GEN_F32; return true;
    case ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT16: *out = GEN_F16; return true;
    case ONNX__TENSOR_PROTO__DATA_TYPE__BFLOAT16: *out = GEN_BF16; return true;
    default: return false;
    }
}

const void *gen_constant_aligned(const struct gen_constant *c, struct gen_build *b, size_t align)
{
    void *copy;

    if ((uintptr_t)c->data % align == 0) return c->data;
    copy = gen_build_alloc(b, 1, c->bytes);
    if (copy) memcpy(copy, c->data, c->bytes);
    return copy;
}

const float *gen_constant_floats(struct gen_constant *c, struct gen_build *b)
{
    enum gen_format format;
    const void *from;
    float *to;

    if (c->floats || !gen_constant_format(c->type, &format)) return c->floats;
    if (!(from = gen_constant_aligned(c, b, format == GEN_F32 ? 4 : 2))) return NULL;
    if (format == GEN_F32) return c->floats = from;
    if (!(to = gen_build_alloc(b, c->count, sizeof(*to)))) return NULL;
    for (uint64_t i = 0; i < c->count; i++)
        to[i] = gen_number_get(format == GEN_F16 ? GW_DTYPE_F16 : GW_DTYPE_BF16, from, i);
    return c->floats = to;
}

int gen_constant_ints(const struct gen_constant *c, int64_t *out, int max)
{
    bool wide = c->type == ONNX__TENSOR_PROTO__DATA_TYPE__INT64;
    int32_t narrow;

    if ((!wide && c->type != ONNX__TENSOR_PROTO__DATA_TYPE__INT32) || c->count > (uint64_t)max)
        return -EINVAL;
    for (uint64_t i = 0; i < c->count; i++) {
        if (wide) {
            memcpy(&out[i], c->data + i * 8, 8);
        } else {
            memcpy(&narrow, c->data + i * 4, 4);
            out[i] = narrow;
        }
    }
    return (int)c->count;
}

/* [rows, cols] becomes [cols, rows], which takes memory. */
static const void *constant_turn(const struct gen_constant *c, struct gen_build *b, size_t width)
{
    uint64_t rows = c->dim[0], cols = c->dim[1];
    uint8_t *to = gen_build_alloc(b, c->count, width);

    for (uint64_t i = 0; to && i < cols; i++)
        for (uint64_t j = 0; j < rows; j++)
            memcpy(to + (i * rows + j) * width, c->data + (j * cols + i) * width, width);
    return to;
}

bool gen_constant_matrix(const struct gen_constant *c, struct gen_build *b, bool columns,
                         struct gen_weight *out)
{
    size_t width;

    *out = (struct gen_weight){0};
    if (c->rank != 2 || !gen_constant_format(c->type, &out->format)) return false;
    if (c->dim[0] > GEN_PROGRAM_MAX_WIDTH || c->dim[1] > GEN_PROGRAM_MAX_WIDTH) return false;
    width = out->format == GEN_F32 ? 4 : 2;
    columns = columns != c->turned;
    out->n = (uint32_t)c->dim[columns ? 1 : 0];
    out->k = (uint32_t)c->dim[columns ? 0 : 1];
    out->data = columns ? constant_turn(c, b, width) : gen_constant_aligned(c, b, width);
    return out->data;
}
