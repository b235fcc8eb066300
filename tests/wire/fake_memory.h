/* SPDX-License-Identifier: Apache-2.0 */
/* fake_memory.h: the GPUs of the driver made of host memory, with their contexts and memory, and the rights
 * to touch it. */
#ifndef TESTS_WIRE_FAKE_MEMORY_H
#define TESTS_WIRE_FAKE_MEMORY_H

#include "tests/wire/fake_cuda.h"

struct memory {
    uint64_t base;
    size_t size;
    int gpu, ctx; /* whose it is; whose context has it */
    int opened;
    int mapped; /* by cuMemMap: no context's, but let to GPUs, by bits */
    unsigned let;
    uint64_t range; /* which was reserved, and its size */
    size_t range_size;
};

/* The allocation that p lies in; of size 0: no memory of a GPU. */
struct memory fake_memory(gw_cu_ptr p);
int fake_gpu_of(gw_cu_ctx ctx);
void fake_memory_reset(void);
void fake_uuid(int gpu, uint8_t uuid[16]);
/* May that GPU's context touch memory of its own, or that it opened? */
int fake_memory_is_of(const struct memory *m, int gpu);

/* fake_mapped.c's. Not 0: there is too much. */
int fake_cuda_add_mapping(void *at, size_t size, int gpu, uint64_t range, size_t range_size);
void fake_cuda_let_in(void *at, int gpu);

/* The driver's calls. */
int fake_attributes(unsigned n, int *attributes, void **data, gw_cu_ptr p);
int fake_push(gw_cu_ctx ctx);
int fake_pop(gw_cu_ctx *ctx);
int fake_retain(gw_cu_ctx *ctx, gw_cu_device dev);
int fake_device_get(gw_cu_device *dev, int ordinal);
int fake_can_access_peer(int *can, gw_cu_device dev, gw_cu_device peer);
int fake_enable_peer(gw_cu_ctx peer, unsigned flags);

#endif
