/* SPDX-License-Identifier: Apache-2.0 */
/* How busy the machine's GPUs are, as NVIDIA's management library (NVML) tells. It comes with the driver, and
 * is loaded when it is first asked. */
#ifndef GW_SERVER_LIFECYCLE_GPU_USE_H
#define GW_SERVER_LIFECYCLE_GPU_USE_H

#include <stdint.h>

#define GW_GPU_USE_MAX 16u

struct gw_gpu_use {
    char uuid[96];
    double utilization;           /* of the last moments, 0 to 1: a loop that polls counts as busy */
    uint64_t memory, memory_used; /* bytes */
    double watts;
};

/* Fills in at most n GPUs; returns how many. 0 without the library. A GPU that does not tell a value has 0
 * there. Any thread. */
uint32_t gw_gpu_use_read(struct gw_gpu_use *out, uint32_t n);

#endif
