/* SPDX-License-Identifier: Apache-2.0 */
/* The sessions of one model: protection domain, queue pair, slots and keys of each, made before the first
 * request. */
#ifndef GW_SERVE_SESSION_H
#define GW_SERVE_SESSION_H

#include <gpuwire/verbs.h>

#include "src/serve/shared.h"

/* What a client says when it opens a session, and what it is told. */
struct gw_session_wish {
    uint32_t slots;
    struct gw_endpoint endpoint;
    uint64_t reply_addr, reply_stride;
    uint32_t reply_rkey;
};

struct gw_session_grant {
    uint32_t index, slots;
    struct gw_endpoint endpoint;
    uint64_t request_addr, request_stride;
    uint32_t request_rkey;
};

struct gw_session_pool;

struct gw_session_pool_opts {
    struct gw_device *dev;
    struct gw_exec *exec;
    uint32_t sessions, slots;
    uint64_t in_bytes, out_bytes; /* of the tensors */
    uint32_t gpu_memory;          /* 1: slots in GPU memory, 0: in host memory that the GPU sees */
};

/* Makes all of it. 0 or a negative errno with the reason in gw_last_error(). */
int gw_session_pool_create(const struct gw_session_pool_opts *opts, struct gw_session_pool **out);
/* Only when no loop uses it. */
int gw_session_pool_destroy(struct gw_session_pool *pool);

/* Fills what the serving kernels need. loop_fd: the loop's wake_fd, -1 on a GPU. */
int gw_session_pool_args(struct gw_session_pool *pool, struct gw_loop_ctl *ctl, int loop_fd,
                         struct gw_serve_args *args);

/* Opens a session while the loop runs. -EBUSY: none is free. -EINVAL: the wish makes no sense. -ETIMEDOUT:
 * the loop did not take it up within 5 s. One thread at a time calls this and all below. */
int gw_session_open(struct gw_session_pool *pool, const struct gw_session_wish *wish,
                    struct gw_session_grant *grant);
/* Closes it: cuts the peer off at once; the slots are free again when gw_session_pool_tend has seen the loop
 * let go. */
void gw_session_close(struct gw_session_pool *pool, uint32_t index);
/* Frees closed sessions that the loop has let go of. Returns how many are still closing. Never blocks for
 * long. */
uint32_t gw_session_pool_tend(struct gw_session_pool *pool);

/* The worker is about to end: whoever waits for a session to open gives up (-ECANCELED). Any thread. */
void gw_session_pool_shut(struct gw_session_pool *pool);

uint32_t gw_session_pool_open_count(const struct gw_session_pool *pool);
/* Has the loop met a failed queue pair since the last call? */
int gw_session_pool_broken(struct gw_session_pool *pool);
/* How many requests the model could not answer since the last call. */
uint64_t gw_session_pool_failures(struct gw_session_pool *pool);
/* 1 when session `index` is open and its queue pair has failed; *fault says how. */
int gw_session_failed(struct gw_session_pool *pool, uint32_t index, struct gw_fault *fault);
uint32_t gw_session_pool_size(const struct gw_session_pool *pool);
void gw_session_pool_totals(const struct gw_session_pool *pool, uint64_t *answered, uint64_t *refused);

#endif
