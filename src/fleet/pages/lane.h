/* SPDX-License-Identifier: Apache-2.0 */
/* A thread that works through jobs, one at a time, in their order; a job that may not begin yet lets later
 * ones pass. */
#ifndef GW_FLEET_PAGES_LANE_H
#define GW_FLEET_PAGES_LANE_H

#include <stdint.h>

struct fleet_job {
    void (*run)(struct fleet_job *j); /* on the lane's thread; the job is its own again */
    int64_t earliest_at;
    struct fleet_job *next; /* the lane's */
};

struct fleet_lane;

/* 0 or -ENOMEM, -EAGAIN: no thread. */
int fleet_lane_create(const char *name, struct fleet_lane **out);
/* Runs what is left in the lane, whatever its time, and ends the thread. NULL is allowed. */
void fleet_lane_destroy(struct fleet_lane *l);
/* Any thread. */
void fleet_lane_add(struct fleet_lane *l, struct fleet_job *j);

#endif
