/* SPDX-License-Identifier: Apache-2.0 */
/* worker_impl.h: what worker.c, worker_map.c and worker_out.c share. */
#ifndef GW_MAPREDUCE_WORKER_IMPL_H
#define GW_MAPREDUCE_WORKER_IMPL_H

#include <pthread.h>

#include "input.h"
#include "keep.h"
#include "reader.h"
#include "wire.h"
#include "worker.h"

enum { WORKER_TASKS = 4 };

struct worker_file {
    char *path;
    uint64_t start, bytes, first, inode, mtime_ns, size;
    int fd; /* -1 */
};

struct worker {
    struct worker_opts o;
    struct wire wire;
    pthread_mutex_t sending; /* one message at a time */
    pthread_t beat;          /* tells the master that this process is alive */
    int beat_end;            /* an eventfd: the beat's end */
    struct engine *engine;
    struct engine_job job;
    uint8_t *names;
    struct worker_file *file;
    uint32_t files, files_open;
    uint32_t epoch, alive, me;
    /* a round */
    struct task task[WORKER_TASKS]; /* the first is being cut into pieces, from `cut` on */
    uint32_t tasks;
    uint64_t cut;
    bool asked, no_more, said_no_more;
    struct reader *reader;
    struct reader_piece *piece; /* of each slot */
    uint32_t pieces;
    uint64_t bytes, began_ns;
    uint64_t read; /* of them from files */
    struct keep keep;
    bool sampling;
    uint64_t begin_ns, map_ns, mapped_ns; /* when it began, and its maps did, and when they ended */
    /* output */
    char **written; /* temporary files, by partition */
    uint64_t out_bytes;
    int exit_code;
    bool failed; /* this rank can do nothing more */
    char why[512];
};

/* Sends the master a message and frees it. -EPIPE: the master is gone. */
int worker_send(struct worker *w, uint32_t type, struct pack *p);
int worker_fail(struct worker *w, int err, const char *format, ...) __attribute__((format(printf, 3, 4)));

/* Maps until this rank's kernels have ended. 0; -ECANCELED: the master wants something else; -EAGAIN: another
 * rank is lost (w->why); other errors fail the job. */
int worker_map(struct worker *w);
/* A task from the master. */
void worker_task(struct worker *w, struct unpack *u);
/* Closes the input files. They must not have changed. */
int worker_files_close(struct worker *w, bool check);

/* Reduces all partitions of this rank: to files, or to the master. Errors as worker_map. */
int worker_reduce(struct worker *w);
/* The files get their names. */
int worker_commit(struct worker *w);
/* The files of an epoch that has failed go. */
void worker_forget(struct worker *w);

#endif
