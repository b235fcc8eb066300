/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Products of one matrix with several constant ones, as an attention's queries, keys and values: they
 * become one product with the constant matrices side by side. That is done where a move reads each result.
 * Such a move finds its columns in the common result then, with other strides. A large product uses a
 * processor better than three small ones, and a GPU launches it once.
 */
#include <stdlib.h>
#include <string.h>

#include "src/model/graph/siblings.h"

#include "src/model/graph/move.h"

#define MOST 4 /* products that become one */

struct family {
    struct gwm_graph *g;
    int *uses, *maker;
    int product[MOST], move[MOST]; /* nodes */
    int count;
};

/* A product with a constant matrix that only it reads, and nothing after it in the same node. */
static bool suits(const struct family *f, const struct gwm_node *n)
{
    const struct gwm_value *b = n->op == GWM_GEMM && !n->dead ? &f->g->value[n->in[1]] : NULL;

    return b && b->data && n->gemm.m > 0 && n->gemm.n > 0 && n->gemm.k > 0 && n->gemm.products == 1 &&
           !n->gemm.ta && n->act.kind == GWM_ACT_NONE && f->uses[b->root] == 1 && b->root == n->in[1];
}

/* Does a move read whole parts of rows that have n elements? Then its strides tell rows from columns. */
static bool reads_rows(const struct gwm_move *m, int32_t n)
{
    int32_t within = m->start % n;

    for (int32_t d = 0; d < m->rank; d++) {
        if (m->from[d] % n == 0) continue;
        if (m->from[d] < 0 || m->dims[d] > n) return false;
        within += (m->dims[d] - 1) * m->from[d];
    }
    return within < n;
}

/* The move that reads what node i makes, if no other node does; or -1. */
static int move_behind(const struct family *f, int i)
{
    const struct gwm_node *n = &f->g->node[i];
    int next = gwm_sole_reader(f->g, f->uses, n->out, i);

    return next >= 0 && f->g->node[next].op == GWM_MOVE && reads_rows(f->g->node[next].mv.move, n->gemm.n)
               ? next
               : -1;
}

static bool siblings_same_kind(const struct family *f, const struct gwm_node *a, const struct gwm_node *b)
{
    const struct gwm_value *x = &f->g->value[a->in[0]], *y = &f->g->value[b->in[0]];

    return x->root == y->root && a->gemm.m == b->gemm.m && a->gemm.k == b->gemm.k &&
           a->gemm.tb == b->gemm.tb && a->gemm.alpha == b->gemm.alpha;
}

static void siblings_find(struct family *f, int i)
{
    f->count = 0;
    for (int j = i; j < f->g->nnode && f->count < MOST; j++) {
        const struct gwm_node *n = &f->g->node[j];
        int next = suits(f, n) && siblings_same_kind(f, &f->g->node[i], n) ? move_behind(f, j) : -1;
        if (next < 0) continue;
        f->product[f->count] = j;
        f->move[f->count++] = next;
    }
}

/* The constant matrices side by side, and the biases. False: no memory. */
static bool join_constants(struct family *f, int32_t columns)
{
    struct gwm_graph *g = f->g;
    struct gwm_node *first = &g->node[f->product[0]];
    size_t k = (size_t)first->gemm.k, all = (size_t)columns, at = 0;
    float *w = gwm_alloc(g, k * all * sizeof(*w)), *bias = w ? gwm_alloc(g, all * sizeof(*bias)) : NULL;

    if (!bias) return false;
    for (int i = 0; i < f->count; i++) {
        const struct gwm_gemm *q = &g->node[f->product[i]].gemm;
        const float *from = g->value[g->node[f->product[i]].in[1]].data;
        size_t n = (size_t)q->n;
        for (size_t r = 0; r < (q->tb ? n : k); r++)
            memcpy(q->tb ? w + (at + r) * k : w + r * all + at, from + r * (q->tb ? k : n),
                   (q->tb ? k : n) * sizeof(*w));
        if (q->bias) memcpy(bias + at, q->bias, n * sizeof(*bias));
        at += n;
    }
    struct gwm_value *b = &g->value[first->in[1]];
    b->data = w;
    b->count = (int32_t)(k * all);
    b->shape = (struct gwm_shape){
        2, {first->gemm.tb ? columns : first->gemm.k, first->gemm.tb ? first->gemm.k : columns}};
    first->gemm.bias = bias;
    return true;
}

/* A move finds its columns, from number `at` on, among all of them. */
static void siblings_aim(struct gwm_move *m, int32_t n, int32_t columns, int32_t at)
{
    for (int32_t d = 0; d < m->rank; d++)
        if (m->from[d] % n == 0) m->from[d] = m->from[d] / n * columns;
    m->start = m->start / n * columns + m->start % n + at;
}

static void siblings_join(struct family *f)
{
    struct gwm_graph *g = f->g;
    struct gwm_node *first = &g->node[f->product[0]];
    int64_t columns = 0;
    int32_t at = 0;

    for (int i = 0; i < f->count; i++) columns += g->node[f->product[i]].gemm.n;
    if (columns * first->gemm.m > GWM_MAX_COUNT || columns * first->gemm.k > GWM_MAX_COUNT ||
        !join_constants(f, (int32_t)columns))
        return;
    for (int i = 0; i < f->count; i++) {
        struct gwm_node *n = &g->node[f->product[i]], *move = &g->node[f->move[i]];
        siblings_aim(move->mv.move, n->gemm.n, (int32_t)columns, at);
        at += n->gemm.n;
        move->in[0] = first->out;
        if (!i) continue;
        n->dead = true;
        f->uses[n->out]--;
        f->uses[g->value[n->in[0]].root]--;
        f->uses[g->value[n->in[1]].root]--;
        f->uses[first->out]++;
        f->maker[n->out] = -1;
    }
    first->gemm.n = (int32_t)columns;
    g->value[first->out].count = first->gemm.m * (int32_t)columns;
    g->value[first->out].shape = (struct gwm_shape){2, {first->gemm.m, (int32_t)columns}};
}

void gwm_join_siblings(struct gwm_graph *g, int *uses, int *maker)
{
    struct family f = {.g = g, .uses = uses, .maker = maker};

    for (int i = 0; i < g->nnode; i++) {
        if (!suits(&f, &g->node[i]) || move_behind(&f, i) < 0) continue;
        siblings_find(&f, i);
        if (f.count > 1) siblings_join(&f);
    }
}
