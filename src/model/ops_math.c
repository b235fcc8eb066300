/* SPDX-License-Identifier: Apache-2.0 */
/* Operators that compute: activations, arithmetic, matrix products, softmax, batch normalisation. */
#include "src/model/ops.h"

#include <errno.h>
#include <float.h>
#include <math.h>
#include <string.h>

static int emit_unary(struct gwm_import *im, struct gwm_act act)
{
    struct gwm_shape shape = gwm_in(im, 0)->shape;
    int n = gwm_emit(im, GWM_UNARY, im->in, 1, &shape, im->node->output[0]);

    if (n < 0) return n;
    im->g->node[n].act = act;
    return gwm_result(im, gwm_settle(im, n));
}

static int activation(struct gwm_import *im)
{
    struct gwm_act act = {.a = 0.01f};
    int rc;

    switch (im->node->op_type[0]) {
    case 'R': act.kind = GWM_ACT_RELU; break;
    case 'L': act.kind = GWM_ACT_LEAKY; break;
    case 'S': act.kind = GWM_ACT_SIGMOID; break;
    default: act.kind = GWM_ACT_TANH;
    }
    rc = gwm_attr_float(im, "alpha", &act.a);
    return rc < 0 ? rc : emit_unary(im, act);
}

/* A bound is an attribute in old files, a constant input in new ones. */
static int clip_bound(struct gwm_import *im, uint32_t input, const char *attr, float *out)
{
    const float *p = gwm_in_floats(im, input, 1);

    if (p)
        *out = *p;
    else if (gwm_in(im, input))
        return gwm_op_fail(im, -ENOTSUP, "the bounds must be constants");
    return gwm_attr_float(im, attr, out);
}

static int clip(struct gwm_import *im)
{
    struct gwm_act act = {.kind = GWM_ACT_CLIP, .a = -FLT_MAX, .b = FLT_MAX};
    int rc = clip_bound(im, 1, "min", &act.a);

    if (rc >= 0) rc = clip_bound(im, 2, "max", &act.b);
    return rc < 0 ? rc : emit_unary(im, act);
}

/* Shape arithmetic: two integer constants, of the same length or one of them single. */
static int binary_ints(struct gwm_import *im, enum gwm_binary kind)
{
    int64_t a[GW_MODEL_MAX_RANK], b[GW_MODEL_MAX_RANK], out[GW_MODEL_MAX_RANK];
    int na = gwm_in_ints(im, 0, a, GW_MODEL_MAX_RANK),
        nb = na < 0 ? na : gwm_in_ints(im, 1, b, GW_MODEL_MAX_RANK);

    if (nb < 0) return nb;
    if (!na || !nb || (na != nb && na != 1 && nb != 1)) return gwm_op_fail(im, -EBADMSG, "shapes do not fit");
    struct gwm_shape s = na > nb ? gwm_in(im, 0)->shape : gwm_in(im, 1)->shape;
    if (na == nb && gwm_in(im, 0)->shape.rank) s = gwm_in(im, 0)->shape;
    for (int i = 0; i < (int)gwm_count(&s); i++) {
        int64_t x = a[na == 1 ? 0 : i], y = b[nb == 1 ? 0 : i];
        bool bad = kind == GWM_ADD   ? __builtin_add_overflow(x, y, &out[i])
                   : kind == GWM_SUB ? __builtin_sub_overflow(x, y, &out[i])
                   : kind == GWM_MUL ? __builtin_mul_overflow(x, y, &out[i])
                                     : !y || (x == INT64_MIN && y == -1);
        if (bad) return gwm_op_fail(im, -EBADMSG, "integer overflow in constants");
        if (kind == GWM_DIV) out[i] = x / y;
    }
    return gwm_result(im, gwm_const(im, GWM_I64, &s, out, NULL));
}

static int emit_binary(struct gwm_import *im, enum gwm_binary kind, int a, int b, const char *name)
{
    struct gwm_broadcast bc;
    struct gwm_shape out;
    int in[2] = {a, b};
    int rc = gwm_broadcast(&bc, &out, &im->g->value[a].shape, &im->g->value[b].shape);

    if (rc == -EINVAL) return gwm_op_fail(im, -EBADMSG, "the shapes of its inputs do not fit");
    if (rc) return gwm_op_fail(im, -ENOTSUP, "its result has more than 2^28 elements");
    int n = gwm_emit(im, GWM_BINARY, in, 2, &out, name);
    if (n < 0) return n;
    im->g->node[n].binary.kind = kind;
    im->g->node[n].binary.bc = bc;
    return gwm_settle(im, n);
}

static int binary(struct gwm_import *im)
{
    char c = im->node->op_type[0];
    enum gwm_binary kind = c == 'A' ? GWM_ADD : c == 'S' ? GWM_SUB : c == 'M' ? GWM_MUL : GWM_DIV;
    const struct gwm_value *a = gwm_in(im, 0), *b = gwm_in(im, 1);

    if (a->dtype != b->dtype) return gwm_op_fail(im, -EBADMSG, "its inputs are of different types");
    if (a->dtype == GWM_I64) return binary_ints(im, kind);
    return gwm_result(im, emit_binary(im, kind, im->in[0], im->in[1], im->node->output[0]));
}

static int emit_gemm(struct gwm_import *im, const struct gwm_gemm *gemm, int b, const struct gwm_shape *out,
                     const char *name)
{
    int in[2] = {im->in[0], b};
    int n = gwm_emit(im, GWM_GEMM, in, 2, out, name);

    if (n < 0) return n;
    im->g->node[n].gemm = *gemm;
    return gwm_settle(im, n);
}

/* beta C, when C is the same for every row: a bias of the product. NULL when it is not (or there is no
 * memory). */
static const float *gemm_bias(struct gwm_import *im, int32_t n, float beta)
{
    const struct gwm_value *c = gwm_in(im, 2);
    bool row = c->shape.rank && c->shape.d[c->shape.rank - 1] == n && c->count == n;

    if (!c->data || c->dtype != GWM_F32 || (!row && c->count != 1)) return NULL;
    float *bias = gwm_alloc(im->g, (size_t)n * sizeof(*bias));
    for (int32_t i = 0; bias && i < n; i++) bias[i] = beta * ((const float *)c->data)[row ? i : 0];
    return bias;
}

/* Puts alpha into B, a constant then; its value. */
static int scaled(struct gwm_import *im, float alpha)
{
    struct gwm_shape s = gwm_in(im, 1)->shape;
    const float *from = (const float *)gwm_in(im, 1)->data;
    void *room;

    if (alpha == 1) return im->in[1];
    if (!from) return gwm_op_fail(im, -ENOTSUP, "alpha other than 1 with a B that is no constant");
    int v = gwm_const(im, GWM_F32, &s, NULL, &room);
    for (int32_t i = 0; v >= 0 && i < gwm_count(&s); i++) ((float *)room)[i] = alpha * from[i];
    return v;
}

static int gemm(struct gwm_import *im)
{
    const struct gwm_value *a = gwm_in(im, 0), *b = gwm_in(im, 1);
    struct gwm_gemm p = {0};
    float alpha = 1, beta = 1;
    int64_t ta = 0, tb = 0;
    int rc = gwm_attr_int(im, "transA", &ta);

    if (rc < 0 || (rc = gwm_attr_int(im, "transB", &tb)) < 0 ||
        (rc = gwm_attr_float(im, "alpha", &alpha)) < 0 || (rc = gwm_attr_float(im, "beta", &beta)) < 0)
        return rc;
    p.ta = ta != 0;
    p.tb = tb != 0;
    if (a->shape.rank != 2 || b->shape.rank != 2 || b->dtype != GWM_F32 ||
        a->shape.d[!p.ta] != b->shape.d[p.tb])
        return gwm_op_fail(im, -EBADMSG, "its inputs are no two matrices that fit");
    p.m = a->shape.d[p.ta];
    p.k = a->shape.d[!p.ta];
    p.n = b->shape.d[!p.tb];
    struct gwm_shape out = {.rank = 2, .d = {p.m, p.n}};
    int bv = scaled(im, alpha);
    if (bv < 0) return bv;
    const struct gwm_value *c = gwm_in(im, 2);
    if (!c || (p.bias = gemm_bias(im, p.n, beta)))
        return gwm_result(im, emit_gemm(im, &p, bv, &out, im->node->output[0]));
    if (beta != 1 || c->dtype != GWM_F32)
        return gwm_op_fail(im, -ENOTSUP, "beta other than 1 with a C that is no constant row");
    int v = emit_gemm(im, &p, bv, &out, "");
    return v < 0 ? v : gwm_result(im, emit_binary(im, GWM_ADD, v, im->in[2], im->node->output[0]));
}

static int matmul(struct gwm_import *im)
{
    const struct gwm_value *a = gwm_in(im, 0), *b = gwm_in(im, 1);
    struct gwm_gemm p = {0};
    struct gwm_shape out = a->shape;

    if (a->shape.rank < 2 || b->shape.rank != 2 || b->dtype != GWM_F32)
        return gwm_op_fail(im, -ENOTSUP, "only a product with one two-dimensional matrix is supported");
    p.k = a->shape.d[a->shape.rank - 1];
    if (p.k != b->shape.d[0])
        return gwm_op_fail(im, -EBADMSG, "the matrices do not fit: %d columns, %d rows", p.k, b->shape.d[0]);
    p.m = a->count / p.k;
    p.n = b->shape.d[1];
    out.d[out.rank - 1] = p.n;
    return gwm_result(im, emit_gemm(im, &p, im->in[1], &out, im->node->output[0]));
}

static int softmax(struct gwm_import *im)
{
    struct gwm_shape shape = gwm_in(im, 0)->shape;
    int64_t axis = im->opset < 13 ? 1 : -1;
    struct gwm_softmax s = {1, 1, 1};
    int rc = gwm_attr_int(im, "axis", &axis);

    if (rc < 0 || (rc = gwm_axis(im, axis, shape.rank)) < 0) return rc;
    for (int i = 0; i < (int)shape.rank; i++) {
        if (i < rc)
            s.outer *= shape.d[i];
        else if (i == rc || im->opset < 13) /* before 13 all dimensions from the axis on count as one */
            s.n *= shape.d[i];
        else
            s.inner *= shape.d[i];
    }
    int n = gwm_emit(im, GWM_SOFTMAX, im->in, 1, &shape, im->node->output[0]);
    if (n < 0) return n;
    im->g->node[n].softmax = s;
    return gwm_result(im, gwm_settle(im, n));
}

/* y = x scale/√(var+ε) + (b − mean scale/√(var+ε)): a product and a sum per channel, folded into a
 * convolution later. */
static int batch_norm(struct gwm_import *im)
{
    struct gwm_shape x = gwm_in(im, 0)->shape, per = {.rank = x.rank ? x.rank - 1 : 0};
    int32_t c = x.rank >= 2 ? x.d[1] : 0;
    const float *p[4];
    float epsilon = 1e-5f;
    int64_t training = 0, spatial = 1;
    void *mul, *add;
    int rc = gwm_attr_float(im, "epsilon", &epsilon);

    if (rc < 0 || (rc = gwm_attr_int(im, "training_mode", &training)) < 0 ||
        (rc = gwm_attr_int(im, "spatial", &spatial)) < 0)
        return rc;
    if (training || spatial != 1)
        return gwm_op_fail(im, -ENOTSUP, "training mode and per-element statistics are not supported");
    for (uint32_t i = 0; i < 4; i++) {
        p[i] = gwm_in_floats(im, i + 1, c);
        if (!p[i] || !c)
            return gwm_op_fail(im, -ENOTSUP, "its parameters must be constants, one per channel");
    }
    for (uint32_t i = 0; i < per.rank; i++) per.d[i] = i ? 1 : c;
    int vm = gwm_const(im, GWM_F32, &per, NULL, &mul),
        va = vm < 0 ? vm : gwm_const(im, GWM_F32, &per, NULL, &add);
    if (va < 0) return gwm_op_fail(im, va, "out of memory");
    for (int32_t i = 0; i < c; i++) {
        float s = p[0][i] / sqrtf(p[3][i] + epsilon);
        ((float *)mul)[i] = s;
        ((float *)add)[i] = p[1][i] - p[2][i] * s;
    }
    int v = emit_binary(im, GWM_MUL, im->in[0], vm, "");
    return v < 0 ? v : gwm_result(im, emit_binary(im, GWM_ADD, v, va, im->node->output[0]));
}

const struct gwm_operator gwm_ops_math[] = {
    {"Relu", 1, 1, false, "", activation},
    {"LeakyRelu", 1, 1, false, "alpha ", activation},
    {"Sigmoid", 1, 1, false, "", activation},
    {"Tanh", 1, 1, false, "", activation},
    {"Clip", 1, 3, false, "min max ", clip},
    {"Add", 2, 2, true, "", binary},
    {"Sub", 2, 2, true, "", binary},
    {"Mul", 2, 2, true, "", binary},
    {"Div", 2, 2, true, "", binary},
    {"Gemm", 2, 3, false, "alpha beta transA transB ", gemm},
    {"MatMul", 2, 2, false, "", matmul},
    {"Softmax", 1, 1, false, "axis ", softmax},
    {"BatchNormalization", 5, 5, false, "epsilon momentum spatial training_mode ", batch_norm},
    {0},
};
