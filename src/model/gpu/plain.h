/* SPDX-License-Identifier: Apache-2.0 */
/* Nodes that are one launch in C order. */
#ifndef GW_MODEL_GPU_PLAIN_H
#define GW_MODEL_GPU_PLAIN_H

#include "src/model/gpu/gpu.h"

int gwm_gpu_plain(struct gwm_gpu *p, const struct gwm_node *n);

#endif
