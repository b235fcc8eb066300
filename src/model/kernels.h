/* SPDX-License-Identifier: Apache-2.0 */
/* What gpu.c hands to the kernels. Memory is named by address, or by where the address is found when the
 * kernel runs. */
#ifndef GW_MODEL_KERNELS_H
#define GW_MODEL_KERNELS_H

#include <gpuwire/kernel.h>

#include "src/model/activate.h"
#include "src/model/graph.h"

struct gwm_ref {
    float *at;
    float *const *slot; /* not NULL: the address lies there */
};

/* ---- convolution as a matrix product: weights (channels × taps) times pixels (taps × positions) ---- */

#define GWM_CONV_THREADS 128
#define GWM_CONV_STEP    8 /* taps at a time; the tables below are padded to it */

/* One tap of the kernel: a channel, a row and a column. */
struct gwm_tap {
    int32_t offset;   /* in the input, from the window's first element */
    int32_t row, col; /* from there; row is GWM_NO_TAP in the padding of the table */
    int32_t pad;
} __attribute__((aligned(16))); /* read at once */
#define GWM_NO_TAP (1 << 30)

struct gwm_conv_args {
    struct gwm_ref x, y;
    struct gwm_ref add;        /* added before the activation; laid out as y without its blocks */
    const float *weight;       /* groups × taps × mpad: a tap's weights for all channels lie together */
    const float *bias;         /* oc */
    const struct gwm_tap *tap; /* taps */
    float *partial;            /* splits × n × oc × positions, when splits > 1 */
    struct gwm_act act;
    int32_t n, c, h, w, oh, ow, oc, group;
    int32_t taps, mpad; /* both padded */
    int32_t sh, sw, top, left;
    int32_t tiles_m, tiles_n;       /* of a group's channels, of positions */
    int32_t splits, taps_per_split; /* the sum over taps cut in pieces, for small outputs */
    int32_t block;                  /* depth-to-space by this much while storing; 1 is none */
    int32_t block_first;            /* channel = (row in block, column, plane) and not (plane, row, column) */
};

/* Few output channels per group (depthwise): one thread per output element, weights as in the file. */
struct gwm_direct_args {
    struct gwm_ref x, y;
    const float *weight, *bias;
    struct gwm_act act;
    struct gwm_window win;
    int32_t oc, group, count;
};

struct gwm_finish_args { /* adds up the pieces of a convolution */
    struct gwm_conv_args conv;
    int32_t count;
};

struct gwm_pool_args {
    struct gwm_ref x, y;
    struct gwm_window win;
    int32_t average, count_pads, count;
};

struct gwm_gemm_args { /* one block per element of y */
    struct gwm_ref a, b, y;
    const float *bias; /* or NULL */
    struct gwm_act act;
    float alpha;
    int32_t m, n, k, am, ak, bk, bn; /* strides of a and b along those axes */
};

struct gwm_unary_args {
    struct gwm_ref x, y;
    struct gwm_act act;
    int32_t count;
};

struct gwm_fill_args {
    struct gwm_ref y;
    float value;
    int32_t count;
};

struct gwm_binary_args {
    struct gwm_ref a, b, y;
    struct gwm_broadcast bc;
    struct gwm_act act;
    int32_t kind, count;
};

struct gwm_move_args {
    struct gwm_ref x, y;
    struct gwm_move move;
    int32_t count;
};

struct gwm_softmax_args { /* one block per row */
    struct gwm_ref x, y;
    struct gwm_softmax s;
};

GW_KERNEL_DECLARE(gwm_conv_64x128);
GW_KERNEL_DECLARE(gwm_conv_32x128);
GW_KERNEL_DECLARE(gwm_conv_16x128);
GW_KERNEL_DECLARE(gwm_conv_64x32);
GW_KERNEL_DECLARE(gwm_conv_finish);
GW_KERNEL_DECLARE(gwm_conv_direct);
GW_KERNEL_DECLARE(gwm_pool_kernel);
GW_KERNEL_DECLARE(gwm_gemm_kernel);
GW_KERNEL_DECLARE(gwm_unary_kernel);
GW_KERNEL_DECLARE(gwm_fill_kernel);
GW_KERNEL_DECLARE(gwm_binary_kernel);
GW_KERNEL_DECLARE(gwm_move_kernel);
GW_KERNEL_DECLARE(gwm_softmax_kernel);

/* ---- for kernels ---- */

#ifdef __CUDACC__
#define GWM_UNROLL _Pragma("unroll")
#else
#define GWM_UNROLL
#endif

/* Not through the read-only cache: an earlier kernel of the same graph may have written the slot. */
GW_DEV float *gwm_at(const struct gwm_ref *r)
{
    return r->slot ? *r->slot : r->at;
}

#endif
