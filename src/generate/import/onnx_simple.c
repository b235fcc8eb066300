/* SPDX-License-Identifier: Apache-2.0 */
/* Operators on elements, and those that only look at rows in another way. */
#include <errno.h>
#include <math.h>
#include <string.h>

#include "src/generate/import/onnx_graph.h"

static bool same_part(const struct gen_part *a, const struct gen_part *b)
{
    return a->value == b->value && a->first == b->first && a->width == b->width;
}

static bool is_form(const struct gen_onnx *o, uint32_t i, enum gen_onnx_form form)
{
    return gen_onnx_is(o, i, GEN_ONNX_ROWS) && o->in[i]->form == form;
}

/* Rows with an operator that is not written yet. */
static int onnx_pending(struct gen_onnx *o, enum gen_onnx_form form, enum gen_act act, float number)
{
    struct gen_onnx_value v = {.kind = GEN_ONNX_ROWS, .form = form, .act = act, .number = number};
    int err = gen_onnx_in(o, 0, &v.part, NULL);

    v.last = v.part.width;
    return err ? err : gen_onnx_set(o, 0, &v);
}

/* Rows times a number; or the end of a cap: tanh(x / c) * c. */
static int onnx_scale(struct gen_onnx *o, uint32_t rows, float number)
{
    struct gen_onnx_value *v = o->in[rows];

    if (v->form == GEN_ONNX_TANH) {
        struct gen_op op = {.kind = GEN_CAP, .a = v->part, .cap = number};
        if (fabsf(number * v->number - 1) > 1e-3f)
            return gwm_op_fail(&o->im, -ENOTSUP, "Tanh is supported in a cap alone: tanh(x / c) * c");
        return gen_onnx_rows(o, 0, gen_build_op(&o->b, &op, v->part.width));
    }
    if (rows) o->in[0] = v;
    return onnx_pending(o, GEN_ONNX_SCALED, GEN_SILU, number);
}

static int onnx_mul(struct gen_onnx *o)
{
    struct gen_op op = {.kind = GEN_MUL};
    float number;
    int err;

    for (uint32_t i = 0; i < 2; i++) {
        uint32_t j = 1 - i;
        if (gen_onnx_is(o, i, GEN_ONNX_ROWS) && gen_onnx_number(o, j, &number))
            return onnx_scale(o, i, number);
        if (is_form(o, i, GEN_ONNX_SIGMOID) && is_form(o, j, GEN_ONNX_PLAIN) &&
            same_part(&o->in[i]->part, &o->in[j]->part)) {
            o->in[0] = o->in[j];
            return onnx_pending(o, GEN_ONNX_ACT, GEN_SILU, 0);
        }
        if (is_form(o, i, GEN_ONNX_ACT) && is_form(o, j, GEN_ONNX_PLAIN) &&
            o->in[j]->part.width == o->in[i]->part.width)
            return gen_onnx_rows(o, 0, gen_build_gate(&o->b, o->in[i]->part, o->in[j]->part, o->in[i]->act));
    }
    err = gen_onnx_in(o, 0, &op.a, NULL);
    if (!err) err = gen_onnx_in(o, 1, &op.b, NULL);
    return err ? err : gen_onnx_rows(o, 0, gen_build_op(&o->b, &op, op.a.width));
}

static int onnx_div(struct gen_onnx *o)
{
    float number;

    if (!gen_onnx_is(o, 0, GEN_ONNX_ROWS) || !gen_onnx_number(o, 1, &number) || number == 0)
        return gwm_op_fail(&o->im, -ENOTSUP, "rows divided by one number are supported alone");
    return onnx_pending(o, GEN_ONNX_SCALED, GEN_SILU, 1 / number);
}

static int onnx_tanh(struct gen_onnx *o)
{
    struct gen_onnx_value v;

    if (!is_form(o, 0, GEN_ONNX_SCALED))
        return gwm_op_fail(&o->im, -ENOTSUP, "Tanh is supported in a cap alone: tanh(x / c) * c");
    v = *o->in[0];
    v.form = GEN_ONNX_TANH;
    return gen_onnx_set(o, 0, &v);
}

/* Rows plus rows, or plus a constant for each element. */
static int onnx_add(struct gen_onnx *o)
{
    struct gen_op op = {.kind = GEN_ADD, .b.value = -1};
    uint32_t rows = gen_onnx_is(o, 0, GEN_ONNX_ROWS) ? 0 : 1;
    int err = gen_onnx_in(o, rows, &op.a, NULL);

    if (err) return err;
    err = gen_onnx_constant(o, 1 - rows) ? gen_onnx_floats(o, 1 - rows, op.a.width, &op.bias)
                                         : gen_onnx_in(o, 1 - rows, &op.b, NULL);
    return err ? err : gen_onnx_rows(o, 0, gen_build_op(&o->b, &op, op.a.width));
}

static int onnx_sigmoid(struct gen_onnx *o)
{
    return onnx_pending(o, GEN_ONNX_SIGMOID, GEN_SILU, 0);
}

static int onnx_gelu(struct gen_onnx *o)
{
    char how[8] = "none";
    int err = gwm_attr_string(&o->im, "approximate", how, sizeof(how));

    return err < 0 ? err : onnx_pending(o, GEN_ONNX_ACT, *how == 't' ? GEN_GELU_TANH : GEN_GELU, 0);
}

static int onnx_fast_gelu(struct gen_onnx *o)
{
    if (o->im.nin > 1 && o->in[1]) return gwm_op_fail(&o->im, -ENOTSUP, "a bias of it is not supported");
    return onnx_pending(o, GEN_ONNX_ACT, GEN_GELU_TANH, 0);
}

static int onnx_quick_gelu(struct gen_onnx *o)
{
    float alpha = 1.702f;
    int err = gwm_attr_float(&o->im, "alpha", &alpha);

    if (err < 0) return err;
    if (fabsf(alpha - 1) < 1e-6f) return onnx_pending(o, GEN_ONNX_ACT, GEN_SILU, 0);
    if (fabsf(alpha - 1.702f) > 1e-6f) return gwm_op_fail(&o->im, -ENOTSUP, "its alpha must be 1 or 1.702");
    return onnx_pending(o, GEN_ONNX_ACT, GEN_QUICK_GELU, 0);
}

static int onnx_relu(struct gen_onnx *o)
{
    return onnx_pending(o, GEN_ONNX_ACT, GEN_RELU, 0);
}

/* Values stay as they are: networks choose the types that they compute in. */
static int onnx_same(struct gen_onnx *o)
{
    return gen_onnx_set(o, 0, o->in[0]);
}

static int onnx_shape(struct gen_onnx *o)
{
    struct gen_onnx_value v = {.kind = GEN_ONNX_RUNTIME};

    return gen_onnx_set(o, 0, &v);
}

/* A constant's transpose stands for it until it is used. */
static int onnx_transpose(struct gen_onnx *o)
{
    struct gen_onnx_value v;
    struct gen_constant *c = gen_onnx_constant(o, 0);
    int64_t perm[GEN_CONSTANT_RANK] = {1, 0};
    int n = gwm_attr_ints(&o->im, "perm", perm, GEN_CONSTANT_RANK);

    if (n < 0 && n != -ENOENT) return n;
    if (!c || c->rank != 2 || (n >= 0 && n != 2) || perm[0] != 1 || perm[1] != 0)
        return gwm_op_fail(&o->im, -ENOTSUP, "the transpose of a constant matrix is supported alone");
    v = *o->in[0];
    v.constant.turned = !c->turned;
    return gen_onnx_set(o, 0, &v);
}

/* The dimensions that a shape of n numbers gives a constant; 0: as it was, -1: what is left. */
static bool reshape_dims(struct gen_constant *c, const int64_t *shape, int n)
{
    uint64_t dim[GEN_CONSTANT_RANK], count = 1;
    int open = -1;

    for (int i = 0; i < n; i++) {
        dim[i] = shape[i] ? (uint64_t)shape[i] : (uint32_t)i < c->rank ? c->dim[i] : 0;
        if (shape[i] < -1 || (shape[i] == -1 && open >= 0)) return false;
        if (shape[i] == -1)
            open = i;
        else if (__builtin_mul_overflow(count, dim[i], &count))
            return false;
    }
    if (open >= 0) {
        dim[open] = count ? c->count / count : 0;
        count *= dim[open]; /* at most c->count */
    }
    if (n < 0 || count != c->count) return false;
    c->rank = (uint32_t)n;
    memcpy(c->dim, dim, (size_t)n * sizeof(*dim));
    return true;
}

static int onnx_reshape_constant(struct gen_onnx *o)
{
    struct gen_constant *shape = gen_onnx_constant(o, 1);
    struct gen_onnx_value v = *o->in[0];
    int64_t dim[GEN_CONSTANT_RANK];
    int n = shape && !v.constant.turned ? gen_constant_ints(shape, dim, GEN_CONSTANT_RANK) : -1;

    if (n < 0 || !reshape_dims(&v.constant, dim, n))
        return gwm_op_fail(&o->im, -ENOTSUP, "its shape does not fit the constant");
    return gen_onnx_set(o, 0, &v);
}

/* Rows seen as heads, or as rows again: the shape's last number counts. */
static int onnx_reshape(struct gen_onnx *o)
{
    struct gen_constant *c = gen_onnx_constant(o, 1);
    struct gen_onnx_value v = {.kind = GEN_ONNX_ROWS};
    int64_t shape[8];
    uint32_t last;
    int n, err;

    if (gen_onnx_constant(o, 0)) return onnx_reshape_constant(o);
    if (!gen_onnx_is(o, 0, GEN_ONNX_ROWS)) return onnx_same(o);
    n = c ? gen_constant_ints(c, shape, 8) : -1;
    if (n < 3 || shape[n - 1] <= 0 || shape[0] > 0)
        return gwm_op_fail(&o->im, -ENOTSUP, "rows are reshaped to [0, -1, heads' elements] or back alone");
    if ((err = gen_onnx_in(o, 0, &v.part, &last))) return err;
    if (shape[n - 1] > v.part.width || v.part.width % shape[n - 1])
        return gwm_op_fail(&o->im, -EBADMSG, "rows of %u elements are no multiple of %lld", v.part.width,
                           (long long)shape[n - 1]);
    v.last = (uint32_t)shape[n - 1];
    return gen_onnx_set(o, 0, &v);
}

/* Parts of rows along the last dimension. */
static int onnx_split(struct gen_onnx *o)
{
    size_t outputs = o->im.node->n_output;
    struct gen_constant *c = gen_onnx_constant(o, 1);
    struct gen_onnx_value v = {.kind = GEN_ONNX_ROWS};
    int64_t size[GEN_ONNX_MAX_INPUTS], axis = 0;
    struct gen_part all;
    int n = c ? gen_constant_ints(c, size, GEN_ONNX_MAX_INPUTS) : -ENOENT,
        err = gen_onnx_in(o, 0, &all, NULL);

    if (!err) err = gwm_attr_int(&o->im, "axis", &axis);
    if (err < 0) return err;
    if (axis != -1 && axis != 2)
        return gwm_op_fail(&o->im, -ENOTSUP, "rows are split along the last dimension alone");
    if (!outputs || outputs > GEN_ONNX_MAX_INPUTS || (c && n != (int)outputs) || (!c && all.width % outputs))
        return gwm_op_fail(&o->im, -EBADMSG, "its sizes do not fit its outputs");
    for (uint32_t i = 0, first = 0; i < outputs; i++, first += v.last) {
        if (!c) size[i] = (int64_t)(all.width / outputs);
        if (size[i] <= 0 || size[i] > (int64_t)(all.width - first))
            return gwm_op_fail(&o->im, -EBADMSG, "its sizes do not add up to the rows' %u elements",
                               all.width);
        v.last = (uint32_t)size[i];
        v.part = gen_build_part(all.value, all.first + first, v.last);
        if ((err = gen_onnx_set(o, i, &v))) return err;
    }
    return 0;
}

/* "Constant": only what the builder writes, a tensor. */
static int onnx_constant(struct gen_onnx *o)
{
    const Onnx__AttributeProto *a = gwm_attr(&o->im, "value");
    struct gen_onnx_value v = {.kind = GEN_ONNX_CONSTANT};
    int err;

    if (!a || !a->t) return gwm_op_fail(&o->im, -ENOTSUP, "it must hold a tensor");
    err = gen_constant_read(a->t, &o->x, o->im.msg, &v.constant);
    return err ? err : gen_onnx_set(o, 0, &v);
}

const struct gen_onnx_operator gen_onnx_simple[] = {
    {"Add", 2, 2, "", onnx_add},
    {"Mul", 2, 2, "", onnx_mul},
    {"Div", 2, 2, "", onnx_div},
    {"Tanh", 1, 1, "", onnx_tanh},
    {"Sigmoid", 1, 1, "", onnx_sigmoid},
    {"Gelu", 1, 1, "approximate ", onnx_gelu},
    {"FastGelu", 1, 2, "", onnx_fast_gelu},
    {"QuickGelu", 1, 1, "alpha ", onnx_quick_gelu},
    {"Relu", 1, 1, "", onnx_relu},
    {"Cast", 1, 1, "to saturate ", onnx_same},
    {"Identity", 1, 1, "", onnx_same},
    {"Shape", 1, 1, "start end ", onnx_shape},
    {"Transpose", 1, 1, "perm ", onnx_transpose},
    {"Reshape", 2, 2, "allowzero ", onnx_reshape},
    {"Split", 1, 2, "axis num_outputs ", onnx_split},
    {"Constant", 0, 0, "value ", onnx_constant},
    {0},
};
