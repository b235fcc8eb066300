/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the .cu files of exec/ and loop/. */
#ifndef GW_EXEC_GPU_H
#define GW_EXEC_GPU_H

#include <cuda_runtime.h>

#include "src/exec/impl.h"

struct gw_gpu_exec {
    struct gw_exec base;
    /* does not synchronise with the default stream, which a resident kernel would block */
    cudaStream_t launches;
    cudaStream_t copies; /* so that a copy does not wait for kernels */
};

/* Records what CUDA says about a failed call and returns the errno value that fits; 0 for cudaSuccess. CUDA's
 * own record of the error is cleared. */
extern "C" int gw_gpu_error(cudaError_t error, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Makes the executor's device the calling thread's. */
int gw_gpu_use(struct gw_exec *exec);

int gw_gpu_mem_alloc(struct gw_exec *exec, struct gw_mem *mem);
void gw_gpu_mem_free(struct gw_mem *mem);
int gw_gpu_mem_register(struct gw_exec *exec, struct gw_mem *mem, uint32_t flags);
void gw_gpu_mem_unregister(struct gw_mem *mem);
int gw_gpu_copy_in(struct gw_exec *exec, void *dev, const void *host, size_t size);
int gw_gpu_copy_out(struct gw_exec *exec, void *host, const void *dev, size_t size);

#endif
