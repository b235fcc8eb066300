/* SPDX-License-Identifier: Apache-2.0 */
/* The numbers of Triton's statistics: what a model has done since it is served, over RDMA and every door. */
#ifndef GW_SERVER_REQUESTS_STATS_H
#define GW_SERVER_REQUESTS_STATS_H

#include <stdint.h>

#include "src/server/worker/worker.h"

/* They may be some requests apart from each other. */
struct gw_infer_stats {
    uint64_t successes, failures, refused, late; /* requests, by how they were answered */
    uint64_t inferences, executions;             /* samples that were answered; runs of the model */
    uint64_t waiting;                            /* requests that wait, now */
    /* Nanoseconds, summed over the requests that succeeded: in the queue; while inputs were put together; in
     * the model; and until the answer was posted. */
    uint64_t queue_ns, input_ns, infer_ns, output_ns;
    uint32_t batches;
    struct {
        uint32_t rows;
        uint32_t resident; /* 1: the kernel that waits for requests runs it itself */
        /* When the model was loaded: a run as a graph, and inside that kernel; 0: not measured. */
        uint64_t graph_ns, own_ns;
        uint64_t executions, infer_ns;
        uint64_t p99_ns; /* of a run */
    } batch[GW_SERVE_VARIANTS];
    uint64_t latency[GW_SERVE_BUCKETS]; /* successes, by gw_serve_bucket_end (src/server/device/cost.h) */
    uint32_t sessions, sessions_open;   /* that clients can have, and have */
    uint32_t calls, calls_taken;        /* places for requests that come by the doors */
};
void gw_infer_worker_stats(const struct gw_worker *w, struct gw_infer_stats *out);

#endif
