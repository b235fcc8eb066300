/* SPDX-License-Identifier: Apache-2.0 */
/* A graph becomes a plan that can run. */
#ifndef GW_MODEL_GPU_BUILD_H
#define GW_MODEL_GPU_BUILD_H

#include "src/model/gpu/gpu.h"
#include "src/model/graph/msg.h"

/* Builds the plan, in each layout of pictures where that is measured; the fastest stays. */
int gwm_gpu_build(struct gwm_gpu *p, const struct gwm_msg *msg);
/* Frees what it has made. */
void gwm_gpu_unbuild(struct gwm_gpu *p);

#endif
