/* SPDX-License-Identifier: Apache-2.0 */
/*
 * work.h: how jobs are computed. In the independent design the block that has received a job computes all of
 * its tiles. In the daemon design it puts the job into a queue. Every computing block goes through the queue
 * at its own pace, and takes tiles of each job until none is left. The block that computes the last one
 * finishes the job.
 */
#ifndef MATMUL_WORK_H
#define MATMUL_WORK_H

#include "pool.h"

/* How long a CPU's block that finds no work sleeps at first, and how many times that at most. */
#define MM_NAP_NS   50000u
#define MM_NAPS_MAX 40u
/* How many looks for work pass between two looks at the host's word, which is across the bus for a GPU. */
#define MM_LOOKS (GW_ON_GPU ? 64u : 1u)

GW_DEV int mm_stopped(const struct mm_server_args *a)
{
    return (int)gw_group_first(GW_BLOCK, gw_thread_idx() == 0 ? gw_ld_relaxed_u32(a->stop) : 0);
}

/* All of C, by this block. 0, or -ECANCELED: the server ends, and C is not complete. */
GW_DEV int mm_compute_alone(const struct mm_server_args *a, uint32_t job)
{
    struct mm_product p = a->jobs[job].product;

    for (uint32_t tile = 0; tile < mm_tiles(p.n); tile++) {
        if (tile % 16 == 15 && mm_stopped(a)) return -ECANCELED;
        mm_tile(&p, tile);
    }
    return 0;
}

/* Gives a job, all of whose input is there, to the computing blocks. The first thread calls it, after a
 * barrier of the block. */
GW_DEV void mm_job_submit(const struct mm_server_args *a, uint32_t job)
{
    struct mm_job *j = &a->jobs[job];
    uint64_t place;

    gw_st_relaxed_u32_gpu(&j->computed, 0);
    gw_st_relaxed_u32_gpu(&j->finished, 0);
    /* Release: input and product come before. A block that is still at the buffer's last job may take a tile
     * from now on; it then sees the new product. */
    gw_st_release_u64_gpu(&j->tiles, (uint64_t)mm_tiles(j->product.n) << 32);
    place = gw_add_relaxed_u64_gpu(a->queued, 1);
    /* This may overwrite an entry. Since then as many jobs were queued as there are, so one of them was
     * finished and queued again. Blocks finish no job before all tiles of the earlier ones are taken. So no
     * block needs that entry. */
    gw_st_release_u64_gpu(&a->queue[place % a->queue_size], (place + 1) << 32 | (job + 1));
}

/* The first thread: the number of a tile of this job that is now ours, or MM_NONE. */
GW_DEV uint32_t mm_tile_take(struct mm_job *j)
{
    uint64_t tiles = gw_ld_relaxed_u64_gpu(&j->tiles);

    if ((uint32_t)tiles >= tiles >> 32) return MM_NONE;
    tiles = gw_add_acquire_u64_gpu(&j->tiles, 1); /* acquire: the product and its input come after */
    return (uint32_t)tiles < tiles >> 32 ? (uint32_t)tiles : MM_NONE;
}

/* The job at *place of the queue, or MM_NONE. Entries that were overwritten since are skipped: their jobs are
 * finished. The first thread. */
GW_DEV uint32_t mm_queue_at(const struct mm_server_args *a, uint32_t *place)
{
    uint64_t entry = gw_ld_acquire_u64_gpu(&a->queue[*place % a->queue_size]);
    uint32_t at = (uint32_t)(entry >> 32) - 1;

    if (!entry || (int32_t)(at - *place) < 0) return MM_NONE;
    *place = at;
    return (uint32_t)entry - 1;
}

/* Takes tiles of one job and computes them; *place moves on when it has none left. Did it find any? */
GW_DEV int mm_compute_some(const struct mm_server_args *a, uint32_t *place)
{
    struct mm_job *j;
    struct mm_product p;
    uint64_t tile = MM_NONE, job = MM_NONE;

    if (gw_thread_idx() == 0) job = mm_queue_at(a, place);
    if (gw_thread_idx() == 0 && job != MM_NONE) tile = mm_tile_take(&a->jobs[job]);
    job = gw_group_first_two(GW_BLOCK, job, &tile); /* the first thread's acquire is all threads' now */
    if (job == MM_NONE) return 0;
    j = &a->jobs[job];
    if (tile == MM_NONE) {
        *place += gw_thread_idx() == 0;
        return 1;
    }
    p = j->product;
    mm_tile(&p, (uint32_t)tile);
    /* Release: all threads have written their parts, and the barrier has made them the first one's. Acquire:
     * the last block tells of all blocks' parts. */
    if (gw_thread_idx() == 0 && gw_add_acq_rel_u32_gpu(&j->computed, 1) + 1 == mm_tiles(p.n))
        gw_st_release_u32_gpu(&j->finished, 1);
    return 1;
}

/* What a computing block does until the server stops. */
GW_DEV void mm_compute(const struct mm_server_args *a)
{
    uint32_t place = 0, naps = 0, looks = 0; /* place: the first thread's */

    while (looks++ % MM_LOOKS || !mm_stopped(a)) {
        if (mm_compute_some(a, &place)) {
            naps = 0;
        } else if (GW_ON_GPU) {
            gw_pause(16); /* a moment, which leaves the queue's memory to others */
        } else {
            if (naps < MM_NAPS_MAX) naps++;
            gw_sock_poll(a->net[0], NULL, 0, gw_clock_ns() + naps * MM_NAP_NS);
        }
    }
}

#endif
