/* SPDX-License-Identifier: Apache-2.0 */
/* Finds tensors that may hold NaN or infinities although the inputs of a run hold none; looks whether
 * inputs do. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "src/model/cpu/ordinary.h"

#include "src/model/graph/half.h"

static bool floats_ordinary(const float *x, int32_t n)
{
    int32_t odd = 0;

    for (int32_t i = 0; i < n; i++) odd |= !(fabsf(x[i]) <= GWM_ORDINARY);
    return !odd;
}

static bool doubles_ordinary(const double *x, int32_t n)
{
    int32_t odd = 0;

    for (int32_t i = 0; i < n; i++) odd |= !(fabs(x[i]) <= (double)GWM_ORDINARY);
    return !odd;
}

/* Numbers of 16 bits whose exponent has all bits of `infinite`: NaN and infinities; and all above it. */
static bool halves_ordinary(const uint16_t *x, int32_t n, uint16_t infinite)
{
    int32_t odd = 0;

    for (int32_t i = 0; i < n; i++) odd |= (x[i] & 0x7fff) >= infinite;
    return !odd;
}

bool gwm_is_ordinary(const struct gwm_graph *g, const void *const in[])
{
    bool yes = true;

    for (uint32_t i = 0; i < g->ninput && yes; i++) {
        const struct gwm_value *v = &g->value[g->input[i]];
        if (v->dtype == GW_DTYPE_F32) yes = floats_ordinary(in[i], v->count);
        if (v->dtype == GW_DTYPE_F64) yes = doubles_ordinary(in[i], v->count);
        if (v->dtype == GW_DTYPE_F16) yes = halves_ordinary(in[i], v->count, 0x7c00);
        if (v->dtype == GW_DTYPE_BF16) yes = halves_ordinary(in[i], v->count, 0x4980); /* 2^20 */
    }
    return yes;
}

/* ---- the graph ---- */

#define LEAST 1e-12f /* what may be divided by */

/* What is known of all elements of a root. */
enum sign {
    ANY,
    NOT_BELOW_0,
    ABOVE_0, /* LEAST at least */
};

struct walk {
    const struct gwm_graph *g;
    bool *odd;
    enum sign *sign;
};

static enum sign sign_of(const struct walk *w, int value)
{
    return w->sign[w->g->value[value].root];
}

/* Of a constant. For a divisor numbers below 0 are as good. */
static enum sign sign_of_floats(const float *x, int32_t n, bool either)
{
    enum sign s = ABOVE_0;

    for (int32_t i = 0; i < n; i++) {
        float v = either ? fabsf(x[i]) : x[i];
        if (!(v >= LEAST) && s > NOT_BELOW_0) s = NOT_BELOW_0;
        if (!(v >= 0)) s = ANY;
    }
    return s;
}

static enum sign sign_after(const struct gwm_act *a, enum sign x)
{
    switch (a->kind) {
    case GWM_ACT_NONE:
    case GWM_ACT_SQRT: return x;
    case GWM_ACT_ABS:
    case GWM_ACT_RELU: return x > NOT_BELOW_0 ? x : NOT_BELOW_0;
    case GWM_ACT_SIGMOID:
    case GWM_ACT_HSIGMOID: return NOT_BELOW_0;
    case GWM_ACT_CLIP: return a->a >= LEAST ? ABOVE_0 : a->a >= 0 ? NOT_BELOW_0 : ANY;
    case GWM_ACT_POW: return a->a == 2 ? NOT_BELOW_0 : ANY;
    case GWM_ACT_AFFINE:
        return x == ANY || a->a < 0 || a->b < 0 ? ANY : a->b >= LEAST ? ABOVE_0 : NOT_BELOW_0;
    default: return ANY;
    }
}

/* Before the function of the node. */
static enum sign sign_made(const struct walk *w, const struct gwm_node *n)
{
    enum sign a = sign_of(w, n->in[0]), b = n->nin > 1 ? sign_of(w, n->in[1]) : ANY;

    switch (n->op) {
    case GWM_UNARY:
    case GWM_MOVE:
    case GWM_GATHER: return a;
    case GWM_SOFTMAX: return n->softmax.log ? ANY : NOT_BELOW_0;
    case GWM_REDUCE:
        return n->reduce.kind == GWM_REDUCE_MEAN || n->reduce.kind == GWM_REDUCE_MAX ? a
               : n->reduce.kind == GWM_REDUCE_SUM && a > ANY                         ? NOT_BELOW_0
                                                                                     : ANY;
    case GWM_BINARY:
        if (n->binary.kind == GWM_MUL && n->in[0] == n->in[1]) return NOT_BELOW_0;
        if (n->binary.kind == GWM_ADD && a > ANY && b > ANY) return a > b ? a : b;
        return n->binary.kind == GWM_MAX ? (a > b ? a : b) : ANY;
    default: return ANY;
    }
}

static bool act_odd(const struct gwm_act *a, enum sign x)
{
    switch (a->kind) {
    case GWM_ACT_EXP: return true;
    case GWM_ACT_SQRT: return x == ANY;
    case GWM_ACT_LOG:
    case GWM_ACT_RECIPROCAL: return x != ABOVE_0;
    case GWM_ACT_POW: return a->a != 2 && a->a != 3;
    case GWM_ACT_CLIP: return false;
    default: return !(fabsf(a->a) <= GWM_ORDINARY);
    }
}

static bool binary_odd(const struct walk *w, const struct gwm_node *n)
{
    const struct gwm_value *by = &w->g->value[n->in[1]];

    switch (n->binary.kind) {
    case GWM_DIV:
        return by->data && by->dtype == GWM_F32 ? sign_of_floats(by->data, by->count, true) != ABOVE_0
                                                : sign_of(w, n->in[1]) != ABOVE_0;
    case GWM_POW:
    case GWM_MOD:
    case GWM_FMOD: return true;
    default: return false;
    }
}

/* Does the node make odd numbers of ordinary ones? */
static bool node_odd(const struct walk *w, const struct gwm_node *n)
{
    const struct gwm_conv *c = &n->conv;

    if (act_odd(&n->act, sign_made(w, n))) return true;
    switch (n->op) {
    case GWM_CONV:
    case GWM_DECONV:
        return !floats_ordinary(c->weight, c->oc * (c->win.c / c->group) * c->win.kh * c->win.kw) ||
               (c->bias && !floats_ordinary(c->bias, c->oc));
    case GWM_GEMM: return n->gemm.bias && !floats_ordinary(n->gemm.bias, n->gemm.n);
    case GWM_BINARY: return w->g->value[n->in[0]].dtype != GWM_I64 && binary_odd(w, n);
    case GWM_REDUCE: return n->reduce.kind == GWM_REDUCE_PROD;
    case GWM_NORM: return !(n->norm.epsilon > LEAST);
    case GWM_PAD: return !(fabsf(n->mv.pad_float) <= GWM_ORDINARY);
    default: return false;
    }
}

static void walk_node(const struct walk *w, const struct gwm_node *n)
{
    int to = w->g->value[n->out].root;
    bool is = node_odd(w, n);

    for (uint32_t k = 0; k < n->nin; k++) is = is || w->odd[w->g->value[n->in[k]].root];
    w->odd[to] = is;
    w->sign[to] = sign_after(&n->act, sign_made(w, n));
}

int gwm_odd(const struct gwm_graph *g, bool *odd)
{
    struct walk w = {g, odd, (enum sign *)calloc((size_t)g->nvalue + 1, sizeof(enum sign))};

    if (!w.sign) return -ENOMEM;
    for (int v = 0; v < g->nvalue; v++) {
        const struct gwm_value *val = &g->value[v];
        odd[v] = false;
        if (val->root != v || !val->data || val->dtype != GWM_F32) continue;
        odd[v] = !floats_ordinary(val->data, val->count);
        w.sign[v] = sign_of_floats(val->data, val->count, false);
    }
    for (int i = 0; i < g->nnode; i++)
        if (!g->node[i].dead) walk_node(&w, &g->node[i]);
    free(w.sign);
    return 0;
}
