/* SPDX-License-Identifier: Apache-2.0 */
/* options.h: the command line of gpuwire app mapreduce. */
#ifndef GW_MAPREDUCE_OPTIONS_H
#define GW_MAPREDUCE_OPTIONS_H

#include "mapreduce.h"

struct options {
    const struct mr_job *job; /* NULL: the demonstration */
    char **input;
    int inputs;
    char **args;
    int n_args;
    const char *out;
    const char *exec;
    uint32_t workers; /* 0: not given */
    uint32_t lanes, mappers, parts;
    uint64_t memory, task, rate, patience;
    bool verbose, quiet;
};

/* 0; -1: it has answered (--help, --list); else the exit code after a line on standard error. */
int options_read(int argc, char **argv, struct options *o);

#endif
