/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A product with a constant matrix works row by row, so whole rows may be put in another order before it or
 * after it. So a move goes past a product when another move is there: the two become one. Transformers have
 * such moves around each attention, between "batch first" and "length first".
 */
#include "src/model/graph/rows.h"

#include "src/model/graph/move.h"

struct rows {
    struct gwm_graph *g;
    int *uses, *maker;
};

/* The node that makes a value, if no other node reads it and its elements come from one other tensor; or -1.
 */
static int made_by_move(const struct rows *r, int value)
{
    int root = r->g->value[value].root, m = r->uses[root] == 1 ? r->maker[root] : -1;

    return m >= 0 && r->g->node[m].op == GWM_MOVE && r->g->value[root].dtype == GWM_F32 ? m : -1;
}

/* Does a move put rows of n elements in another order, as many as it reads? */
static bool moves_rows(const struct rows *r, const struct gwm_node *move, int32_t n)
{
    const struct gwm_move *m = move->mv.move;
    int32_t in = m->rank - 1, count = r->g->value[move->in[0]].count;

    for (int32_t d = 0; d < in; d++)
        if (m->from[d] % n) return false;
    return count == r->g->value[move->out].count && !m->start && m->from[in] == 1 && m->dims[in] % n == 0 &&
           gwm_move_dense(m, count);
}

/* A matrix product with a constant second factor. It has elements: they are divided by below. */
static bool by_constant(const struct rows *r, const struct gwm_node *n)
{
    return n->op == GWM_GEMM && n->gemm.products == 1 && !n->gemm.ta && r->g->value[n->in[1]].data &&
           n->gemm.m > 1 && n->gemm.n > 0 && n->gemm.k > 0;
}

/* The same move of rows that have `to` elements instead of `from`. */
static void rows_resize(struct gwm_move *m, int32_t from, int32_t to)
{
    for (int32_t d = 0; d < m->rank - 1; d++) {
        m->from[d] = m->from[d] / from * to;
        m->to[d] = m->to[d] / from * to;
    }
    m->dims[m->rank - 1] = m->dims[m->rank - 1] / from * to;
}

/* A product and a move that follow each other change places: node a comes first, and what it makes has rows
 * of `to` elements instead of `from`. */
static void rows_swap(struct rows *r, int a, int b, struct gwm_move *move, int32_t from, int32_t to)
{
    struct gwm_graph *g = r->g;
    struct gwm_node first = g->node[b], second = g->node[a];
    struct gwm_value *between = &g->value[second.out];

    rows_resize(move, from, to);
    first.in[0] = second.in[0];
    first.out = second.out;
    second.in[0] = first.out;
    second.out = g->node[b].out;
    between->count = between->count / from * to;
    between->shape = (struct gwm_shape){2, {between->count / to, to}};
    g->node[a] = first;
    g->node[b] = second;
    r->maker[g->value[second.out].root] = b;
}

/* Moves node m, which no other node reads, into the move at i after it. */
static void rows_join(struct rows *r, int m, int i)
{
    struct gwm_node *first = &r->g->node[m], *then = &r->g->node[i];

    if (!gwm_move_dense(first->mv.move, r->g->value[first->out].count) ||
        !gwm_move_join(first->mv.move, then->mv.move))
        return;
    *then->mv.move = *first->mv.move;
    then->in[0] = first->in[0];
    r->maker[first->out] = -1;
    first->dead = true;
}

void gwm_move_rows(struct gwm_graph *g, int *uses, int *maker)
{
    struct rows r = {g, uses, maker};

    for (int i = 0; i < g->nnode; i++) {
        const struct gwm_node *n = &g->node[i];
        int m = n->dead || !by_constant(&r, n) ? -1 : made_by_move(&r, n->in[0]);
        int next = m < 0 ? -1 : gwm_sole_reader(g, uses, n->out, i);
        if (next < 0 || g->node[next].op != GWM_MOVE) continue;
        if (moves_rows(&r, &g->node[m], n->gemm.k)) {
            rows_swap(&r, m, i, g->node[m].mv.move, n->gemm.k, n->gemm.n);
            rows_join(&r, i, next);
        } else if (moves_rows(&r, &g->node[next], n->gemm.n)) {
            rows_swap(&r, i, next, g->node[next].mv.move, n->gemm.n, n->gemm.k);
            rows_join(&r, m, i);
        }
    }
}
