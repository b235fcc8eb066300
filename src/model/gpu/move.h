/* SPDX-License-Identifier: Apache-2.0 */
/* Nodes that only put elements elsewhere. */
#ifndef GW_MODEL_GPU_MOVE_H
#define GW_MODEL_GPU_MOVE_H

#include "src/model/gpu/gpu.h"

int gwm_gpu_move(struct gwm_gpu *p, const struct gwm_node *n);
int gwm_gpu_concat(struct gwm_gpu *p, const struct gwm_node *n);

#endif
