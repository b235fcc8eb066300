/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The ways of serving that gpuwire's own is compared with. All of them use its sessions, its NIC and its
 * client. In each a CPU thread waits for requests, has the GPU run the model, and posts the answers:
 *
 *   MODES_COPY    Slots lie in pinned host memory. The thread copies the input to the GPU, launches the
 *                 model's graph, copies the output back, waits for all of it, and posts the answer.
 *   MODES_DIRECT  Slots lie in GPU memory. The thread launches one graph. It takes the input from the slot,
 *                 runs the model, and writes output and header into the answer's slot. A word in host memory
 *                 tells the thread.
 *   MODES_QUEUED As MODES_DIRECT, but the launch is already in the stream, after a wait for a word in host
 *   memory. The thread writes that word, and queues the next launch while the model runs.
 *
 * The thread polls and never sleeps. One request is in work at a time. Clients are trusted: bench programs
 * alone use this.
 *
 * bench/modes/server.py calls these functions from Python, in the process that has captured the model. They
 * return 0 or a negative errno; modes_error() has the reason. One thread.
 */
#ifndef MODES_H
#define MODES_H

#include <gpuwire/serve.h>

#ifdef __cplusplus
extern "C" {
#endif

enum modes_kind { MODES_COPY, MODES_DIRECT, MODES_QUEUED };

struct modes_opts {
    uint32_t size; /* sizeof(struct modes_opts) */
    uint32_t kind; /* enum modes_kind */
    /* 1: no GPU is used; slots lie in host memory, and the model copies its input to its output. */
    uint32_t on_cpu;
    uint32_t gpu; /* which, by its CUDA number */
    uint32_t sessions, slots;
    uint32_t port; /* of HTTP; 0: any free one */
    /* MODES_COPY: CUDA events tell the parts of each request apart, which costs some microseconds. */
    uint32_t timed;
    const char *name; /* of the model */
};

struct modes;

/* Serves a model of one input, one output and one graph, which has one row or no batch. on_cpu: the graph is
 * not looked at. */
GW_API int modes_start(const struct modes_opts *opts, const struct gw_serving_captured *model,
                       struct modes **out);
/* The port that HTTP listens on. */
GW_API uint16_t modes_port(const struct modes *m);

/* With `timed`: sums over all requests, in nanoseconds of the GPU's time. */
struct modes_times {
    uint64_t requests, in_ns, run_ns, out_ns;
};
GW_API void modes_query(const struct modes *m, struct modes_times *times);

/* Ends it. -EBUSY: a request is still in work, and nothing was freed. */
GW_API int modes_stop(struct modes *m);

GW_API const char *modes_error(void);

#ifdef __cplusplus
}
#endif
#endif
