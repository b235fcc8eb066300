/* SPDX-License-Identifier: Apache-2.0 */
/* The kernels, and the arguments that a plan gives them. Memory is named by address, or by where the
 * address is found when the kernel runs. */
#ifndef GW_MODEL_KERNELS_ARGS_H
#define GW_MODEL_KERNELS_ARGS_H

#include <stdint.h>

#include <gpuwire/kernel.h>

#include "src/model/graph/work.h"

struct gwm_ref {
    void *at;
    void *const *slot; /* not NULL: the address lies there */
    uint32_t type;     /* enum gw_dtype of the elements */
    uint32_t pad;
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
    struct gwm_ref x, y;       /* fp32 in C order, as is add */
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

/* One thread per output element, any layout and element type. */
struct gwm_direct_args {
    struct gwm_ref x, y, add; /* add may be NULL; laid out as y */
    const float *weight;      /* as in the file; of the depthwise kernel: taps × channels */
    const float *bias;        /* oc */
    struct gwm_act act;
    struct gwm_window win;
    int32_t oc, group, count;
    int32_t last;  /* channels lie together: N H W C */
    int32_t share; /* warps that share the rows of a filter (depthwise kernels that compute neighbours) */
};

struct gwm_finish_args { /* adds up the pieces of a convolution */
    struct gwm_conv_args conv;
    int32_t count;
};

struct gwm_pool_args {
    struct gwm_ref x, y;
    struct gwm_window win;
    int32_t average, count_pads, count;
    int32_t last; /* as above */
};

struct gwm_mean_args { /* of whole planes: a block per GWM_MEAN_LAST channels, or per channel */
    struct gwm_ref x, y;
    int32_t c, size, last; /* size of a plane */
};
#define GWM_MEAN_LAST  8
#define GWM_MEAN_AHEAD 8 /* elements that a thread has asked for at a time */
#define GWM_RUN        4 /* neighbours of a row that a depthwise kernel computes at a time */
#define GWM_RUNS_WARPS 8 /* of its blocks, at most */
#define GWM_ROW_MAX    512
#define GWM_NORM_MAX   32
#define GWM_SHORT_MAX  1024 /* elements of a run that a warp normalises */
#define GWM_BLOCK_MAX  512  /* threads of kernels that add up over a block */

struct gwm_gemm_args {           /* one block per element of y */
    struct gwm_ref a, b, y, add; /* add may be NULL; laid out as y */
    const float *bias;           /* or NULL */
    struct gwm_act act;
    struct gwm_broadcast batch;
    int32_t a_start, b_start, y_step, ym; /* y: from one product, and one row, to the next */
    float alpha;
    int32_t m, n, k, am, ak, bk, bn; /* strides of a and b along those axes */
    int32_t products;
};
#define GWM_THIN_ROWS  4  /* that the thin kernel computes at a time */
#define GWM_THIN_WARPS 16 /* of a block, at most */

struct gwm_unary_args {
    struct gwm_ref x, y;
    struct gwm_act act;
    int32_t count;
};

struct gwm_fill_args {
    struct gwm_ref y;
    int64_t i; /* the number, where y holds integers */
    float f;   /* and where it holds floats */
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

/* Where the rows of a head lie: strides in elements. */
struct gwm_lines {
    int32_t start, batch, head, row;
};

struct gwm_attention_args { /* q, k and v are fp16, or fp32 that is rounded to TF32 */
    struct gwm_ref q, k, v, y;
    struct gwm_lines q_at, k_at, v_at, y_at;
    float scale, by; /* of the scores, of the result */
    int32_t heads, queries, keys;
    int32_t rows; /* queries of a block: 16 for each of its warps */
};

struct gwm_norm_args { /* one block per run */
    struct gwm_ref x, scale, bias, y;
    struct gwm_norm s;
    struct gwm_act act;
};

/* How many lanes of a warp normalise a run of n elements. */
GW_FN int32_t gwm_norm_lanes(int32_t n)
{
    return n <= GWM_SHORT_MAX / 4 ? 8 : 32;
}

struct gwm_reduce_args {
    struct gwm_ref x, y;
    struct gwm_reduce r;
};

struct gwm_cumsum_args {
    struct gwm_ref x, y;
    struct gwm_cumsum s;
};

struct gwm_gather_args {
    struct gwm_ref x, index, y;
    struct gwm_gather s;
    int32_t count;
};

struct gwm_interp_args {
    struct gwm_ref x, y;
    const int32_t *index;
    const float *weight;
    int32_t n, inner, to, taps, count;
};

struct gwm_select_args {
    struct gwm_ref c, a, b, y;
    struct gwm_select s;
    int32_t count;
};

struct gwm_convert_args {
    struct gwm_ref x, y;
    uint32_t to; /* enum gw_dtype: the values, not the memory */
    int32_t count;
    uint32_t positive; /* 1: integers of 64 bits are uint64 */
};

GW_KERNEL_DECLARE(gwm_conv_64x128);
GW_KERNEL_DECLARE(gwm_conv_32x128);
GW_KERNEL_DECLARE(gwm_conv_16x128);
GW_KERNEL_DECLARE(gwm_conv_64x32);
GW_KERNEL_DECLARE(gwm_conv_finish);
GW_KERNEL_DECLARE(gwm_conv_direct);
GW_KERNEL_DECLARE(gwm_conv_depthwise);
GW_KERNEL_DECLARE(gwm_conv_depthwise_3_1);
GW_KERNEL_DECLARE(gwm_conv_depthwise_3_2);
GW_KERNEL_DECLARE(gwm_conv_depthwise_5_1);
GW_KERNEL_DECLARE(gwm_conv_depthwise_5_2);
GW_KERNEL_DECLARE(gwm_conv_depthwise_7_1);
GW_KERNEL_DECLARE(gwm_pool_kernel);
GW_KERNEL_DECLARE(gwm_mean_kernel);
GW_KERNEL_DECLARE(gwm_gemm_kernel);
GW_KERNEL_DECLARE(gwm_thin_kernel);
GW_KERNEL_DECLARE(gwm_unary_kernel);
GW_KERNEL_DECLARE(gwm_fill_kernel);
GW_KERNEL_DECLARE(gwm_binary_kernel);
GW_KERNEL_DECLARE(gwm_binary8_kernel);
GW_KERNEL_DECLARE(gwm_move_kernel);
GW_KERNEL_DECLARE(gwm_move8_kernel);
GW_KERNEL_DECLARE(gwm_softmax_kernel);
GW_KERNEL_DECLARE(gwm_softmax_row_kernel);
GW_KERNEL_DECLARE(gwm_attention_32);
GW_KERNEL_DECLARE(gwm_attention_64);
GW_KERNEL_DECLARE(gwm_attention_80);
GW_KERNEL_DECLARE(gwm_attention_96);
GW_KERNEL_DECLARE(gwm_attention_128);
GW_KERNEL_DECLARE(gwm_attention_tf32_32);
GW_KERNEL_DECLARE(gwm_attention_tf32_64);
GW_KERNEL_DECLARE(gwm_attention_tf32_80);
GW_KERNEL_DECLARE(gwm_attention_tf32_96);
GW_KERNEL_DECLARE(gwm_attention_tf32_128);
GW_KERNEL_DECLARE(gwm_deconv_kernel);
GW_KERNEL_DECLARE(gwm_norm_kernel);
GW_KERNEL_DECLARE(gwm_norm_row_kernel);
GW_KERNEL_DECLARE(gwm_norm_short_kernel);
GW_KERNEL_DECLARE(gwm_reduce_kernel);
GW_KERNEL_DECLARE(gwm_reduce_thread_kernel);
GW_KERNEL_DECLARE(gwm_cumsum_kernel);
GW_KERNEL_DECLARE(gwm_gather_kernel);
GW_KERNEL_DECLARE(gwm_interp_kernel);
GW_KERNEL_DECLARE(gwm_select_kernel);
GW_KERNEL_DECLARE(gwm_binary_int_kernel);
GW_KERNEL_DECLARE(gwm_unary_int_kernel);
GW_KERNEL_DECLARE(gwm_convert_kernel);

#endif
