/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Makes the graph smaller before any back-end sees it: what nobody uses goes; a product or sum per channel
 * after a convolution (batch normalisation, most often) goes into its weights; a row added to a matrix
 * product becomes its bias; an activation goes into the operator before it. Each step is left out where there
 * is no memory for it.
 */
#include "src/model/graph.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct fuser {
    struct gwm_graph *g;
    int *uses, *maker;
    bool *own; /* the node's weights (or bias) are its own copy: they may be changed */
};

static void drop_unused(struct fuser *f)
{
    struct gwm_graph *g = f->g;

    for (int i = g->nnode - 1; i >= 0; i--) {
        struct gwm_node *n = &g->node[i];
        if (n->dead || f->uses[g->value[n->out].root]) continue;
        n->dead = true;
        for (uint32_t k = 0; k < n->nin; k++) f->uses[g->value[n->in[k]].root]--;
    }
}

/* The node that makes a value, if it is used once; or -1. */
static int sole_maker(const struct fuser *f, int value)
{
    int root = f->g->value[value].root;

    return f->uses[root] == 1 ? f->maker[root] : -1;
}

static bool same_result(const struct fuser *f, int m, const struct gwm_node *n)
{
    return gwm_same_shape(&f->g->value[f->g->node[m].out].shape, &f->g->value[n->out].shape);
}

/* Node n vanishes: m now makes its result. */
static void absorb(struct fuser *f, int m, struct gwm_node *n)
{
    f->maker[f->g->value[f->g->node[m].out].root] = -1;
    f->g->node[m].out = n->out;
    f->maker[f->g->value[n->out].root] = m;
    n->dead = true;
}

/* A constant that has one element, or one per position along `axis` of a tensor of rank `rank`; its stride
 * (0, 1) or -1. */
static int per_position(const struct gwm_value *c, uint32_t rank, uint32_t axis, int32_t size)
{
    if (!c->data || c->dtype != GWM_F32) return -1;
    if (c->count == 1) return 0;
    if (c->count != size || c->shape.rank > rank || c->shape.rank + axis < rank) return -1;
    return c->shape.d[c->shape.rank + axis - rank] == size ? 1 : -1;
}

/* Makes weights and bias of a convolution changeable. */
static bool own_conv(struct fuser *f, int m)
{
    struct gwm_conv *c = &f->g->node[m].conv;
    size_t count = (size_t)c->oc * (size_t)(c->win.c / c->group) * (size_t)c->win.kh * (size_t)c->win.kw;

    if (f->own[m]) return true;
    float *w = gwm_alloc(f->g, count * sizeof(*w)),
          *b = w ? gwm_alloc(f->g, (size_t)c->oc * sizeof(*b)) : NULL;
    if (!b) return false;
    memcpy(w, c->weight, count * sizeof(*w));
    if (c->bias) memcpy(b, c->bias, (size_t)c->oc * sizeof(*b));
    c->weight = w;
    c->bias = b;
    return f->own[m] = true;
}

static void conv_affine(struct gwm_conv *c, enum gwm_binary kind, const float *p, int stride)
{
    size_t per = (size_t)(c->win.c / c->group) * (size_t)c->win.kh * (size_t)c->win.kw;
    float *w = (float *)c->weight, *b = (float *)c->bias;

    for (int32_t o = 0; o < c->oc; o++, p += stride) {
        if (kind == GWM_ADD || kind == GWM_SUB) {
            b[o] += kind == GWM_ADD ? *p : -*p;
            continue;
        }
        float s = kind == GWM_MUL ? *p : 1 / *p;
        b[o] *= s;
        for (size_t i = 0; i < per; i++) w[(size_t)o * per + i] *= s;
    }
}

static bool gemm_add(struct fuser *f, int m, enum gwm_binary kind, const float *p, int stride)
{
    struct gwm_gemm *q = &f->g->node[m].gemm;
    float *b = gwm_alloc(f->g, (size_t)q->n * sizeof(*b));

    if (!b) return false;
    for (int32_t i = 0; i < q->n; i++)
        b[i] = (q->bias ? q->bias[i] : 0) + (kind == GWM_ADD ? p[i * stride] : -p[i * stride]);
    q->bias = b;
    return true;
}

/* node OP constant, or constant OP node where that is the same. */
static void fuse_binary(struct fuser *f, struct gwm_node *n)
{
    enum gwm_binary kind = n->binary.kind;
    bool commutes = kind == GWM_ADD || kind == GWM_MUL;

    for (uint32_t k = 0; k < (commutes ? 2 : 1); k++) {
        int m = sole_maker(f, n->in[k]), stride;
        struct gwm_value *c = &f->g->value[n->in[!k]];
        const struct gwm_shape *out = &f->g->value[n->out].shape;
        if (m < 0 || f->g->node[m].act.kind != GWM_ACT_NONE || !same_result(f, m, n)) continue;
        struct gwm_node *p = &f->g->node[m];
        if (p->op == GWM_CONV) {
            stride = per_position(c, out->rank, 1, p->conv.oc);
            if (stride < 0 || !own_conv(f, m)) continue;
            conv_affine(&p->conv, kind, (const float *)c->data, stride);
            absorb(f, m, n);
            return;
        }
        if (p->op == GWM_GEMM && (kind == GWM_ADD || kind == GWM_SUB) && p->gemm.n == out->d[out->rank - 1]) {
            stride = per_position(c, out->rank, out->rank - 1, p->gemm.n);
            if (stride < 0 || !gemm_add(f, m, kind, (const float *)c->data, stride)) continue;
            absorb(f, m, n);
            return;
        }
    }
}

static void fuse_act(struct fuser *f, struct gwm_node *n)
{
    int m = n->act.kind == GWM_ACT_NONE ? -1 : sole_maker(f, n->in[0]), to = m;

    /* Through a transpose: it does not matter which comes first. */
    if (m >= 0 && f->g->node[m].op == GWM_MOVE) to = sole_maker(f, f->g->node[m].in[0]);
    if (to < 0 || f->g->node[to].act.kind != GWM_ACT_NONE) return;
    enum gwm_op op = f->g->node[to].op;
    if (op != GWM_CONV && op != GWM_GEMM && op != GWM_BINARY) return;
    if (op == GWM_CONV && to == m && !same_result(f, m, n))
        return; /* a reshape lies between, and a convolution's result keeps its shape */
    f->g->node[to].act = n->act;
    absorb(f, m, n);
}

int gwm_optimise(struct gwm_graph *g)
{
    struct fuser f = {.g = g};
    int live = 0;

    f.uses = calloc((size_t)g->nvalue + 1, sizeof(int));
    f.maker = calloc((size_t)g->nvalue + 1, sizeof(int));
    f.own = calloc((size_t)g->nnode + 1, sizeof(bool));
    if (f.uses && f.maker && f.own) {
        gwm_uses(g, f.uses, f.maker);
        drop_unused(&f);
        for (int i = 0; i < g->nnode; i++) {
            struct gwm_node *n = &g->node[i];
            if (n->dead) continue;
            if (n->op == GWM_BINARY)
                fuse_binary(&f, n);
            else if (n->op == GWM_UNARY)
                fuse_act(&f, n);
        }
        for (int i = 0; i < g->nnode; i++)
            if (!g->node[i].dead) g->node[live++] = g->node[i];
        g->nnode = live;
    }
    bool ok = f.uses && f.maker && f.own;
    free(f.uses);
    free(f.maker);
    free(f.own);
    return ok ? 0 : -ENOMEM;
}
