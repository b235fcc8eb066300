/* SPDX-License-Identifier: Apache-2.0 */
/* Nodes other than convolutions become launches; a depth-to-space goes into the convolution before it. */
#include <errno.h>
#include <string.h>

#include "src/model/gpu/gpu.h"

#define MAX_BLOCKS 4096 /* kernels over elements walk on from there */

int gwm_gpu_over(struct gwm_gpu *p, const struct gw_kernel *kernel, int32_t count, const void *args)
{
    uint32_t n = ((uint32_t)count + 255) / 256;

    return gwm_gpu_launch(p, kernel, n < MAX_BLOCKS ? n : MAX_BLOCKS, 256, args);
}

/* Threads for kernels that take eight elements at a time. */
static int32_t up8(int32_t count)
{
    return (count - 1) / 8 + 1;
}

int gwm_gpu_activate(struct gwm_gpu *p, const struct gwm_act *act, int buf, int32_t count)
{
    struct gwm_unary_args a = {.act = *act, .count = count};

    if (act->kind == GWM_ACT_NONE) return 0;
    int rc = gwm_gpu_over(p, &gwm_unary_kernel, up8(count), &a);
    if (!rc) rc = gwm_gpu_ref(p, offsetof(struct gwm_unary_args, x), buf);
    return rc ? rc : gwm_gpu_ref(p, offsetof(struct gwm_unary_args, y), buf);
}

static int unary(struct gwm_gpu *p, const struct gwm_node *n)
{
    struct gwm_unary_args a = {.act = n->act, .count = p->g->value[n->out].count};
    uint32_t form = gwm_gpu_out_form(p, n->out);
    bool seen = p->g->value[n->in[0]].root != n->in[0]; /* through a view: in C order */
    const struct gw_kernel *kernel = &gwm_unary_kernel;
    int x, y, rc, m = p->maker[n->out];

    if (p->g->value[n->out].dtype != GWM_F32) kernel = &gwm_unary_int_kernel;
    if (seen || !gwm_same_shape(&p->g->value[n->in[0]].shape, &p->g->value[n->out].shape)) form &= ~GWM_LAST;
    x = gwm_gpu_in(p, n->in[0], form, false);
    if (x >= 0 && n->act.kind == GWM_ACT_NONE && m >= 0 && p->put_off[m]) { /* nothing to do */
        p->as[n->out * GWM_SLOTS + (int)gwm_gpu_form(p, n->out, form)] = x;
        return 0;
    }
    y = x < 0 ? x : gwm_gpu_out(p, n->out, form, false);
    if (y < 0) return y;
    rc = gwm_gpu_over(p, kernel, kernel == &gwm_unary_kernel ? up8(a.count) : a.count, &a);
    if (!rc) rc = gwm_gpu_ref(p, offsetof(struct gwm_unary_args, x), x);
    return rc ? rc : gwm_gpu_ref(p, offsetof(struct gwm_unary_args, y), y);
}

/* May an operand with that shape be read in the layout of a picture of shape y? */
static bool fits_last(const struct gwm_gpu *p, int value, const struct gwm_shape *y)
{
    const struct gwm_value *v = &p->g->value[value];

    return v->root == value && gwm_same_shape(&v->shape, y);
}

/* The strides of an operand in C order, for the dimensions N H W C of a picture. */
static void strides_last(const struct gwm_shape *s, const int32_t dims[4], int32_t to[4])
{
    static const int32_t order[] = {0, 2, 3, 1};

    for (int i = 0; i < 4; i++) {
        int k = order[i] - 4 + (int)s->rank; /* shapes are aligned at their ends */
        to[i] = k < 0 || s->d[k] == 1 ? 0 : 1;
        for (uint32_t j = (uint32_t)(k < 0 ? 0 : k) + 1; to[i] && j < s->rank; j++) to[i] *= s->d[j];
        if (dims[i] == 1) to[i] = 0;
    }
}

/* Both operands for a picture with its channels last; the one that has not its shape stays in C order. */
static int binary_last(struct gwm_gpu *p, const struct gwm_node *n, struct gwm_broadcast *bc, int in[2],
                       uint32_t form)
{
    const struct gwm_shape *y = &p->g->value[n->out].shape;
    const int32_t dims[] = {y->d[0], y->d[2], y->d[3], y->d[1]};
    int32_t stride[2][4];

    for (int k = 0; k < 2; k++) {
        bool last = fits_last(p, n->in[k], y);
        in[k] = gwm_gpu_in(p, n->in[k], last ? form : form & ~GWM_LAST, false);
        if (in[k] < 0) return in[k];
        if (last)
            for (int i = 3, s = 1; i >= 0; s *= dims[i--]) stride[k][i] = dims[i] == 1 ? 0 : s;
        else
            strides_last(&p->g->value[n->in[k]].shape, dims, stride[k]);
    }
    gwm_broadcast_dims(bc, dims, stride[0], stride[1], 4);
    return 0;
}

/* Can eight elements be read at once wherever the innermost dimension is walked along? */
static bool by_eights(const struct gwm_broadcast *bc)
{
    int in = bc->rank - 1;

    if (bc->dims[in] % 8 || bc->a[in] > 1 || bc->b[in] > 1) return false;
    for (int i = 0; i < in; i++)
        if ((bc->a[in] && bc->a[i] % 8) || (bc->b[in] && bc->b[i] % 8)) return false;
    return true;
}

static int binary(struct gwm_gpu *p, const struct gwm_node *n)
{
    struct gwm_binary_args a = {
        .bc = n->binary.bc, .act = n->act, .kind = n->binary.kind, .count = p->g->value[n->out].count};
    uint32_t form = gwm_gpu_out_form(p, n->out);
    int in[2], rc = 0, y;

    if (p->g->value[n->out].dtype != GWM_F32 && p->half) form = GWM_HALF; /* of what is compared */
    if (form & GWM_LAST) {
        rc = binary_last(p, n, &a.bc, in, form);
    } else {
        in[0] = gwm_gpu_in(p, n->in[0], form, false);
        in[1] = gwm_gpu_in(p, n->in[1], form, false);
    }
    y = rc ? rc : gwm_gpu_out(p, n->out, form, false);
    if (y < 0) return y;
    if (p->g->value[n->out].dtype != GWM_F32)
        rc = gwm_gpu_over(p, &gwm_binary_int_kernel, a.count, &a);
    else
        rc = by_eights(&a.bc) ? gwm_gpu_over(p, &gwm_binary8_kernel, a.count / 8, &a)
                              : gwm_gpu_over(p, &gwm_binary_kernel, a.count, &a);
    if (!rc) rc = gwm_gpu_ref(p, offsetof(struct gwm_binary_args, a), in[0]);
    if (!rc) rc = gwm_gpu_ref(p, offsetof(struct gwm_binary_args, b), in[1]);
    return rc ? rc : gwm_gpu_ref(p, offsetof(struct gwm_binary_args, y), y);
}

/* The mean of whole planes: a block adds up each. */
static int mean(struct gwm_gpu *p, const struct gwm_node *n, uint32_t form, int x, int y)
{
    const struct gwm_window *w = &n->pool.win;
    struct gwm_mean_args a = {.c = w->c, .size = w->h * w->w, .last = (form & GWM_LAST) != 0};
    int32_t groups = a.last ? (w->c + GWM_MEAN_LAST - 1) / GWM_MEAN_LAST : w->c;
    int rc = gwm_gpu_launch(p, &gwm_mean_kernel, (uint32_t)(groups * w->n), a.last ? GWM_BLOCK_MAX : 128, &a);

    if (!rc) rc = gwm_gpu_ref(p, offsetof(struct gwm_mean_args, x), x);
    return rc ? rc : gwm_gpu_ref(p, offsetof(struct gwm_mean_args, y), y);
}

static int pool(struct gwm_gpu *p, const struct gwm_node *n)
{
    const struct gwm_window *w = &n->pool.win;
    uint32_t to = gwm_gpu_out_form(p, n->out);
    uint32_t form = gwm_gpu_wanted(p, p->g->value[n->in[0]].root);
    struct gwm_pool_args a = {.win = *w,
                              .average = n->pool.average,
                              .count_pads = n->pool.count_pads,
                              .count = p->g->value[n->out].count};
    bool whole = n->pool.average && w->kh == w->h && w->kw == w->w && w->oh * w->ow == 1 &&
                 !(w->top | w->left | w->bottom | w->right) && w->dh * w->dw == 1;
    int x, y, rc;

    /* Both in the same layout; that of a result of one position makes no difference. */
    if (w->oh * w->ow > 1) form = (form & GWM_HALF) | (to & GWM_LAST);
    if (p->g->value[n->in[0]].root != n->in[0]) form &= ~GWM_LAST;
    form = gwm_gpu_form(p, p->g->value[n->in[0]].root, form);
    if (w->oh * w->ow > 1) to = (to & GWM_HALF) | (form & GWM_LAST);
    a.last = (form & GWM_LAST) != 0;
    x = gwm_gpu_in(p, n->in[0], form, false);
    y = x < 0 ? x : gwm_gpu_out(p, n->out, to, false);
    if (y < 0) return y;
    if (whole) return mean(p, n, form, x, y);
    rc = gwm_gpu_over(p, &gwm_pool_kernel, a.count, &a);
    if (!rc) rc = gwm_gpu_ref(p, offsetof(struct gwm_pool_args, x), x);
    return rc ? rc : gwm_gpu_ref(p, offsetof(struct gwm_pool_args, y), y);
}

static int softmax(struct gwm_gpu *p, const struct gwm_node *n)
{
    struct gwm_softmax_args a = {.s = n->softmax};
    uint32_t form = gwm_gpu_out_form(p, n->out) & ~GWM_LAST;
    int x = gwm_gpu_in(p, n->in[0], p->half ? GWM_HALF : 0, false);
    int y = x < 0 ? x : gwm_gpu_out(p, n->out, form, false);

    if (y < 0) return y;
    bool rows = a.s.inner == 1 && a.s.n <= GWM_ROW_MAX && !p->resident;
    int rc = rows ? gwm_gpu_launch(p, &gwm_softmax_row_kernel, (uint32_t)(a.s.outer - 1) / 4 + 1, 128, &a)
                  : gwm_gpu_launch(p, &gwm_softmax_kernel, (uint32_t)(a.s.outer * a.s.inner), 128, &a);
    if (!rc) rc = gwm_gpu_ref(p, offsetof(struct gwm_softmax_args, x), x);
    return rc ? rc : gwm_gpu_ref(p, offsetof(struct gwm_softmax_args, y), y);
}

/* Is this move a depth-to-space of a picture of that shape? The block's side, or 1. */
static int32_t as_block(const struct gwm_move *m, const struct gwm_shape *x, bool *block_first)
{
    static const int32_t dcr[] = {0, 3, 4, 1, 5, 2}, crd[] = {0, 1, 4, 2, 5, 3};

    for (int32_t r = 2; r <= 8 && x->rank == 4; r++) {
        struct gwm_move want;
        int32_t c = x->d[1] / (r * r);
        if (x->d[1] % (r * r)) continue;
        gwm_move_permute(&want, (const int32_t[]){x->d[0], c, r, r, x->d[2], x->d[3]}, 6, crd);
        *block_first = false;
        if (!memcmp(&want, m, sizeof(want))) return r;
        gwm_move_permute(&want, (const int32_t[]){x->d[0], r, r, c, x->d[2], x->d[3]}, 6, dcr);
        *block_first = true;
        if (!memcmp(&want, m, sizeof(want))) return r;
    }
    return 1;
}

/* A sum with a tensor of the same shape that is there already when node `at` runs; the tensor, or -1. */
static int sum_with(const struct gwm_gpu *p, const struct gwm_node *q, int root, int at)
{
    const struct gwm_graph *g = p->g;

    if (q->op != GWM_BINARY || q->binary.kind != GWM_ADD) return -1;
    int other = g->value[q->in[0]].root == root ? q->in[1] : q->in[0];
    if (!gwm_same_shape(&g->value[root].shape, &g->value[q->out].shape) ||
        !gwm_same_shape(&g->value[other].shape, &g->value[q->out].shape))
        return -1;
    int m = p->maker[g->value[other].root];
    return m < at ? other : -1;
}

/* A convolution and what follows it alone: a sum, an activation, a depth-to-space. */
static int conv(struct gwm_gpu *p, const struct gwm_node *n)
{
    const struct gwm_graph *g = p->g;
    int at = (int)(n - g->node), q = gwm_sole_reader(p->g, p->uses, n->out, at);
    struct gwm_store to = {.out = n->out, .add = -1, .act = n->act, .block = 1};

    if (q >= 0 && n->act.kind == GWM_ACT_NONE && (to.add = sum_with(p, &g->node[q], n->out, at)) >= 0) {
        p->done[q] = true;
        to.out = g->node[q].out;
        to.act = g->node[q].act;
        q = gwm_sole_reader(p->g, p->uses, to.out, q);
    }
    if (q >= 0 && g->node[q].op == GWM_MOVE && !p->resident) {
        to.block = as_block(&g->node[q].mv.move[0], &g->value[n->out].shape, &to.block_first);
        if (to.block > 1) {
            p->done[q] = true;
            to.out = g->node[q].out;
        }
    }
    return gwm_gpu_conv(p, n, &to);
}

static int lower(struct gwm_gpu *p, const struct gwm_node *n)
{
    /* Without elements there is nothing to do, but a place. */
    if (!p->g->value[n->out].count) {
        int y = gwm_gpu_out(p, n->out, 0, false);
        return y < 0 ? y : 0;
    }
    switch (n->op) {
    case GWM_CONV: return conv(p, n);
    case GWM_POOL: return pool(p, n);
    case GWM_GEMM: return gwm_gpu_gemm(p, n);
    case GWM_UNARY: return unary(p, n);
    case GWM_BINARY: return binary(p, n);
    case GWM_SOFTMAX: return softmax(p, n);
    case GWM_CONCAT: return gwm_gpu_concat(p, n);
    case GWM_MOVE:
    case GWM_PAD: return gwm_gpu_move(p, n);
    default: return gwm_gpu_more(p, n);
    }
}

int gwm_gpu_node(struct gwm_gpu *p, const struct gwm_node *n)
{
    int before = p->node; /* it wants this one's result */

    p->node = (int)(n - p->g->node);
    int rc = lower(p, n);
    p->node = before;
    return rc;
}
