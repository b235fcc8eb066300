/* SPDX-License-Identifier: Apache-2.0 */
/* jobs.h: the jobs of the tree, and those of others in plug-ins. */
#ifndef GW_MAPREDUCE_JOBS_H
#define GW_MAPREDUCE_JOBS_H

#include <stdio.h>

#include "mapreduce.h"

/* The job of that name; a name with a slash or that ends in .so is a plug-in's file. NULL: there is none, and
 * why (of `size` bytes) says so. */
const struct mr_job *jobs_find(const char *name, char *why, size_t size);
/* A line for each. */
void jobs_list(FILE *f);

#endif
