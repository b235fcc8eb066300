/* SPDX-License-Identifier: Apache-2.0 */
/* A model for tests of workers: small tensors, and a batch takes 1 ms and a little for each sample. */
#ifndef GW_TESTS_FLEET_WORKER_PROFILE_H
#define GW_TESTS_FLEET_WORKER_PROFILE_H

#include <time.h>

#include "src/fleet/worker/profile.h"

#define MS     INT64_C(1000000)
#define SECOND (1000 * MS)

static const struct fleet_profile rig_profile = {
    .name = "m",
    .exec_ns = {MS, MS + MS / 10, MS + MS / 4, MS + MS / 2, 2 * MS},
    .spread_ns = MS / 10,
    .load_ns = 2 * MS,
    .disk_ns = 4 * MS,
    .pages = 2,
    .request_bytes = 64,
    .answer_bytes = 16};

static inline int64_t rig_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * SECOND + t.tv_nsec;
}

#endif
