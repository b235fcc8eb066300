/* SPDX-License-Identifier: Apache-2.0 */
/* Convolution kernels: tiles of a matrix product, in four sizes; the sum of split ones; the direct one. */
#ifndef GW_MODEL_KERNELS_CONV_H
#define GW_MODEL_KERNELS_CONV_H

#include "src/model/kernels.h"

/* Which tile a block is. */
struct gwm_conv_place {
    int32_t tile_n, tile_m, group, n, split;
};

GW_DEV struct gwm_conv_place gwm_conv_place(const struct gwm_conv_args *a)
{
    struct gwm_conv_place p;
    int32_t b = (int32_t)gw_block_idx();

    p.tile_n = b % a->tiles_n;
    b /= a->tiles_n;
    p.tile_m = b % a->tiles_m;
    b /= a->tiles_m;
    p.group = b % a->group;
    b /= a->group;
    p.n = b % a->n;
    p.split = b / a->n;
    return p;
}

/* Where a picture's results go: into the pieces of a split sum, or through bias, addend and activation to y.
 */
struct gwm_conv_store {
    float *y, *partial;
    const float *add;
};

GW_DEV struct gwm_conv_store gwm_conv_store(const struct gwm_conv_args *a, int32_t n, int32_t split)
{
    struct gwm_conv_store to;
    int32_t size = a->oc * a->oh * a->ow;
    float *y = gwm_at(&a->y), *add = gwm_at(&a->add); /* NULL where only pieces are written */

    to.y = y ? y + n * size : y; /* a depth-to-space moves elements within their picture only */
    to.add = add ? add + n * size : add;
    to.partial = a->splits > 1 ? a->partial + (size_t)(split * a->n + n) * (size_t)size : 0;
    return to;
}

/* The whole sum of channel oc at position p. */
GW_DEV void gwm_conv_end(const struct gwm_conv_args *a, const struct gwm_conv_store *to, int32_t oc,
                         int32_t p, float sum)
{
    int32_t r = a->block, planes = a->oc / (r * r), plane, in_block, row, col, plain = oc * a->oh * a->ow + p;

    sum += a->bias[oc];
    if (to->add) sum += to->add[plain];
    sum = gwm_activate(&a->act, sum);
    if (r == 1) {
        to->y[plain] = sum;
        return;
    }
    plane = a->block_first ? oc % planes : oc / (r * r);
    in_block = a->block_first ? oc / planes : oc % (r * r);
    row = p / a->ow * r + in_block / r;
    col = p % a->ow * r + in_block % r;
    to->y[(plane * a->oh * r + row) * a->ow * r + col] = sum;
}

GW_DEV void gwm_conv_put(const struct gwm_conv_args *a, const struct gwm_conv_store *to, int32_t oc,
                         int32_t p, float sum)
{
    if (to->partial)
        to->partial[oc * a->oh * a->ow + p] = sum;
    else
        gwm_conv_end(a, to, oc, p, sum);
}

#define CONV_NAME gwm_conv_64x128
#define CONV_M    64
#define CONV_N    128
#define CONV_TM   8
#define CONV_TN   8
#include "src/model/conv_tile.h"

#define CONV_NAME gwm_conv_32x128
#define CONV_M    32
#define CONV_N    128
#define CONV_TM   4
#define CONV_TN   8
#include "src/model/conv_tile.h"

#define CONV_NAME gwm_conv_16x128
#define CONV_M    16
#define CONV_N    128
#define CONV_TM   4
#define CONV_TN   4
#include "src/model/conv_tile.h"

#define CONV_NAME gwm_conv_64x32
#define CONV_M    64
#define CONV_N    32
#define CONV_TM   4
#define CONV_TN   4
#include "src/model/conv_tile.h"

/* Adds the pieces in a fixed order, so that results do not depend on scheduling. */
GW_KERNEL(gwm_conv_finish, struct gwm_finish_args, f)
{
    const struct gwm_conv_args *a = &f->conv;
    int32_t i, s, positions = a->oh * a->ow, step = (int32_t)gw_global_dim();

    for (i = (int32_t)gw_global_idx(); i < f->count; i += step) {
        float sum = 0;
        struct gwm_conv_store to = gwm_conv_store(a, i / positions / a->oc, 0);
        for (s = 0; s < a->splits; s++) sum += a->partial[(size_t)s * (size_t)f->count + (size_t)i];
        gwm_conv_end(a, &to, i / positions % a->oc, i % positions, sum);
    }
}

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

GW_KERNEL(gwm_conv_direct, struct gwm_direct_args, a)
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
GW_KERNEL(gwm_conv_depthwise, struct gwm_direct_args, a)
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

GW_KERNEL(gwm_deconv_kernel, struct gwm_direct_args, a)
{
    int32_t i, step = (int32_t)gw_global_dim();
    struct gwm_view x = gwm_view(&a->x), y = gwm_view(&a->y);

    for (i = (int32_t)gw_global_idx(); i < a->count; i += step) {
        struct gwm_spot at = gwm_spot(0, i, a->oc, a->win.oh, a->win.ow);
        gwm_set(&y, i, gwm_activate(&a->act, gwm_deconv_sum(a, &x, &at) + a->bias[at.c]));
    }
}

#endif
