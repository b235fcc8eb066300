/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Convolutions, pooling and matrix products through oneDNN. Everything is decided when planning: the library
 * picks the layouts it likes best, weights are brought into them once, and activations are reordered where
 * two steps disagree. Its scratch memory lies in our arena. The library's few own small allocations per call
 * are not ours to avoid.
 */
#include "src/model/cpu.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <oneapi/dnnl/dnnl.h>
#include <oneapi/dnnl/dnnl_version.h>

/* ---- what differs between 2.x and 3.x ---- */

#if DNNL_VERSION_MAJOR >= 3

typedef dnnl_memory_desc_t md_t; /* owned: md_free */
typedef const_dnnl_memory_desc_t const_md_t;

static md_t md_new(const dnnl_dims_t dims, int rank, dnnl_format_tag_t tag)
{
    md_t md = NULL;

    return dnnl_memory_desc_create_with_tag(&md, rank, dims, dnnl_f32, tag) ? NULL : md;
}

static md_t md_copy(const_md_t from)
{
    md_t md = NULL;

    return dnnl_memory_desc_clone(&md, from) ? NULL : md;
}

static void md_free(md_t md)
{
    if (md) dnnl_memory_desc_destroy(md);
}

#else

typedef dnnl_memory_desc_t *md_t;
typedef const dnnl_memory_desc_t *const_md_t;

static md_t md_new(const dnnl_dims_t dims, int rank, dnnl_format_tag_t tag)
{
    md_t md = malloc(sizeof(*md));

    if (md && dnnl_memory_desc_init_by_tag(md, rank, dims, dnnl_f32, tag)) {
        free(md);
        return NULL;
    }
    return md;
}

static md_t md_copy(const_md_t from)
{
    md_t md = malloc(sizeof(*md));

    return md ? memcpy(md, from, sizeof(*md)) : NULL;
}

static void md_free(md_t md)
{
    free(md);
}

#endif

/* The tensors and numbers of a forward primitive; what a kind has no use for stays NULL. */
struct shape_of {
    md_t src, weight, bias, dst;
    dnnl_dims_t stride, kernel, dilation, left, right;
    dnnl_alg_kind_t pooling;
};

#if DNNL_VERSION_MAJOR >= 3

static dnnl_status_t conv_pd(dnnl_primitive_desc_t *pd, dnnl_engine_t e, const struct shape_of *s,
                             const_dnnl_primitive_attr_t attr)
{
    return dnnl_convolution_forward_primitive_desc_create(
        pd, e, dnnl_forward_inference, dnnl_convolution_direct, s->src, s->weight, s->bias, s->dst, s->stride,
        s->dilation, s->left, s->right, attr);
}

static dnnl_status_t pool_pd(dnnl_primitive_desc_t *pd, dnnl_engine_t e, const struct shape_of *s,
                             const_dnnl_primitive_attr_t attr)
{
    return dnnl_pooling_forward_primitive_desc_create(pd, e, dnnl_forward_inference, s->pooling, s->src,
                                                      s->dst, s->stride, s->kernel, s->dilation, s->left,
                                                      s->right, attr);
}

static dnnl_status_t gemm_pd(dnnl_primitive_desc_t *pd, dnnl_engine_t e, const struct shape_of *s,
                             const_dnnl_primitive_attr_t attr)
{
    return dnnl_inner_product_forward_primitive_desc_create(pd, e, dnnl_forward_inference, s->src, s->weight,
                                                            s->bias, s->dst, attr);
}

static dnnl_status_t append_act(dnnl_post_ops_t ops, dnnl_alg_kind_t alg, float a, float b)
{
    return dnnl_post_ops_append_eltwise(ops, alg, a, b);
}

#else

static dnnl_status_t conv_pd(dnnl_primitive_desc_t *pd, dnnl_engine_t e, const struct shape_of *s,
                             const_dnnl_primitive_attr_t attr)
{
    dnnl_convolution_desc_t d;
    dnnl_status_t rc = dnnl_dilated_convolution_forward_desc_init(
        &d, dnnl_forward_inference, dnnl_convolution_direct, s->src, s->weight, s->bias, s->dst, s->stride,
        s->dilation, s->left, s->right);
    return rc ? rc : dnnl_primitive_desc_create(pd, &d, attr, e, NULL);
}

static dnnl_status_t pool_pd(dnnl_primitive_desc_t *pd, dnnl_engine_t e, const struct shape_of *s,
                             const_dnnl_primitive_attr_t attr)
{
    dnnl_pooling_v2_desc_t d;
    dnnl_status_t rc =
        dnnl_pooling_v2_forward_desc_init(&d, dnnl_forward_inference, s->pooling, s->src, s->dst, s->stride,
                                          s->kernel, s->dilation, s->left, s->right);
    return rc ? rc : dnnl_primitive_desc_create(pd, &d, attr, e, NULL);
}

static dnnl_status_t gemm_pd(dnnl_primitive_desc_t *pd, dnnl_engine_t e, const struct shape_of *s,
                             const_dnnl_primitive_attr_t attr)
{
    dnnl_inner_product_desc_t d;
    dnnl_status_t rc =
        dnnl_inner_product_forward_desc_init(&d, dnnl_forward_inference, s->src, s->weight, s->bias, s->dst);
    return rc ? rc : dnnl_primitive_desc_create(pd, &d, attr, e, NULL);
}

static dnnl_status_t append_act(dnnl_post_ops_t ops, dnnl_alg_kind_t alg, float a, float b)
{
    return dnnl_post_ops_append_eltwise(ops, 1.0f, alg, a, b);
}

#endif

/* ---- the rest is the same for both ---- */

#define MAX_ARGS 6

struct gwm_prim {
    struct gwm_prim *next;
    dnnl_primitive_t prim;
    int nargs;
    struct {
        int arg, buf;
        md_t md;
        dnnl_memory_t mem;
    } a[MAX_ARGS];
};

/* A root's content in a layout of the library's. */
struct form {
    struct form *next;
    int root, buf;
    bool made; /* a primitive wrote it; else a reorder from C order */
    md_t md;
};

struct fixed {
    struct fixed *next;
    void *data;
};

struct gwm_dnnl {
    dnnl_engine_t engine;
    dnnl_stream_t stream;
    struct gwm_prim *prims;
    struct form *forms;
    struct fixed *weights;
};

static int status(dnnl_status_t s)
{
    return s == dnnl_success         ? 0
           : s == dnnl_out_of_memory ? -ENOMEM
           : s == dnnl_unimplemented ? -ENOTSUP
                                     : -EIO;
}

int gwm_dnnl_new(struct gwm_cpu *p)
{
    p->dnnl = calloc(1, sizeof(*p->dnnl));
    if (!p->dnnl) return -ENOMEM;
    dnnl_status_t s = dnnl_engine_create(&p->dnnl->engine, dnnl_cpu, 0);
    return status(s ? s : dnnl_stream_create(&p->dnnl->stream, p->dnnl->engine, dnnl_stream_default_flags));
}

static void prim_free(struct gwm_prim *q)
{
    for (int i = 0; i < q->nargs; i++) {
        if (q->a[i].mem) dnnl_memory_destroy(q->a[i].mem);
        md_free(q->a[i].md);
    }
    if (q->prim) dnnl_primitive_destroy(q->prim);
    free(q);
}

void gwm_dnnl_free(struct gwm_dnnl *d)
{
    if (!d) return;
    for (struct gwm_prim *q = d->prims, *next; q; q = next) {
        next = q->next;
        prim_free(q);
    }
    for (struct form *f = d->forms, *next; f; f = next) {
        next = f->next;
        md_free(f->md);
        free(f);
    }
    for (struct fixed *f = d->weights, *next; f; f = next) {
        next = f->next;
        free(f->data);
        free(f);
    }
    if (d->stream) dnnl_stream_destroy(d->stream);
    if (d->engine) dnnl_engine_destroy(d->engine);
    free(d);
}

/* Takes over pd; a primitive without arguments yet. */
static struct gwm_prim *prim_new(struct gwm_cpu *p, dnnl_primitive_desc_t pd, int *rc)
{
    struct gwm_prim *q = calloc(1, sizeof(*q));

    *rc = q ? status(dnnl_primitive_create(&q->prim, pd)) : -ENOMEM;
    if (*rc) {
        free(q);
        return NULL;
    }
    q->next = p->dnnl->prims;
    p->dnnl->prims = q;
    return q;
}

static int prim_arg(struct gwm_cpu *p, struct gwm_prim *q, int arg, int buf, const_md_t md)
{
    q->a[q->nargs].md = md_copy(md);
    if (!q->a[q->nargs].md) return -ENOMEM;
    q->a[q->nargs].arg = arg;
    q->a[q->nargs++].buf = buf;
    gwm_cpu_use(p, buf);
    return 0;
}

/* Adds the step of a primitive and gives it its scratch memory. */
static int prim_step(struct gwm_cpu *p, struct gwm_prim *q, dnnl_primitive_desc_t pd)
{
    const_md_t scratch = dnnl_primitive_desc_query_md(pd, dnnl_query_scratchpad_md, 0);
    size_t bytes = scratch ? dnnl_memory_desc_get_size(scratch) : 0;
    int s = gwm_cpu_step(p, NULL, q);

    if (s < 0 || !bytes) return s < 0 ? s : 0;
    int b = gwm_cpu_buf(p, bytes);
    return b < 0 ? b : prim_arg(p, q, DNNL_ARG_SCRATCHPAD, b, scratch);
}

/* Our attributes: scratch memory is ours; an activation after the main operation. */
static int make_attr(const struct gwm_act *act, dnnl_primitive_attr_t *attr)
{
    dnnl_post_ops_t ops = NULL;
    dnnl_alg_kind_t alg = dnnl_eltwise_relu;
    float a = 0, b = 0;
    dnnl_status_t s = dnnl_primitive_attr_create(attr);

    if (s || (s = dnnl_primitive_attr_set_scratchpad_mode(*attr, dnnl_scratchpad_mode_user)) || !act ||
        act->kind == GWM_ACT_NONE)
        return status(s);
    switch (act->kind) {
    case GWM_ACT_LEAKY: a = act->a; break;
    case GWM_ACT_CLIP:
        alg = dnnl_eltwise_clip;
        a = act->a;
        b = act->b;
        break;
    case GWM_ACT_SIGMOID: alg = dnnl_eltwise_logistic; break;
    case GWM_ACT_TANH: alg = dnnl_eltwise_tanh; break;
    default: break;
    }
    s = dnnl_post_ops_create(&ops);
    if (!s) s = append_act(ops, alg, a, b);
    if (!s) s = dnnl_primitive_attr_set_post_ops(*attr, ops);
    if (ops) dnnl_post_ops_destroy(ops);
    return status(s);
}

/* Adds a step that copies a buffer from one layout to another. */
static int reorder(struct gwm_cpu *p, int from, const_md_t from_md, int to, const_md_t to_md)
{
    dnnl_engine_t e = p->dnnl->engine;
    dnnl_primitive_attr_t attr = NULL;
    dnnl_primitive_desc_t pd = NULL;
    struct gwm_prim *q;
    int rc = make_attr(NULL, &attr);

    if (!rc) rc = status(dnnl_reorder_primitive_desc_create(&pd, from_md, e, to_md, e, attr));
    if (!rc && (q = prim_new(p, pd, &rc)) && !(rc = prim_step(p, q, pd)) &&
        !(rc = prim_arg(p, q, DNNL_ARG_FROM, from, from_md)))
        rc = prim_arg(p, q, DNNL_ARG_TO, to, to_md);
    if (pd) dnnl_primitive_desc_destroy(pd);
    if (attr) dnnl_primitive_attr_destroy(attr);
    return rc;
}

/* A root in that layout or, without one, in the layout that it was made in (NULL when that is C order). */
static const struct form *find_form(const struct gwm_cpu *p, int root, const_md_t md)
{
    for (const struct form *f = p->dnnl->forms; f; f = f->next)
        if (f->root == root && (md ? dnnl_memory_desc_equal(f->md, md) : f->made)) return f;
    return NULL;
}

/* A buffer for a root in another layout than C order. */
static int add_form(struct gwm_cpu *p, int root, const_md_t md, bool made)
{
    struct form *f = calloc(1, sizeof(*f));
    int b = f ? gwm_cpu_buf(p, dnnl_memory_desc_get_size(md)) : -ENOMEM;

    if (b < 0 || !(f->md = md_copy(md))) {
        free(f);
        return -ENOMEM;
    }
    f->root = root;
    f->buf = b;
    f->made = made;
    f->next = p->dnnl->forms;
    p->dnnl->forms = f;
    return b;
}

/* How the result of a convolution or a pool looks in C order (a product's is always in it). */
static md_t c_order(const struct gwm_cpu *p, int root)
{
    const struct gwm_shape *s = &p->g->value[root].shape;
    dnnl_dims_t dims = {0};

    if (s->rank == 4 || s->rank == 3) {
        dims[0] = s->d[0];
        dims[1] = s->d[1];
        dims[2] = s->rank == 4 ? s->d[2] : 1;
        dims[3] = s->d[s->rank - 1];
        return md_new(dims, 4, dnnl_nchw);
    }
    return NULL;
}

int gwm_dnnl_plain(struct gwm_cpu *p, int root)
{
    const struct form *f = p->plain[root] ? NULL : find_form(p, root, NULL);

    if (!f) return 0;
    md_t md = c_order(p, root);
    int rc = md ? reorder(p, f->buf, f->md, root, md) : -EIO;
    md_free(md);
    p->plain[root] = !rc;
    return rc;
}

/*
 * The buffer that holds `root` in layout `want`; `have` is how its C-order buffer looks to the primitive that
 * asks. Adds a reorder when there is none yet.
 */
static int in_layout(struct gwm_cpu *p, int root, const_md_t have, const_md_t want)
{
    const struct form *f = find_form(p, root, want);

    if (f) return f->buf;
    int rc = gwm_dnnl_plain(p, root);
    if (rc || dnnl_memory_desc_equal(have, want)) return rc ? rc : root;
    int b = add_form(p, root, want, false);
    if (b >= 0) rc = reorder(p, root, have, b, want);
    return rc ? rc : b;
}

/* Memory for constants that lives as long as the plan; the buffer's number. */
static int fixed_buf(struct gwm_cpu *p, size_t bytes)
{
    struct fixed *f = calloc(1, sizeof(*f));
    int b = f ? gwm_cpu_buf(p, bytes) : -ENOMEM;

    if (b < 0 || !(f->data = aligned_alloc(64, (bytes + 127) / 64 * 64))) {
        free(f);
        return -ENOMEM;
    }
    f->next = p->dnnl->weights;
    p->dnnl->weights = f;
    p->weight_bytes += bytes;
    p->buf[b].kind = GWM_BUF_FIXED;
    p->buf[b].fixed = f->data;
    return b;
}

/* Brings constants from one layout into another, now; the buffer's number. */
static int fixed_in_layout(struct gwm_cpu *p, const float *data, const_md_t have, const_md_t want)
{
    dnnl_engine_t e = p->dnnl->engine;
    dnnl_memory_t from = NULL, to = NULL;
    dnnl_primitive_desc_t pd = NULL;
    dnnl_primitive_t prim = NULL;
    int b = fixed_buf(p, dnnl_memory_desc_get_size(want));
    if (b < 0) return b;
    dnnl_status_t s = dnnl_memory_create(&from, have, e, (void *)data);
    if (!s) s = dnnl_memory_create(&to, want, e, p->buf[b].fixed);
    if (!s) s = dnnl_reorder_primitive_desc_create(&pd, have, e, want, e, NULL);
    if (!s) s = dnnl_primitive_create(&prim, pd);
    if (!s) {
        dnnl_exec_arg_t args[2] = {{DNNL_ARG_FROM, from}, {DNNL_ARG_TO, to}};
        s = dnnl_primitive_execute(prim, p->dnnl->stream, 2, args);
        dnnl_stream_wait(p->dnnl->stream);
    }
    if (prim) dnnl_primitive_destroy(prim);
    if (pd) dnnl_primitive_desc_destroy(pd);
    if (to) dnnl_memory_destroy(to);
    if (from) dnnl_memory_destroy(from);
    return s ? status(s) : b;
}

/* A copy of a bias, so that its memory is aligned as the library likes it. */
static int fixed_bias(struct gwm_cpu *p, const float *bias, int32_t n)
{
    int b = fixed_buf(p, (size_t)n * sizeof(float));

    if (b >= 0) memcpy(p->buf[b].fixed, bias, (size_t)n * sizeof(float));
    return b;
}

/* What a node brings to add(): tensors as they are, and tensors as the library may have them. */
struct job {
    const struct gwm_node *node;
    dnnl_primitive_desc_t pd;
    md_t src, weight, bias; /* as they are */
    int weight_root;        /* when weights are no constant; else -1 */
    const float *weight_data, *bias_data;
    int32_t nbias;
};

/* Adds the primitive of j->pd with its arguments in the layouts it asks for. */
static int add(struct gwm_cpu *p, const struct job *j)
{
    const struct gwm_node *n = j->node;
    const_md_t src = dnnl_primitive_desc_query_md(j->pd, dnnl_query_src_md, 0);
    const_md_t dst = dnnl_primitive_desc_query_md(j->pd, dnnl_query_dst_md, 0);
    const_md_t weight = j->weight ? dnnl_primitive_desc_query_md(j->pd, dnnl_query_weights_md, 0) : NULL;
    int rc, w = 0, b = 0, x = in_layout(p, p->g->value[n->in[0]].root, j->src, src);

    if (x >= 0 && weight)
        w = j->weight_root < 0 ? fixed_in_layout(p, j->weight_data, j->weight, weight)
                               : in_layout(p, j->weight_root, j->weight, weight);
    if (x >= 0 && w >= 0 && j->bias_data) b = fixed_bias(p, j->bias_data, j->nbias);
    if (x < 0 || w < 0 || b < 0) return x < 0 ? x : w < 0 ? w : b;
    md_t plain = n->op == GWM_GEMM ? NULL : c_order(p, n->out);
    int y = !plain || dnnl_memory_desc_equal(plain, dst) ? n->out : add_form(p, n->out, dst, true);
    md_free(plain);
    struct gwm_prim *q = y < 0 ? NULL : prim_new(p, j->pd, &rc);
    if (!q) return y < 0 ? y : rc;
    p->plain[n->out] = y == n->out;
    rc = prim_step(p, q, j->pd);
    if (!rc) rc = prim_arg(p, q, DNNL_ARG_SRC, x, src);
    if (!rc && weight) rc = prim_arg(p, q, DNNL_ARG_WEIGHTS, w, weight);
    if (!rc && j->bias_data) rc = prim_arg(p, q, DNNL_ARG_BIAS, b, j->bias);
    return rc ? rc : prim_arg(p, q, DNNL_ARG_DST, y, dst);
}

/* Makes the primitive descriptor with our attributes, adds it, and frees what both needed. */
static int finish(struct gwm_cpu *p, struct job *j, struct shape_of *s,
                  dnnl_status_t (*make)(dnnl_primitive_desc_t *, dnnl_engine_t, const struct shape_of *,
                                        const_dnnl_primitive_attr_t))
{
    dnnl_primitive_attr_t attr = NULL;
    int rc = !j->src || !s->src || !s->dst ? -ENOMEM : make_attr(&j->node->act, &attr);

    /* Whatever it does not like about the shapes is an operator that it lacks. */
    if (!rc && make(&j->pd, p->dnnl->engine, s, attr)) rc = -ENOTSUP;
    if (!rc) rc = add(p, j);
    if (j->pd) dnnl_primitive_desc_destroy(j->pd);
    if (attr) dnnl_primitive_attr_destroy(attr);
    md_free(j->src);
    md_free(j->weight);
    md_free(j->bias);
    md_free(s->src);
    md_free(s->weight);
    md_free(s->dst);
    return rc;
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

static int add_conv(struct gwm_cpu *p, const struct gwm_node *n)
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
                    .weight_data = c->weight,
                    .bias_data = c->bias,
                    .nbias = c->oc};

    window_dims(&s, w);
    s.bias = c->bias ? j.bias : NULL;
    return finish(p, &j, &s, conv_pd);
}

static int add_pool(struct gwm_cpu *p, const struct gwm_node *n)
{
    const struct gwm_pool *q = &n->pool;
    const struct gwm_window *w = &q->win;
    dnnl_dims_t x = {w->n, w->c, w->h, w->w}, y = {w->n, w->c, w->oh, w->ow};
    const struct form *f = find_form(p, p->g->value[n->in[0]].root, NULL);
    struct shape_of s = {0};

    window_dims(&s, w);
    if (q->average && q->count_pads && (s.right[0] > w->bottom || s.right[1] > w->right))
        return -ENOTSUP; /* the library would count what lies past the padding */
    s.src = f && p->g->value[n->in[0]].root == n->in[0] ? md_copy(f->md) : md_new(x, 4, dnnl_nchw);
    s.dst = md_new(y, 4, dnnl_format_tag_any);
    s.pooling = !q->average     ? dnnl_pooling_max
                : q->count_pads ? dnnl_pooling_avg_include_padding
                                : dnnl_pooling_avg_exclude_padding;
    struct job j = {.node = n, .src = md_new(x, 4, dnnl_nchw), .weight_root = -1};
    return finish(p, &j, &s, pool_pd);
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
                    .nbias = q->n};

    s.bias = q->bias ? j.bias : NULL;
    return finish(p, &j, &s, gemm_pd);
}

int gwm_dnnl_add(struct gwm_cpu *p, const struct gwm_node *n)
{
    switch (n->op) {
    case GWM_CONV: return add_conv(p, n);
    case GWM_POOL: return add_pool(p, n);
    case GWM_GEMM: return add_gemm(p, n);
    default: return -ENOTSUP;
    }
}

int gwm_dnnl_bind(struct gwm_cpu *p)
{
    for (struct gwm_prim *q = p->dnnl->prims; q; q = q->next) {
        for (int i = 0; i < q->nargs; i++) {
            /* Inputs and outputs get their address at each run; NULL would have the library allocate. */
            void *at = gwm_cpu_at(p, q->a[i].buf);
            dnnl_status_t s =
                dnnl_memory_create(&q->a[i].mem, q->a[i].md, p->dnnl->engine, at ? at : DNNL_MEMORY_NONE);
            if (s) return status(s);
        }
    }
    return 0;
}

int gwm_dnnl_run(struct gwm_cpu *p, struct gwm_prim *q)
{
    dnnl_exec_arg_t args[MAX_ARGS];
    dnnl_status_t s = dnnl_success;

    for (int i = 0; i < q->nargs && !s; i++) {
        enum gwm_buf_kind kind = p->buf[q->a[i].buf].kind;
        if (kind == GWM_BUF_IN || kind == GWM_BUF_OUT)
            s = dnnl_memory_set_data_handle(q->a[i].mem, gwm_cpu_at(p, q->a[i].buf));
        args[i] = (dnnl_exec_arg_t){q->a[i].arg, q->a[i].mem};
    }
    if (!s) s = dnnl_primitive_execute(q->prim, p->dnnl->stream, q->nargs, args);
    if (!s) s = dnnl_stream_wait(p->dnnl->stream);
    return s ? -EIO : 0;
}
