/* SPDX-License-Identifier: Apache-2.0 */
/* Functions, arithmetic, pools and softmax. */
#ifndef GW_MODEL_GPU_ARITH_H
#define GW_MODEL_GPU_ARITH_H

#include "src/model/gpu/gpu.h"

int gwm_gpu_unary(struct gwm_gpu *p, const struct gwm_node *n);
int gwm_gpu_binary(struct gwm_gpu *p, const struct gwm_node *n);
int gwm_gpu_pool(struct gwm_gpu *p, const struct gwm_node *n);
int gwm_gpu_softmax(struct gwm_gpu *p, const struct gwm_node *n);

#endif
