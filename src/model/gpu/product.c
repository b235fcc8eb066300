/* SPDX-License-Identifier: Apache-2.0 */
/* Matrix products: what goes into one launch, and the ways to do it. */
#include <errno.h>
#include <stdio.h>

#include "src/model/gpu/product.h"

#include "src/model/gpu/form.h"
#include "src/model/gpu/launch.h"
#include "src/model/gpu/lt.h"
#include "src/model/gpu/pick.h"
#include "src/model/gpu/strided.h"

#define THIN_BLOCKS 256 /* they walk on from there */

uint32_t gwm_thin_grid(const struct gwm_gemm_args *g)
{
    int32_t columns = g->bk == 1 ? 8 : 16; /* of a block: one for each warp, or some for each lane */
    int64_t units = (((int64_t)g->m - 1) / GWM_THIN_ROWS + 1) * g->products * ((g->n - 1) / columns + 1);

    return units < THIN_BLOCKS ? (uint32_t)units : THIN_BLOCKS;
}

static int product_own(struct gwm_gpu *p, const struct gwm_node *n, const struct gwm_store *to, bool thin)
{
    const struct gwm_gemm *q = &n->gemm;
    const struct gwm_strided *sa = &to->product->a, *sb = &to->product->b, *sy = &to->product->y;
    struct gwm_gemm_args g = {.act = to->act,
                              .batch = q->batch,
                              .alpha = q->alpha * sa->scale * sb->scale,
                              .m = q->m,
                              .n = q->n,
                              .k = q->k,
                              .am = sa->stride[q->ta ? 2 : 1],
                              .ak = sa->stride[q->ta ? 1 : 2],
                              .bk = sb->stride[q->tb ? 2 : 1],
                              .bn = sb->stride[q->tb ? 1 : 2],
                              .a_start = sa->start,
                              .b_start = sb->start,
                              .y_step = sy->stride[0],
                              .ym = sy->stride[1],
                              .products = q->products};
    uint32_t half = p->half ? GWM_HALF : 0;
    int a = gwm_gpu_in(p, sa->root, half, false), b = gwm_gpu_in(p, sb->root, half, false);
    int add = to->add < 0 ? 0 : gwm_gpu_in(p, to->add, half | to->last, false);
    int y = gwm_gpu_out(p, to->out, (gwm_gpu_out_form(p, to->out) & ~GWM_LAST) | to->last, false);
    int bias = q->bias ? gwm_gpu_static(p, q->bias, (size_t)q->n * sizeof(float), GW_DTYPE_F32) : 0;

    if (g.batch.rank == 1) {
        g.batch.a[0] = sa->stride[0];
        g.batch.b[0] = sb->stride[0];
    }
    int err = thin ? gwm_gpu_launch(p, &gwm_thin_kernel, gwm_thin_grid(&g), 256, &g)
                   : gwm_gpu_launch(p, &gwm_gemm_kernel, (uint32_t)p->g->value[to->out].count, 128, &g);
    if (!err) err = gwm_gpu_ref(p, offsetof(struct gwm_gemm_args, a), a);
    if (!err) err = gwm_gpu_ref(p, offsetof(struct gwm_gemm_args, b), b);
    if (!err) err = gwm_gpu_ref(p, offsetof(struct gwm_gemm_args, y), y);
    if (!err && to->add >= 0) err = gwm_gpu_ref(p, offsetof(struct gwm_gemm_args, add), add);
    return err || !q->bias ? err : gwm_gpu_fix(p, offsetof(struct gwm_gemm_args, bias), bias);
}

/* A block adds up each element. */
static int blocks(struct gwm_gpu *p, const struct gwm_node *n, const struct gwm_store *to, int setting)
{
    (void)setting;
    return product_own(p, n, to, false);
}

/* Reads the second factor once for each four rows of the first: for few of them. */
static int product_thin(struct gwm_gpu *p, const struct gwm_node *n, const struct gwm_store *to, int setting)
{
    const struct gwm_gemm *q = &n->gemm;
    int64_t groups = ((int64_t)q->m - 1) / GWM_THIN_ROWS + 1;

    (void)setting;
    if (!p->resident && q->m > GWM_THIN_MOST) return -ENOTSUP;
    if (groups * q->products * q->n > INT32_MAX) return -ENOTSUP;
    return product_own(p, n, to, true);
}

/* Where the operands come from, if they are a row of matrices. */
static struct gwm_product operands(const struct gwm_gpu *p, const struct gwm_node *n)
{
    const struct gwm_gemm *q = &n->gemm;
    int32_t am = q->ta ? q->k : q->m, an = q->ta ? q->m : q->k, bm = q->tb ? q->n : q->k,
            bn = q->tb ? q->k : q->n;
    struct gwm_product r = {
        .a = {p->g->value[n->in[0]].root, {q->products, am, an}, {q->batch.a[0], an, 1}, 0, 1},
        .b = {p->g->value[n->in[1]].root, {q->products, bm, bn}, {q->batch.b[0], bn, 1}, 0, 1},
        .y = {n->out, {q->products, q->m, q->n}, {q->m * q->n, q->n, 1}, 0, 1}};

    if (q->batch.rank > 1) return r;
    gwm_gpu_trace(p, &r.a, NULL);
    gwm_gpu_trace(p, &r.b, NULL);
    return r;
}

/* A sum, element by element, with what is there already when node `at` runs; its other operand, or -1. */
static int product_sum_with(const struct gwm_gpu *p, const struct gwm_node *q, int root, int at)
{
    const struct gwm_graph *g = p->g;
    const struct gwm_broadcast *bc = &q->binary.bc;

    if (q->op != GWM_BINARY || q->binary.kind != GWM_ADD || bc->rank != 1 || bc->a[0] != 1 || bc->b[0] != 1 ||
        g->value[q->out].dtype != GWM_F32)
        return -1;
    int other = g->value[g->value[q->in[0]].root == root ? q->in[1] : q->in[0]].root;
    return other != root && p->maker[other] < at ? other : -1;
}

/* A product of pixels, turned to N C H W, and a sum with such a picture. Where pictures lie N H W C, the
 * product makes the sum where it is. */
static bool sum_of_pictures(struct gwm_gpu *p, int at, int next, struct gwm_store *to)
{
    const struct gwm_graph *g = p->g;
    const struct gwm_node *move = &g->node[next];
    int sum =
        p->last && gwm_gpu_turns(g, move) == GWM_TO_FIRST ? gwm_sole_reader(g, p->uses, move->out, next) : -1;
    int add = sum < 0 ? -1 : product_sum_with(p, &g->node[sum], move->out, at);

    if (add < 0 || !gwm_same_shape(&g->value[add].shape, &g->value[move->out].shape) ||
        !(gwm_gpu_out_form(p, g->node[sum].out) & gwm_gpu_form(p, add, GWM_LAST)))
        return false;
    p->done[next] = p->done[sum] = true;
    to->out = g->node[sum].out;
    to->act = g->node[sum].act;
    to->add = add;
    to->last = GWM_LAST;
    return true;
}

int gwm_gpu_gemm(struct gwm_gpu *p, const struct gwm_node *n)
{
    static const struct gwm_way ways[] = {{"thin", 1, product_thin},
                                          {"blocks", 1, blocks},
                                          {"gemm", GWM_LIB_SETTINGS, gwm_lib_gemm},
                                          {0}},
                                few[] = {{"thin", 1, product_thin}, {0}};
    const struct gwm_gemm *q = &n->gemm;
    struct gwm_product r = operands(p, n);
    struct gwm_store to = {.out = n->out, .add = -1, .act = n->act, .block = 1, .product = &r};
    int at = (int)(n - p->g->node), next = gwm_sole_reader(p->g, p->uses, n->out, at);
    char what[256];

    if (next >= 0 && q->batch.rank == 1 &&
        gwm_gpu_trace_out(&p->g->node[next], p->g->value[n->out].count, &r.y)) {
        to.out = r.y.root;
    } else if (next >= 0 && n->act.kind == GWM_ACT_NONE && sum_of_pictures(p, at, next, &to)) {
        /* all is said */
    } else if (next >= 0 && n->act.kind == GWM_ACT_NONE &&
               (to.add = product_sum_with(p, &p->g->node[next], n->out, at)) >= 0) {
        to.out = p->g->node[next].out;
        to.act = p->g->node[next].act;
    }
    if (to.out != n->out) p->done[next] = true;
    snprintf(what, sizeof(what),
             "gemm %d %d %d %d of %d %d a %d %d %d b %d %d %d y %d %d with %d %d %d form %u %d%s", q->m, q->n,
             q->k, q->ta * 2 + q->tb, q->products, q->batch.rank, r.a.stride[0], r.a.stride[1], r.a.stride[2],
             r.b.stride[0], r.b.stride[1], r.b.stride[2], r.y.stride[0], r.y.stride[1], q->bias != NULL,
             to.act.kind, to.add >= 0, gwm_gpu_out_form(p, to.out), p->half, p->tf32 ? " tf32" : "");
    return gwm_gpu_pick(p, n, &to, what, p->resident ? few : ways);
}
