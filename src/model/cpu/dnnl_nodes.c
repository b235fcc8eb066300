/* SPDX-License-Identifier: Apache-2.0 */
/* Nodes as primitives of oneDNN: convolutions, pooling, matrix products. */
#include <errno.h>

#include "src/model/cpu/dnnl_nodes.h"

#include "src/model/cpu/dnnl.h"
#include "src/model/cpu/dnnl_careful.h"
#include "src/model/cpu/dnnl_layout.h"
#include "src/model/cpu/dnnl_simple.h"

/* A node's arguments of dnnl_nodes_add(): tensors as they are, and tensors as the library may have them. */
struct job {
    const struct gwm_node *node;
    dnnl_primitive_desc_t pd, bare; /* bare: the same without the function, or NULL */
    md_t src, weight, bias;         /* as they are */
    int weight_root;                /* when weights are no constant; else -1 */
    const float *weight_data, *bias_data;
    float alpha; /* a factor of the products, not of the bias */
    int32_t nbias;
    /* A sum that follows and goes into the same step: with that root (-1: none), into `out`; then the
     * function. */
    int add_root, out;
    const struct gwm_act *act;
};

/* Weights and bias in the layouts that the primitive of j->pd asks for: their buffers; 0 or an error. */
static int find_weights(struct gwm_cpu *p, const struct job *j, const_md_t want, int *weight, int *bias)
{
    *weight = *bias = 0;
    if (want)
        *weight = j->weight_root < 0 ? gwm_fixed_in_layout(p, j->weight_data, j->weight, want)
                                     : gwm_dnnl_in_layout(p, j->weight_root, j->weight, want);
    /* The library applies the factor to the bias too. */
    if (*weight >= 0 && j->bias_data) *bias = gwm_fixed_bias(p, j->bias_data, j->nbias, 1 / j->alpha);
    return *weight < 0 ? *weight : *bias < 0 ? *bias : 0;
}

/* Where the result goes: a buffer. A sum is taken in place, where the other operand is, which no node needs
 * afterwards. */
static int find_result(struct gwm_cpu *p, const struct job *j, const_md_t dst)
{
    md_t plain = j->node->op == GWM_GEMM ? NULL : gwm_dnnl_c_order(p, j->out);
    bool same = !plain || dnnl_memory_desc_equal(plain, dst);
    int y = j->out;

    if (j->add_root >= 0) {
        y = same ? -ENOTSUP : gwm_dnnl_in_layout(p, j->add_root, plain, dst);
        if (y >= 0) y = gwm_form_share(p, j->out, dst, y);
    } else if (!same) {
        y = gwm_form_add(p, j->out, dst, true);
    }
    md_free(plain);
    if (y >= 0) p->plain[j->out] = same;
    return y;
}

/* Adds the primitive of j->pd with its arguments. */
static int dnnl_nodes_add(struct gwm_cpu *p, const struct job *j)
{
    const_md_t src = dnnl_primitive_desc_query_md(j->pd, dnnl_query_src_md, 0);
    const_md_t dst = dnnl_primitive_desc_query_md(j->pd, dnnl_query_dst_md, 0);
    const_md_t weight = j->weight ? dnnl_primitive_desc_query_md(j->pd, dnnl_query_weights_md, 0) : NULL;
    int w, b, err, y = find_result(p, j, dst);
    int x = y < 0 ? y : gwm_dnnl_in_layout(p, p->g->value[j->node->in[0]].root, j->src, src);

    if (x < 0 || (err = find_weights(p, j, weight, &w, &b)) < 0) return x < 0 ? x : err;
    struct gwm_prim *q = gwm_prim_new(p, j->pd, &err);
    if (q) err = gwm_prim_step(p, q, j->pd);
    if (!err) err = gwm_prim_arg(p, q, DNNL_ARG_SRC, x, src);
    if (!err && weight) err = gwm_prim_arg(p, q, DNNL_ARG_WEIGHTS, w, weight);
    if (!err && j->bias_data) err = gwm_prim_arg(p, q, DNNL_ARG_BIAS, b, j->bias);
    if (!err) err = gwm_prim_arg(p, q, DNNL_ARG_DST, y, dst);
    if (!err && j->bare) err = gwm_prim_bare(p, q, j->bare, j->act);
    if (err || j->node->op != GWM_POOL || j->node->pool.average) return err;
    q->own = gwm_careful_pool;
    return gwm_careful_room(p, q);
}

typedef dnnl_status_t make_pd(dnnl_primitive_desc_t *, dnnl_engine_t, const struct shape_of *,
                              const_dnnl_primitive_attr_t);

static md_t md_copy_or_null(const_md_t md)
{
    return md ? md_copy(md) : NULL;
}

/* The primitive of j->pd without its function, in the layouts that the library has chosen. */
static int make_bare(struct gwm_cpu *p, struct job *j, const struct shape_of *s, make_pd *make)
{
    const struct gwm_act none = {.kind = GWM_ACT_NONE};
    struct shape_of as = *s;
    dnnl_primitive_attr_t attr = NULL;

    if (!gwm_dnnl_hides(j->act)) return 0;
    as.src = md_copy_or_null(dnnl_primitive_desc_query_md(j->pd, dnnl_query_src_md, 0));
    as.dst = md_copy_or_null(dnnl_primitive_desc_query_md(j->pd, dnnl_query_dst_md, 0));
    if (s->weight) as.weight = md_copy_or_null(dnnl_primitive_desc_query_md(j->pd, dnnl_query_weights_md, 0));
    int err = as.src && as.dst ? gwm_dnnl_attr(j->alpha, j->add_root >= 0, &none, &attr) : -ENOMEM;
    if (!err && make(&j->bare, p->dnnl->engine, &as, attr)) err = -ENOTSUP;
    if (attr) dnnl_primitive_attr_destroy(attr);
    md_free(as.src);
    md_free(as.dst);
    if (s->weight) md_free(as.weight);
    return err;
}

/* Makes the primitive descriptor with our attributes, adds it, and frees what both needed. Whatever the
 * library does not like about the shapes is an operator that it lacks. */
static int dnnl_nodes_finish(struct gwm_cpu *p, struct job *j, struct shape_of *s, make_pd *make)
{
    dnnl_primitive_attr_t attr = NULL;
    bool sum = j->add_root >= 0;
    int err = !j->src || !s->src || !s->dst ? -ENOMEM : gwm_dnnl_attr(j->alpha, sum, j->act, &attr);

    if (!err && make(&j->pd, p->dnnl->engine, s, attr)) err = -ENOTSUP;
    if (!err && sum && gwm_dnnl_plain_loop(j->pd)) err = -ENOTSUP;
    if (!err) err = make_bare(p, j, s, make);
    if (!err) err = dnnl_nodes_add(p, j);
    if (j->pd) dnnl_primitive_desc_destroy(j->pd);
    if (j->bare) dnnl_primitive_desc_destroy(j->bare);
    if (attr) dnnl_primitive_attr_destroy(attr);
    md_free(j->src);
    md_free(j->weight);
    md_free(j->bias);
    md_free(s->src);
    md_free(s->weight);
    md_free(s->dst);
    return err;
}

/* Does anything after node `at` read a root? */
static bool read_after(const struct gwm_cpu *p, int root, int at)
{
    const struct gwm_graph *g = p->g;
    int seen = 0;

    for (int i = 0; i <= at; i++)
        for (uint32_t k = 0; k < g->node[i].nin; k++) seen += g->value[g->node[i].in[k]].root == root;
    return seen < p->uses[root];
}

/* Is a convolution's result only added to a tensor of its shape, which is there already? The sum's node, or
 * -1. */
static int sum_after(const struct gwm_cpu *p, const struct gwm_node *n, int *other)
{
    const struct gwm_graph *g = p->g;
    int at = (int)(n - g->node),
        q = n->act.kind == GWM_ACT_NONE ? gwm_sole_reader(p->g, p->uses, n->out, at) : -1;

    if (q < 0 || g->node[q].op != GWM_BINARY || g->node[q].binary.kind != GWM_ADD) return -1;
    *other = g->value[g->node[q].in[0]].root == n->out ? g->node[q].in[1] : g->node[q].in[0];
    const struct gwm_value *v = &g->value[*other];
    if (!gwm_same_shape(&v->shape, &g->value[n->out].shape) || v->root != *other || v->root == n->out ||
        v->data || !gwm_same_shape(&v->shape, &g->value[g->node[q].out].shape))
        return -1;
    bool overwritten = v->input < 0 && g->value[n->in[0]].root != v->root && !read_after(p, v->root, q);
    return overwritten && p->maker[v->root] < at ? q : -1;
}

static void window_dims(struct shape_of *s, const struct gwm_window *w)
{
    s->stride[0] = w->sh, s->stride[1] = w->sw;
    s->kernel[0] = w->kh, s->kernel[1] = w->kw;
    s->dilation[0] = w->dh - 1, s->dilation[1] = w->dw - 1;
    s->left[0] = w->top, s->left[1] = w->left;
    /* As far as the last window reaches: where sizes are rounded up, that is past the model's padding. */
    s->right[0] = (w->oh - 1) * w->sh + (w->kh - 1) * w->dh + 1 - w->h - w->top;
    s->right[1] = (w->ow - 1) * w->sw + (w->kw - 1) * w->dw + 1 - w->w - w->left;
    s->right[0] = s->right[0] > w->bottom ? s->right[0] : w->bottom;
    s->right[1] = s->right[1] > w->right ? s->right[1] : w->right;
}

/* With the sum that node `q` is, or (-1) alone. */
static int conv_with(struct gwm_cpu *p, const struct gwm_node *n, int q, int other)
{
    const struct gwm_conv *c = &n->conv;
    const struct gwm_window *w = &c->win;
    dnnl_dims_t x = {w->n, w->c, w->h, w->w}, y = {w->n, c->oc, w->oh, w->ow}, b = {c->oc};
    dnnl_dims_t one = {c->oc, w->c, w->kh, w->kw};
    dnnl_dims_t many = {c->group, c->oc / c->group, w->c / c->group, w->kh, w->kw};
    bool g = c->group > 1;
    struct shape_of s = {.src = md_new(x, 4, dnnl_format_tag_any),
                         .weight = md_new(g ? many : one, g ? 5 : 4, dnnl_format_tag_any),
                         .dst = md_new(y, 4, dnnl_format_tag_any)};
    struct job j = {.node = n,
                    .src = md_new(x, 4, dnnl_nchw),
                    .weight = md_new(g ? many : one, g ? 5 : 4, g ? dnnl_goihw : dnnl_oihw),
                    .bias = md_new(b, 1, dnnl_a),
                    .weight_root = -1,
                    .alpha = 1,
                    .add_root = q < 0 ? -1 : other,
                    .out = q < 0 ? n->out : p->g->node[q].out,
                    .act = q < 0 ? &n->act : &p->g->node[q].act,
                    .weight_data = c->weight,
                    .bias_data = c->bias,
                    .nbias = c->oc};

    window_dims(&s, w);
    s.bias = c->bias ? j.bias : NULL;
    return dnnl_nodes_finish(p, &j, &s, conv_pd);
}

static int add_conv(struct gwm_cpu *p, const struct gwm_node *n)
{
    int other = -1, q = sum_after(p, n, &other), err = q < 0 ? -ENOTSUP : conv_with(p, n, q, other);

    if (err == -ENOTSUP) return conv_with(p, n, -1, -1);
    p->done[q] = !err;
    return err;
}

static int add_pool(struct gwm_cpu *p, const struct gwm_node *n)
{
    const struct gwm_pool *q = &n->pool;
    const struct gwm_window *w = &q->win;
    dnnl_dims_t x = {w->n, w->c, w->h, w->w}, y = {w->n, w->c, w->oh, w->ow};
    const struct gwm_form *f = gwm_form_find(p, p->g->value[n->in[0]].root, NULL);
    struct shape_of s = {0};

    window_dims(&s, w);
    if (q->average && q->count_pads && (s.right[0] > w->bottom || s.right[1] > w->right))
        return -ENOTSUP; /* the library would count what lies past the padding */
    s.src = f && p->g->value[n->in[0]].root == n->in[0] ? md_copy(f->md) : md_new(x, 4, dnnl_nchw);
    s.dst = md_new(y, 4, dnnl_format_tag_any);
    s.pooling = !q->average     ? dnnl_pooling_max
                : q->count_pads ? dnnl_pooling_avg_include_padding
                                : dnnl_pooling_avg_exclude_padding;
    struct job j = {.node = n,
                    .src = md_new(x, 4, dnnl_nchw),
                    .weight_root = -1,
                    .alpha = 1,
                    .add_root = -1,
                    .out = n->out,
                    .act = &n->act};
    return dnnl_nodes_finish(p, &j, &s, pool_pd);
}

/* Several products: matrices where the strides say. What is repeated along a dimension has 1 there. */
static int add_products(struct gwm_cpu *p, const struct gwm_node *n)
{
    const struct gwm_gemm *q = &n->gemm;
    const struct gwm_value *b = &p->g->value[p->g->value[n->in[1]].root];
    int r = q->batch.rank;
    dnnl_dims_t x = {0}, w = {0}, y = {0}, sx = {0}, sw = {0}, sy = {0}, one = {0}, dense = {0};
    dnnl_dim_t size = (dnnl_dim_t)q->m * q->n;

    for (int i = r - 1; i >= 0; i--) {
        y[i] = q->batch.dims[i];
        x[i] = q->batch.a[i] ? y[i] : 1;
        w[i] = q->batch.b[i] ? y[i] : 1;
        sx[i] = x[i] > 1 ? q->batch.a[i] : (dnnl_dim_t)q->m * q->k;
        sw[i] = w[i] > 1 ? q->batch.b[i] : (dnnl_dim_t)q->k * q->n;
        sy[i] = size;
        size *= y[i];
        one[i] = 1;
        dense[i] = q->n;
    }
    x[r] = y[r] = q->m, x[r + 1] = w[r] = q->k, y[r + 1] = w[r + 1] = q->n;
    sx[r] = q->ta ? 1 : q->k, sx[r + 1] = q->ta ? q->m : 1;
    sw[r] = q->tb ? 1 : q->n, sw[r + 1] = q->tb ? q->k : 1;
    sy[r] = q->n, sy[r + 1] = 1;
    one[r] = 1, one[r + 1] = q->n, dense[r] = q->n, dense[r + 1] = 1;
    struct job j = {.node = n,
                    .src = md_strided(x, r + 2, sx),
                    .weight = md_strided(w, r + 2, sw),
                    .bias = md_strided(one, r + 2, dense),
                    .weight_root = b->data ? -1 : p->g->value[n->in[1]].root,
                    .weight_data = (const float *)b->data,
                    .bias_data = q->bias,
                    .alpha = q->alpha,
                    .add_root = -1,
                    .out = n->out,
                    .act = &n->act,
                    .nbias = q->n};
    struct shape_of s = {.src = md_copy_or_null(j.src),
                         .weight = md_copy_or_null(j.weight),
                         .dst = md_strided(y, r + 2, sy),
                         .bias = q->bias ? j.bias : NULL};
    return dnnl_nodes_finish(p, &j, &s, matmul_pd);
}

static int add_gemm(struct gwm_cpu *p, const struct gwm_node *n)
{
    const struct gwm_gemm *q = &n->gemm;
    const struct gwm_value *b = &p->g->value[p->g->value[n->in[1]].root];
    dnnl_dims_t x = {q->m, q->k}, w = {q->n, q->k}, y = {q->m, q->n}, bias = {q->n};
    struct shape_of s = {.src = md_new(x, 2, dnnl_format_tag_any),
                         .weight = md_new(w, 2, dnnl_format_tag_any),
                         .dst = md_new(y, 2, dnnl_ab)};
    struct job j = {.node = n,
                    .src = md_new(x, 2, q->ta ? dnnl_ba : dnnl_ab),
                    .weight = md_new(w, 2, q->tb ? dnnl_ab : dnnl_ba),
                    .bias = md_new(bias, 1, dnnl_a),
                    .weight_root = b->data ? -1 : p->g->value[n->in[1]].root,
                    .weight_data = (const float *)b->data,
                    .bias_data = q->bias,
                    .alpha = q->alpha,
                    .add_root = -1,
                    .out = n->out,
                    .act = &n->act,
                    .nbias = q->n};

    s.bias = q->bias ? j.bias : NULL;
    return dnnl_nodes_finish(p, &j, &s, gemm_pd);
}

int gwm_dnnl_add(struct gwm_cpu *p, const struct gwm_node *n)
{
    switch (n->op) {
    case GWM_CONV: return add_conv(p, n);
    case GWM_POOL: return add_pool(p, n);
    case GWM_GEMM: return n->gemm.products > 1 ? add_products(p, n) : add_gemm(p, n);
    default: return gwm_dnnl_simple(p, n);
    }
}
