/* SPDX-License-Identifier: Apache-2.0 */
/* Device memory of a plan: constants, one arena, and room for the inputs and outputs of gwm_gpu_run. */
#ifndef GW_MODEL_GPU_MEMORY_H
#define GW_MODEL_GPU_MEMORY_H

#include "src/model/gpu/gpu.h"

/* Places the buffers, takes the memory and copies the constants to it. */
int gwm_gpu_memory(struct gwm_gpu *p);
void gwm_gpu_memory_free(struct gwm_gpu *p);

#endif
