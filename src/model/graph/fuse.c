/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Makes the graph smaller before any back-end sees it. Unused nodes go. A product or sum per channel after a
 * convolution (batch normalisation, most often) goes into its weights. A row added to a matrix product
 * becomes its bias. An activation goes into the operator before it. Zeros around a picture go into the
 * convolution after them. Each step is left out where there is no memory for it.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "src/model/graph/fuse.h"

#include "src/model/graph/move.h"
#include "src/model/graph/rows.h"
#include "src/model/graph/siblings.h"

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
        f->maker[g->value[n->out].root] = -1;
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

/* A view that changes nothing, as a slice of all of a tensor: its readers may as well read the tensor. */
static void skip_views(struct fuser *f, struct gwm_node *n)
{
    for (uint32_t k = 0; k < n->nin; k++) {
        const struct gwm_value *v = &f->g->value[n->in[k]], *root = &f->g->value[v->root];
        if (v->dtype == root->dtype && gwm_same_shape(&v->shape, &root->shape)) n->in[k] = v->root;
    }
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
    if (!c->data || c->dtype != GWM_F32 || !c->count) return -1;
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

/* A factor per column goes into the columns of a constant factor, and the bias. */
static bool gemm_scale(struct fuser *f, int m, const float *p, int stride)
{
    struct gwm_gemm *q = &f->g->node[m].gemm;
    struct gwm_value *b = &f->g->value[f->g->node[m].in[1]];
    size_t n = (size_t)q->n, count = (size_t)q->k * n;

    if (q->products != 1 || !b->data || (size_t)b->count != count || f->uses[b->root] != 1) return false;
    float *w = gwm_alloc(f->g, count * sizeof(*w)),
          *bias = w && q->bias ? gwm_alloc(f->g, n * sizeof(*bias)) : NULL;
    if (!w || (q->bias && !bias)) return false;
    for (size_t i = 0; i < count; i++)
        w[i] = ((const float *)b->data)[i] * p[(q->tb ? i / (size_t)q->k : i % n) * (size_t)stride];
    for (size_t i = 0; bias && i < n; i++) bias[i] = q->bias[i] * p[i * (size_t)stride];
    f->g->value[b->root].data = b->data = w;
    if (bias) q->bias = bias;
    return true;
}

/* The product whose result's columns are the channels of what node m makes: m, or what a move to N C H W
 * reads. */
static int makes_channels(const struct fuser *f, int m)
{
    static const int32_t first[] = {0, 3, 1, 2};
    const struct gwm_node *n = &f->g->node[m];
    const struct gwm_shape *x = &f->g->value[n->in[0]].shape;
    struct gwm_move want;

    if (n->op != GWM_MOVE || x->rank != 4 || f->g->value[n->out].shape.rank != 4) return -1;
    gwm_move_permute(&want, x->d, 4, first);
    if (memcmp(&want, n->mv.move, sizeof(want))) return -1;
    m = sole_maker(f, n->in[0]);
    return m >= 0 && f->g->node[m].op == GWM_GEMM && f->g->node[m].gemm.n == x->d[3] ? m : -1;
}

/* node OP constant, or constant OP node where that is the same. */
static void fuse_binary(struct fuser *f, struct gwm_node *n)
{
    enum gwm_binary kind = n->binary.kind;
    bool commutes = kind == GWM_ADD || kind == GWM_MUL;

    if (kind > GWM_DIV) return;
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
        int q = kind == GWM_MUL ? makes_channels(f, m) : -1;
        if (q >= 0 && f->g->node[q].act.kind == GWM_ACT_NONE) {
            stride = per_position(c, 4, 1, f->g->node[q].gemm.n);
            if (stride < 0 || !gemm_scale(f, q, (const float *)c->data, stride)) continue;
            absorb(f, m, n);
            return;
        }
    }
}

/* a x + b after a convolution or a product, which can have it in their own numbers. */
static bool fuse_affine(struct fuser *f, int m, struct gwm_node *n)
{
    struct gwm_node *p = &f->g->node[m];
    float a = n->act.a, b = n->act.b;

    if (p->op == GWM_CONV && own_conv(f, m)) {
        conv_affine(&p->conv, GWM_MUL, &a, 0);
        conv_affine(&p->conv, GWM_ADD, &b, 0);
        return true;
    }
    if (p->op != GWM_GEMM) return false;
    if (p->gemm.bias || b != 0) {
        float *bias = gwm_alloc(f->g, (size_t)p->gemm.n * sizeof(*bias));
        if (!bias) return false;
        for (int32_t i = 0; i < p->gemm.n; i++) bias[i] = a * (p->gemm.bias ? p->gemm.bias[i] : 0) + b;
        p->gemm.bias = bias;
    }
    p->gemm.alpha *= a;
    return true;
}

/* The functions that back-ends compute while they store a result. */
static bool fuses(const struct gwm_act *act)
{
    return act->kind > GWM_ACT_NONE && act->kind <= GWM_ACT_GELU_TANH;
}

/* a x + b after c x + d. */
static bool join_affine(struct gwm_act *first, const struct gwm_act *then)
{
    if (first->kind != GWM_ACT_AFFINE || then->kind != GWM_ACT_AFFINE) return false;
    *first = (struct gwm_act){GWM_ACT_AFFINE, then->a * first->a, then->a * first->b + then->b};
    return true;
}

static void fuse_act(struct fuser *f, struct gwm_node *n)
{
    int m = fuses(&n->act) ? sole_maker(f, n->in[0]) : -1, to = m;

    if (f->g->value[n->out].dtype != GWM_F32) return;
    /* Through a transpose: it does not matter which comes first. */
    if (m >= 0 && f->g->node[m].op == GWM_MOVE) to = sole_maker(f, f->g->node[m].in[0]);
    if (to < 0 || f->g->value[f->g->node[to].out].dtype != GWM_F32) return;
    struct gwm_node *p = &f->g->node[to];
    if (p->op == GWM_UNARY && p->act.kind == GWM_ACT_AFFINE && join_affine(&p->act, &n->act)) {
        if (p->act.a == 1 && p->act.b == 0) p->act.kind = GWM_ACT_NONE;
        absorb(f, m, n);
        return;
    }
    if (p->act.kind != GWM_ACT_NONE) return;
    if (p->op == GWM_CONV && to == m && !same_result(f, m, n))
        return; /* a reshape lies between, and a convolution's result keeps its shape */
    if (n->act.kind != GWM_ACT_AFFINE || !fuse_affine(f, to, n)) {
        if (p->op != GWM_CONV && p->op != GWM_GEMM && p->op != GWM_BINARY && p->op != GWM_DECONV) return;
        if (p->op == GWM_DECONV && !same_result(f, to, n)) return;
        p->act = n->act;
    }
    absorb(f, m, n);
}

/* The mean of whole planes is a pool, which back-ends compute in any layout. */
static void mean_as_pool(struct fuser *f, struct gwm_node *n)
{
    const struct gwm_reduce *r = &n->reduce;
    const struct gwm_shape *x = &f->g->value[n->in[0]].shape, *y = &f->g->value[n->out].shape;

    if (r->kind != GWM_REDUCE_MEAN || r->inner != 1 || f->g->value[n->out].dtype != GWM_F32) return;
    if (x->rank != 4 || y->rank != 4 || y->d[0] != x->d[0] || y->d[1] != x->d[1] || y->d[2] != 1 ||
        y->d[3] != 1 || r->n != x->d[2] * x->d[3])
        return;
    if (x->d[2] > GWM_MAX_SIDE || x->d[3] > GWM_MAX_SIDE) return;
    n->op = GWM_POOL;
    n->pool = (struct gwm_pool){
        .average = true,
        .win = {x->d[0], x->d[1], x->d[2], x->d[3], 1, 1, x->d[2], x->d[3], 1, 1, 1, 1, 0, 0, 0, 0}};
}

/* Zeros around the pictures that a convolution reads: it can imagine them itself. */
static void fuse_pad(struct fuser *f, struct gwm_node *n)
{
    struct gwm_window *w = &n->conv.win;
    int m = f->g->value[n->in[0]].root == n->in[0] ? sole_maker(f, n->in[0]) : -1;
    struct gwm_node *pad = m < 0 ? NULL : &f->g->node[m];
    struct gwm_move want;

    if (!pad || pad->op != GWM_PAD || pad->mv.pad_float != 0) return;
    const struct gwm_shape *x = &f->g->value[pad->in[0]].shape, *y = &f->g->value[n->in[0]].shape;
    if (x->rank < 3 || x->rank > 4 || x->rank != y->rank || f->g->value[pad->in[0]].root != pad->in[0])
        return;
    int32_t h = x->rank == 4 ? x->d[2] : 1, width = x->d[x->rank - 1], more = w->h - h + w->w - width;
    int32_t top = pad->mv.move->offset / w->w, left = pad->mv.move->offset % w->w;
    int32_t at[] = {0, 0, x->rank == 4 ? top : left, left};
    if (x->d[0] != y->d[0] || x->d[1] != y->d[1] || top + h > w->h || left + width > w->w ||
        more > GWM_MAX_SIDE)
        return;
    gwm_move_place(&want, x, y, at);
    if (memcmp(&want, pad->mv.move, sizeof(want))) return; /* it moves more than that */
    w->top += top;
    w->left += left;
    w->bottom += w->h - h - top;
    w->right += w->w - width - left;
    w->h = h;
    w->w = width;
    n->in[0] = pad->in[0];
    pad->dead = true;
}

/* A copy that is not needed: the node before it writes where it would. */
static void drop_copy(struct fuser *f, struct gwm_node *n)
{
    int m = n->act.kind == GWM_ACT_NONE ? sole_maker(f, n->in[0]) : -1;

    if (m >= 0 && same_result(f, m, n)) absorb(f, m, n);
}

/* ---- functions that files spell out ---- */

/* The function node that makes a value, if it is that one; or NULL. */
static struct gwm_node *fuse_made_by(const struct fuser *f, int value, enum gwm_act_kind kind)
{
    int m = f->maker[f->g->value[value].root];

    if (m < 0 || f->g->value[value].root != value) return NULL;
    struct gwm_node *n = &f->g->node[m];
    return n->op == GWM_UNARY && n->act.kind == (int32_t)kind ? n : NULL;
}

static bool near(float a, float b)
{
    return a > b - 1e-5f && a < b + 1e-5f;
}

static void becomes(struct fuser *f, struct gwm_node *n, struct gwm_act act, int in)
{
    for (uint32_t k = 0; k < n->nin; k++) f->uses[f->g->value[n->in[k]].root]--;
    f->uses[f->g->value[in].root]++;
    n->op = GWM_UNARY;
    n->act = act;
    n->in[0] = in;
    n->nin = 1;
}

/* Is value `e` 1 + erf(x / √2)? Then the node of erf, and x. */
static struct gwm_node *erf_part(const struct fuser *f, int e, int *x)
{
    struct gwm_node *plus = fuse_made_by(f, e, GWM_ACT_AFFINE);
    struct gwm_node *erf = plus && near(plus->act.a, 1) && near(plus->act.b, 1)
                               ? fuse_made_by(f, plus->in[0], GWM_ACT_ERF)
                               : NULL;
    struct gwm_node *by = erf && f->uses[erf->out] == 1 ? fuse_made_by(f, erf->in[0], GWM_ACT_AFFINE) : NULL;

    if (!by || !near(by->act.a, 0.70710678f) || by->act.b != 0) return NULL;
    *x = by->in[0];
    return erf;
}

/* A product that is one function of one value: x sigmoid(x), x hardsigmoid(x), x (1 + erf(x/√2)). */
static void spell(struct fuser *f, struct gwm_node *n)
{
    const struct gwm_act silu = {GWM_ACT_SILU, 1, 0}, hswish = {GWM_ACT_HSWISH, 0, 0},
                         gelu = {GWM_ACT_GELU, 0, 0};

    if (n->binary.kind != GWM_MUL || n->act.kind != GWM_ACT_NONE) return;
    for (uint32_t k = 0; k < 2; k++) {
        int x = n->in[k], e = n->in[!k], from = -1;
        const struct gwm_node *s = fuse_made_by(f, e, GWM_ACT_SIGMOID),
                              *h = fuse_made_by(f, e, GWM_ACT_HSIGMOID);
        const struct gwm_node *half = fuse_made_by(f, x, GWM_ACT_AFFINE);
        struct gwm_node *erf = erf_part(f, e, &from);
        if (s && s->in[0] == x) {
            becomes(f, n, silu, x);
        } else if (h && h->in[0] == x && near(h->act.a, 1.f / 6) && near(h->act.b, 0.5f)) {
            becomes(f, n, hswish, x);
        } else if (erf && half && half->in[0] == from && near(half->act.a, 0.5f) && half->act.b == 0) {
            becomes(f, n, gelu, from);
        } else if (erf && from == x) { /* twice it: the half comes later, or has come before */
            becomes(f, erf, gelu, x);
            becomes(f, n, (struct gwm_act){GWM_ACT_AFFINE, 2, 0}, erf->out);
        } else {
            continue;
        }
        return;
    }
}

static void each_binary(struct fuser *f, void (*call)(struct fuser *, struct gwm_node *))
{
    for (int i = 0; i < f->g->nnode; i++)
        if (!f->g->node[i].dead && f->g->node[i].op == GWM_BINARY) call(f, &f->g->node[i]);
}

int gwm_optimise(struct gwm_graph *g)
{
    struct fuser f = {.g = g};
    int live = 0;

    f.uses = calloc((size_t)g->nvalue + 1, sizeof(int));
    f.maker = calloc((size_t)g->nvalue + 1, sizeof(int));
    f.own = calloc((size_t)g->nnode + 1, sizeof(bool));
    if (f.uses && f.maker && f.own) {
        for (int i = 0; i < g->nnode; i++) skip_views(&f, &g->node[i]);
        gwm_uses(g, f.uses, f.maker);
        drop_unused(&f);
        each_binary(&f, spell);
        drop_unused(&f);
        for (int i = 0; i < g->nnode; i++) {
            struct gwm_node *n = &g->node[i];
            if (!n->dead && n->op == GWM_BINARY && g->value[n->out].dtype == GWM_F32) fuse_binary(&f, n);
            if (!n->dead && n->op == GWM_UNARY) fuse_act(&f, n);
            if (!n->dead && n->op == GWM_UNARY) drop_copy(&f, n);
            if (!n->dead && n->op == GWM_CONV) fuse_pad(&f, n);
            if (!n->dead && n->op == GWM_REDUCE) mean_as_pool(&f, n);
        }
        gwm_move_rows(g, f.uses, f.maker);
        gwm_join_siblings(g, f.uses, f.maker);
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
