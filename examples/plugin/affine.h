/* SPDX-License-Identifier: Apache-2.0 */
/* The GPU's side of the plug-in: affine.cu, where there is nvcc. */
#ifndef AFFINE_H
#define AFFINE_H

#include <stdint.h>

#include <gpuwire/model.h>

struct affine {
    uint32_t elements;
    float scale, shift;
};

#ifdef __cplusplus
extern "C" {
#endif
/* Loads the kernels: nothing may be loaded later, beside a resident kernel. 0; -ENOTSUP: there are none. */
int affine_prepare(void);
/* On host memory. */
int affine_run(const struct affine *a, const float *x, float *y);
/* Into a stream (a cudaStream_t): at once, or at the addresses that *io has when the kernel runs. */
int affine_enqueue(const struct affine *a, void *stream, const void *x, void *y);
int affine_enqueue_indirect(const struct affine *a, void *stream, const struct gw_plan_io *io);
#ifdef __cplusplus
}
#endif

#endif
