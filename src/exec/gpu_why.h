/* SPDX-License-Identifier: Apache-2.0 */
/* Why a GPU, or a part of it, cannot be used, in words that name what mends it. No CUDA is needed to say so:
 * tests do. */
#ifndef GW_EXEC_GPU_WHY_H
#define GW_EXEC_GPU_WHY_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Of cudaError_t, as its header numbers them. */
enum { GW_CUDA_OLD_DRIVER = 35, GW_CUDA_NO_DEVICE = 100, GW_CUDA_NOT_PERMITTED = 800 };

/* CUDA does not start. driver, runtime: their versions as 1000 * major + 10 * minor, driver 0: there is none.
 */
void gw_gpu_why_none(int err, const char *name, int driver, int runtime, char *why, size_t size);
void gw_gpu_why_old(int device, int major, int minor, char *why, size_t size);
/* A device's registers cannot be mapped into the GPU: records it for gw_last_error() and returns -EPERM. */
int gw_gpu_why_io(unsigned device);

#ifdef __cplusplus
}
#endif
#endif
