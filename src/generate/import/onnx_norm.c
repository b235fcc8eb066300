/* SPDX-License-Identifier: Apache-2.0 */
/* Norms, alone and with the sum before them. */
#include <errno.h>

#include "src/generate/import/onnx_graph.h"

/* The norm of a part: input `gain` has the factors, and `bias`, where it is not 0, what is added. */
static int onnx_norm_of(struct gen_onnx *o, struct gen_op *op, uint32_t gain, uint32_t bias)
{
    int err = gwm_attr_float(&o->im, "epsilon", &op->epsilon);

    op->kind = GEN_NORM;
    if (err < 0) return err;
    err = gen_onnx_vector(o, gain, op->segment, &op->weight);
    if (!err && bias && bias < o->im.nin && o->in[bias])
        err = gen_onnx_floats(o, bias, op->segment, &op->bias);
    return err;
}

static int onnx_norm(struct gen_onnx *o, bool mean)
{
    struct gen_op op = {.mean = mean, .epsilon = 1e-5f};
    struct gen_onnx_value v = {.kind = GEN_ONNX_ROWS};
    int64_t axis = -1;
    int err = gen_onnx_in(o, 0, &op.a, &op.segment);

    if (!err && gwm_attr_int(&o->im, "axis", &axis) < 0) err = -EBADMSG;
    if (!err && axis != -1 && axis != 2)
        err = gwm_op_fail(&o->im, -ENOTSUP, "norms go along the last dimension alone");
    if (!err) err = onnx_norm_of(o, &op, 1, mean ? 2 : 0);
    if (err) return err;
    v.part = gen_build_all(&o->b, gen_build_op(&o->b, &op, op.a.width));
    v.last = op.segment;
    return gen_onnx_set(o, 0, &v);
}

static int onnx_layer_norm(struct gen_onnx *o)
{
    return onnx_norm(o, true);
}

static int onnx_rms_norm(struct gen_onnx *o)
{
    return onnx_norm(o, false);
}

/* x + skip (+ bias), which is output 3, and its norm. */
static int onnx_skip_norm(struct gen_onnx *o, bool mean)
{
    struct gen_op sum = {.kind = GEN_ADD}, add = {.kind = GEN_ADD, .b.value = -1},
                  norm = {.mean = mean, .epsilon = mean ? 1e-12f : 1e-6f};
    uint32_t bias = mean ? 4 : 3;
    int32_t x;
    int err = gen_onnx_in(o, 0, &sum.a, NULL);

    if (!err) err = gen_onnx_in(o, 1, &sum.b, NULL);
    if (err) return err;
    x = gen_build_op(&o->b, &sum, sum.a.width);
    if (bias < o->im.nin && o->in[bias]) {
        add.a = gen_build_all(&o->b, x);
        if ((err = gen_onnx_floats(o, bias, sum.a.width, &add.bias))) return err;
        x = gen_build_op(&o->b, &add, sum.a.width);
    }
    norm.a = gen_build_all(&o->b, x);
    norm.segment = sum.a.width;
    err = onnx_norm_of(o, &norm, 2, mean ? 3 : 0);
    if (!err) err = gen_onnx_rows(o, 0, gen_build_op(&o->b, &norm, sum.a.width));
    return err ? err : gen_onnx_rows(o, 3, x);
}

static int onnx_skip_layer_norm(struct gen_onnx *o)
{
    return onnx_skip_norm(o, true);
}

static int onnx_skip_rms_norm(struct gen_onnx *o)
{
    return onnx_skip_norm(o, false);
}

const struct gen_onnx_operator gen_onnx_norms[] = {
    {"LayerNormalization", 2, 3, "axis epsilon stash_type ", onnx_layer_norm},
    {"SimplifiedLayerNormalization", 2, 2, "axis epsilon stash_type ", onnx_rms_norm},
    {"RMSNormalization", 2, 2, "axis epsilon stash_type ", onnx_rms_norm},
    {"SkipLayerNormalization", 3, 5, "epsilon ", onnx_skip_layer_norm},
    {"SkipSimplifiedLayerNormalization", 3, 4, "epsilon ", onnx_skip_rms_norm},
    {0},
};
