/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Nodes that compute in whichever layout their input is in: functions, sums and products of two,
 * concatenation along channels. So pictures stay in the library's layout from one convolution to the next.
 * And softmax, layer normalisation and transposes, in C order.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "src/model/cpu/dnnl_simple.h"

#include "src/model/cpu/dnnl.h"
#include "src/model/cpu/dnnl_affine.h"
#include "src/model/cpu/dnnl_careful.h"
#include "src/model/cpu/dnnl_join.h"
#include "src/model/cpu/dnnl_layout.h"

#define MAX_PARTS (GWM_PRIM_ARGS - 2) /* of a concatenation; beside the result and scratch memory */

/* The layout of the library's that a value is in, when it is not in C order too. */
static const struct gwm_form *form_of(const struct gwm_cpu *p, int value)
{
    int root = p->g->value[value].root;

    return root == value && !p->plain[root] ? gwm_form_find(p, root, NULL) : NULL;
}

struct part {
    int arg, buf;
    const_md_t md;
};

/* A primitive, and what replaces it where NaN could be: own loops, or its bare form and then the function. */
struct twin {
    dnnl_primitive_desc_t pd, bare;
    const struct gwm_act *act;
    void (*own)(struct gwm_cpu *p, struct gwm_prim *q);
    const struct gwm_node *node;
};

static void twin_drop(const struct twin *t)
{
    if (t->pd) dnnl_primitive_desc_destroy(t->pd);
    if (t->bare) dnnl_primitive_desc_destroy(t->bare);
}

/* Adds the primitive with those arguments; the last of them is the result. Frees pd and bare. */
static int add_twin(struct gwm_cpu *p, const struct twin *t, const struct part *part, int n)
{
    int err;
    struct gwm_prim *q = gwm_prim_new(p, t->pd, &err);

    if (q) err = gwm_prim_step(p, q, t->pd);
    for (int i = 0; i < n && !err; i++) err = gwm_prim_arg(p, q, part[i].arg, part[i].buf, part[i].md);
    if (!err && t->bare) err = gwm_prim_bare(p, q, t->bare, t->act);
    if (q) q->own = t->own, q->node = t->node;
    twin_drop(t);
    return err;
}

/* Takes the status and the descriptor that came with it; 0, or an error, after which there is no
 * descriptor. */
static int dnnl_usable(dnnl_status_t s, dnnl_primitive_desc_t *pd)
{
    if (!s && !gwm_dnnl_plain_loop(*pd)) return 0;
    if (!s) dnnl_primitive_desc_destroy(*pd);
    *pd = NULL;
    return -ENOTSUP;
}

static int c_order_in(struct gwm_cpu *p, int value)
{
    int root = p->g->value[value].root, err = gwm_dnnl_plain(p, root);

    return err ? err : root;
}

static int unary(struct gwm_cpu *p, const struct gwm_node *n)
{
    const struct gwm_form *f = form_of(p, n->in[0]);
    dnnl_dims_t all = {p->g->value[n->out].count};
    dnnl_primitive_attr_t attr = NULL;
    dnnl_primitive_desc_t pd = NULL;
    dnnl_alg_kind_t alg;
    float a, b;
    int err = gwm_dnnl_alg(&n->act, &alg, &a, &b), x = f ? f->buf : -1, y = n->out;
    md_t md = err ? NULL : f ? md_copy(f->md) : md_new(all, 1, dnnl_a);

    if (err || !md) return err ? err : -ENOMEM;
    err = gwm_dnnl_attr(1, false, NULL, &attr);
    if (!err) err = dnnl_usable(eltwise_pd(&pd, p->dnnl->engine, alg, md, a, b, attr), &pd);
    if (!err && !f) err = (x = c_order_in(p, n->in[0])) < 0 ? x : 0;
    if (!err && f) err = (y = gwm_form_add(p, n->out, md, true)) < 0 ? y : 0;
    if (!err) {
        const struct twin t = {.pd = pd, .own = gwm_careful_unary, .node = n};
        err = add_twin(p, &t, (struct part[]){{DNNL_ARG_SRC, x, md}, {DNNL_ARG_DST, y, md}}, 2);
        p->plain[n->out] = !f;
    }
    if (attr) dnnl_primitive_attr_destroy(attr);
    md_free(md);
    return err;
}

/* ---- two inputs ---- */

/* How a value that is repeated along some axes of a picture looks in C order; NULL: not as the library has
 * it. */
static md_t repeated(const struct gwm_shape *s, const struct gwm_shape *out)
{
    dnnl_dims_t d = {1, 1, 1, 1};

    if (s->rank > out->rank || out->rank != 4) return NULL;
    for (uint32_t i = 0; i < s->rank; i++) d[4 - s->rank + i] = s->d[i];
    return md_new(d, 4, dnnl_nchw);
}

static int binary_alg(enum gwm_binary kind, dnnl_alg_kind_t *alg)
{
    switch (kind) {
    case GWM_ADD: *alg = dnnl_binary_add; return 0;
    case GWM_SUB: *alg = dnnl_binary_sub; return 0;
    case GWM_MUL: *alg = dnnl_binary_mul; return 0;
    case GWM_DIV: *alg = dnnl_binary_div; return 0;
    default: return -ENOTSUP; /* its minimum and maximum hide NaN */
    }
}

/* f: the layout of the first operand, which the result has too, and the second one if `same`; else that
 * one is as `have` says. */
static int binary_in(struct gwm_cpu *p, const struct gwm_node *n, const struct gwm_form *f, int b,
                     const_md_t have, bool same)
{
    const struct gwm_value *vb = &p->g->value[p->g->value[b].root];
    dnnl_primitive_attr_t attr = NULL, plain = NULL;
    struct twin t = {.act = &n->act};
    dnnl_alg_kind_t alg = dnnl_binary_add;
    int x = f->buf, w = -1, y = -1, err = binary_alg(n->binary.kind, &alg);
    md_t md = md_copy(f->md); /* layouts may be added below */
    const_md_t want = same ? md : have;

    if (!err && !md) err = -ENOMEM;
    if (!err) err = gwm_dnnl_attr(1, false, &n->act, &attr);
    if (!err) err = gwm_dnnl_attr(1, false, NULL, &plain);
    if (!err) err = dnnl_usable(binary_pd(&t.pd, p->dnnl->engine, alg, md, want, md, attr), &t.pd);
    if (!err && gwm_dnnl_hides(&n->act) && binary_pd(&t.bare, p->dnnl->engine, alg, md, want, md, plain)) {
        dnnl_primitive_desc_destroy(t.pd);
        err = -ENOTSUP;
    }
    if (!err) {
        w = vb->data ? gwm_fixed_in_layout(p, (const float *)vb->data, have, want)
                     : gwm_dnnl_in_layout(p, p->g->value[b].root, have, want);
        if (w >= 0) y = gwm_form_add(p, n->out, md, true);
        err = w < 0 ? w : y < 0 ? y : 0;
        if (err) twin_drop(&t);
        const struct part parts[] = {
            {DNNL_ARG_SRC_0, x, md}, {DNNL_ARG_SRC_1, w, want}, {DNNL_ARG_DST, y, md}};
        if (!err) err = add_twin(p, &t, parts, 3);
        if (!err) p->plain[n->out] = false;
    }
    if (attr) dnnl_primitive_attr_destroy(attr);
    if (plain) dnnl_primitive_attr_destroy(plain);
    md_free(md);
    return err;
}

/* Statistics of a batch that change nothing, then scale and shift; the primitive's arguments. */
static int affine_args(struct gwm_cpu *p, int32_t channels, const struct gwm_affine *is, md_t per,
                       struct part part[4])
{
    static const float zero = 0, one = 1;
    const struct {
        int arg;
        struct gwm_per_channel is;
    } want[4] = {{DNNL_ARG_MEAN, {&zero, 0}},
                 {DNNL_ARG_VARIANCE, {&one, 0}},
                 {DNNL_ARG_SCALE, is->by},
                 {DNNL_ARG_SHIFT, is->plus}};

    for (int i = 0; i < 4; i++) {
        int b = gwm_fixed_channels(p, channels, want[i].is);
        if (b < 0) return b;
        part[i] = (struct part){want[i].arg, b, per};
    }
    return 0;
}

/* Such a product and sum, and the function after them: one step. */
static int affine(struct gwm_cpu *p, const struct gwm_node *n)
{
    const struct gwm_graph *g = p->g;
    const struct gwm_form *f = form_of(p, n->in[0]);
    struct gwm_affine is;
    dnnl_primitive_attr_t attr = NULL, plain = NULL;
    struct twin t = {0};
    struct part part[6];
    int y = -1;

    if (!f || !gwm_affine_find(p, n, &is)) return -ENOTSUP;
    const struct gwm_node *sum = &g->node[is.sum];
    int32_t channels = g->value[n->out].shape.d[1];
    dnnl_dims_t c = {channels};
    md_t md = md_copy(f->md), per = md_new(c, 1, dnnl_a);
    part[0] = (struct part){DNNL_ARG_SRC, f->buf, md};
    int err = md && per ? gwm_dnnl_attr(1, false, &sum->act, &attr) : -ENOMEM;
    t.act = &sum->act;
    if (!err) err = gwm_dnnl_attr(1, false, NULL, &plain);
    if (!err) err = dnnl_usable(affine_pd(&t.pd, p->dnnl->engine, md, attr), &t.pd);
    if (!err && gwm_dnnl_hides(&sum->act) && affine_pd(&t.bare, p->dnnl->engine, md, plain)) err = -ENOTSUP;
    if (!err) err = affine_args(p, channels, &is, per, part + 1);
    if (!err) err = (y = gwm_form_add(p, sum->out, md, true)) < 0 ? y : 0;
    part[5] = (struct part){DNNL_ARG_DST, y, md};
    if (err) twin_drop(&t);
    if (!err) err = add_twin(p, &t, part, 6);
    if (!err) {
        p->plain[sum->out] = false;
        p->done[is.sum] = true;
    }
    if (attr) dnnl_primitive_attr_destroy(attr);
    if (plain) dnnl_primitive_attr_destroy(plain);
    md_free(md);
    md_free(per);
    return err;
}

static int dnnl_simple_binary(struct gwm_cpu *p, const struct gwm_node *n)
{
    const struct gwm_shape *out = &p->g->value[n->out].shape;
    bool commutes = n->binary.kind != GWM_SUB && n->binary.kind != GWM_DIV;
    int err = -ENOTSUP;

    for (int k = 0; k < (commutes ? 2 : 1) && err == -ENOTSUP; k++) {
        const struct gwm_form *f = form_of(p, n->in[k]);
        if (!f || !gwm_same_shape(&p->g->value[n->in[k]].shape, out)) continue;
        md_t have = repeated(&p->g->value[n->in[!k]].shape, out);
        if (have)
            err = binary_in(p, n, f, n->in[!k], have, gwm_same_shape(&p->g->value[n->in[!k]].shape, out));
        md_free(have);
    }
    return err;
}

/* ---- several ---- */

static int library_concat(struct gwm_cpu *p, const struct gwm_node *n)
{
    const struct gwm_shape *out = &p->g->value[n->out].shape;
    const_md_t src[MAX_PARTS];
    struct part parts[MAX_PARTS + 1];
    dnnl_primitive_attr_t attr = NULL;
    dnnl_primitive_desc_t pd = NULL;
    int32_t channels = 0;

    if (out->rank != 4 || n->nin > MAX_PARTS) return -ENOTSUP;
    for (uint32_t i = 0; i < n->nin; i++) {
        const struct gwm_form *f = form_of(p, n->in[i]);
        if (!f) return -ENOTSUP;
        src[i] = f->md;
        parts[i] = (struct part){DNNL_ARG_MULTIPLE_SRC + (int)i, f->buf, f->md};
        channels += p->g->value[n->in[i]].shape.d[1];
    }
    if (channels != out->d[1]) return -ENOTSUP; /* along another axis */
    dnnl_dims_t d = {out->d[0], out->d[1], out->d[2], out->d[3]};
    md_t any = md_new(d, 4, dnnl_format_tag_any);
    int err = any ? gwm_dnnl_attr(1, false, NULL, &attr) : -ENOMEM;
    if (!err) err = dnnl_usable(concat_pd(&pd, p->dnnl->engine, any, (int)n->nin, 1, src, attr), &pd);
    if (!err) {
        const_md_t dst = dnnl_primitive_desc_query_md(pd, dnnl_query_dst_md, 0);
        md_t plain = gwm_dnnl_c_order(p, n->out);
        bool same = plain && dnnl_memory_desc_equal(plain, dst);
        int y = same ? n->out : gwm_form_add(p, n->out, dst, true);
        md_free(plain);
        parts[n->nin] = (struct part){DNNL_ARG_DST, y, dst};
        if (y < 0) dnnl_primitive_desc_destroy(pd);
        err = y < 0 ? y : add_twin(p, &(struct twin){.pd = pd}, parts, (int)n->nin + 1);
        if (!err) p->plain[n->out] = same;
    }
    if (attr) dnnl_primitive_attr_destroy(attr);
    md_free(any);
    return err;
}

/* Our own loop takes along what comes after, and the library's knows few layouts; but that one uses threads.
 */
static int dnnl_simple_concat(struct gwm_cpu *p, const struct gwm_node *n)
{
    int err = p->threads > 1 ? library_concat(p, n) : gwm_dnnl_join(p, n);

    return err != -ENOTSUP ? err : p->threads > 1 ? gwm_dnnl_join(p, n) : library_concat(p, n);
}

/* ---- in C order ---- */

/* A primitive from one tensor to another that looks the same; `more` are further arguments. Takes t->pd. */
static int in_c_order(struct gwm_cpu *p, const struct gwm_node *n, const struct twin *t, const_md_t md,
                      const struct part *more, int nmore)
{
    struct part parts[4];
    int x = c_order_in(p, n->in[0]);

    if (x < 0) {
        twin_drop(t);
        return x;
    }
    parts[0] = (struct part){DNNL_ARG_SRC, x, md};
    for (int i = 0; i < nmore; i++) parts[1 + i] = more[i];
    parts[1 + nmore] = (struct part){DNNL_ARG_DST, n->out, md};
    p->plain[n->out] = true;
    return add_twin(p, t, parts, nmore + 2);
}

static int dnnl_simple_softmax(struct gwm_cpu *p, const struct gwm_node *n)
{
    const struct gwm_softmax *s = &n->softmax;
    dnnl_dims_t d = {s->outer, s->n, s->inner};
    md_t md = md_new(d, s->inner > 1 ? 3 : 2, s->inner > 1 ? dnnl_abc : dnnl_ab);
    dnnl_primitive_attr_t attr = NULL;
    dnnl_primitive_desc_t pd = NULL;
    int err = md ? gwm_dnnl_attr(1, false, NULL, &attr) : -ENOMEM;

    if (!err && s->n == 1) err = -ENOTSUP; /* its logarithm of 1 is not 0 */
    if (!err) err = dnnl_usable(softmax_pd(&pd, p->dnnl->engine, s->log, md, 1, attr), &pd);
    const struct twin t = {.pd = pd, .own = gwm_careful_softmax, .node = n};
    if (!err) err = in_c_order(p, n, &t, md, NULL, 0);
    if (attr) dnnl_primitive_attr_destroy(attr);
    md_free(md);
    return err;
}

static int dnnl_simple_norm(struct gwm_cpu *p, const struct gwm_node *n)
{
    const struct gwm_norm *s = &n->norm;
    dnnl_dims_t d = {s->outer, s->n}, c = {s->n};
    dnnl_primitive_attr_t attr = NULL;
    dnnl_primitive_desc_t pd = NULL;

    if (s->rms || s->inner != 1 || s->channels != s->n || n->act.kind != GWM_ACT_NONE) return -ENOTSUP;
    md_t md = md_new(d, 2, dnnl_ab), per = md_new(c, 1, dnnl_a);
    int err = md && per ? gwm_dnnl_attr(1, false, NULL, &attr) : -ENOMEM;
    if (!err) err = dnnl_usable(norm_pd(&pd, p->dnnl->engine, md, s->epsilon, attr), &pd);
    int scale = err ? err : c_order_in(p, n->in[1]), shift = scale < 0 ? scale : c_order_in(p, n->in[2]);
    if (!err && shift < 0) {
        dnnl_primitive_desc_destroy(pd);
        err = shift;
    }
    const struct part more[] = {{DNNL_ARG_SCALE, scale, per}, {DNNL_ARG_SHIFT, shift, per}};
    if (!err) err = in_c_order(p, n, &(struct twin){.pd = pd}, md, more, 2);
    if (attr) dnnl_primitive_attr_destroy(attr);
    md_free(md);
    md_free(per);
    return err;
}

/* A transpose: the whole of one tensor into the whole of another. */
static int dnnl_simple_move(struct gwm_cpu *p, const struct gwm_node *n)
{
    const struct gwm_move *m = &n->mv.move[0];
    dnnl_dims_t d, from, to;
    dnnl_dim_t count = 1;

    for (int32_t i = 0; i < m->rank; i++) {
        d[i] = m->dims[i];
        from[i] = m->from[i];
        to[i] = m->to[i];
        count *= d[i];
        if (m->from[i] <= 0) return -ENOTSUP;
    }
    /* An operation that only copies rows is as fast in our own loop. */
    if (m->start || m->offset || m->from[m->rank - 1] == 1 || count != p->g->value[n->in[0]].count)
        return -ENOTSUP;
    md_t a = md_strided(d, m->rank, from), b = md_strided(d, m->rank, to);
    int x = a && b ? c_order_in(p, n->in[0]) : -ENOMEM;
    int err = x < 0 ? x : gwm_dnnl_reorder(p, x, a, n->out, b);
    if (!err) p->plain[n->out] = true;
    md_free(a);
    md_free(b);
    return err;
}

int gwm_dnnl_simple(struct gwm_cpu *p, const struct gwm_node *n)
{
    const struct gwm_graph *g = p->g;

    if (g->value[n->out].dtype != GWM_F32 || g->value[n->in[0]].dtype != GWM_F32) return -ENOTSUP;
    switch (n->op) {
    case GWM_UNARY: return unary(p, n);
    case GWM_BINARY: {
        int err = affine(p, n);
        return err == -ENOTSUP ? dnnl_simple_binary(p, n) : err;
    }
    case GWM_CONCAT: return dnnl_simple_concat(p, n);
    case GWM_SOFTMAX: return dnnl_simple_softmax(p, n);
    case GWM_NORM: return dnnl_simple_norm(p, n);
    case GWM_MOVE: return dnnl_simple_move(p, n);
    default: return -ENOTSUP;
    }
}
