/* SPDX-License-Identifier: Apache-2.0 */
/* How a model runs, for the CPU thread that serves it: on a GPU, or in host memory by a stand-in that
 * copies. */
#ifndef MODES_DEVICE_H
#define MODES_DEVICE_H

#include "bench/modes/modes.h"

#ifdef __cplusplus
extern "C" {
#endif

struct modes_device;

struct modes_device_opts {
    uint32_t kind, timed, gpu;
    void *graph;    /* a cudaGraph_t */
    void *in, *out; /* where it works */
    uint64_t in_bytes, out_bytes;
};

/* One request: its slot and the answer's, header and tensor. For MODES_COPY `run` moves the tensors alone;
 * else it makes the answer's header as well, of the request's and of the times. */
struct modes_work {
    const void *request;
    void *reply;
    uint64_t arrived, started;
};

struct modes_device_ops {
    int (*create)(const struct modes_device_opts *opts, struct modes_device **out);
    int (*run)(struct modes_device *d, const struct modes_work *work); /* until the answer can be sent */
    void (*rest)(struct modes_device *d); /* ends what is queued ahead, before memory is freed */
    void (*times)(const struct modes_device *d, struct modes_times *times);
    void (*destroy)(struct modes_device *d);
};

extern const struct modes_device_ops modes_on_host;
extern const struct modes_device_ops modes_on_gpu; /* in device.cu; without nvcc in device_none.c */

#ifdef __cplusplus
}
#endif
#endif
