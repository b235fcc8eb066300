/* SPDX-License-Identifier: Apache-2.0 */
/* A `gpuwire serve` process for tests. $GPUWIRE is the tool, $GPUWIRE_SOURCE the repository's folder. */
#ifndef TESTS_SERVE_PROCESS_H
#define TESTS_SERVE_PROCESS_H

#include <stdint.h>
#include <sys/types.h>

struct worker_process {
    pid_t pid;
    int says;        /* the reading end of its standard output */
    char server[32]; /* HOST:PORT */
    char grpc[32];   /* the same of its gRPC door; "": it has none */
};

/* Starts it with the repository `models` (below $GPUWIRE_SOURCE) and these options (NULL at the end), and
 * waits until it is ready: 0, or -1 after saying why not. */
int worker_start(struct worker_process *w, const char *models, const char *const options[]);
/* SIGTERM; its exit code, or -1 when it was killed by a signal or does not end within a second. */
int worker_stop(struct worker_process *w);
/* Is it still there? */
int worker_alive(const struct worker_process *w);
/* A number from GET v2/models/MODEL/stats; -1 when there is none. */
int64_t worker_stat(const struct worker_process *w, const char *model, const char *name);

#endif
