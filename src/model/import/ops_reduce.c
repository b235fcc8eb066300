/* SPDX-License-Identifier: Apache-2.0 */
/* Operators that sum along axes: softmax, normalisations, reductions. */
#include <errno.h>
#include <math.h>
#include <string.h>

#include "src/model/import/ops.h"

/* The sizes before, of and after one axis. */
static void around(const struct gwm_shape *s, int axis, int32_t *outer, int32_t *n, int32_t *inner)
{
    *outer = *inner = 1;
    *n = s->d[axis];
    for (int i = 0; i < (int)s->rank; i++) {
        if (i < axis) *outer *= s->d[i];
        if (i > axis) *inner *= s->d[i];
    }
}

static int ops_softmax(struct gwm_import *im)
{
    struct gwm_shape shape = gwm_in(im, 0)->shape;
    int64_t axis = im->opset < 13 ? 1 : -1;
    struct gwm_softmax s = {.log = im->node->op_type[0] == 'L'};
    int err = gwm_attr_int(im, "axis", &axis);

    if (err < 0 || (err = gwm_axis(im, axis, shape.rank)) < 0) return err;
    around(&shape, err, &s.outer, &s.n, &s.inner);
    if (im->opset < 13) { /* before 13 all dimensions from the axis on count as one */
        s.n *= s.inner;
        s.inner = 1;
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
    int err = gwm_attr_float(im, "epsilon", &epsilon);

    if (err < 0 || (err = gwm_attr_int(im, "training_mode", &training)) < 0 ||
        (err = gwm_attr_int(im, "spatial", &spatial)) < 0)
        return err;
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
    int v = gwm_emit_binary(im, GWM_MUL, im->in[0], vm, "");
    return v < 0 ? v : gwm_result(im, gwm_emit_binary(im, GWM_ADD, v, va, im->node->output[0]));
}

/* ---- normalisation with statistics of the input ---- */

/* A constant of n elements, all the same. */
static int all_of(struct gwm_import *im, int32_t n, float value)
{
    struct gwm_shape s = {.rank = 1, .d = {n}};
    void *room;
    int v = gwm_const(im, GWM_F32, &s, NULL, &room);

    for (int32_t i = 0; v >= 0 && i < n; i++) ((float *)room)[i] = value;
    return v < 0 ? gwm_op_fail(im, v, "out of memory") : v;
}

/* Emits the node. Scale and bias are inputs 1 and 2, of `channels` elements, or left out. */
static int emit_norm(struct gwm_import *im, struct gwm_norm s)
{
    struct gwm_shape shape = gwm_in(im, 0)->shape;
    int in[3] = {im->in[0], -1, -1};

    for (uint32_t i = 1; i < 3; i++) {
        const struct gwm_value *v = gwm_in(im, i);
        in[i] = v ? im->in[i] : all_of(im, s.channels, i == 1 ? 1 : 0);
        if (in[i] < 0) return in[i];
        if (im->g->value[in[i]].dtype != GWM_F32 || im->g->value[in[i]].count != s.channels)
            return gwm_op_fail(im, -ENOTSUP, "scale and bias must have %d floats each", s.channels);
    }
    if (!s.n || !s.inner || !s.channels) return gwm_op_fail(im, -ENOTSUP, "its input has no elements");
    int n = gwm_emit(im, GWM_NORM, in, 3, &shape, im->node->output[0]);
    if (n < 0) return n;
    im->g->node[n].norm = s;
    return gwm_result(im, gwm_settle(im, n));
}

static int layer_norm(struct gwm_import *im)
{
    struct gwm_norm s = {.outer = 1,
                         .n = 1,
                         .inner = 1,
                         .epsilon = 1e-5f,
                         .rms = !strcmp(im->node->op_type, "RMSNormalization")};
    const struct gwm_shape *x = &gwm_in(im, 0)->shape;
    int64_t axis = -1;
    int err = gwm_attr_int(im, "axis", &axis);

    if (err < 0 || (err = gwm_attr_float(im, "epsilon", &s.epsilon)) < 0 ||
        (err = gwm_axis(im, axis, x->rank)) < 0)
        return err;
    for (int i = 0; i < (int)x->rank; i++) *(i < err ? &s.outer : &s.n) *= x->d[i];
    s.channels = s.n;
    return emit_norm(im, s);
}

static int group_norm(struct gwm_import *im)
{
    struct gwm_norm s = {.epsilon = 1e-5f};
    const struct gwm_shape *x = &gwm_in(im, 0)->shape;
    bool instance = im->node->op_type[0] == 'I';
    int64_t groups = 0;
    int err = gwm_attr_float(im, "epsilon", &s.epsilon);

    if (err < 0 || (err = gwm_attr_int(im, "num_groups", &groups)) < 0) return err;
    if (x->rank < 2) return gwm_op_fail(im, -EBADMSG, "its input has no channels");
    s.channels = x->d[1];
    if (instance) groups = s.channels;
    if (groups < 1 || s.channels % groups)
        return gwm_op_fail(im, -EBADMSG, "the channels do not divide into groups");
    if (!instance && im->opset < 21 && groups != s.channels)
        return gwm_op_fail(im, -ENOTSUP,
                           "before operator set 21 its scale is one per group; export with a newer one");
    s.inner = 1;
    for (uint32_t i = 2; i < x->rank; i++) s.inner *= x->d[i];
    s.outer = x->d[0] * (int32_t)groups;
    s.n = s.channels / (int32_t)groups * s.inner;
    return emit_norm(im, s);
}

/* ---- reductions ---- */

static const struct {
    const char *op;
    enum gwm_reduce_kind kind;
    bool log; /* the logarithm of it */
} kinds[] = {
    {"ReduceSum", GWM_REDUCE_SUM, false},
    {"ReduceMean", GWM_REDUCE_MEAN, false},
    {"ReduceMax", GWM_REDUCE_MAX, false},
    {"ReduceMin", GWM_REDUCE_MIN, false},
    {"ReduceProd", GWM_REDUCE_PROD, false},
    {"ReduceL1", GWM_REDUCE_L1, false},
    {"ReduceL2", GWM_REDUCE_L2, false},
    {"ReduceSumSquare", GWM_REDUCE_SUM_SQUARE, false},
    {"ReduceLogSumExp", GWM_REDUCE_LOG_SUM_EXP, false},
    {"ReduceLogSum", GWM_REDUCE_SUM, true},
    {"ArgMax", GWM_REDUCE_ARGMAX, false},
    {"ArgMin", GWM_REDUCE_ARGMIN, false},
};

/* The axes as bits: an attribute in old files, an input in new ones; all of them when there are none. */
static int read_axes(struct gwm_import *im, uint32_t rank, uint32_t *mask)
{
    int64_t axes[GW_MODEL_MAX_RANK], noop = 0;
    int n = gwm_in(im, 1) ? gwm_in_ints(im, 1, axes, GW_MODEL_MAX_RANK)
                          : gwm_attr_ints(im, "axes", axes, GW_MODEL_MAX_RANK);
    int err = gwm_attr_int(im, "noop_with_empty_axes", &noop);

    if (err < 0 || (n < 0 && n != -ENOENT)) return err < 0 ? err : n;
    *mask = 0;
    for (int i = 0; i < n; i++) {
        int a = gwm_axis(im, axes[i], rank);
        if (a < 0) return a;
        *mask |= 1u << a;
    }
    if (n <= 0 && !noop) *mask = (1u << rank) - 1;
    return 0;
}

/* Emits the reduction of axes that lie side by side, from the first one that `mask` has on; its value. */
static int emit_reduce(struct gwm_import *im, struct gwm_reduce r, int x, uint32_t mask,
                       const struct gwm_shape *out, const char *name)
{
    const struct gwm_shape s = im->g->value[x].shape;
    bool arg = r.kind >= GWM_REDUCE_ARGMAX, inside = false;
    uint32_t i = 0;

    r.outer = r.n = r.inner = 1;
    for (; i < s.rank; i++) {
        inside = inside || mask >> i & 1;
        *(mask >> i & 1 ? &r.n : inside ? &r.inner : &r.outer) *= s.d[i];
    }
    if (!r.n) return gwm_op_fail(im, -ENOTSUP, "a reduction of no elements");
    int n = gwm_emit(im, GWM_REDUCE, &x, 1, out, name);
    if (arg) n = gwm_typed(im, n, GW_DTYPE_I64);
    if (n < 0) return n;
    im->g->node[n].reduce = r;
    return gwm_settle(im, n);
}

/* Brings the axes of the mask to the end, unless they lie side by side. */
static int gather_axes(struct gwm_import *im, int x, uint32_t *mask)
{
    uint32_t rank = im->g->value[x].shape.rank, low = 0, at = 0, left = *mask, count = 0;
    int32_t perm[GW_MODEL_MAX_RANK];

    while (left && !(left >> low & 1)) low++;
    for (uint32_t m = *mask; m; m &= m - 1) count++;
    if (*mask >> low == (1u << count) - 1) return x;
    for (int pass = 0; pass < 2; pass++)
        for (uint32_t i = 0; i < rank; i++)
            if ((int)(*mask >> i & 1) == pass) perm[at++] = (int32_t)i;
    *mask = ((1u << count) - 1) << (rank - count);
    return gwm_emit_transpose(im, x, perm, "");
}

static int finish_reduce(struct gwm_import *im, struct gwm_reduce r, uint32_t mask, bool keep, bool log)
{
    struct gwm_shape x = gwm_in(im, 0)->shape, s = {0};
    struct gwm_act act = {.kind = GWM_ACT_LOG};

    for (uint32_t i = 0; i < x.rank; i++) {
        if (!(mask >> i & 1))
            s.d[s.rank++] = x.d[i];
        else if (keep)
            s.d[s.rank++] = 1;
    }
    if (!mask && log) return gwm_result(im, gwm_emit_unary(im, act, im->in[0], im->node->output[0]));
    if (!mask) return gwm_result(im, gwm_reshape(im, im->in[0], &s));
    bool wraps = r.kind != GWM_REDUCE_MAX && r.kind != GWM_REDUCE_MIN && r.kind < GWM_REDUCE_ARGMAX &&
                 gwm_is_narrow(gwm_in(im, 0)->type);
    int v = gather_axes(im, im->in[0], &mask);
    if (v >= 0) v = emit_reduce(im, r, v, mask, &s, log || wraps ? "" : im->node->output[0]);
    if (v >= 0 && wraps) v = gwm_emit_wrapped(im, v, im->node->output[0]);
    return gwm_result(im, v < 0 || !log ? v : gwm_emit_unary(im, act, v, im->node->output[0]));
}

static int ops_reduce(struct gwm_import *im)
{
    const struct gwm_value *x = gwm_in(im, 0);
    struct gwm_reduce r = {0};
    int64_t keep = 1;
    uint32_t mask;
    size_t i = 0;
    int err = gwm_attr_int(im, "keepdims", &keep);

    while (strcmp(kinds[i].op, im->node->op_type)) i++;
    r.kind = kinds[i].kind;
    if (err < 0 || (err = read_axes(im, x->shape.rank, &mask)) < 0) return err;
    if ((x->dtype == GWM_I64 && (kinds[i].log || r.kind == GWM_REDUCE_L2)) ||
        (x->dtype != GWM_F32 && r.kind == GWM_REDUCE_LOG_SUM_EXP))
        return gwm_op_fail(im, -ENOTSUP, "only float32 and float16 are supported");
    if (!mask && (r.kind == GWM_REDUCE_L1 || r.kind == GWM_REDUCE_L2 || r.kind == GWM_REDUCE_SUM_SQUARE))
        return gwm_op_fail(im, -ENOTSUP, "no axes");
    return finish_reduce(im, r, mask, keep != 0, kinds[i].log);
}

static int arg(struct gwm_import *im)
{
    struct gwm_reduce r = {.kind =
                               !strcmp(im->node->op_type, "ArgMax") ? GWM_REDUCE_ARGMAX : GWM_REDUCE_ARGMIN};
    int64_t keep = 1, axis = 0, last = 0;
    int err = gwm_attr_int(im, "keepdims", &keep);

    if (err < 0 || (err = gwm_attr_int(im, "axis", &axis)) < 0 ||
        (err = gwm_attr_int(im, "select_last_index", &last)) < 0 ||
        (err = gwm_axis(im, axis, gwm_in(im, 0)->shape.rank)) < 0)
        return err;
    r.last = last != 0;
    return finish_reduce(im, r, 1u << err, keep != 0, false);
}

static int cumsum(struct gwm_import *im)
{
    struct gwm_shape shape = gwm_in(im, 0)->shape;
    int64_t axis, exclusive = 0, reverse = 0;
    struct gwm_cumsum s = {0};
    int err = gwm_in_ints(im, 1, &axis, 1);

    if (err < 0) return err;
    if (err != 1) return gwm_op_fail(im, -EBADMSG, "it has no axis");
    if ((err = gwm_attr_int(im, "exclusive", &exclusive)) < 0 ||
        (err = gwm_attr_int(im, "reverse", &reverse)) < 0 || (err = gwm_axis(im, axis, shape.rank)) < 0)
        return err;
    around(&shape, err, &s.outer, &s.n, &s.inner);
    s.exclusive = exclusive != 0;
    s.reverse = reverse != 0;
    int n = gwm_emit(im, GWM_CUMSUM, im->in, 1, &shape, im->node->output[0]);
    if (n < 0) return n;
    im->g->node[n].cumsum = s;
    return gwm_result(im, gwm_settle(im, n));
}

/* What is divided by: 1 instead of 0. */
static int nonzero(struct gwm_import *im, int x)
{
    struct gwm_shape s = {0};
    float none = 0;
    int zero = gwm_const(im, GWM_F32, &s, &none, NULL);
    int is = zero < 0 ? zero : gwm_emit_binary(im, GWM_EQUAL, x, zero, "");
    int more = is < 0 ? is : gwm_emit_convert(im, is, GW_DTYPE_F32, "");

    return more < 0 ? more : gwm_emit_binary(im, GWM_ADD, x, more, "");
}

/* x divided by the norm of the axis; zeros stay */
static int lp_norm(struct gwm_import *im)
{
    struct gwm_shape s = gwm_in(im, 0)->shape;
    int64_t axis = -1, p = 2;
    int err = gwm_attr_int(im, "axis", &axis);

    if (err < 0 || (err = gwm_attr_int(im, "p", &p)) < 0 || (err = gwm_axis(im, axis, s.rank)) < 0)
        return err;
    if (p != 1 && p != 2) return gwm_op_fail(im, -ENOTSUP, "norms other than 1 and 2");
    struct gwm_reduce r = {.kind = p == 1 ? GWM_REDUCE_L1 : GWM_REDUCE_L2};
    s.d[err] = 1;
    int v = emit_reduce(im, r, im->in[0], 1u << err, &s, "");
    if (v >= 0) v = nonzero(im, v);
    return gwm_result(im, v < 0 ? v : gwm_emit_binary(im, GWM_DIV, im->in[0], v, im->node->output[0]));
}

const struct gwm_operator gwm_ops_reduce[] = {
    {"Softmax", 1, 1, false, "axis ", ops_softmax},
    {"LogSoftmax", 1, 1, false, "axis ", ops_softmax},
    {"BatchNormalization", 5, 5, false, "epsilon momentum spatial training_mode ", batch_norm},
    {"LayerNormalization", 2, 3, false, "axis epsilon stash_type ", layer_norm},
    {"RMSNormalization", 2, 2, false, "axis epsilon stash_type ", layer_norm},
    {"GroupNormalization", 3, 3, false, "epsilon num_groups stash_type ", group_norm},
    {"InstanceNormalization", 3, 3, false, "epsilon ", group_norm},
    {"LpNormalization", 1, 1, false, "axis p ", lp_norm},
    {"ReduceSum", 1, 2, true, "axes keepdims noop_with_empty_axes ", ops_reduce},
    {"ReduceMean", 1, 2, true, "axes keepdims noop_with_empty_axes ", ops_reduce},
    {"ReduceMax", 1, 2, true, "axes keepdims noop_with_empty_axes ", ops_reduce},
    {"ReduceMin", 1, 2, true, "axes keepdims noop_with_empty_axes ", ops_reduce},
    {"ReduceProd", 1, 2, true, "axes keepdims noop_with_empty_axes ", ops_reduce},
    {"ReduceL1", 1, 2, true, "axes keepdims noop_with_empty_axes ", ops_reduce},
    {"ReduceL2", 1, 2, true, "axes keepdims noop_with_empty_axes ", ops_reduce},
    {"ReduceSumSquare", 1, 2, true, "axes keepdims noop_with_empty_axes ", ops_reduce},
    {"ReduceLogSumExp", 1, 2, true, "axes keepdims noop_with_empty_axes ", ops_reduce},
    {"ReduceLogSum", 1, 2, true, "axes keepdims noop_with_empty_axes ", ops_reduce},
    {"ArgMax", 1, 1, true, "axis keepdims select_last_index ", arg},
    {"ArgMin", 1, 1, true, "axis keepdims select_last_index ", arg},
    {"CumSum", 2, 2, true, "exclusive reverse ", cumsum},
    {0},
};
