/* SPDX-License-Identifier: Apache-2.0 */
/* Matrix products. */
#include <errno.h>
#include <string.h>

#include "src/model/graph/move.h"
#include "src/model/import/ops.h"

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

/* One product of two plain matrices. */
static void single(struct gwm_gemm *p)
{
    p->alpha = 1;
    p->products = 1;
    p->batch.rank = 1;
    p->batch.dims[0] = 1;
}

static int gemm(struct gwm_import *im)
{
    const struct gwm_value *a = gwm_in(im, 0), *b = gwm_in(im, 1);
    struct gwm_gemm p = {0};
    float beta = 1;
    int64_t ta = 0, tb = 0;
    int err = gwm_attr_int(im, "transA", &ta);

    single(&p);
    if (err < 0 || (err = gwm_attr_int(im, "transB", &tb)) < 0 ||
        (err = gwm_attr_float(im, "alpha", &p.alpha)) < 0 || (err = gwm_attr_float(im, "beta", &beta)) < 0)
        return err;
    p.ta = ta != 0;
    p.tb = tb != 0;
    if (a->shape.rank != 2 || b->shape.rank != 2 || b->dtype != GWM_F32 ||
        a->shape.d[!p.ta] != b->shape.d[p.tb])
        return gwm_op_fail(im, -EBADMSG, "its inputs are no two matrices that fit");
    p.m = a->shape.d[p.ta];
    p.k = a->shape.d[!p.ta];
    p.n = b->shape.d[!p.tb];
    struct gwm_shape out = {.rank = 2, .d = {p.m, p.n}};
    const struct gwm_value *c = gwm_in(im, 2);
    if (c && c->dtype != GWM_F32) return gwm_op_fail(im, -EBADMSG, "its C is not of floats");
    if (!c || (p.bias = gemm_bias(im, p.n, beta)))
        return gwm_result(im, emit_gemm(im, &p, im->in[1], &out, im->node->output[0]));
    struct gwm_act by = {.kind = GWM_ACT_AFFINE, .a = beta};
    int v = emit_gemm(im, &p, im->in[1], &out, ""), w = im->in[2];
    if (v >= 0 && beta != 1) w = gwm_emit_unary(im, by, w, "");
    if (v < 0 || w < 0) return v < 0 ? v : w;
    return gwm_result(im, gwm_emit_binary(im, GWM_ADD, v, w, im->node->output[0]));
}

/* The leading dimensions of both; strides in elements. */
static int ops_product_batches(struct gwm_import *im, struct gwm_gemm *p, const struct gwm_shape *a,
                               const struct gwm_shape *b, struct gwm_shape *out)
{
    struct gwm_shape la = *a, lb = *b;
    int64_t size_a = (int64_t)p->m * p->k, size_b = (int64_t)p->k * p->n;

    la.rank -= 2;
    lb.rank -= 2;
    int err = gwm_broadcast(&p->batch, out, &la, &lb);
    if (err)
        return gwm_op_fail(im, err == -EINVAL ? -EBADMSG : -ENOTSUP, "the shapes of its inputs do not fit");
    p->products = gwm_count(out);
    for (int32_t i = 0; i < p->batch.rank; i++) { /* each matrix is within its tensor, and so fits */
        p->batch.a[i] = (int32_t)(p->batch.a[i] * size_a);
        p->batch.b[i] = (int32_t)(p->batch.b[i] * size_b);
    }
    return 0;
}

/* A vector is a matrix of one row, or of one column, which the result then lacks. */
static int matmul(struct gwm_import *im)
{
    struct gwm_shape a = gwm_in(im, 0)->shape, b = gwm_in(im, 1)->shape, out;
    bool row = a.rank == 1, column = b.rank == 1;
    struct gwm_gemm p = {0};

    single(&p);
    if (gwm_in(im, 1)->dtype != GWM_F32)
        return gwm_op_fail(im, -ENOTSUP, "only products of floats are supported");
    if (row) a = (struct gwm_shape){.rank = 2, .d = {1, a.d[0]}};
    if (column) b = (struct gwm_shape){.rank = 2, .d = {b.d[0], 1}};
    if (a.rank < 2 || b.rank < 2) return gwm_op_fail(im, -EBADMSG, "its inputs are no matrices");
    p.m = a.d[a.rank - 2];
    p.k = a.d[a.rank - 1];
    p.n = b.d[b.rank - 1];
    if (p.k != b.d[b.rank - 2])
        return gwm_op_fail(im, -EBADMSG, "the matrices do not fit: %d columns, %d rows", p.k,
                           b.d[b.rank - 2]);
    if (!p.k) return gwm_op_fail(im, -ENOTSUP, "matrices without elements");
    if (b.rank == 2) { /* all rows of a at once */
        out = a;
        p.m = gwm_count(&a) / p.k;
        out.rank--;
    } else {
        int err = ops_product_batches(im, &p, &a, &b, &out);
        if (err) return err;
        if (out.rank + 2 > GW_MODEL_MAX_RANK) return gwm_op_fail(im, -ENOTSUP, "more than 8 dimensions");
        if (!row) out.d[out.rank++] = p.m;
    }
    if (b.rank == 2 && row) out.rank--;
    if (!column) out.d[out.rank++] = p.n;
    return gwm_result(im, emit_gemm(im, &p, im->in[1], &out, im->node->output[0]));
}

const struct gwm_operator gwm_ops_product[] = {
    {"Gemm", 2, 3, false, "alpha beta transA transB ", gemm},
    {"MatMul", 2, 2, false, "", matmul},
    {0},
};
