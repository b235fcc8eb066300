/* SPDX-License-Identifier: Apache-2.0 */
/* Matrices where they lie: with strides, in the memory of the value that they were made of. */
#ifndef GW_MODEL_GPU_STRIDED_H
#define GW_MODEL_GPU_STRIDED_H

#include "src/model/gpu/gpu.h"

/* Matrices in a root's C order: their number, rows and columns; with strides, and a factor. Attention has the
 * same number of these again, last. */
struct gwm_strided {
    int root;
    int32_t n[4], stride[4], start;
    float scale;
};

/* The memory that a product reads and writes. */
struct gwm_product {
    struct gwm_strided a, b, y;
};

/* Is it a node whose result others may read where it comes from? */
bool gwm_gpu_put_off(const struct gwm_gpu *p, const struct gwm_node *n);
/* Is it a multiplication of all elements by one number? */
bool gwm_gpu_factor(const struct gwm_node *n);
/* Follows matrices back through such nodes, to where they last fit: NULL, cuBLASLt. */
void gwm_gpu_trace(const struct gwm_gpu *p, struct gwm_strided *s, bool (*fits)(const struct gwm_strided *));
/* Follows a result forward through a move of `count` elements; false when it cannot be written there. */
bool gwm_gpu_trace_out(const struct gwm_node *move, int32_t count, struct gwm_strided *y);

#endif
