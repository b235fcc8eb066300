/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Follows the rows of a batch through the graph. Each tensor is constant, or its element i depends on row
 * (i / inner) % rows alone, or rows have met in it. Every operator is a list of axes: how far apart its
 * neighbours lie in an input and in the result. A step of 0 in the result: it is summed up, or looked at
 * together. A step of 0 in the input: all of the result's neighbours depend on the same.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/model/graph/meet.h"

#include "src/model/graph/graph.h"

#define MAX_AXES 24

struct axis {
    int64_t size, from, to;
};

struct axes {
    int n;
    int64_t start, offset; /* of the first element, in the input and in the result */
    struct axis a[MAX_AXES];
};

struct place {
    enum { CONSTANT, ROWS, UNKNOWN, MET } is; /* the later one counts where two come together */
    int64_t inner;                            /* ROWS */
    int node;                                 /* UNKNOWN, MET: the reason */
};

struct walk {
    const struct gwm_graph *g;
    int64_t rows;
    int node; /* at hand */
    struct place *root;
};

static struct place place_bad(const struct walk *w, int is)
{
    return (struct place){.is = is, .node = w->node};
}

static void axis_add(struct axes *x, int64_t size, int64_t from, int64_t to)
{
    if (size == 1) return;
    if (x->n == MAX_AXES) x->n++; /* too many: told by axes_split */
    if (x->n >= MAX_AXES) return;
    if (from < 0) { /* the other way round */
        x->start += (size - 1) * from;
        x->offset += (size - 1) * to;
        from = -from;
        to = -to;
    }
    x->a[x->n++] = (struct axis){size, from, to};
}

/* Cuts axis k so that its first part has `low` elements. */
static bool axis_cut(struct axes *x, int k, int64_t low)
{
    struct axis a = x->a[k];

    if (low <= 0 || a.size % low || x->n >= MAX_AXES) return false;
    x->a[k].size = low;
    x->a[x->n++] = (struct axis){a.size / low, a.from * low, a.to * low};
    return true;
}

/* Cuts axes where rows of the input begin and where all of them are over. `digit`: the axis that counts them,
 * or -1. False: rows and axes do not fit together. */
static bool axes_split(struct axes *x, int64_t inner, int64_t rows, int *digit)
{
    int64_t low = x->start % inner;

    *digit = -1;
    if (x->n > MAX_AXES) return false;
    for (int k = 0; k < x->n; k++) {
        struct axis *a = &x->a[k];
        if (a->size == 1 || a->from % (inner * rows) == 0) continue;
        if (a->from < inner && (a->size - 1) * a->from >= inner &&
            (inner % a->from || !axis_cut(x, k, inner / a->from)))
            return false;
        if (a->from < inner) {
            low += (a->size - 1) * a->from;
            continue;
        }
        if (a->from != inner || (a->size > rows && !axis_cut(x, k, rows)) || *digit >= 0) return false;
        *digit = k;
    }
    return low < inner;
}

/* Does the result show its rows by axis `digit` alone? */
static bool axes_show(const struct axes *x, int digit, int64_t inner, int64_t rows)
{
    int64_t least = x->offset % inner, most = least;

    for (int k = 0; k < x->n; k++) {
        int64_t to = x->a[k].to, far = (x->a[k].size - 1) * to;
        if (k == digit || to % (inner * rows) == 0) continue;
        least += far < 0 ? far : 0;
        most += far > 0 ? far : 0;
    }
    return least >= 0 && most < inner;
}

/* The dependence of a result on an input in `p` along those axes. */
static struct place place_through(const struct walk *w, struct place p, struct axes *x)
{
    int digit;

    if (p.is != ROWS) return p;
    if (!axes_split(x, p.inner, w->rows, &digit)) return place_bad(w, UNKNOWN);
    /* One row goes into all results, or not all rows are there, or they are looked at together. */
    if (digit < 0 || x->a[digit].size != w->rows || x->a[digit].to <= 0) return place_bad(w, MET);
    int64_t inner = x->a[digit].to;
    if (x->start / p.inner % w->rows || x->offset / inner % w->rows) return place_bad(w, MET);
    if (!axes_show(x, digit, inner, w->rows)) return place_bad(w, UNKNOWN);
    return (struct place){.is = ROWS, .inner = inner};
}

static struct place place_join(const struct walk *w, struct place a, struct place b)
{
    if (a.is == ROWS && b.is == ROWS && a.inner != b.inner) return place_bad(w, MET);
    return a.is >= b.is ? a : b;
}

static struct place place_at(const struct walk *w, int value)
{
    return w->root[w->g->value[value].root];
}

/* ---- operators ---- */

/* Strides of the input, of a result in C order. */
static struct place place_strided(const struct walk *w, int value, int32_t rank, const int32_t *dims,
                                  const int32_t *from)
{
    struct axes x = {0};
    int64_t to = 1;

    for (int32_t i = rank - 1; i >= 0; i--) {
        axis_add(&x, dims[i], from[i], to);
        to *= dims[i];
    }
    return place_through(w, place_at(w, value), &x);
}

static struct place place_move(const struct walk *w, int value, const struct gwm_move *m)
{
    struct axes x = {.start = m->start, .offset = m->offset};

    for (int32_t i = 0; i < m->rank; i++) axis_add(&x, m->dims[i], m->from[i], m->to[i]);
    return place_through(w, place_at(w, value), &x);
}

/* outer × n × inner becomes outer × count × inner, where each depends on all n. */
static struct place place_along(const struct walk *w, int value, int64_t outer, int64_t n, int64_t count,
                                int64_t inner)
{
    struct axes x = {0};

    axis_add(&x, outer, n * inner, count * inner);
    axis_add(&x, n, inner, 0);
    axis_add(&x, count, 0, inner);
    axis_add(&x, inner, 1, 1);
    return place_through(w, place_at(w, value), &x);
}

/* A side of a picture that the window sees one element of at a time, or all together. */
static void axis_of_side(struct axes *x, int64_t in, int64_t out, bool one, int64_t from, int64_t to)
{
    if (one && in == out) {
        axis_add(x, in, from, to);
    } else {
        axis_add(x, in, from, 0);
        axis_add(x, out, 0, to);
    }
}

static struct place place_window(const struct walk *w, int value, const struct gwm_window *v, int64_t group,
                                 int64_t oc)
{
    struct axes x = {0};
    int64_t in = (int64_t)v->h * v->w, out = (int64_t)v->oh * v->ow;

    axis_add(&x, v->n, v->c * in, oc * out);
    axis_add(&x, group, v->c / group * in, oc / group * out);
    axis_add(&x, v->c / group, in, 0);
    axis_add(&x, oc / group, 0, out);
    axis_of_side(&x, v->h, v->oh, v->kh == 1 && v->sh == 1 && !v->top, v->w, v->ow);
    axis_of_side(&x, v->w, v->ow, v->kw == 1 && v->sw == 1 && !v->left, 1, 1);
    return place_through(w, place_at(w, value), &x);
}

/* A transposed convolution's window is the forward one's: what goes in is h × w all the same. */
static struct place place_conv(const struct walk *w, const struct gwm_node *n)
{
    return place_window(w, n->in[0], &n->conv.win, n->conv.group, n->conv.oc);
}

static struct place place_gemm(const struct walk *w, const struct gwm_node *n)
{
    const struct gwm_gemm *q = &n->gemm;
    const struct gwm_broadcast *bc = &q->batch;
    struct axes a = {0}, b = {0};
    int64_t to = (int64_t)q->m * q->n;

    for (int32_t i = q->products > 1 ? bc->rank - 1 : -1; i >= 0; i--) {
        axis_add(&a, bc->dims[i], bc->a[i], to);
        axis_add(&b, bc->dims[i], bc->b[i], to);
        to *= bc->dims[i];
    }
    axis_add(&a, q->m, q->ta ? 1 : q->k, q->n);
    axis_add(&a, q->k, q->ta ? q->m : 1, 0);
    axis_add(&a, q->n, 0, 1);
    axis_add(&b, q->m, 0, q->n);
    axis_add(&b, q->k, q->tb ? 1 : q->n, 0);
    axis_add(&b, q->n, q->tb ? q->k : 1, 1);
    return place_join(w, place_through(w, place_at(w, n->in[0]), &a),
                      place_through(w, place_at(w, n->in[1]), &b));
}

/* Constant indices name rows by themselves. */
static struct place place_picked(const struct walk *w, const struct gwm_gather *s, const int64_t *index,
                                 struct place p)
{
    int64_t each = s->count / w->rows;

    if (s->outer != 1 || p.inner % s->inner || s->count % w->rows || !each) return place_bad(w, MET);
    for (int64_t k = 0; k < s->count; k++) {
        int64_t at = index[k] < 0 ? index[k] + s->n : index[k];
        if (at * s->inner / p.inner % w->rows != k / each) return place_bad(w, MET);
    }
    return (struct place){.is = ROWS, .inner = each * s->inner};
}

static struct place place_gather(const struct walk *w, const struct gwm_node *n)
{
    const struct gwm_gather *s = &n->gather;
    const int64_t *index = w->g->value[w->g->value[n->in[1]].root].data;
    struct axes x = {0};
    struct place p = place_along(w, n->in[0], s->outer, s->n, s->count, s->inner);

    if (index && p.is >= UNKNOWN && place_at(w, n->in[0]).is == ROWS)
        p = place_picked(w, s, index, place_at(w, n->in[0]));
    /* Its indices are places in a flat list, which stay within the row unless the axis is the batch's. */
    if (!index && p.is == MET && p.node == w->node && !strcmp(n->type, "GatherElements")) p.is = UNKNOWN;
    axis_add(&x, s->outer, 0, (int64_t)s->count * s->inner);
    axis_add(&x, s->count, 1, s->inner);
    axis_add(&x, s->inner, 0, 1);
    return place_join(w, p, place_through(w, place_at(w, n->in[1]), &x));
}

static struct place place_norm(const struct walk *w, const struct gwm_node *n)
{
    struct place p = place_along(w, n->in[0], n->norm.outer, n->norm.n, n->norm.n, 1);

    for (uint32_t i = 1; i < n->nin; i++) {
        struct place q = place_at(w, n->in[i]);
        p = place_join(w, p, q.is == ROWS ? place_bad(w, UNKNOWN) : q);
    }
    return p;
}

static struct place place_moves(const struct walk *w, const struct gwm_node *n)
{
    struct place p = {.is = CONSTANT};

    for (uint32_t i = 0; i < n->nin; i++)
        if (w->g->value[n->in[i]].count) p = place_join(w, p, place_move(w, n->in[i], &n->mv.move[i]));
    return p;
}

static struct place place_select(const struct walk *w, const struct gwm_node *n)
{
    const struct gwm_select *s = &n->select;
    struct place p = {.is = CONSTANT};

    for (int i = 0; i < 3; i++)
        p = place_join(w, p, place_strided(w, n->in[i], s->rank, s->dims, s->stride[i]));
    return p;
}

static struct place place_binary(const struct walk *w, const struct gwm_node *n)
{
    const struct gwm_broadcast *bc = &n->binary.bc;

    return place_join(w, place_strided(w, n->in[0], bc->rank, bc->dims, bc->a),
                      place_strided(w, n->in[1], bc->rank, bc->dims, bc->b));
}

static struct place place_made(const struct walk *w, const struct gwm_node *n)
{
    int x = n->in[0];

    switch (n->op) {
    case GWM_UNARY:
    case GWM_CONVERT: return place_at(w, x);
    case GWM_BINARY: return place_binary(w, n);
    case GWM_SELECT: return place_select(w, n);
    case GWM_MOVE:
    case GWM_CONCAT:
    case GWM_PAD: return place_moves(w, n);
    case GWM_GEMM: return place_gemm(w, n);
    case GWM_CONV:
    case GWM_DECONV: return place_conv(w, n);
    case GWM_POOL: return place_window(w, x, &n->pool.win, n->pool.win.c, n->pool.win.c);
    case GWM_NORM: return place_norm(w, n);
    case GWM_GATHER: return place_gather(w, n);
    case GWM_SOFTMAX:
        return place_along(w, x, n->softmax.outer, n->softmax.n, n->softmax.n, n->softmax.inner);
    case GWM_REDUCE: return place_along(w, x, n->reduce.outer, n->reduce.n, 1, n->reduce.inner);
    case GWM_CUMSUM: return place_along(w, x, n->cumsum.outer, n->cumsum.n, n->cumsum.n, n->cumsum.inner);
    case GWM_INTERP: return place_along(w, x, n->interp.outer, n->interp.n, n->interp.count, n->interp.inner);
    }
    return place_bad(w, UNKNOWN);
}

/* ---- the whole ---- */

static struct place place_of_input(const struct gwm_value *v, int64_t rows)
{
    return (struct place){.is = ROWS, .inner = v->count / rows};
}

/* An output's rows must be its first dimension. */
static struct place place_of_output(struct walk *w, int value, int last)
{
    struct place p = place_at(w, value);

    w->node = last;
    return p.is == ROWS && p.inner != w->g->value[value].count / w->rows ? place_bad(w, MET) : p;
}

static struct place place_worse(struct place a, struct place b)
{
    return a.is >= b.is ? a : b;
}

static void say_node(const struct gwm_graph *g, int node, char *text, size_t size)
{
    const struct gwm_node *n = node >= 0 ? &g->node[node] : NULL;

    if (n) snprintf(text, size, "node '%.60s' (%.30s)", *n->name ? n->name : g->value[n->out].name, n->type);
}

enum gwm_rows gwm_graph_rows(const struct gwm_graph *g, uint32_t rows, char *node, size_t size)
{
    struct walk w = {g, rows, -1, calloc((size_t)g->nvalue + 1, sizeof(struct place))};
    struct place worst = {.is = CONSTANT};
    int *uses = calloc((size_t)g->nvalue + 1, sizeof(int)),
        *maker = calloc((size_t)g->nvalue + 1, sizeof(int));

    if (size) *node = '\0';
    if (w.root && uses && maker) {
        gwm_uses(g, uses, maker);
        for (uint32_t i = 0; i < g->ninput; i++)
            w.root[g->input[i]] = place_of_input(&g->value[g->input[i]], rows);
        for (w.node = 0; w.node < g->nnode; w.node++)
            if (!g->node[w.node].dead) w.root[g->node[w.node].out] = place_made(&w, &g->node[w.node]);
        for (uint32_t i = 0; i < g->noutput; i++)
            worst = place_worse(worst, place_of_output(&w, g->output[i], maker[g->value[g->output[i]].root]));
        if (worst.is >= UNKNOWN && size) say_node(g, worst.node, node, size);
    } else {
        worst = place_bad(&w, UNKNOWN);
    }
    free(w.root);
    free(uses);
    free(maker);
    return worst.is == MET ? GWM_ROWS_MEET : worst.is == UNKNOWN ? GWM_ROWS_UNKNOWN : GWM_ROWS_APART;
}

/* ---- how many rows there are ---- */

/* Constants of one size with different contents. */
static bool values_differ(const struct gwm_graph *a, int va, const struct gwm_graph *b, int vb)
{
    const struct gwm_value *x = &a->value[a->value[va].root], *y = &b->value[b->value[vb].root];

    return x->data && y->data && x->dtype == y->dtype && x->count == y->count &&
           memcmp(x->data, y->data, gwm_bytes(x)) != 0;
}

static bool nodes_differ(const struct gwm_graph *a, const struct gwm_node *x, const struct gwm_graph *b,
                         const struct gwm_node *y)
{
    bool differ = memcmp(&x->act, &y->act, sizeof(x->act)) != 0;

    for (uint32_t k = 0; k < x->nin && !differ; k++) differ = values_differ(a, x->in[k], b, y->in[k]);
    return differ;
}

bool gwm_graphs_differ(const struct gwm_graph *a, const struct gwm_graph *b, char *node, size_t size)
{
    for (int i = 0; i < a->nnode && a->nnode == b->nnode; i++) {
        const struct gwm_node *x = &a->node[i], *y = &b->node[i];
        if (x->dead || y->dead || x->op != y->op || x->nin != y->nin || !nodes_differ(a, x, b, y)) continue;
        if (size) {
            say_node(a, i, node, size);
            size_t n = strlen(node);
            snprintf(node + n, size - n, ", which takes their number");
        }
        return true;
    }
    return false;
}
