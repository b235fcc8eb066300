/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Attention is a product of queries and keys, a softmax over its rows, a product with the values, and a
 * transpose that puts the heads side by side. In plans with fp16 or TF32 one kernel does all of it, where
 * that is faster.
 *
 * The first product and the softmax are put off. So the last product finds all of Q, K and V made, and
 * either does all the work or has the others do theirs.
 */
#include <errno.h>
#include <stdio.h>

#include "src/model/gpu/attention.h"

#include "src/model/gpu/form.h"
#include "src/model/gpu/launch.h"
#include "src/model/gpu/pick.h"
#include "src/model/gpu/product.h"
#include "src/model/gpu/strided.h"
#include "src/model/kernels/args.h"

struct gwm_attention {
    struct gwm_strided q, k, v, y; /* heads, rows, columns, batch */
    float scale, by;
    const struct gwm_node *move; /* after it */
    const struct gw_kernel *kernel;
};

/* For heads of a size, or NULL. */
static const struct gw_kernel *kernel_for(const struct gwm_gpu *p, int32_t size)
{
    switch (size) {
    case 32: return p->half ? &gwm_attention_32 : &gwm_attention_tf32_32;
    case 64: return p->half ? &gwm_attention_64 : &gwm_attention_tf32_64;
    case 80: return p->half ? &gwm_attention_80 : &gwm_attention_tf32_80;
    case 96: return p->half ? &gwm_attention_96 : &gwm_attention_tf32_96;
    case 128: return p->half ? &gwm_attention_128 : &gwm_attention_tf32_128;
    default: return NULL;
    }
}

/* Does the plan allow factors that are shorter than fp32? */
static bool short_factors(const struct gwm_gpu *p)
{
    return p->half || p->tf32;
}

/* The node that makes a value which no other node reads, or NULL. */
static const struct gwm_node *attention_made_by(const struct gwm_gpu *p, int value)
{
    int root = p->g->value[value].root, m = p->maker[root];

    return m < 0 || p->uses[root] != 1 ? NULL : &p->g->node[m];
}

/* Products of matrices that lie one after the other in C order. */
static bool dense(const struct gwm_gemm *q)
{
    const struct gwm_broadcast *bc = &q->batch;

    return !q->bias &&
           (q->products == 1 || (bc->rank == 1 && bc->a[0] == q->m * q->k && bc->b[0] == q->k * q->n));
}

/* The product of queries and keys for the one with the values, or NULL; and the scores' factor. */
static const struct gwm_node *scores_of(const struct gwm_gpu *p, const struct gwm_node *last, float *scale)
{
    const struct gwm_node *n = last->op == GWM_GEMM ? attention_made_by(p, last->in[0]) : NULL;
    const struct gwm_gemm *q = &last->gemm;

    if (!short_factors(p) || p->resident || !n || n->op != GWM_SOFTMAX || n->softmax.log ||
        n->softmax.inner != 1 || n->softmax.n != q->k || q->ta || !dense(q) ||
        last->act.kind != GWM_ACT_NONE || !kernel_for(p, q->n))
        return NULL;
    *scale = 1;
    for (n = attention_made_by(p, n->in[0]); n && gwm_gpu_factor(n); n = attention_made_by(p, n->in[0]))
        if (n->act.kind == GWM_ACT_AFFINE) *scale *= n->act.a;
    if (!n || n->op != GWM_GEMM || !dense(&n->gemm) || n->gemm.m != q->m || n->gemm.n != q->k ||
        n->gemm.k != q->n || n->gemm.products != q->products)
        return NULL;
    if (n->act.kind == GWM_ACT_AFFINE && n->act.b == 0)
        *scale *= n->act.a;
    else if (n->act.kind != GWM_ACT_NONE)
        return NULL;
    *scale *= n->gemm.alpha;
    return n;
}

bool gwm_gpu_attention_part(const struct gwm_gpu *p, const struct gwm_node *n)
{
    float scale;
    int next = (int)(n - p->g->node);

    if (!short_factors(p) || (n->op != GWM_GEMM && n->op != GWM_SOFTMAX)) return false;
    do {
        next = gwm_sole_reader(p->g, p->uses, p->g->node[next].out, next);
    } while (next >= 0 && (gwm_gpu_factor(&p->g->node[next]) || p->g->node[next].op == GWM_SOFTMAX));
    const struct gwm_node *scores = next < 0 ? NULL : scores_of(p, &p->g->node[next], &scale);
    return scores && (n->op == GWM_SOFTMAX || n == scores);
}

/* A value as matrices; turned: it is stored column by column. */
static struct gwm_strided attention_lines(const struct gwm_gpu *p, int value, const int32_t n[4], bool turned)
{
    int32_t size = n[1] * n[2];

    return (struct gwm_strided){p->g->value[value].root,
                                {n[0], n[1], n[2], n[3]},
                                {size, turned ? 1 : n[2], turned ? n[1] : 1, n[0] * size},
                                0,
                                1};
}

/* Eight elements of a row are read at once. */
static bool attention_fits(const struct gwm_strided *s)
{
    return s->start >= 0 && s->stride[2] == 1 &&
           !((s->start | s->stride[0] | s->stride[1] | s->stride[3]) % 8);
}

static bool attention_find(const struct gwm_gpu *p, const struct gwm_node *n, struct gwm_attention *t)
{
    const struct gwm_node *scores = scores_of(p, n, &t->scale);
    const struct gwm_gemm *q = &n->gemm;
    int next = gwm_sole_reader(p->g, p->uses, n->out, (int)(n - p->g->node));

    if (!scores || next < 0) return false;
    const struct gwm_shape *s = &p->g->value[scores->out].shape;
    if (!p->g->value[scores->out].count) return false;
    int32_t batch = s->rank == 4 ? s->d[0] : 1, heads = q->products / batch;
    const int32_t queries[] = {heads, q->m, q->n, batch}, keys[] = {heads, q->k, q->n, batch};
    if (heads * batch != q->products) return false;
    t->q = attention_lines(p, scores->in[0], queries, scores->gemm.ta);
    t->k = attention_lines(p, scores->in[1], keys, !scores->gemm.tb);
    t->v = attention_lines(p, n->in[1], keys, q->tb);
    t->y = attention_lines(p, n->out, queries, false);
    gwm_gpu_trace(p, &t->q, attention_fits);
    gwm_gpu_trace(p, &t->k, attention_fits);
    gwm_gpu_trace(p, &t->v, attention_fits);
    t->move = &p->g->node[next];
    t->kernel = kernel_for(p, q->n);
    t->scale *= t->q.scale * t->k.scale;
    t->by = q->alpha * t->v.scale;
    return gwm_gpu_trace_out(t->move, p->g->value[n->out].count, &t->y) && attention_fits(&t->q) &&
           attention_fits(&t->k) && attention_fits(&t->v) && attention_fits(&t->y);
}

static struct gwm_lines attention_at(const struct gwm_strided *s)
{
    return (struct gwm_lines){s->start, s->stride[3], s->stride[0], s->stride[1]};
}

/* `setting`: blocks of four warps, of two, of one. */
static int fused(struct gwm_gpu *p, const struct gwm_node *n, const struct gwm_store *to, int setting)
{
    const struct gwm_attention *t = to->attention;
    uint32_t warps = 4u >> setting;
    struct gwm_attention_args a = {.q_at = attention_at(&t->q),
                                   .k_at = attention_at(&t->k),
                                   .v_at = attention_at(&t->v),
                                   .y_at = attention_at(&t->y),
                                   .scale = t->scale,
                                   .by = t->by,
                                   .heads = t->q.n[0],
                                   .queries = n->gemm.m,
                                   .keys = n->gemm.k,
                                   .rows = 16 * (int32_t)warps};
    uint32_t form = p->half ? GWM_HALF : 0;
    int q = gwm_gpu_in(p, t->q.root, form, false), k = gwm_gpu_in(p, t->k.root, form, false);
    int v = gwm_gpu_in(p, t->v.root, form, false);
    int y = gwm_gpu_out(p, to->out, gwm_gpu_out_form(p, to->out) & ~GWM_LAST, false);
    int err = gwm_gpu_launch(p, t->kernel, (uint32_t)(((a.queries - 1) / a.rows + 1) * n->gemm.products),
                             32 * warps, &a);

    if (!err) err = gwm_gpu_ref(p, offsetof(struct gwm_attention_args, q), q);
    if (!err) err = gwm_gpu_ref(p, offsetof(struct gwm_attention_args, k), k);
    if (!err) err = gwm_gpu_ref(p, offsetof(struct gwm_attention_args, v), v);
    return err ? err : gwm_gpu_ref(p, offsetof(struct gwm_attention_args, y), y);
}

/* A launch for each part, and for the move unless the product writes where that would. */
static int apart(struct gwm_gpu *p, const struct gwm_node *n, const struct gwm_store *to, int setting)
{
    int err = gwm_gpu_gemm(p, n);

    (void)setting;
    for (int f = 0; f < GWM_SLOTS && !err; f++)
        if (p->as[to->out * GWM_SLOTS + f] >= 0) return 0;
    return err ? err : p->lower(p, to->attention->move);
}

int gwm_gpu_attention(struct gwm_gpu *p, const struct gwm_node *n)
{
    static const struct gwm_way ways[] = {{"attention", 3, fused}, {"apart", 1, apart}, {0}};
    struct gwm_attention t;
    char what[256];

    if (!attention_find(p, n, &t)) return -ENOTSUP;
    const struct gwm_strided *q = &t.q, *k = &t.k, *v = &t.v, *y = &t.y;
    const struct gwm_store to = {.out = y->root, .add = -1, .block = 1, .attention = &t};
    snprintf(what, sizeof(what),
             "attention %d %d %d %d %d q %d %d %d k %d %d %d v %d %d %d y %d %d %d form %u%s", q->n[3],
             q->n[0], q->n[1], k->n[1], q->n[2], q->stride[3], q->stride[0], q->stride[1], k->stride[3],
             k->stride[0], k->stride[1], v->stride[3], v->stride[0], v->stride[1], y->stride[3], y->stride[0],
             y->stride[1], gwm_gpu_out_form(p, to.out), p->half ? "" : " tf32");
    p->done[t.move - p->g->node] = true;
    return gwm_gpu_pick(p, n, &to, what, ways);
}
