/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cuda.h: what the CUDA driver says of memory and of GPUs. libcuda is never linked, because it comes with the
 * GPU's driver. Any thread may call, whether or not a context is current in it. None is changed.
 */
#ifndef GW_VERBS_CUDA_H
#define GW_VERBS_CUDA_H

#include <stdbool.h>
#include <stddef.h>

struct gw_device;

/* Does addr lie in a GPU's own memory? */
bool gw_cuda_in_gpu(const struct gw_device *dev, const void *addr);
/* Is it managed memory (cudaMallocManaged), which moves between host and GPU? */
bool gw_cuda_managed(const struct gw_device *dev, const void *addr);
/* The ordinal of the GPU that addr is memory of; -1: none. */
int gw_cuda_gpu_of(const void *addr);

enum { GW_CUDA_NO_EXPORT = -1 };
/* *fd: a dma-buf of these whole pages. 0, an error of CUDA's, or GW_CUDA_NO_EXPORT: the driver is too old. */
int gw_cuda_export(const void *from, size_t bytes, int *fd);

/* A NIC writes data to a GPU's memory, and then a completion elsewhere. Each of these that sees the
 * completion sees the data. */
enum gw_cuda_order {
    GW_CUDA_UNORDERED = 0,
    GW_CUDA_OWNER = 100,
    GW_CUDA_ALL = 200, /* other GPUs, too */
};
/* The GPU of that ordinal promises this. UNORDERED where that cannot be known; *why has the reason then
 * (NULL: it is not needed). */
enum gw_cuda_order gw_cuda_order(int gpu, const char **why);

#endif
