/* SPDX-License-Identifier: Apache-2.0 */
/*
 * launch.h: how the ranks of a job come to be, and find the master. Either this program starts its own, on
 * this host (--workers). Or a launcher started it many times (mpirun, srun, or any that sets GPUWIRE_RANK,
 * GPUWIRE_SIZE and GPUWIRE_RENDEZVOUS).
 */
#ifndef GW_MAPREDUCE_LAUNCH_H
#define GW_MAPREDUCE_LAUNCH_H

#include <stdbool.h>
#include <stdint.h>

enum { LAUNCH_COOKIE = 16, LAUNCH_MAX = 256 };

struct launch {
    uint32_t rank, ranks;
    uint32_t local; /* its number on this host */
    int listener;   /* rank 0's, for the master; else -1 */
    uint8_t cookie[LAUNCH_COOKIE];
    char master[1024]; /* ADDRESS PORT, one a line */
    char port[8];      /* of those */
    void *meeting;     /* launch_end's */
};

/* Starts `workers` processes. Returns 1 in each of them, with *l filled in. In this process it returns when
 * all have ended: 0, and *exit_code is rank 0's. A negative errno after a line on standard error. */
int launch_local(uint32_t workers, struct launch *l, int *exit_code);
/* Meets the other ranks, if a launcher has started this process. 1: it has, and *l is filled in; launch_end
 * must follow. 0: it has not. A negative errno after a line on standard error. */
int launch_join(struct launch *l);
void launch_end(struct launch *l);
/* A connection to the master. A negative errno: none of its addresses answers. */
int launch_connect(const struct launch *l);

#endif
