/* SPDX-License-Identifier: Apache-2.0 */
/* Plain loops for what happens element by element. */
#include <math.h>
#include <string.h>

#include "src/model/graph/activate.h"
#include "src/model/ref/ref.h"

#define LOOP(expression)                                                                                     \
    do {                                                                                                     \
        for (int32_t i = 0; i < n; i++) y[i] = (expression);                                                 \
    } while (0)

/* The loops that a compiler can turn into vector instructions stand apart. */
void gwm_ref_act(const struct gwm_act *act, const float *x, float *y, int32_t n)
{
    const struct gwm_act f = *act; /* so that it is known not to lie in y */

    switch (f.kind) {
    case GWM_ACT_RELU: LOOP(x[i] < 0 ? 0 : x[i]); break; /* NaN stays */
    case GWM_ACT_LEAKY: LOOP(x[i] > 0 ? x[i] : f.a * x[i]); break;
    case GWM_ACT_AFFINE: LOOP(f.a * x[i] + f.b); break;
    case GWM_ACT_ABS: LOOP(fabsf(x[i])); break;
    case GWM_ACT_NEG: LOOP(-x[i]); break;
    case GWM_ACT_SQRT: LOOP(sqrtf(x[i])); break;
    case GWM_ACT_RECIPROCAL: LOOP(1 / x[i]); break;
    default: LOOP(gwm_activate(&f, x[i])); break;
    }
}

static void unary_ints(int32_t kind, const int64_t *x, int64_t *y, int32_t n)
{
    switch (kind) {
    case GWM_ACT_RELU: LOOP(x[i] > 0 ? x[i] : 0); break;
    case GWM_ACT_ABS: LOOP(x[i] < 0 ? (int64_t) - (uint64_t)x[i] : x[i]); break;
    case GWM_ACT_NEG: LOOP((int64_t) - (uint64_t)x[i]); break;
    case GWM_ACT_SIGN: LOOP((x[i] > 0) - (x[i] < 0)); break;
    case GWM_ACT_NOT: LOOP(!x[i]); break;
    default: LOOP(x[i]); break;
    }
}

void gwm_ref_unary(const struct gwm_act *act, uint32_t dtype, const void *x, void *y, int32_t n)
{
    if (act->kind == GWM_ACT_NONE)
        memmove(y, x, (size_t)n * gw_dtype_bytes(dtype));
    else if (dtype == GWM_F32)
        gwm_ref_act(act, x, y, n);
    else if (dtype == GWM_F64)
        for (int32_t i = 0; i < n; i++)
            ((double *)y)[i] = gwm_activate_f64(act->kind, act->a, act->b, ((const double *)x)[i]);
    else
        unary_ints(act->kind, x, y, n);
}

bool gwm_next_row(int32_t rank, const int32_t *dims, int32_t *at, const int32_t *const *stride,
                  int32_t *offset, int n)
{
    for (int32_t i = rank - 2; i >= 0; i--) {
        at[i]++;
        for (int v = 0; v < n; v++) offset[v] += stride[v][i];
        if (at[i] < dims[i]) return true;
        for (int v = 0; v < n; v++) offset[v] -= stride[v][i] * dims[i];
        at[i] = 0;
    }
    return false;
}

/* An operand's row, and how far apart its elements lie: 0 for one that is broadcast. */
struct float_operand {
    const float *v;
    int32_t step;
};

struct int_operand {
    const int64_t *v;
    int32_t step;
};

static void float_row(enum gwm_binary kind, struct float_operand a, struct float_operand b, float *y,
                      int32_t n)
{
    switch (kind) {
    case GWM_ADD: LOOP(a.v[i * a.step] + b.v[i * b.step]); break;
    case GWM_SUB: LOOP(a.v[i * a.step] - b.v[i * b.step]); break;
    case GWM_MUL: LOOP(a.v[i * a.step] * b.v[i * b.step]); break;
    case GWM_DIV: LOOP(a.v[i * a.step] / b.v[i * b.step]); break;
    default: LOOP(gwm_binary1(kind, a.v[i * a.step], b.v[i * b.step])); break;
    }
}

static void compare_row(enum gwm_binary kind, struct float_operand a, struct float_operand b, int64_t *y,
                        int32_t n)
{
    LOOP(gwm_compare1(kind, a.v[i * a.step], b.v[i * b.step]));
}

struct double_operand {
    const double *v;
    int32_t step;
};

/* The result is of float64 too, or says how they compare. */
static void double_row(enum gwm_binary kind, struct double_operand a, struct double_operand b, void *to,
                       int32_t n)
{
    for (int32_t i = 0; i < n; i++) {
        if (kind >= GWM_EQUAL)
            ((int64_t *)to)[i] = gwm_compare_f64((int32_t)kind, a.v[i * a.step], b.v[i * b.step]);
        else
            ((double *)to)[i] = gwm_binary_f64((int32_t)kind, a.v[i * a.step], b.v[i * b.step]);
    }
}

static void int_row(enum gwm_binary kind, struct int_operand a, struct int_operand b, int64_t *y, int32_t n)
{
    LOOP(gwm_binary1_i64(kind, a.v[i * a.step], b.v[i * b.step]));
}

void gwm_ref_binary(const struct gwm_node *node, const struct gwm_graph *g, const void *pa, const void *pb,
                    void *py)
{
    const struct gwm_broadcast *bc = &node->binary.bc;
    const int32_t *const stride[] = {bc->a, bc->b};
    int32_t at[GW_MODEL_MAX_RANK] = {0}, o[2] = {0}, last = bc->rank - 1, n = bc->dims[last],
            sa = bc->a[last], sb = bc->b[last];
    const float *fa = pa, *fb = pb;
    const int64_t *ia = pa, *ib = pb;
    float *fy = py;
    int64_t *iy = py;

    do {
        if (g->value[node->in[0]].dtype == GWM_F64) {
            double_row(node->binary.kind, (struct double_operand){(const double *)pa + o[0], sa},
                       (struct double_operand){(const double *)pb + o[1], sb}, iy, n);
        } else if (g->value[node->in[0]].dtype != GWM_F32) {
            int_row(node->binary.kind, (struct int_operand){ia + o[0], sa},
                    (struct int_operand){ib + o[1], sb}, iy, n);
        } else if (g->value[node->out].dtype != GWM_F32) {
            compare_row(node->binary.kind, (struct float_operand){fa + o[0], sa},
                        (struct float_operand){fb + o[1], sb}, iy, n);
        } else {
            float_row(node->binary.kind, (struct float_operand){fa + o[0], sa},
                      (struct float_operand){fb + o[1], sb}, fy, n);
            if (node->act.kind != GWM_ACT_NONE) gwm_ref_act(&node->act, fy, fy, n);
        }
        fy += n;
        iy += n;
    } while (gwm_next_row(bc->rank, bc->dims, at, stride, o, 2));
}

void gwm_ref_select(const struct gwm_select *s, uint32_t dtype, const void *const *in, void *out)
{
    const int32_t *const stride[] = {s->stride[0], s->stride[1], s->stride[2]};
    int32_t at[GW_MODEL_MAX_RANK] = {0}, o[3] = {0}, last = s->rank - 1, n = s->dims[last];
    int32_t sc = stride[0][last], sa = stride[1][last], sb = stride[2][last];
    size_t done = 0;

    do {
        const int64_t *c = (const int64_t *)in[0] + o[0];
        if (dtype == GWM_F32) {
            const float *a = (const float *)in[1] + o[1], *b = (const float *)in[2] + o[2];
            float *y = (float *)out + done;
            LOOP(c[i * sc] ? a[i * sa] : b[i * sb]);
        } else {
            const int64_t *a = (const int64_t *)in[1] + o[1], *b = (const int64_t *)in[2] + o[2];
            int64_t *y = (int64_t *)out + done;
            LOOP(c[i * sc] ? a[i * sa] : b[i * sb]);
        }
        done += (size_t)n;
    } while (gwm_next_row(s->rank, s->dims, at, stride, o, 3));
}

void gwm_ref_move(const struct gwm_move *m, size_t width, const void *px, void *py)
{
    const int32_t *const stride[] = {m->from, m->to};
    int32_t at[GW_MODEL_MAX_RANK] = {0}, o[2] = {m->start, m->offset}, last = m->rank - 1, n = m->dims[last];
    int32_t sf = m->from[last], st = m->to[last];

    do {
        if (sf == 1 && st == 1) {
            memcpy((char *)py + (size_t)o[1] * width, (const char *)px + (size_t)o[0] * width,
                   (size_t)n * width);
        } else if (width == 4) {
            const uint32_t *x = (const uint32_t *)px + o[0];
            uint32_t *y = (uint32_t *)py + o[1];
            for (int32_t i = 0; i < n; i++) y[i * st] = x[i * sf];
        } else {
            const uint64_t *x = (const uint64_t *)px + o[0];
            uint64_t *y = (uint64_t *)py + o[1];
            for (int32_t i = 0; i < n; i++) y[i * st] = x[i * sf];
        }
    } while (gwm_next_row(m->rank, m->dims, at, stride, o, 2));
}
