/* SPDX-License-Identifier: Apache-2.0 */
/* Convolutions. */
#ifndef GW_MODEL_GPU_CONV_H
#define GW_MODEL_GPU_CONV_H

#include "src/model/gpu/gpu.h"
#include "src/model/gpu/store.h"

int gwm_gpu_conv(struct gwm_gpu *p, const struct gwm_node *n, const struct gwm_store *to);

#endif
