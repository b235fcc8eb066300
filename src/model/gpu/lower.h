/* SPDX-License-Identifier: Apache-2.0 */
/* A node becomes launches. */
#ifndef GW_MODEL_GPU_LOWER_H
#define GW_MODEL_GPU_LOWER_H

#include "src/model/gpu/gpu.h"

int gwm_gpu_node(struct gwm_gpu *p, const struct gwm_node *n);

#endif
