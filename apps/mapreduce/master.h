/* SPDX-License-Identifier: Apache-2.0 */
/*
 * master.h: the master of a job, a thread of rank 0. It hands out tasks, and counts who is alive.
 *
 * An epoch is a set of ranks that work together. When a rank dies, the master begins another one without it:
 * all drop what the round had so far, channels are made again, and the round's tasks are handed out once
 * more. So no pair of a dead mapper is counted, and a dead reducer's partitions move to others. Partitions
 * are as many as before, so the output has the same files.
 */
#ifndef GW_MAPREDUCE_MASTER_H
#define GW_MAPREDUCE_MASTER_H

#include "mapreduce.h"

struct master_opts {
    const struct mr_job *job;
    char *const *input;
    int inputs;
    char *const *args; /* the job's */
    int n_args;
    uint32_t ranks, parts; /* parts 0: as many as ranks */
    const char *out;       /* NULL: to standard output */
    uint64_t patience_ns;  /* a rank that is silent for as long counts as dead; 0: 30 s */
    uint64_t task;         /* bytes; 0: chosen */
    bool verbose, progress;
    int interrupt_fd;
};

struct master_result {
    uint64_t bytes, pairs, out, files;
    uint32_t rounds, deaths, alive, parts;
    double seconds;
    char why[512];
};

/* Runs the job with the ranks that connect to the listening socket (which it owns) and know the cookie.
 * Returns the program's exit code, which all ranks get, too. *r says how it went. */
int master_run(const struct master_opts *opts, int listener, const uint8_t *cookie, size_t cookie_bytes,
               struct master_result *r);

#endif
