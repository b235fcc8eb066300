/* SPDX-License-Identifier: Apache-2.0 */
/* input.h: the input files of a job, as the master finds them, and their tasks. Failures go to mr_fail. */
#ifndef GW_MAPREDUCE_INPUT_H
#define GW_MAPREDUCE_INPUT_H

#include "mapreduce.h"

struct task {
    uint32_t file;
    uint32_t rank;                  /* MR_KEEP: 1 + the one that does it, while it lives */
    uint64_t offset, bytes, number; /* in the file's data; of the first record */
};

struct tasks {
    struct task *task;
    uint32_t n, next; /* those before `next` are given */
    bool *given;      /* MR_KEEP: in this round */
    uint64_t bytes;
};

/* Finds the files, reads their headers, and sets h->file, files, record, type and item. */
int input_find(struct mr_host *h, char *const *paths, int n);
/* Checks the files' sizes against h->record, once setup may have changed it, and numbers the records. */
int input_check(struct mr_host *h);
void input_free(struct mr_host *h);
/* Cuts the files into tasks of about `bytes` each. */
int input_tasks(struct mr_host *h, uint64_t bytes, struct tasks *t);
/* MR_KEEP: each rank gets as many tasks as the others, one after another. */
int input_spread(struct mr_host *h, uint32_t ranks, struct tasks *t);
/* About n pieces of at most `bytes`, evenly spread, for the sample. */
int input_sample(struct mr_host *h, uint64_t bytes, uint32_t n, struct tasks *t);

#endif
