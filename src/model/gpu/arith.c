/* SPDX-License-Identifier: Apache-2.0 */
/* Functions, arithmetic, pools and softmax: each node is one launch, in the layout that pictures have. */
#include <errno.h>

#include "src/model/gpu/arith.h"

#include "src/model/gpu/elements.h"
#include "src/model/gpu/form.h"
#include "src/model/gpu/launch.h"
#include "src/model/graph/move.h"
#include "src/model/kernels/args.h"

int gwm_gpu_unary(struct gwm_gpu *p, const struct gwm_node *n)
{
    struct gwm_unary_args a = {.act = n->act, .count = p->g->value[n->out].count};
    uint32_t form = gwm_gpu_out_form(p, n->out);
    bool seen = p->g->value[n->in[0]].root != n->in[0]; /* through a view: in C order */
    const struct gw_kernel *kernel = &gwm_unary_kernel;
    int x, y, err, m = p->maker[n->out];

    if (p->g->value[n->out].dtype != GWM_F32) kernel = &gwm_unary_int_kernel;
    if (seen || !gwm_same_shape(&p->g->value[n->in[0]].shape, &p->g->value[n->out].shape)) form &= ~GWM_LAST;
    x = gwm_gpu_in(p, n->in[0], form, false);
    if (x >= 0 && n->act.kind == GWM_ACT_NONE && m >= 0 && p->put_off[m]) { /* nothing to do */
        p->as[n->out * GWM_SLOTS + (int)gwm_gpu_form(p, n->out, form)] = x;
        return 0;
    }
    y = x < 0 ? x : gwm_gpu_out(p, n->out, form, false);
    if (y < 0) return y;
    err = gwm_gpu_over(p, kernel, kernel == &gwm_unary_kernel ? gwm_gpu_eights(a.count) : a.count, &a);
    if (!err) err = gwm_gpu_ref(p, offsetof(struct gwm_unary_args, x), x);
    return err ? err : gwm_gpu_ref(p, offsetof(struct gwm_unary_args, y), y);
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
static bool arith_by_eights(const struct gwm_broadcast *bc)
{
    int in = bc->rank - 1;

    if (bc->dims[in] % 8 || bc->a[in] > 1 || bc->b[in] > 1) return false;
    for (int i = 0; i < in; i++)
        if ((bc->a[in] && bc->a[i] % 8) || (bc->b[in] && bc->b[i] % 8)) return false;
    return true;
}

int gwm_gpu_binary(struct gwm_gpu *p, const struct gwm_node *n)
{
    struct gwm_binary_args a = {
        .bc = n->binary.bc, .act = n->act, .kind = n->binary.kind, .count = p->g->value[n->out].count};
    uint32_t form = gwm_gpu_out_form(p, n->out);
    int in[2], err = 0, y;

    if (p->g->value[n->out].dtype != GWM_F32 && p->half) form = GWM_HALF; /* of what is compared */
    if (form & GWM_LAST) {
        err = binary_last(p, n, &a.bc, in, form);
    } else {
        in[0] = gwm_gpu_in(p, n->in[0], form, false);
        in[1] = gwm_gpu_in(p, n->in[1], form, false);
    }
    y = err ? err : gwm_gpu_out(p, n->out, form, false);
    if (y < 0) return y;
    if (p->g->value[n->out].dtype != GWM_F32)
        err = gwm_gpu_over(p, &gwm_binary_int_kernel, a.count, &a);
    else
        err = arith_by_eights(&a.bc) ? gwm_gpu_over(p, &gwm_binary8_kernel, a.count / 8, &a)
                                     : gwm_gpu_over(p, &gwm_binary_kernel, a.count, &a);
    if (!err) err = gwm_gpu_ref(p, offsetof(struct gwm_binary_args, a), in[0]);
    if (!err) err = gwm_gpu_ref(p, offsetof(struct gwm_binary_args, b), in[1]);
    return err ? err : gwm_gpu_ref(p, offsetof(struct gwm_binary_args, y), y);
}

/* The mean of whole planes: a block adds up each. */
static int mean(struct gwm_gpu *p, const struct gwm_node *n, uint32_t form, int x, int y)
{
    const struct gwm_window *w = &n->pool.win;
    struct gwm_mean_args a = {.c = w->c, .size = w->h * w->w, .last = (form & GWM_LAST) != 0};
    int32_t groups = a.last ? (w->c + GWM_MEAN_LAST - 1) / GWM_MEAN_LAST : w->c;
    int err =
        gwm_gpu_launch(p, &gwm_mean_kernel, (uint32_t)(groups * w->n), a.last ? GWM_BLOCK_MAX : 128, &a);

    if (!err) err = gwm_gpu_ref(p, offsetof(struct gwm_mean_args, x), x);
    return err ? err : gwm_gpu_ref(p, offsetof(struct gwm_mean_args, y), y);
}

int gwm_gpu_pool(struct gwm_gpu *p, const struct gwm_node *n)
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
    int x, y, err;

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
    err = gwm_gpu_over(p, &gwm_pool_kernel, a.count, &a);
    if (!err) err = gwm_gpu_ref(p, offsetof(struct gwm_pool_args, x), x);
    return err ? err : gwm_gpu_ref(p, offsetof(struct gwm_pool_args, y), y);
}

int gwm_gpu_softmax(struct gwm_gpu *p, const struct gwm_node *n)
{
    struct gwm_softmax_args a = {.s = n->softmax};
    uint32_t form = gwm_gpu_out_form(p, n->out) & ~GWM_LAST;
    int x = gwm_gpu_in(p, n->in[0], p->half ? GWM_HALF : 0, false);
    int y = x < 0 ? x : gwm_gpu_out(p, n->out, form, false);

    if (y < 0) return y;
    bool rows = a.s.inner == 1 && a.s.n <= GWM_ROW_MAX && !p->resident;
    int err = rows ? gwm_gpu_launch(p, &gwm_softmax_row_kernel, (uint32_t)(a.s.outer - 1) / 4 + 1, 128, &a)
                   : gwm_gpu_launch(p, &gwm_softmax_kernel, (uint32_t)(a.s.outer * a.s.inner), 128, &a);
    if (!err) err = gwm_gpu_ref(p, offsetof(struct gwm_softmax_args, x), x);
    return err ? err : gwm_gpu_ref(p, offsetof(struct gwm_softmax_args, y), y);
}
