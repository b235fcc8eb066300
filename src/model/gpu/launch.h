/* SPDX-License-Identifier: Apache-2.0 */
/* The buffers and launches that a plan is made of: how they are added, and taken back. */
#ifndef GW_MODEL_GPU_LAUNCH_H
#define GW_MODEL_GPU_LAUNCH_H

#include "src/model/gpu/gpu.h"

/* A buffer in the arena; or one of constants: data that outlives the plan, or malloc'ed data that is handed
 * over (NULL: no memory). The number, -ENOMEM or -E2BIG. */
int gwm_gpu_scratch(struct gwm_gpu *p, size_t bytes, uint32_t type);
int gwm_gpu_static(struct gwm_gpu *p, const void *data, size_t bytes, uint32_t type);
int gwm_gpu_take(struct gwm_gpu *p, void *data, size_t bytes, uint32_t type);
/* One that stands for an input or output of the model. */
int gwm_gpu_outside(struct gwm_gpu *p, enum gwm_mem mem, int index, uint32_t type);

/* A launch with a copy of its arguments, whose addresses are named next; or a call, which is handed over. */
int gwm_gpu_launch(struct gwm_gpu *p, const struct gw_kernel *kernel, uint32_t grid, uint32_t block,
                   const void *args);
int gwm_gpu_call(struct gwm_gpu *p, struct gwm_call *call);

/*
 * The launch made last has buffer `buf` at offset `at` of its arguments: a struct gwm_ref, or a plain address
 * (of a call: number `at`). A plain address cannot be an input or output of the model. Negative buffers are
 * passed on as errors.
 */
int gwm_gpu_ref(struct gwm_gpu *p, size_t at, int buf);
int gwm_gpu_fix(struct gwm_gpu *p, size_t at, int buf);

/* Forgets the launches and buffers made since there were these numbers of them. */
void gwm_gpu_back(struct gwm_gpu *p, int nlaunch, int nbuf);
/* Frees the launches, and what the buffers own. */
void gwm_gpu_drop(struct gwm_gpu *p);

#endif
