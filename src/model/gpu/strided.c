/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Matrices where they lie: a product reads an operand through the transposes, slices and factors that made
 * it, and writes its result through the transpose after it. So those nodes need no launches. They are put off
 * until a node needs their result as such.
 */
#include <errno.h>
#include <string.h>

#include "src/model/gpu/strided.h"

#include "src/model/graph/move.h"

/* A map between two ways to number elements: dimension d has stride at[d] in the first, to[d] in the
 * second. */
struct map {
    int32_t rank;
    const int32_t *dims, *at, *to;
};

/*
 * Takes one dimension, n elements `stride` apart, through a map. `start` are the coordinates of the first
 * element and `used` how far other dimensions go from there. Its stride then, or -1 when it has none.
 */
static int64_t through(const struct map *m, int32_t n, int64_t stride, const int32_t *start, int32_t *used)
{
    int64_t result = 0, next = 0;

    for (int32_t left = n, done = 1; left > 1;) {
        int32_t d = 0;
        while (d < m->rank && (m->dims[d] == 1 || stride % m->at[d] || stride / m->at[d] >= m->dims[d])) d++;
        if (d == m->rank) return -1;
        int32_t by = (int32_t)(stride / m->at[d]), take = (m->dims[d] - 1) / by + 1;
        if (take > left) take = left;
        if (left % take || (take < left && m->dims[d] % by)) return -1;
        used[d] += (take - 1) * by;
        if (start[d] + used[d] >= m->dims[d]) return -1; /* it would go on in another dimension */
        if (done > 1 && (int64_t)by * m->to[d] != next) return -1;
        if (done == 1) result = (int64_t)by * m->to[d];
        next = ((int64_t)by * m->to[d]) * take;
        left /= take;
        done *= take;
        stride *= take;
    }
    return result;
}

/* All dimensions of the matrices. False, and nothing changed, when a stride is lost. */
static bool all_through(const struct map *m, struct gwm_strided *s)
{
    int32_t start[GW_MODEL_MAX_RANK] = {0}, used[GW_MODEL_MAX_RANK] = {0};
    struct gwm_strided r = *s;

    r.start = 0;
    for (int32_t d = 0; d < m->rank; d++) {
        if (m->dims[d] < 1 || m->at[d] < 1 || m->to[d] < 0) return false;
        start[d] = s->start / m->at[d] % m->dims[d];
        r.start += start[d] * m->to[d];
    }
    for (int i = 0; i < 4; i++) {
        int64_t stride = s->n[i] < 2 || !s->stride[i] ? 0 : through(m, s->n[i], s->stride[i], start, used);
        if (stride < 0 || stride > INT32_MAX) return false;
        r.stride[i] = (int32_t)stride;
    }
    *s = r;
    return true;
}

/* A look-up of one constant index is a slice; its place in the input, or -1. */
static int32_t strided_slice(const struct gwm_graph *g, const struct gwm_node *n)
{
    const int64_t *index = (const int64_t *)g->value[n->in[1]].data;

    if (n->gather.count != 1 || !index) return -1;
    int64_t at = *index < 0 ? *index + n->gather.n : *index;
    return at < 0 || at >= n->gather.n ? -1 : (int32_t)at * n->gather.inner;
}

bool gwm_gpu_factor(const struct gwm_node *n)
{
    return n->op == GWM_UNARY &&
           (n->act.kind == GWM_ACT_NONE || (n->act.kind == GWM_ACT_AFFINE && n->act.b == 0));
}

bool gwm_gpu_put_off(const struct gwm_gpu *p, const struct gwm_node *n)
{
    if (p->g->value[n->out].dtype != GWM_F32) return false;
    for (uint32_t i = 0; i < p->g->noutput; i++)
        if (p->g->value[p->g->output[i]].root == n->out) return false;
    return gwm_gpu_factor(n) ||
           (n->op == GWM_MOVE && gwm_move_dense(&n->mv.move[0], p->g->value[n->out].count)) ||
           (n->op == GWM_GATHER && strided_slice(p->g, n) >= 0);
}

/* One node back; false at the end of the way. */
static bool step_back(const struct gwm_gpu *p, struct gwm_strided *s)
{
    int m = p->maker[s->root];
    const struct gwm_node *n = m < 0 ? NULL : &p->g->node[m];

    if (!n || !p->put_off[m] || n->op == GWM_GEMM || n->op == GWM_SOFTMAX) return false;
    if (n->op == GWM_MOVE) {
        const struct gwm_move *v = &n->mv.move[0];
        if (!all_through(&(struct map){v->rank, v->dims, v->to, v->from}, s)) return false;
        s->start += v->start;
    } else if (n->op == GWM_GATHER) {
        const int32_t dims[] = {n->gather.outer, n->gather.inner}, at[] = {n->gather.inner, 1},
                      to[] = {n->gather.n * n->gather.inner, 1};
        if (!all_through(&(struct map){2, dims, at, to}, s)) return false;
        s->start += strided_slice(p->g, n);
    } else if (n->act.kind == GWM_ACT_AFFINE) {
        s->scale *= n->act.a;
    }
    s->root = p->g->value[n->in[0]].root;
    return true;
}

/* Can cuBLASLt be told of it? A row's, or a column's, elements lie together. */
static bool regular(const struct gwm_strided *s)
{
    const int32_t *n = s->n, *t = s->stride;

    return s->start >= 0 &&
           ((n[2] == 1 || t[2] == 1) ? n[1] == 1 || t[1] >= n[2] : (n[1] == 1 || t[1] == 1) && t[2] >= n[1]);
}

void gwm_gpu_trace(const struct gwm_gpu *p, struct gwm_strided *s, bool (*fits)(const struct gwm_strided *))
{
    struct gwm_strided best = *s;

    while (step_back(p, s))
        if ((fits ? fits : regular)(s)) best = *s;
    *s = best;
}

bool gwm_gpu_trace_out(const struct gwm_node *move, int32_t count, struct gwm_strided *y)
{
    struct gwm_strided s = *y;

    if (move->op != GWM_MOVE) return false;
    const struct gwm_move *v = &move->mv.move[0];
    if (!gwm_move_dense(v, count) || v->start ||
        !all_through(&(struct map){v->rank, v->dims, v->from, v->to}, &s) || !regular(&s) ||
        (s.n[2] > 1 && s.stride[2] != 1))
        return false;
    s.root = move->out;
    *y = s;
    return true;
}
