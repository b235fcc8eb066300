/* SPDX-License-Identifier: Apache-2.0 */
/* The work of each kind of node, in numbers: sizes, strides, weights. Kernels get these structs as they are.
 */
#ifndef GW_MODEL_GRAPH_WORK_H
#define GW_MODEL_GRAPH_WORK_H

#include <stdbool.h>
#include <stdint.h>

#include <gpuwire/model.h>

#include "src/model/graph/act.h"

/* Copies a box of elements between two strided layouts: transposes, slices, pieces of a concatenation. A
 * stride of the source may be 0 (repeats) or negative (backwards). */
struct gwm_move {
    int32_t rank;
    int32_t dims[GW_MODEL_MAX_RANK];                        /* of the box, in the destination's order */
    int32_t from[GW_MODEL_MAX_RANK], to[GW_MODEL_MAX_RANK]; /* strides in elements */
    int32_t offset;                                         /* of the box in the destination */
    int32_t start;                                          /* of the box in the source */
};

/* Element by element over two inputs, each with stride 0 where it is repeated. */
struct gwm_broadcast {
    int32_t rank;
    int32_t dims[GW_MODEL_MAX_RANK];
    int32_t a[GW_MODEL_MAX_RANK], b[GW_MODEL_MAX_RANK];
};

/* A window that slides over height and width (1-D: height 1). */
struct gwm_window {
    int32_t n, c, h, w, oh, ow;       /* batch, input channels, sizes in and out */
    int32_t kh, kw, sh, sw, dh, dw;   /* kernel, stride, dilation */
    int32_t top, left, bottom, right; /* padding */
};

struct gwm_conv {
    struct gwm_window win;
    int32_t oc, group;
    const float *weight; /* oc × c/group × kh × kw */
    const float *bias;   /* oc, or NULL */
};

struct gwm_pool {
    struct gwm_window win;
    bool average, count_pads;
};

struct gwm_gemm { /* y[m][n] = alpha Σ a[m][k] b[k][n] + bias[n] */
    int32_t m, n, k;
    bool ta, tb;       /* a is stored k × m; b is stored n × k */
    const float *bias; /* n, or NULL */
    float alpha;
    /* Several products, whose results lie one after the other. Batch says where each one's matrices are: its
     * strides count elements of a and b. */
    int32_t products;
    struct gwm_broadcast batch;
};

struct gwm_softmax {
    int32_t outer, n, inner;
    bool log; /* the logarithm of it */
};

struct gwm_reduce { /* outer × n × inner becomes outer × inner */
    enum gwm_reduce_kind kind;
    int32_t outer, n, inner;
    bool last; /* ARGMAX, ARGMIN: of equal elements the last one */
};

/* y = (x - mean) / √(variance + epsilon) scale[c] + bias[c], with statistics over each run of n elements (the
 * input is `outer` such runs). Element i of the tensor has c = i / inner % channels. Inputs: x, scale,
 * bias. */
struct gwm_norm {
    int32_t outer, n, inner, channels;
    float epsilon;
    bool rms; /* no mean: x / √(mean of squares + epsilon) */
};

/* outer × n × inner becomes outer × count × inner: element [o][k][i] is [o][index[k]][i]. Negative indices
 * count from the end; others outside are taken as the nearest inside. Inputs: data, indices (I64). */
struct gwm_gather {
    int32_t outer, n, inner, count;
};

/* outer × n × inner becomes outer × count × inner: element [o][k][i] is the sum over t of weight[k][t] times
 * [o][index[k][t]][i]. An index of -1 adds 0. For Resize, and for padding that mirrors. */
struct gwm_interp {
    int32_t outer, n, inner, count, taps;
    const int32_t *index; /* count × taps */
    const float *weight;  /* count × taps */
};

/* outer × n × inner: sums of all elements so far along n. */
struct gwm_cumsum {
    int32_t outer, n, inner;
    bool exclusive, reverse;
};

/* Element by element over three inputs (condition, then, else), with stride 0 where one is repeated. */
struct gwm_select {
    int32_t rank;
    int32_t dims[GW_MODEL_MAX_RANK];
    int32_t stride[3][GW_MODEL_MAX_RANK];
};

#endif
