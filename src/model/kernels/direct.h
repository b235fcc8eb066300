/* SPDX-License-Identifier: Apache-2.0 */
/* Convolutions with a thread for each result, in any layout and element type. */
#ifndef GW_MODEL_KERNELS_DIRECT_H
#define GW_MODEL_KERNELS_DIRECT_H

#include "src/model/kernels/device.h"

/* Where elements of a picture lie: from one channel, row and column to the next. */
struct gwm_steps {
    int32_t c, row, col;
};

GW_DEV struct gwm_steps gwm_steps(int32_t last, int32_t channels, int32_t h, int32_t w)
{
    struct gwm_steps s;

    s.c = last ? 1 : h * w;
    s.row = last ? w * channels : w;
    s.col = last ? channels : 1;
    return s;
}

/* Takes the index of an output element apart. */
struct gwm_spot {
    int32_t n, c, row, col;
};

GW_DEV struct gwm_spot gwm_spot(int32_t last, int32_t i, int32_t channels, int32_t h, int32_t w)
{
    struct gwm_spot s;

    if (last) {
        s.c = i % channels;
        i /= channels;
    }
    s.col = i % w;
    i /= w;
    s.row = i % h;
    i /= h;
    if (!last) {
        s.c = i % channels;
        i /= channels;
    }
    s.n = i;
    return s;
}

GW_DEV float gwm_direct_sum(const struct gwm_direct_args *a, const struct gwm_view *x,
                            const struct gwm_spot *at)
{
    const struct gwm_window *w = &a->win;
    struct gwm_steps step = gwm_steps(a->last, w->c, w->h, w->w);
    int32_t per = w->c / a->group, c, ky, kx;
    int32_t first = at->n * w->c * w->h * w->w + at->c / (a->oc / a->group) * per * step.c;
    const float *weight = a->weight + (size_t)at->c * (size_t)(per * w->kh * w->kw);
    float sum = 0;

    for (c = 0; c < per; c++, first += step.c) {
        for (ky = 0; ky < w->kh; ky++) {
            int32_t iy = at->row * w->sh - w->top + ky * w->dh;
            for (kx = 0; kx < w->kw; kx++, weight++) {
                int32_t ix = at->col * w->sw - w->left + kx * w->dw;
                if (iy >= 0 && iy < w->h && ix >= 0 && ix < w->w)
                    sum += *weight * gwm_get(x, first + iy * step.row + ix * step.col);
            }
        }
    }
    return sum;
}

GWM_KERNEL(gwm_conv_direct, struct gwm_direct_args, a)
{
    int32_t i, step = (int32_t)gw_global_dim();
    struct gwm_view x = gwm_view(&a->x), y = gwm_view(&a->y), add = gwm_view(&a->add);

    for (i = (int32_t)gw_global_idx(); i < a->count; i += step) {
        struct gwm_spot at = gwm_spot(a->last, i, a->oc, a->win.oh, a->win.ow);
        float sum = gwm_direct_sum(a, &x, &at) + a->bias[at.c];
        if (add.p) sum += gwm_get(&add, i);
        gwm_set(&y, i, gwm_activate(&a->act, sum));
    }
}

GW_DEV void gwm_add_product4(struct gwm_f4 *sum, const struct gwm_f4 *a, const struct gwm_f4 *b)
{
    sum->x += a->x * b->x, sum->y += a->y * b->y;
    sum->z += a->z * b->z, sum->w += a->w * b->w;
}

/* Adds what is to be added to four results, number i and so on, and stores them. */
GW_DEV void gwm_direct_finish4(const struct gwm_direct_args *a, const struct gwm_view *y,
                               const struct gwm_view *add, int32_t i, const struct gwm_f4 *sum)
{
    struct gwm_f4 s = *sum;

    if (add->p) {
        struct gwm_f4 v = gwm_get4(add, i);
        s.x += v.x, s.y += v.y, s.z += v.z, s.w += v.w;
    }
    s.x = gwm_activate(&a->act, s.x), s.y = gwm_activate(&a->act, s.y);
    s.z = gwm_activate(&a->act, s.z), s.w = gwm_activate(&a->act, s.w);
    gwm_set4(y, i, &s);
}

/* One filter per channel, channels together and a multiple of 4: a thread computes four of them. */
GWM_KERNEL(gwm_conv_depthwise, struct gwm_direct_args, a)
{
    const struct gwm_window *w = &a->win;
    int32_t i, ky, kx, step = (int32_t)gw_global_dim();
    struct gwm_view x = gwm_view(&a->x), y = gwm_view(&a->y), add = gwm_view(&a->add);

    for (i = (int32_t)gw_global_idx(); i < a->count / 4; i += step) {
        struct gwm_spot at = gwm_spot(1, i, a->oc / 4, w->oh, w->ow);
        struct gwm_f4 sum = ((const struct gwm_f4 *)a->bias)[at.c];
        const struct gwm_f4 *weight = (const struct gwm_f4 *)a->weight + at.c;
        for (ky = 0; ky < w->kh; ky++) {
            int32_t iy = at.row * w->sh - w->top + ky * w->dh;
            for (kx = 0; kx < w->kw; kx++, weight += a->oc / 4) {
                int32_t ix = at.col * w->sw - w->left + kx * w->dw;
                struct gwm_f4 v;
                if (iy < 0 || iy >= w->h || ix < 0 || ix >= w->w) continue;
                v = gwm_get4(&x, ((at.n * w->h + iy) * w->w + ix) * a->oc + 4 * at.c);
                gwm_add_product4(&sum, weight, &v);
            }
        }
        gwm_direct_finish4(a, &y, &add, 4 * i, &sum);
    }
}

/*
 * The same for filters of K × K elements, STEP apart in a row. Both are known when this is compiled. A lane
 * computes GWM_RUN neighbours of a row. So it reads a weight once for all of them, and an element of the
 * picture once per row of the filter. Several warps may share the rows of the filter, where there are too
 * few results to keep a GPU busy.
 */
struct gwm_runs_room { /* a warp's sums */
    struct gwm_f4 sum[GWM_RUNS_WARPS][GWM_RUN][32];
};

/* How the warps of a block share the work: groups of `share` of them; each group has 32 runs, one for a
 * lane. */
struct gwm_runs {
    int32_t share, groups, fours, runs, all;
};

GW_DEV struct gwm_runs gwm_runs(const struct gwm_direct_args *a)
{
    int32_t warps = (int32_t)(gw_block_dim() + 31) / 32;
    struct gwm_runs r;

    r.share = a->share < warps ? a->share : warps;
    r.groups = warps / r.share;
    r.fours = a->oc / 4;
    r.runs = (a->win.ow - 1) / GWM_RUN + 1;
    r.all = a->win.n * a->win.oh * r.runs * r.fours;
    return r;
}

/* Adds what the filter's row ky makes of the neighbours at a place. */
GWM_INLINE void gwm_add_row(const struct gwm_direct_args *a, const struct gwm_spot *at, int32_t ky, int32_t k,
                            int32_t step, struct gwm_f4 sum[GWM_RUN], uint32_t type)
{
    const struct gwm_window *w = &a->win;
    int32_t fours = a->oc / 4, left = at->col * GWM_RUN * step - w->left, kx, t;
    int32_t iy = at->row * w->sh - w->top + ky * w->dh, row = (at->n * w->h + iy) * w->w + left;
    const struct gwm_f4 *weight = (const struct gwm_f4 *)a->weight + ky * k * fours + at->c;
    struct gwm_view x = gwm_view_of(&a->x, type);
    struct gwm_f4 v[GWM_FOURS_MAX];
    struct gwm_fours from;

    if (iy < 0 || iy >= w->h) return;
    from.at = row * fours + at->c, from.step = fours, from.first = -left, from.end = w->w - left;
    gwm_get_fours(&x, &from, (GWM_RUN - 1) * step + k, v);
    GWM_UNROLL
    for (kx = 0; kx < k; kx++) {
        GWM_UNROLL
        for (t = 0; t < GWM_RUN; t++) gwm_add_product4(&sum[t], &weight[kx * fours], &v[kx + t * step]);
    }
}

/* Adds up what the warps of a group have, for 32 runs from `first` on, and stores it. */
GW_SLOW_DEV void gwm_runs_store(const struct gwm_direct_args *a, const struct gwm_runs_room *room,
                                int32_t first)
{
    struct gwm_view y = gwm_view(&a->y), add = gwm_view(&a->add);
    struct gwm_runs r = gwm_runs(a);
    int32_t i, k, tasks = r.groups * GWM_RUN * 32;

    for (i = (int32_t)gw_thread_idx(); i < tasks; i += (int32_t)gw_block_dim()) {
        int32_t lane = i % 32, t = i / 32 % GWM_RUN, group = i / 32 / GWM_RUN,
                run = first + group * 32 + lane, to;
        struct gwm_spot at = gwm_spot(1, run, r.fours, a->win.oh, r.runs);
        struct gwm_f4 sum = ((const struct gwm_f4 *)a->bias)[at.c];
        at.col = at.col * GWM_RUN + t;
        if (run >= r.all || at.col >= a->win.ow) continue;
        for (k = 0; k < r.share; k++) {
            const struct gwm_f4 *v = &room->sum[group * r.share + k][t][lane];
            sum.x += v->x, sum.y += v->y, sum.z += v->z, sum.w += v->w;
        }
        to = 4 * (((at.n * a->win.oh + at.row) * a->win.ow + at.col) * r.fours + at.c);
        gwm_direct_finish4(a, &y, &add, to, &sum);
    }
}

GWM_INLINE void gwm_depthwise_runs(const struct gwm_direct_args *a, struct gwm_runs_room *room, int32_t k,
                                   int32_t step, uint32_t type)
{
    struct gwm_runs r = gwm_runs(a);
    int32_t warp = (int32_t)gw_warp_idx(), lane = (int32_t)gw_lane(), first, ky, t;
    int32_t next = (int32_t)gw_grid_dim() * r.groups * 32;

    for (first = (int32_t)gw_block_idx() * r.groups * 32; first < r.all; first += next) {
        int32_t run = first + warp / r.share * 32 + lane;
        struct gwm_spot at = gwm_spot(1, run, r.fours, a->win.oh, r.runs);
        struct gwm_f4 sum[GWM_RUN];
        GWM_UNROLL
        for (t = 0; t < GWM_RUN; t++) sum[t].x = sum[t].y = sum[t].z = sum[t].w = 0;
        if (run < r.all && warp < r.groups * r.share) {
            for (ky = warp % r.share; ky < k; ky += r.share) gwm_add_row(a, &at, ky, k, step, sum, type);
            GWM_UNROLL
            for (t = 0; t < GWM_RUN; t++) room->sum[warp][t][lane] = sum[t];
        }
        gw_syncthreads(); /* all sums are in the room before any thread adds them up */
        gwm_runs_store(a, room, first);
        gw_syncthreads(); /* all have read the room before the next sums go there */
    }
}

#define GWM_DEPTHWISE(k, step)                                                                               \
    GWM_KERNEL(gwm_conv_depthwise_##k##_##step, struct gwm_direct_args, a)                                   \
    {                                                                                                        \
        GW_SHARED(struct gwm_runs_room, room);                                                               \
        GWM_BY_TYPE(a->x.type, gwm_depthwise_runs, a, room, k, step);                                        \
    }
GWM_DEPTHWISE(3, 1)
GWM_DEPTHWISE(5, 1)
GWM_DEPTHWISE(7, 1)
GWM_DEPTHWISE(3, 2)
GWM_DEPTHWISE(5, 2)

/* A transposed convolution, in C order: the windows that an output element lies in, each seen from there.
 * Weights: c × oc/group × kh × kw. */
GW_DEV float gwm_deconv_sum(const struct gwm_direct_args *a, const struct gwm_view *x,
                            const struct gwm_spot *at)
{
    const struct gwm_window *w = &a->win;
    int32_t each = a->oc / a->group, per = w->c / a->group, group = at->c / each, c, ky, kx;
    float sum = 0;

    for (c = group * per; c < (group + 1) * per; c++) {
        const float *weight = a->weight + (size_t)(c * each + at->c % each) * (size_t)(w->kh * w->kw);
        int32_t plane = (at->n * w->c + c) * w->h * w->w;
        for (ky = 0; ky < w->kh; ky++) {
            int32_t iy = at->row + w->top - ky * w->dh;
            if (iy < 0 || iy % w->sh || iy / w->sh >= w->h) continue;
            for (kx = 0; kx < w->kw; kx++) {
                int32_t ix = at->col + w->left - kx * w->dw;
                if (ix < 0 || ix % w->sw || ix / w->sw >= w->w) continue;
                sum += weight[ky * w->kw + kx] * gwm_get(x, plane + iy / w->sh * w->w + ix / w->sw);
            }
        }
    }
    return sum;
}

GWM_KERNEL(gwm_deconv_kernel, struct gwm_direct_args, a)
{
    int32_t i, step = (int32_t)gw_global_dim();
    struct gwm_view x = gwm_view(&a->x), y = gwm_view(&a->y);

    for (i = (int32_t)gw_global_idx(); i < a->count; i += step) {
        struct gwm_spot at = gwm_spot(0, i, a->oc, a->win.oh, a->win.ow);
        gwm_set(&y, i, gwm_activate(&a->act, gwm_deconv_sum(a, &x, &at) + a->bias[at.c]));
    }
}

#endif
