/* SPDX-License-Identifier: Apache-2.0 */
/* Threads for calls that wait: for a free slot, a model's answer, a model to be loaded. They are made when
 * they are needed, and sleep afterwards. One client has three quarters of them at most. */
#ifndef GW_SERVER_GRPC_POOL_H
#define GW_SERVER_GRPC_POOL_H

#include <stdint.h>

struct gw_grpc_pool;

struct gw_grpc_job {
    struct gw_grpc_job *next;
    void (*run)(struct gw_grpc_job *job);
    void (*leave)(struct gw_grpc_job *job); /* the pool's last word: job and `running` stay until then */
    uint32_t *running;                      /* how many of its client's jobs run; the pool's alone */
};

int gw_grpc_pool_create(uint32_t threads, struct gw_grpc_pool **out);
/* The job is run by some thread, in order of arrival but for clients that have all they may. -EAGAIN: there
 * is no thread at all. */
int gw_grpc_pool_add(struct gw_grpc_pool *p, struct gw_grpc_job *job);
/* 1: no thread has it yet, and none will; `leave` is not called. 0: it has begun, or is no job of the pool.
 */
int gw_grpc_pool_cancel(struct gw_grpc_pool *p, struct gw_grpc_job *job);
/* Has any thread a job? */
int gw_grpc_pool_is_busy(struct gw_grpc_pool *p);
/* When no jobs are left. NULL is allowed. */
void gw_grpc_pool_free(struct gw_grpc_pool *p);

#endif
