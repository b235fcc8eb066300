/* SPDX-License-Identifier: Apache-2.0 */
/* Convolution kernels: tiles of a matrix product, in four sizes; the sum of split ones; the direct one. */
#ifndef GW_MODEL_KERNELS_CONV_H
#define GW_MODEL_KERNELS_CONV_H

#include "src/model/kernels/device.h"

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
#include "src/model/kernels/conv_tile.h"

#define CONV_NAME gwm_conv_32x128
#define CONV_M    32
#define CONV_N    128
#define CONV_TM   4
#define CONV_TN   8
#include "src/model/kernels/conv_tile.h"

#define CONV_NAME gwm_conv_16x128
#define CONV_M    16
#define CONV_N    128
#define CONV_TM   4
#define CONV_TN   4
#include "src/model/kernels/conv_tile.h"

#define CONV_NAME gwm_conv_64x32
#define CONV_M    64
#define CONV_N    32
#define CONV_TM   4
#define CONV_TN   4
#include "src/model/kernels/conv_tile.h"

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

#endif
