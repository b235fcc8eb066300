/* SPDX-License-Identifier: Apache-2.0 */
/* The launches of a plan go into a stream, or to the executor, with the addresses of this run. */
#ifndef GW_MODEL_GPU_ENQUEUE_H
#define GW_MODEL_GPU_ENQUEUE_H

#include "src/model/gpu/gpu.h"

#define GWM_SYNC_NS 30000000000u /* a model that runs longer than that hangs */

/* Where buffers lie in a run: at[buffer]; of the model's inputs and outputs, unless `in` is NULL, in[] and
 * out[]; or what *io says when the kernels run. */
struct gwm_where {
    char *const *at;
    const void *const *in;
    void *const *out;
    const struct gw_plan_io *io;
};

/* Launches from number `first` on: into a stream of the GPU, or (NULL) on the executor. */
int gwm_gpu_enqueue_from(struct gwm_gpu *p, int first, const struct gwm_where *where, void *stream);
/* A launch's arguments with the addresses filled in. Not of a call. */
void gwm_gpu_args(const struct gwm_gpu *p, const struct gwm_launch *l, const struct gwm_where *w, void *args);
/* The same on gwm_gpu_run's own tensors. */
int gwm_gpu_enqueue_here(struct gwm_gpu *p, int first, void *stream);
/* The same, all of them, and waits for the end. */
int gwm_gpu_run_here(struct gwm_gpu *p);

#endif
