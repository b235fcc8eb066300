/* SPDX-License-Identifier: Apache-2.0 */
/* Another process's memory on a GPU that this process uses: mapped by its cudaIpcMemHandle, and copied from
 * and to host memory. The CUDA driver is the one that the process has loaded. */
#ifndef GW_SERVER_REQUESTS_CUDA_H
#define GW_SERVER_REQUESTS_CUDA_H

#include <stdbool.h>
#include <stdint.h>

#include "src/server/requests/error.h"

#define GW_CUDA_HANDLE 64u /* bytes of a cudaIpcMemHandle */

struct gw_cuda_memory;

/* Maps the allocation that the handle names, which has `bytes` at least. Nothing is mapped or unmapped beside
 * a resident kernel: see gw_control_paused. 0 or -1 with *error; GW_INFER_UNSUPPORTED: this process uses no
 * such GPU. */
int gw_cuda_map(const uint8_t handle[GW_CUDA_HANDLE], uint64_t device, uint64_t bytes,
                struct gw_cuda_memory **out, struct gw_infer_error *error);
/* NULL is allowed. */
void gw_cuda_unmap(struct gw_cuda_memory *m);

/* The range lies inside. One thread at a time for each memory. 0 or -EIO. */
int gw_cuda_read(struct gw_cuda_memory *m, uint64_t offset, uint64_t bytes, void *to);
int gw_cuda_write(struct gw_cuda_memory *m, uint64_t offset, uint64_t bytes, const void *from);

/* Does the driver reach those bytes from the memory's GPU, without help of the host? They lie on that GPU, or
 * in pinned memory. Any thread. */
bool gw_cuda_reaches(const struct gw_cuda_memory *m, const void *at, uint64_t bytes);
/* Copies from the memory to such bytes (out 1), or from them into the memory. One thread at a time for each
 * memory. 0 or -EIO. */
int gw_cuda_copy(struct gw_cuda_memory *m, uint64_t offset, uint64_t bytes, void *other, int out);

#endif
