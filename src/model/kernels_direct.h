/* SPDX-License-Identifier: Apache-2.0 */
/* Convolutions with a thread for each result, in any layout and element type. */
#ifndef GW_MODEL_KERNELS_DIRECT_H
#define GW_MODEL_KERNELS_DIRECT_H

#include "src/model/kernels.h"

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
                sum.x += weight->x * v.x, sum.y += weight->y * v.y;
                sum.z += weight->z * v.z, sum.w += weight->w * v.w;
            }
        }
        if (add.p) {
            struct gwm_f4 v = gwm_get4(&add, 4 * i);
            sum.x += v.x, sum.y += v.y, sum.z += v.z, sum.w += v.w;
        }
        sum.x = gwm_activate(&a->act, sum.x), sum.y = gwm_activate(&a->act, sum.y);
        sum.z = gwm_activate(&a->act, sum.z), sum.w = gwm_activate(&a->act, sum.w);
        gwm_set4(&y, 4 * i, &sum);
    }
}

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
