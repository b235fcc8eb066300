/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How the CPU runs kernels. A *pool* owns threads in *teams*; a team is the threads of one block at a time,
 * and runs block after block. The thread that calls gw_cpu_run is lane 0 of team 0, so that a grid of one
 * block of one thread is a function call.
 */
#ifndef GW_EXEC_CPU_H
#define GW_EXEC_CPU_H

#include <pthread.h>
#include <stdint.h>

#include <gpuwire/kernel.h>

/* ---- waiting ------------------------------------------------------------------------------------------- */

/* Sleeps while *word is value, and wakes all that sleep on word. Spurious wake-ups happen. */
void gw_futex_wait(uint32_t *word, uint32_t value);
void gw_futex_wake(uint32_t *word);

/* ---- one block ----------------------------------------------------------------------------------------- */

struct gw_cpu_lane {
    uint32_t mask; /* the lanes that this lane waits for; 0: it is not in a warp function */
    uint32_t op, src;
    uint32_t done; /* the result is there; written under the lock, polled by the lane */
    uint64_t value, result;
};

struct gw_cpu_warp_state {
    pthread_mutex_t lock;
    uint32_t live; /* lanes that have not returned from the kernel */
    uint32_t turn; /* futex: changes whenever some lanes got their results */
    struct gw_cpu_lane lane[32];
};

/* Memory for a block's GW_SHARED objects, as on a GPU: 48 KiB, plus what aligning them takes. */
#define GW_CPU_SHARED_MAX   (48u << 10)
#define GW_CPU_SHARED_ALIGN 64u
#define GW_CPU_SHARED_COUNT 64u
#define GW_CPU_ARENA        (GW_CPU_SHARED_MAX + GW_CPU_SHARED_COUNT * GW_CPU_SHARED_ALIGN)

struct gw_cpu_block {
    uint32_t lanes; /* of the launch that runs now */
    /* gw_syncthreads: generation in bits 0-31 (the futex), threads that arrived in 32-47, threads expected in
     * 48-63. */
    uint64_t barrier __attribute__((aligned(8)));
    uint32_t running; /* lanes that have not returned */
    uint32_t turn;    /* futex: changes when the block is over and the team may start its next */
    uint32_t nwarps;  /* allocated */
    struct gw_cpu_warp_state *warp;
    pthread_mutex_t shared_lock;
    uint32_t nshared, arena_used;
    struct {
        const void *key;
        void *memory;
    } shared[GW_CPU_SHARED_COUNT];
    uint8_t *arena;
    const char *fault; /* what the kernel did wrong, first finding; atomic */
};

int gw_cpu_block_init(struct gw_cpu_block *b, uint32_t max_lanes);
void gw_cpu_block_destroy(struct gw_cpu_block *b);
void gw_cpu_block_start(struct gw_cpu_block *b, uint32_t lanes); /* before its lanes run */
/* By each lane, when it returned from the kernel. It waits for the others, unless this was its last block. */
void gw_cpu_block_leave(struct gw_cpu_block *b, uint32_t thread, int last);
void gw_cpu_block_fault(struct gw_cpu_block *b, const char *what);

/* ---- a pool -------------------------------------------------------------------------------------------- */

struct gw_cpu_pool;

struct gw_cpu_pool_opts {
    const char *thread_name;
    uint32_t lanes, blocks, cpu_pin; /* as in struct gw_exec_opts, all set but cpu_pin */
};

int gw_cpu_pool_create(const struct gw_cpu_pool_opts *opts, struct gw_cpu_pool **pool);
void gw_cpu_pool_destroy(struct gw_cpu_pool *pool);

/* Makes the threads that such a launch needs, so that gw_cpu_run allocates nothing. -EAGAIN, -ENOMEM. */
int gw_cpu_prepare(struct gw_cpu_pool *pool, uint32_t grid, uint32_t block);

/* Runs a kernel to its end. One thread at a time may call it. Errors: those of gw_cpu_prepare; -EIO: the
 * kernel misused a warp function (the text says how). */
int gw_cpu_run(struct gw_cpu_pool *pool, const struct gw_kernel *kernel, uint32_t grid, uint32_t block,
               const void *arg);

/* Starts a thread that takes no signals (they are for the program's own threads), named, and bound as cpu_pin
 * says. */
int gw_cpu_thread_start(pthread_t *thread, const char *name, uint32_t cpu_pin, void *(*fn)(void *),
                        void *arg);

#endif
