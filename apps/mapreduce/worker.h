/* SPDX-License-Identifier: Apache-2.0 */
/* worker.h: a rank's part of a job. Each rank is a worker, rank 0 too. */
#ifndef GW_MAPREDUCE_WORKER_H
#define GW_MAPREDUCE_WORKER_H

#include "engine.h"

struct worker_opts {
    const struct mr_job *job;
    struct engine_opts engine;
    uint32_t rank;
    const char *out; /* the output's folder; NULL: parts go to the master */
    uint64_t rate;   /* bytes of input per second at most; 0: no limit */
    bool verbose;
    int interrupt_fd; /* readable: give up */
};

/* Works for the master at the other end of fd (which it owns) until that says that the job has ended. Returns
 * the program's exit code; what went wrong has been said then, but for what the master says itself. */
int worker_run(const struct worker_opts *opts, int fd, const uint8_t *cookie, size_t cookie_bytes);

#endif
