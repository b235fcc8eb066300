/* SPDX-License-Identifier: Apache-2.0 */
/* cuda_device.h: what cuda.c and cuda_copy.c share: the state per GPU context. See cuda.h. */
#ifndef SN_MEM_CUDA_DEVICE_H
#define SN_MEM_CUDA_DEVICE_H

#include <pthread.h>

#include "softnic/mem/cuda.h"

enum sn_stage_state { SN_STAGE_FREE, SN_STAGE_FILLING, SN_STAGE_COPYING };

/* A staging buffer for writes. */
struct sn_cuda_writer {
    enum sn_stage_state state;
    struct sn_cuda_region *region;
    uint64_t addr;
    uint32_t len;
    uint64_t age; /* order of first use, to find the oldest */
    uint8_t *data;
    sn_cu_event done;
};

/* A staging buffer for reads; request 0: holds nothing. */
struct sn_cuda_reader {
    uint64_t request;
    uint64_t addr;
    uint32_t len;
    uint64_t age;
    uint8_t *data;
};

struct sn_cuda_device {
    const struct sn_cuda_api *api;
    sn_cu_ctx ctx;
    unsigned long long ctx_id; /* 0: not known */
    pthread_mutex_t lock;
    bool broken; /* the driver reported an error that it cannot recover from, or a copy never ended */
    uint64_t clock;
    sn_cu_stream in, out;
    sn_cu_event read_done;
    struct sn_cuda_writer writers[SN_CUDA_WRITERS];
    struct sn_cuda_reader readers[SN_CUDA_READERS];
    struct sn_cuda_stats stats;
};

#endif
