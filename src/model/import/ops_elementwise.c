/* SPDX-License-Identifier: Apache-2.0 */
/* Operators that compute element by element: activations, arithmetic, comparisons, selection, conversion. */
#include <errno.h>
#include <float.h>
#include <math.h>
#include <string.h>

#include "src/model/graph/move.h"
#include "src/model/import/ops.h"
#include "src/model/import/tensor.h"

bool gwm_is_narrow(uint32_t type)
{
    return type > GW_DTYPE_BOOL && type != GW_DTYPE_I64 && type != GW_DTYPE_U64;
}

int gwm_emit_wrapped(struct gwm_import *im, int x, const char *name)
{
    struct gwm_shape s = im->g->value[x].shape;
    uint32_t type = im->g->value[x].type;
    int n = gwm_emit(im, GWM_CONVERT, &x, 1, &s, name);

    if (n < 0) return n;
    im->g->node[n].convert.to = type;
    return gwm_settle(im, n);
}

int gwm_emit_unary(struct gwm_import *im, struct gwm_act act, int x, const char *name)
{
    struct gwm_shape shape = im->g->value[x].shape;
    bool wraps = gwm_is_narrow(im->g->value[x].type) && (act.kind == GWM_ACT_NEG || act.kind == GWM_ACT_ABS);
    int n = gwm_emit(im, GWM_UNARY, &x, 1, &shape, wraps ? "" : name);

    if (n < 0) return n;
    im->g->node[n].act = act;
    int v = gwm_settle(im, n);
    return v < 0 || !wraps ? v : gwm_emit_wrapped(im, v, name);
}

/* Computes an operator with one input, and at most two numbers as attributes. */
struct function {
    const char *op;
    struct gwm_act act;
    const char *a, *b; /* names of the attributes */
    bool ints;
};

static const struct function functions[] = {
    {"Relu", {GWM_ACT_RELU, 0, 0}, NULL, NULL, true},
    {"LeakyRelu", {GWM_ACT_LEAKY, 0.01f, 0}, "alpha", NULL, false},
    {"Sigmoid", {GWM_ACT_SIGMOID, 0, 0}, NULL, NULL, false},
    {"Tanh", {GWM_ACT_TANH, 0, 0}, NULL, NULL, false},
    {"HardSigmoid", {GWM_ACT_HSIGMOID, 0.2f, 0.5f}, "alpha", "beta", false},
    {"HardSwish", {GWM_ACT_HSWISH, 0, 0}, NULL, NULL, false},
    {"Swish", {GWM_ACT_SILU, 1, 0}, "alpha", NULL, false},
    {"Erf", {GWM_ACT_ERF, 0, 0}, NULL, NULL, false},
    {"Exp", {GWM_ACT_EXP, 0, 0}, NULL, NULL, false},
    {"Log", {GWM_ACT_LOG, 0, 0}, NULL, NULL, false},
    {"Sqrt", {GWM_ACT_SQRT, 0, 0}, NULL, NULL, false},
    {"Reciprocal", {GWM_ACT_RECIPROCAL, 0, 0}, NULL, NULL, false},
    {"Abs", {GWM_ACT_ABS, 0, 0}, NULL, NULL, true},
    {"Neg", {GWM_ACT_NEG, 0, 0}, NULL, NULL, true},
    {"Sign", {GWM_ACT_SIGN, 0, 0}, NULL, NULL, true},
    {"Floor", {GWM_ACT_FLOOR, 0, 0}, NULL, NULL, false},
    {"Ceil", {GWM_ACT_CEIL, 0, 0}, NULL, NULL, false},
    {"Round", {GWM_ACT_ROUND, 0, 0}, NULL, NULL, false},
    {"Sin", {GWM_ACT_SIN, 0, 0}, NULL, NULL, false},
    {"Cos", {GWM_ACT_COS, 0, 0}, NULL, NULL, false},
    {"Elu", {GWM_ACT_ELU, 1, 0}, "alpha", NULL, false},
    {"Selu", {GWM_ACT_SELU, 1.67326319f, 1.05070102f}, "alpha", "gamma", false},
    {"Celu", {GWM_ACT_CELU, 1, 0}, "alpha", NULL, false},
    {"Softplus", {GWM_ACT_SOFTPLUS, 0, 0}, NULL, NULL, false},
    {"Softsign", {GWM_ACT_SOFTSIGN, 0, 0}, NULL, NULL, false},
    {"Mish", {GWM_ACT_MISH, 0, 0}, NULL, NULL, false},
    {"Not", {GWM_ACT_NOT, 0, 0}, NULL, NULL, true},
};

static int function(struct gwm_import *im)
{
    const struct function *f = functions;
    int err = 0;

    while (strcmp(f->op, im->node->op_type)) f++;
    struct gwm_act act = f->act;
    if (f->a) err = gwm_attr_float(im, f->a, &act.a);
    if (err >= 0 && f->b) err = gwm_attr_float(im, f->b, &act.b);
    if (err < 0) return err;
    if (act.kind == GWM_ACT_NOT && gwm_in(im, 0)->dtype != GWM_I64)
        return gwm_op_fail(im, -EBADMSG, "its input is not of booleans");
    return gwm_result(im, gwm_emit_unary(im, act, im->in[0], im->node->output[0]));
}

static int gelu(struct gwm_import *im)
{
    char approximate[8] = "none";
    int err = gwm_attr_string(im, "approximate", approximate, sizeof(approximate));

    if (err < 0) return err;
    struct gwm_act act = {.kind = strcmp(approximate, "tanh") ? GWM_ACT_GELU : GWM_ACT_GELU_TANH};
    return gwm_result(im, gwm_emit_unary(im, act, im->in[0], im->node->output[0]));
}

/* ---- two inputs ---- */

static bool compares(enum gwm_binary kind)
{
    return kind >= GWM_EQUAL;
}

/* Does the result depend on what an integer's first bit means? */
static bool orders(enum gwm_binary kind)
{
    return kind == GWM_DIV || (kind >= GWM_MIN && kind <= GWM_PRELU) ||
           (kind >= GWM_LESS && kind <= GWM_GREATER_EQUAL);
}

int gwm_emit_binary(struct gwm_import *im, enum gwm_binary kind, int a, int b, const char *name)
{
    const struct gwm_value *va = &im->g->value[a], *vb = &im->g->value[b];
    struct gwm_broadcast bc;
    struct gwm_shape out;
    int in[2] = {a, b};

    if (va->dtype != vb->dtype) return gwm_op_fail(im, -EBADMSG, "its inputs are of different types");
    if (va->type == GW_DTYPE_U64 && orders(kind) && !(va->data && vb->data))
        return gwm_op_fail(im, -ENOTSUP,
                           "uint64 numbers are not divided or put in an order; convert them to int64");
    if (kind >= GWM_AND && va->dtype != GWM_I64)
        return gwm_op_fail(im, -EBADMSG, "its inputs are not of booleans");
    int err = gwm_broadcast(&bc, &out, &va->shape, &vb->shape);
    if (err == -EINVAL) return gwm_op_fail(im, -EBADMSG, "the shapes of its inputs do not fit");
    if (err) return gwm_op_fail(im, -ENOTSUP, "its result has more than 2^28 elements");
    bool wraps = kind <= GWM_POW && gwm_is_narrow(va->type);
    int n = gwm_emit(im, GWM_BINARY, in, 2, &out, wraps ? "" : name);
    if (compares(kind)) n = gwm_typed(im, n, GW_DTYPE_BOOL);
    if (n < 0) return n;
    im->g->node[n].binary.kind = kind;
    im->g->node[n].binary.bc = bc;
    int v = gwm_settle(im, n);
    return v < 0 || !wraps ? v : gwm_emit_wrapped(im, v, name);
}

static const struct {
    const char *op;
    enum gwm_binary kind;
} kinds[] = {
    {"Add", GWM_ADD},
    {"Sub", GWM_SUB},
    {"Mul", GWM_MUL},
    {"Div", GWM_DIV},
    {"PRelu", GWM_PRELU},
    {"Equal", GWM_EQUAL},
    {"Less", GWM_LESS},
    {"LessOrEqual", GWM_LESS_EQUAL},
    {"Greater", GWM_GREATER},
    {"And", GWM_AND},
    {"GreaterOrEqual", GWM_GREATER_EQUAL},
    {"Or", GWM_OR},
    {"Xor", GWM_XOR},
    {"Min", GWM_MIN},
    {"Max", GWM_MAX},
    {"Sum", GWM_ADD},
    {"Mean", GWM_ADD},
};

static enum gwm_binary ops_kind_of(const char *op)
{
    size_t i = 0;

    while (strcmp(kinds[i].op, op)) i++;
    return kinds[i].kind;
}

/* Sums, products and quotients with one constant number are functions of one input: they fuse better. */
static int with_number(struct gwm_import *im, enum gwm_binary kind, int x, float c, bool left)
{
    struct gwm_act act = {.kind = GWM_ACT_AFFINE, .a = 1, .b = 0};

    if (kind == GWM_ADD)
        act.b = c;
    else if (kind == GWM_SUB && left)
        act.a = -1, act.b = c;
    else if (kind == GWM_SUB)
        act.b = -c;
    else if (kind == GWM_MUL)
        act.a = c;
    else if (kind == GWM_DIV && !left && fabsf(c) > FLT_MIN && fabsf(1 / c) > FLT_MIN)
        act.a = 1 / c;
    else
        return -ENOENT;
    return gwm_emit_unary(im, act, x, im->node->output[0]);
}

static int ops_binary(struct gwm_import *im)
{
    enum gwm_binary kind = ops_kind_of(im->node->op_type);

    for (uint32_t k = 0; k < 2; k++) {
        const struct gwm_value *c = gwm_in(im, k), *x = gwm_in(im, !k);
        if (!c->data || x->data || c->dtype != GWM_F32 || x->dtype != GWM_F32 || c->count != 1 ||
            c->shape.rank > x->shape.rank)
            continue;
        int v = with_number(im, kind, im->in[!k], *(const float *)c->data, k == 0);
        if (v != -ENOENT) return gwm_result(im, v);
    }
    return gwm_result(im, gwm_emit_binary(im, kind, im->in[0], im->in[1], im->node->output[0]));
}

static int number_f64(struct gwm_import *im, double v)
{
    struct gwm_shape s = {0};

    return gwm_const(im, GWM_F64, &s, &v, NULL);
}

/* Any number of inputs, two at a time. */
static int several(struct gwm_import *im)
{
    enum gwm_binary kind = ops_kind_of(im->node->op_type);
    bool mean = !strcmp(im->node->op_type, "Mean");
    int v = im->in[0];

    for (uint32_t i = 1; i < im->nin && v >= 0; i++) {
        if (im->in[i] < 0) return gwm_op_fail(im, -EBADMSG, "input %u is missing", i);
        v = gwm_emit_binary(im, kind, v, im->in[i], "");
    }
    if (v < 0) return v;
    if (mean && im->g->value[v].dtype == GWM_F64) {
        int n = number_f64(im, (double)im->nin);
        return gwm_result(im, n < 0 ? n : gwm_emit_binary(im, GWM_DIV, v, n, im->node->output[0]));
    }
    struct gwm_act by = {.kind = mean ? GWM_ACT_AFFINE : GWM_ACT_NONE, .a = 1 / (float)im->nin};
    return gwm_result(im, gwm_emit_unary(im, by, v, im->node->output[0]));
}

static int power(struct gwm_import *im)
{
    const struct gwm_value *x = gwm_in(im, 0), *e = gwm_in(im, 1);
    struct gwm_act act = {.kind = GWM_ACT_POW};
    int b = im->in[1];

    if (e->data && e->count == 1 && e->shape.rank <= x->shape.rank && x->dtype == GWM_F32) {
        act.a = e->dtype == GWM_F32 ? *(const float *)e->data : (float)*(const int64_t *)e->data;
        if (act.a == 1) act.kind = GWM_ACT_NONE;
        if (act.a == -1) act.kind = GWM_ACT_RECIPROCAL;
        return gwm_result(im, gwm_emit_unary(im, act, im->in[0], im->node->output[0]));
    }
    if (e->dtype != x->dtype) b = gwm_emit_convert(im, b, x->type, "");
    return gwm_result(im, b < 0 ? b : gwm_emit_binary(im, GWM_POW, im->in[0], b, im->node->output[0]));
}

static int modulo(struct gwm_import *im)
{
    int64_t fmod = 0;
    int err = gwm_attr_int(im, "fmod", &fmod);

    if (err < 0) return err;
    return gwm_result(
        im, gwm_emit_binary(im, fmod ? GWM_FMOD : GWM_MOD, im->in[0], im->in[1], im->node->output[0]));
}

/* ---- bounds ---- */

/* A bound is an attribute in old files, an input in new ones: a constant number, mostly. 1: it is a
 * tensor. */
static int clip_bound(struct gwm_import *im, uint32_t input, const char *attr, float *out)
{
    const float *p = gwm_in_floats(im, input, 1);

    if (p)
        *out = *p;
    else if (gwm_in(im, input))
        return 1;
    int err = gwm_attr_float(im, attr, out);
    return err < 0 ? err : 0;
}

static int clip(struct gwm_import *im)
{
    struct gwm_act act = {.kind = GWM_ACT_CLIP, .a = -FLT_MAX, .b = FLT_MAX};
    int low = clip_bound(im, 1, "min", &act.a), high = low < 0 ? low : clip_bound(im, 2, "max", &act.b),
        v = im->in[0];

    if (high < 0) return high;
    if (!low && !high && gwm_in(im, 0)->dtype == GWM_F32)
        return gwm_result(im, gwm_emit_unary(im, act, v, im->node->output[0]));
    if (gwm_attr(im, "min") || gwm_attr(im, "max"))
        return gwm_op_fail(im, -ENOTSUP, "bounds of integers or float64 must be inputs");
    bool wide = gwm_in(im, 0)->dtype == GWM_F64; /* of which infinities are left out, as of float32 */
    int least = gwm_in(im, 1) ? im->in[1] : wide ? number_f64(im, -DBL_MAX) : -1;
    int most = gwm_in(im, 2) ? im->in[2] : wide ? number_f64(im, DBL_MAX) : -1;
    if (least >= 0) v = gwm_emit_binary(im, GWM_MAX, v, least, "");
    if (v >= 0 && most >= 0) v = gwm_emit_binary(im, GWM_MIN, v, most, "");
    struct gwm_act none = {.kind = GWM_ACT_NONE};
    return gwm_result(im, v < 0 ? v : gwm_emit_unary(im, none, v, im->node->output[0]));
}

static int where(struct gwm_import *im)
{
    const struct gwm_value *c = gwm_in(im, 0), *a = gwm_in(im, 1), *b = gwm_in(im, 2);
    const struct gwm_shape *shapes[3] = {&c->shape, &a->shape, &b->shape};
    struct gwm_select s;
    struct gwm_shape out;

    if (c->dtype != GWM_I64) return gwm_op_fail(im, -EBADMSG, "its condition is not of booleans");
    if (a->dtype != b->dtype) return gwm_op_fail(im, -EBADMSG, "its inputs are of different types");
    int err = gwm_select_shape(&s, &out, shapes);
    if (err == -EINVAL) return gwm_op_fail(im, -EBADMSG, "the shapes of its inputs do not fit");
    if (err) return gwm_op_fail(im, -ENOTSUP, "its result has more than 2^28 elements");
    int n = gwm_emit(im, GWM_SELECT, im->in, 3, &out, im->node->output[0]);
    n = gwm_typed(im, n, gwm_in(im, 1)->type);
    if (n < 0) return n;
    im->g->node[n].select = s;
    return gwm_result(im, gwm_settle(im, n));
}

/* ---- types ---- */

int gwm_emit_convert(struct gwm_import *im, int x, uint32_t type, const char *name)
{
    const struct gwm_value *v = &im->g->value[x];
    struct gwm_shape s = v->shape;
    bool floats = (v->dtype == GWM_F32 && gwm_computed(type) == GWM_F32) || v->type == type;
    /* All integers are held as int64: only a narrower type, or a type that cannot hold negative numbers,
     * changes any. */
    bool fits = v->dtype == GWM_I64 && (type == GW_DTYPE_I64 || type == v->type || type == GW_DTYPE_U64);

    if (floats || fits) {
        int view = gwm_view_new(im->g, name, x, &s);
        if (view < 0) return gwm_op_fail(im, view, "out of memory");
        im->g->value[view].data = im->g->value[x].data;
        im->g->value[view].type = type;
        return view;
    }
    int n = gwm_typed(im, gwm_emit(im, GWM_CONVERT, &x, 1, &s, name), type);
    if (n < 0) return n;
    im->g->node[n].convert.to = type;
    return gwm_settle(im, n);
}

static int cast(struct gwm_import *im)
{
    int64_t to = 0;
    uint32_t type;

    if (!strcmp(im->node->op_type, "CastLike")) {
        type = gwm_in(im, 1)->type;
    } else {
        int err = gwm_attr_int(im, "to", &to);
        if (err < 0) return err;
        type = gwm_type(to);
        if (!type) return gwm_op_fail(im, -ENOTSUP, "conversion to %s", gwm_type_name(to));
    }
    return gwm_result(im, gwm_emit_convert(im, im->in[0], type, im->node->output[0]));
}

/* Scale or zero point of a quantisation: one number, or one per position along the axis; brought into the
 * shape that broadcasts. The value, or an error. */
static int quantisation(struct gwm_import *im, uint32_t input, uint32_t rank, int axis, int32_t side)
{
    const struct gwm_value *v = gwm_in(im, input);
    struct gwm_shape s = {.rank = v->count == 1 ? 0 : rank};

    if (v->count == 1 && v->shape.rank <= 1) return gwm_reshape(im, im->in[input], &s);
    if (v->shape.rank != 1 || v->count != side)
        return gwm_op_fail(im, -ENOTSUP, "scales must be one number, or one per position of the axis");
    for (uint32_t i = 0; i < rank; i++) s.d[i] = (int)i == axis ? side : 1;
    return gwm_reshape(im, im->in[input], &s);
}

static int read_quantisation(struct gwm_import *im, int *scale, int *zero)
{
    const struct gwm_shape x = gwm_in(im, 0)->shape;
    int64_t axis = 1, block = 0;
    int err = gwm_attr_int(im, "axis", &axis);

    if (err < 0 || (err = gwm_attr_int(im, "block_size", &block)) < 0) return err;
    if (block) return gwm_op_fail(im, -ENOTSUP, "scales per block");
    int a = gwm_in(im, 1)->count == 1 ? 0 : gwm_axis(im, axis, x.rank);
    if (a < 0) return a;
    if (gwm_in(im, 1)->dtype != GWM_F32) return gwm_op_fail(im, -EBADMSG, "its scale is no float");
    *scale = quantisation(im, 1, x.rank, a, x.rank ? x.d[a] : 1);
    *zero = *scale < 0 || !gwm_in(im, 2) ? -1 : quantisation(im, 2, x.rank, a, x.rank ? x.d[a] : 1);
    if (*scale < 0 || (gwm_in(im, 2) && *zero < 0)) return *scale < 0 ? *scale : *zero;
    return 0;
}

/* (x - zero) scale */
static int dequantize(struct gwm_import *im)
{
    int scale, zero, err = read_quantisation(im, &scale, &zero);
    int x = im->in[0];

    if (err < 0) return err;
    if (gwm_in(im, 0)->dtype != GWM_I64 || (zero >= 0 && im->g->value[zero].dtype != GWM_I64))
        return gwm_op_fail(im, -ENOTSUP, "only integers are dequantised");
    if (zero >= 0)
        x = gwm_emit_convert(im, x, GW_DTYPE_I64, ""); /* the difference is no number of its type */
    if (zero >= 0 && x >= 0) x = gwm_emit_binary(im, GWM_SUB, x, zero, "");
    if (x >= 0) x = gwm_emit_convert(im, x, GW_DTYPE_F32, "");
    return gwm_result(im, x < 0 ? x : gwm_emit_binary(im, GWM_MUL, x, scale, im->node->output[0]));
}

/* round(x / scale) + zero, within what the type can hold */
static int quantize(struct gwm_import *im)
{
    int64_t output_dtype = 0;
    int scale, zero, err = read_quantisation(im, &scale, &zero);

    if (err < 0 || (err = gwm_attr_int(im, "output_dtype", &output_dtype)) < 0) return err;
    uint32_t type = zero >= 0 ? im->g->value[zero].type : output_dtype ? gwm_type(output_dtype) : GW_DTYPE_U8;
    struct gwm_act round = {.kind = GWM_ACT_ROUND}, clip = {.kind = GWM_ACT_CLIP};
    switch (type) {
    case GW_DTYPE_U8: clip.b = 255; break;
    case GW_DTYPE_I8: clip.a = -128, clip.b = 127; break;
    case GW_DTYPE_U16: clip.b = 65535; break;
    case GW_DTYPE_I16: clip.a = -32768, clip.b = 32767; break;
    default: return gwm_op_fail(im, -ENOTSUP, "only 8 and 16 bits are supported");
    }
    int v = gwm_emit_binary(im, GWM_DIV, im->in[0], scale, "");
    if (v >= 0) v = gwm_emit_unary(im, round, v, "");
    if (v >= 0 && zero >= 0) {
        int z = gwm_emit_convert(im, zero, GW_DTYPE_F32, "");
        v = z < 0 ? z : gwm_emit_binary(im, GWM_ADD, v, z, "");
    }
    if (v >= 0) v = gwm_emit_unary(im, clip, v, "");
    return gwm_result(im, v < 0 ? v : gwm_emit_convert(im, v, type, im->node->output[0]));
}

const struct gwm_operator gwm_ops_elementwise[] = {
    {"Relu", 1, 1, true, "", function},
    {"LeakyRelu", 1, 1, GWM_REALS, "alpha ", function},
    {"Sigmoid", 1, 1, GWM_REALS, "", function},
    {"Tanh", 1, 1, GWM_REALS, "", function},
    {"HardSigmoid", 1, 1, GWM_REALS, "alpha beta ", function},
    {"HardSwish", 1, 1, false, "", function},
    {"Swish", 1, 1, false, "alpha ", function},
    {"Erf", 1, 1, GWM_REALS, "", function},
    {"Exp", 1, 1, GWM_REALS, "", function},
    {"Log", 1, 1, GWM_REALS, "", function},
    {"Sqrt", 1, 1, GWM_REALS, "", function},
    {"Reciprocal", 1, 1, GWM_REALS, "", function},
    {"Abs", 1, 1, true, "", function},
    {"Neg", 1, 1, true, "", function},
    {"Sign", 1, 1, true, "", function},
    {"Floor", 1, 1, GWM_REALS, "", function},
    {"Ceil", 1, 1, GWM_REALS, "", function},
    {"Round", 1, 1, GWM_REALS, "", function},
    {"Sin", 1, 1, GWM_REALS, "", function},
    {"Cos", 1, 1, GWM_REALS, "", function},
    {"Elu", 1, 1, GWM_REALS, "alpha ", function},
    {"Selu", 1, 1, GWM_REALS, "alpha gamma ", function},
    {"Celu", 1, 1, GWM_REALS, "alpha ", function},
    {"Softplus", 1, 1, GWM_REALS, "", function},
    {"Softsign", 1, 1, GWM_REALS, "", function},
    {"Mish", 1, 1, false, "", function},
    {"Not", 1, 1, true, "", function},
    {"Gelu", 1, 1, false, "approximate ", gelu},
    {"Clip", 1, 3, true, "min max ", clip},
    {"Add", 2, 2, true, "", ops_binary},
    {"Sub", 2, 2, true, "", ops_binary},
    {"Mul", 2, 2, true, "", ops_binary},
    {"Div", 2, 2, true, "", ops_binary},
    {"PRelu", 2, 2, true, "", ops_binary},
    {"Equal", 2, 2, true, "", ops_binary},
    {"Less", 2, 2, true, "", ops_binary},
    {"LessOrEqual", 2, 2, true, "", ops_binary},
    {"Greater", 2, 2, true, "", ops_binary},
    {"GreaterOrEqual", 2, 2, true, "", ops_binary},
    {"And", 2, 2, true, "", ops_binary},
    {"Or", 2, 2, true, "", ops_binary},
    {"Xor", 2, 2, true, "", ops_binary},
    {"Pow", 2, 2, true, "", power},
    {"Mod", 2, 2, true, "fmod ", modulo},
    {"Min", 1, GWM_MAX_INPUTS, true, "", several},
    {"Max", 1, GWM_MAX_INPUTS, true, "", several},
    {"Sum", 1, GWM_MAX_INPUTS, GWM_REALS, "", several},
    {"Mean", 1, GWM_MAX_INPUTS, GWM_REALS, "", several},
    {"Where", 3, 3, true, "", where},
    {"Cast", 1, 1, true, "to saturate ", cast},
    {"CastLike", 2, 2, true, "saturate ", cast},
    {"DequantizeLinear", 2, 3, true, "axis block_size output_dtype ", dequantize},
    {"QuantizeLinear", 2, 3, false, "axis block_size output_dtype saturate precision ", quantize},
    {0},
};
