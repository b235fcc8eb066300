/* SPDX-License-Identifier: Apache-2.0 */
/* run.h: a job, from the options to its end. */
#ifndef GW_MAPREDUCE_RUN_H
#define GW_MAPREDUCE_RUN_H

#include "launch.h"
#include "master.h"
#include "options.h"

/* One rank's part; rank 0 is the master, too. *r is filled in on rank 0. Returns the exit code. */
int run_rank(const struct options *o, const struct launch *l, struct master_result *r);
/* Starts ranks, or joins a launcher's, and runs the job. In processes that it starts it does not return. */
int run_job(const struct options *o);

#endif
