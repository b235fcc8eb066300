/* SPDX-License-Identifier: Apache-2.0 */
/* profile.h: what was measured of a model, for workers that emulate it. */
#ifndef GW_FLEET_WORKER_PROFILE_H
#define GW_FLEET_WORKER_PROFILE_H

#include <stdint.h>

struct fleet_profile {
    char name[32];          /* models are called NAME-0, NAME-1 and so on */
    int64_t exec_ns[5];     /* p99 of batches of 1, 2, 4, 8 and 16 */
    int64_t spread_ns;      /* p99 less p50, of the largest batch */
    int64_t load_ns;        /* host memory to GPU */
    int64_t disk_ns;        /* disk to host memory */
    uint32_t pages;         /* of 16 MiB, of weights */
    uint32_t request_bytes; /* of one sample: multiples of 4 */
    uint32_t answer_bytes;
};

/* What is known under that name (resnet50-v100, resnet50-h200), or stands in that file: lines of "FIELD
 * VALUE...", where a line may begin with #. Fields that it lacks are those of resnet50-v100. -ENOENT, or
 * -EINVAL with the line. */
int fleet_profile_read(const char *name, struct fleet_profile *out);

/* p99 of a batch of n samples, 1 to 16. It runs as the smallest measured batch that holds them. */
int64_t fleet_profile_exec(const struct fleet_profile *p, uint32_t n);

#endif
