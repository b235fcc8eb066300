/* SPDX-License-Identifier: Apache-2.0 */
/* Matrix products. */
#ifndef GW_MODEL_GPU_PRODUCT_H
#define GW_MODEL_GPU_PRODUCT_H

#include "src/model/gpu/gpu.h"
#include "src/model/kernels/args.h"

/* One product, whatever it belongs to. */
int gwm_gpu_gemm(struct gwm_gpu *p, const struct gwm_node *n);

/* Blocks for the thin kernel, which takes products of at most this number of rows (in a program, of any
 * number). */
#define GWM_THIN_MOST (8 * GWM_THIN_ROWS)
uint32_t gwm_thin_grid(const struct gwm_gemm_args *g);

#endif
