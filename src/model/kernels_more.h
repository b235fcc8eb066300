/* SPDX-License-Identifier: Apache-2.0 */
/* The other kernels: one thread per output element, or one block per sum. */
#ifndef GW_MODEL_KERNELS_MORE_H
#define GW_MODEL_KERNELS_MORE_H

#include "src/model/kernels.h"

#define GWM_BLOCK_MAX 256

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

GW_DEV float gwm_pool_window(const struct gwm_pool_args *a, const float *x, int32_t oy, int32_t ox)
{
    const struct gwm_window *w = &a->win;
    int32_t y0 = oy * w->sh - w->top, x0 = ox * w->sw - w->left, inside = 0, counted = 0, ky, kx, n;
    float max = -INFINITY, sum = 0;

    for (ky = 0; ky < w->kh; ky++) {
        for (kx = 0; kx < w->kw; kx++) {
            int32_t iy = y0 + ky * w->dh, ix = x0 + kx * w->dw;
            counted += iy < w->h + w->bottom && ix < w->w + w->right;
            if (iy >= 0 && iy < w->h && ix >= 0 && ix < w->w) {
                float v = x[iy * w->w + ix];
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
    const struct gwm_window *w = &a->win;
    const float *x = gwm_at(&a->x);
    float *y = gwm_at(&a->y);
    int32_t i, step = (int32_t)gw_global_dim();

    for (i = (int32_t)gw_global_idx(); i < a->count; i += step)
        y[i] = gwm_pool_window(a, x + i / w->ow / w->oh * w->h * w->w, i / w->ow % w->oh, i % w->ow);
}

GW_KERNEL(gwm_gemm_kernel, struct gwm_gemm_args, g)
{
    GW_SHARED(struct gwm_block_room, room);
    int32_t n = (int32_t)gw_block_idx() % g->n, m = (int32_t)gw_block_idx() / g->n, k,
            step = (int32_t)gw_block_dim();
    const float *a = gwm_at(&g->a) + m * g->am, *b = gwm_at(&g->b) + n * g->bn;
    float sum = 0;

    for (k = (int32_t)gw_thread_idx(); k < g->k; k += step) sum += a[k * g->ak] * b[k * g->bk];
    sum = g->alpha * gwm_over_block(room, sum, 0);
    if (gw_thread_idx() == 0)
        gwm_at(&g->y)[m * g->n + n] = gwm_activate(&g->act, g->bias ? sum + g->bias[n] : sum);
}

GW_KERNEL(gwm_unary_kernel, struct gwm_unary_args, a)
{
    const float *x = gwm_at(&a->x);
    float *y = gwm_at(&a->y);
    int32_t i, step = (int32_t)gw_global_dim();

    for (i = (int32_t)gw_global_idx(); i < a->count; i += step) y[i] = gwm_activate(&a->act, x[i]);
}

GW_KERNEL(gwm_fill_kernel, struct gwm_fill_args, a)
{
    float *y = gwm_at(&a->y);
    int32_t i, step = (int32_t)gw_global_dim();

    for (i = (int32_t)gw_global_idx(); i < a->count; i += step) y[i] = a->value;
}

GW_KERNEL(gwm_binary_kernel, struct gwm_binary_args, p)
{
    const float *a = gwm_at(&p->a), *b = gwm_at(&p->b);
    float *y = gwm_at(&p->y);
    int32_t i, d, step = (int32_t)gw_global_dim();

    for (i = (int32_t)gw_global_idx(); i < p->count; i += step) {
        int32_t left = i, oa = 0, ob = 0;
        for (d = p->bc.rank - 1; d >= 0; d--) {
            int32_t at = left % p->bc.dims[d];
            left /= p->bc.dims[d];
            oa += at * p->bc.a[d];
            ob += at * p->bc.b[d];
        }
        y[i] = gwm_activate(&p->act, gwm_binary1(p->kind, a[oa], b[ob]));
    }
}

GW_KERNEL(gwm_move_kernel, struct gwm_move_args, p)
{
    const float *x = gwm_at(&p->x);
    float *y = gwm_at(&p->y);
    int32_t i, d, step = (int32_t)gw_global_dim();

    for (i = (int32_t)gw_global_idx(); i < p->count; i += step) {
        int32_t left = i, from = p->move.start, to = p->move.offset;
        for (d = p->move.rank - 1; d >= 0; d--) {
            int32_t at = left % p->move.dims[d];
            left /= p->move.dims[d];
            from += at * p->move.from[d];
            to += at * p->move.to[d];
        }
        y[to] = x[from];
    }
}

GW_KERNEL(gwm_softmax_kernel, struct gwm_softmax_args, p)
{
    GW_SHARED(struct gwm_block_room, room);
    int32_t row = (int32_t)gw_block_idx(), first = row / p->s.inner * p->s.n * p->s.inner + row % p->s.inner,
            k;
    int32_t step = (int32_t)gw_block_dim(), tid = (int32_t)gw_thread_idx();
    const float *x = gwm_at(&p->x) + first;
    float *y = gwm_at(&p->y) + first, max = -INFINITY, sum = 0;

    for (k = tid; k < p->s.n; k += step) max = fmaxf(max, x[k * p->s.inner]);
    max = gwm_over_block(room, max, 1);
    for (k = tid; k < p->s.n; k += step) sum += expf(x[k * p->s.inner] - max);
    sum = gwm_over_block(room, sum, 0);
    for (k = tid; k < p->s.n; k += step) y[k * p->s.inner] = expf(x[k * p->s.inner] - max) / sum;
}

#endif
