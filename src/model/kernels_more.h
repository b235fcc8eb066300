/* SPDX-License-Identifier: Apache-2.0 */
/* The other kernels: one thread per output element, or one block per sum. */
#ifndef GW_MODEL_KERNELS_MORE_H
#define GW_MODEL_KERNELS_MORE_H

#include "src/model/kernels.h"

struct gwm_block_room {
    float v[GWM_BLOCK_MAX];
};

/* Sum, or maximum, over all threads of a block (at most GWM_BLOCK_MAX of them); all get it. */
GW_DEV float gwm_over_block(struct gwm_block_room *room, float v, int max)
{
    uint32_t step, tid = gw_thread_idx(), n = gw_block_dim();

    room->v[tid] = v;
    gw_syncthreads();
    for (step = 1; step < n; step *= 2) {
        if (tid % (2 * step) == 0 && tid + step < n)
            room->v[tid] =
                max ? fmaxf(room->v[tid], room->v[tid + step]) : room->v[tid] + room->v[tid + step];
        gw_syncthreads();
    }
    v = room->v[0];
    gw_syncthreads(); /* all have read it before the next call writes */
    return v;
}

GW_DEV float gwm_pool_window(const struct gwm_pool_args *a, const struct gwm_view *x, int32_t i)
{
    const struct gwm_window *w = &a->win;
    int32_t c = a->last ? i % w->c : 0, p = a->last ? i / w->c : i, plane = p / w->ow / w->oh;
    int32_t first = a->last ? plane * w->c * w->h * w->w + c : plane * w->h * w->w, col = a->last ? w->c : 1;
    int32_t y0 = p / w->ow % w->oh * w->sh - w->top, x0 = p % w->ow * w->sw - w->left;
    int32_t inside = 0, counted = 0, ky, kx, n;
    float max = -INFINITY, sum = 0;

    for (ky = 0; ky < w->kh; ky++) {
        for (kx = 0; kx < w->kw; kx++) {
            int32_t iy = y0 + ky * w->dh, ix = x0 + kx * w->dw;
            counted += iy < w->h + w->bottom && ix < w->w + w->right;
            if (iy >= 0 && iy < w->h && ix >= 0 && ix < w->w) {
                float v = gwm_get(x, first + (iy * w->w + ix) * col);
                max = fmaxf(max, v);
                sum += v;
                inside++;
            }
        }
    }
    n = a->count_pads ? counted : inside;
    return !a->average ? max : n ? sum / (float)n : 0;
}

GW_KERNEL(gwm_pool_kernel, struct gwm_pool_args, a)
{
    struct gwm_view x = gwm_view(&a->x), y = gwm_view(&a->y);
    int32_t i, step = (int32_t)gw_global_dim();

    for (i = (int32_t)gw_global_idx(); i < a->count; i += step) gwm_set(&y, i, gwm_pool_window(a, &x, i));
}

/* Neighbouring threads read neighbouring elements, in either layout. */
GW_KERNEL(gwm_mean_kernel, struct gwm_mean_args, a)
{
    GW_SHARED(struct gwm_block_room, room);
    struct gwm_view x = gwm_view(&a->x), y = gwm_view(&a->y);
    int32_t tid = (int32_t)gw_thread_idx(), lanes = a->last ? GWM_MEAN_LAST : 1, i;
    int32_t groups = (a->c + lanes - 1) / lanes, n = (int32_t)gw_block_idx() / groups;
    int32_t c = (int32_t)gw_block_idx() % groups * lanes + tid % lanes,
            rows = (int32_t)gw_block_dim() / lanes;
    int32_t first = a->last ? n * a->c * a->size + c : (n * a->c + c) * a->size, step = a->last ? a->c : 1;
    float sum = 0;

    if (c < a->c)
        for (i = tid / lanes; i < a->size; i += rows) sum += gwm_get(&x, first + i * step);
    room->v[tid] = sum;
    gw_syncthreads();
    for (i = 1; i < rows; i *= 2) {
        int32_t row = tid / lanes;
        if (row % (2 * i) == 0 && row + i < rows) room->v[tid] += room->v[tid + i * lanes];
        gw_syncthreads();
    }
    if (tid < lanes && c < a->c) gwm_set(&y, n * a->c + c, room->v[tid] / (float)a->size);
}

GW_KERNEL(gwm_gemm_kernel, struct gwm_gemm_args, g)
{
    GW_SHARED(struct gwm_block_room, room);
    int32_t n = (int32_t)gw_block_idx() % g->n, m = (int32_t)gw_block_idx() / g->n, k,
            step = (int32_t)gw_block_dim();
    struct gwm_view a = gwm_view(&g->a), b = gwm_view(&g->b), y = gwm_view(&g->y);
    float sum = 0;

    for (k = (int32_t)gw_thread_idx(); k < g->k; k += step)
        sum += gwm_get(&a, m * g->am + k * g->ak) * gwm_get(&b, n * g->bn + k * g->bk);
    sum = gwm_over_block(room, sum, 0);
    if (gw_thread_idx() == 0)
        gwm_set(&y, m * g->n + n, gwm_activate(&g->act, g->bias ? sum + g->bias[n] : sum));
}

GW_KERNEL(gwm_unary_kernel, struct gwm_unary_args, a)
{
    struct gwm_view x = gwm_view(&a->x), y = gwm_view(&a->y);
    int32_t i, step = (int32_t)gw_global_dim(), fours = a->count / 4;

    for (i = (int32_t)gw_global_idx(); i < fours; i += step) {
        struct gwm_f4 v = gwm_get4(&x, 4 * i);
        v.x = gwm_activate(&a->act, v.x), v.y = gwm_activate(&a->act, v.y);
        v.z = gwm_activate(&a->act, v.z), v.w = gwm_activate(&a->act, v.w);
        gwm_set4(&y, 4 * i, &v);
    }
    for (i = 4 * fours + (int32_t)gw_global_idx(); i < a->count; i += step)
        gwm_set(&y, i, gwm_activate(&a->act, gwm_get(&x, i)));
}

GW_KERNEL(gwm_fill_kernel, struct gwm_fill_args, a)
{
    struct gwm_view y = gwm_view(&a->y);
    int32_t i, step = (int32_t)gw_global_dim();

    for (i = (int32_t)gw_global_idx(); i < a->count; i += step) gwm_set(&y, i, a->value);
}

GW_DEV float gwm_binary1(int32_t kind, float a, float b)
{
    return kind == GWM_ADD ? a + b : kind == GWM_SUB ? a - b : kind == GWM_MUL ? a * b : a / b;
}

/* Four elements whose operands lie together, or are one. */
GW_DEV void gwm_binary4(const struct gwm_binary_args *p, const struct gwm_f4 *a, const struct gwm_f4 *b,
                        const struct gwm_view *y, int32_t i)
{
    struct gwm_f4 v;

    v.x = gwm_activate(&p->act, gwm_binary1(p->kind, a->x, b->x));
    v.y = gwm_activate(&p->act, gwm_binary1(p->kind, a->y, b->y));
    v.z = gwm_activate(&p->act, gwm_binary1(p->kind, a->z, b->z));
    v.w = gwm_activate(&p->act, gwm_binary1(p->kind, a->w, b->w));
    gwm_set4(y, i, &v);
}

GW_DEV struct gwm_f4 gwm_get4_or_one(const struct gwm_view *v, int32_t i, int32_t stride)
{
    struct gwm_f4 f;

    if (stride) return gwm_get4(v, i);
    f.x = f.y = f.z = f.w = gwm_get(v, i);
    return f;
}

/* As below, where the innermost dimension and all other strides are multiples of 4. */
GW_KERNEL(gwm_binary4_kernel, struct gwm_binary_args, p)
{
    struct gwm_view a = gwm_view(&p->a), b = gwm_view(&p->b), y = gwm_view(&p->y);
    int32_t i, d, step = (int32_t)gw_global_dim(), in = p->bc.rank - 1;

    for (i = (int32_t)gw_global_idx(); i < p->count / 4; i += step) {
        int32_t left = 4 * i, oa = 0, ob = 0;
        struct gwm_f4 va, vb;
        for (d = in; d > 0; d--) {
            int32_t at = left % p->bc.dims[d];
            left /= p->bc.dims[d];
            oa += at * p->bc.a[d];
            ob += at * p->bc.b[d];
        }
        va = gwm_get4_or_one(&a, oa + left * p->bc.a[0], p->bc.a[in]);
        vb = gwm_get4_or_one(&b, ob + left * p->bc.b[0], p->bc.b[in]);
        gwm_binary4(p, &va, &vb, &y, 4 * i);
    }
}

GW_KERNEL(gwm_binary_kernel, struct gwm_binary_args, p)
{
    struct gwm_view a = gwm_view(&p->a), b = gwm_view(&p->b), y = gwm_view(&p->y);
    int32_t i, d, step = (int32_t)gw_global_dim();

    for (i = (int32_t)gw_global_idx(); i < p->count; i += step) {
        int32_t left = i, oa = 0, ob = 0;
        for (d = p->bc.rank - 1; d > 0; d--) {
            int32_t at = left % p->bc.dims[d];
            left /= p->bc.dims[d];
            oa += at * p->bc.a[d];
            ob += at * p->bc.b[d];
        }
        oa += left * p->bc.a[0];
        ob += left * p->bc.b[0];
        gwm_set(&y, i, gwm_activate(&p->act, gwm_binary1(p->kind, gwm_get(&a, oa), gwm_get(&b, ob))));
    }
}

GW_KERNEL(gwm_move_kernel, struct gwm_move_args, p)
{
    struct gwm_view x = gwm_view(&p->x), y = gwm_view(&p->y);
    int32_t i, d, step = (int32_t)gw_global_dim();

    for (i = (int32_t)gw_global_idx(); i < p->count; i += step) {
        int32_t left = i, from = 0, to = p->move.offset;
        for (d = p->move.rank - 1; d > 0; d--) {
            int32_t at = left % p->move.dims[d];
            left /= p->move.dims[d];
            from += at * p->move.from[d];
            to += at * p->move.to[d];
        }
        gwm_set(&y, to + left * p->move.to[0], gwm_get(&x, from + left * p->move.from[0]));
    }
}

GW_KERNEL(gwm_softmax_kernel, struct gwm_softmax_args, p)
{
    GW_SHARED(struct gwm_block_room, room);
    int32_t row = (int32_t)gw_block_idx(), first = row / p->s.inner * p->s.n * p->s.inner + row % p->s.inner,
            k;
    int32_t step = (int32_t)gw_block_dim(), tid = (int32_t)gw_thread_idx();
    struct gwm_view x = gwm_view(&p->x), y = gwm_view(&p->y);
    float max = -INFINITY, sum = 0;

    for (k = tid; k < p->s.n; k += step) max = fmaxf(max, gwm_get(&x, first + k * p->s.inner));
    max = gwm_over_block(room, max, 1);
    for (k = tid; k < p->s.n; k += step) sum += expf(gwm_get(&x, first + k * p->s.inner) - max);
    sum = gwm_over_block(room, sum, 0);
    for (k = tid; k < p->s.n; k += step) {
        int32_t at = first + k * p->s.inner;
        gwm_set(&y, at, expf(gwm_get(&x, at) - max) / sum);
    }
}

#endif
