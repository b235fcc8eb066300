/* SPDX-License-Identifier: Apache-2.0 */
/* Runs of a plan. */
#ifndef GW_MODEL_GPU_RUN_H
#define GW_MODEL_GPU_RUN_H

#include <gpuwire/model.h>

struct gwm_gpu;

int gwm_gpu_run(struct gwm_gpu *p, const void *const in[], void *const out[]);
/* The addresses are in[] and out[], or, when io is given, what *io says when the kernels run. */
int gwm_gpu_enqueue(struct gwm_gpu *p, void *stream, const void *const in[], void *const out[],
                    const struct gw_plan_io *io);

#endif
