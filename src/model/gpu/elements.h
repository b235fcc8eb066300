/* SPDX-License-Identifier: Apache-2.0 */
/* Launches that walk over elements: functions and moves. */
#ifndef GW_MODEL_GPU_ELEMENTS_H
#define GW_MODEL_GPU_ELEMENTS_H

#include "src/model/gpu/gpu.h"

/* A kernel that walks over `count` elements. */
int gwm_gpu_over(struct gwm_gpu *p, const struct gw_kernel *kernel, int32_t count, const void *args);
/* Threads for kernels that take eight elements at a time. */
int32_t gwm_gpu_eights(int32_t count);

/* An activation over a buffer, in its place. */
int gwm_gpu_activate(struct gwm_gpu *p, const struct gwm_act *act, int buf, int32_t count);

/* A move from one buffer to another. Negative buffers are passed on as errors. */
int gwm_gpu_move_one(struct gwm_gpu *p, const struct gwm_move *m, int x, int y);

#endif
