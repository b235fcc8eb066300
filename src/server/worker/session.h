/* SPDX-License-Identifier: Apache-2.0 */
/* The sessions of a loop: protection domain, queue pair, slots and keys of each, made before the first
 * request. */
#ifndef GW_SERVER_WORKER_SESSION_H
#define GW_SERVER_WORKER_SESSION_H

#include <stdbool.h>

#include <gpuwire/verbs.h>

#include "src/server/device/shared.h"

/* A client's wish when it opens a session, and the answer. */
struct gw_session_wish {
    uint32_t slots;
    struct gw_endpoint endpoint;
    uint64_t reply_addr, reply_stride;
    uint32_t reply_rkey;
    uint32_t own;    /* 1: one of those kept for the server itself */
    uint32_t owner;  /* whose it is: leases name their owner (many.h). GW_SERVE_OWN: it may use all leases */
    uint8_t via[16]; /* the address that the client has called, as a GID; zeros: it did not say */
};

struct gw_session_grant {
    uint32_t index, slots;
    struct gw_endpoint endpoint;
    uint64_t request_addr, request_stride;
    uint32_t request_rkey;
};

struct gw_session_pool;

/* The tables of a loop that serves several models: many.h. The models come later. */
struct gw_session_pool_tables {
    uint32_t models, variants, leases; /* entries; models: 0: the pool is for the one model below */
    uint32_t rows;                     /* of a request, and of a batch, at most */
    uint64_t in_bytes, out_bytes;      /* that a slot's tensors take at most */
};

struct gw_session_pool_opts {
    struct gw_device *dev;
    struct gw_exec *exec;
    uint32_t sessions, slots;
    uint32_t kept;            /* of the sessions, for wishes that are `own`: clients never get them */
    struct gw_layout in, out; /* the tensors of a slot */
    /* The batch sizes, ascending; a request has no more rows than the last. A variant without fixed addresses
     * gets room here to put requests together. */
    struct gw_serve_variant variant[GW_SERVE_VARIANTS];
    uint32_t variants;
    uint64_t delay_ns;      /* how long a request may wait for others to share its batch */
    uint32_t gpu_memory;    /* 1: slots in GPU memory, 0: in host memory that the GPU sees */
    struct gw_exec *memory; /* whose memory the slots are; NULL: that of `exec` */
    const char *name;       /* of the model, which outlives the pool */
    struct gw_session_pool_tables tables;
};

/* Bytes that the slots of all sessions take, with the room to put requests together. Numbers within the
 * tool's bounds and slots below 2 GiB do not overflow. */
uint64_t gw_session_pool_bytes(const struct gw_session_pool_opts *opts);

/* Makes all of it. 0 or a negative errno with the reason in gw_last_error(). */
int gw_session_pool_create(const struct gw_session_pool_opts *opts, struct gw_session_pool **out);
/* Only when no loop uses it. */
int gw_session_pool_destroy(struct gw_session_pool *pool);

/* Fills what the serving kernels need. loop_fd: the loop's wake_fd, -1 on a GPU. */
int gw_session_pool_args(struct gw_session_pool *pool, struct gw_loop_ctl *ctl, int loop_fd,
                         struct gw_serve_args *args);

/* Opens a session while the loop runs, without waiting for the loop. -EBUSY: none is free. -EAGAIN: none
 * is free yet; some are being made ready. -EINVAL: the wish makes no sense. Any thread; it takes as long
 * as the NIC's driver takes to connect a queue pair. */
int gw_session_open(struct gw_session_pool *pool, const struct gw_session_wish *wish,
                    struct gw_session_grant *grant);
/* Where a slot's tensors lie, for the executor: the inputs, and the outputs. */
void gw_session_slot(const struct gw_session_pool *pool, uint32_t index, uint32_t slot, uint8_t **in,
                     uint8_t **out);
/* Closes it: cuts the peer off at once; gw_session_pool_tend frees it. One thread closes a session. */
void gw_session_close(struct gw_session_pool *pool, uint32_t index);
/* Makes closed sessions that the loop has let go of ready for the next client: its memory is zeroed, its
 * keys are new. Returns how many are not ready yet. One thread calls it; it waits a few milliseconds at
 * most for each. */
uint32_t gw_session_pool_tend(struct gw_session_pool *pool);

/* Is the endpoint a queue pair of this pool? A session must not be connected to another one. */
bool gw_session_pool_has(const struct gw_session_pool *pool, const struct gw_endpoint *ep);

/* Is anybody there? The loop answers when it has taken all that had arrived, and has its NIC ask the peer's.
 * A queue pair whose peer is gone fails within about a second. */
void gw_session_ask(struct gw_session_pool *pool, uint32_t index);
/* 1 when the loop has answered the last question. *activity changes with each request and answer; 0:
 * there was none. */
bool gw_session_heard(struct gw_session_pool *pool, uint32_t index, uint32_t *activity);

/* Clients' sessions; the server's own do not count. */
uint32_t gw_session_pool_open_count(struct gw_session_pool *pool);
/* Has the loop met a failed queue pair since the last call? */
int gw_session_pool_broken(struct gw_session_pool *pool);
/* How many requests the model could not answer since the last call. */
uint64_t gw_session_pool_failures(struct gw_session_pool *pool);
/* True when session `index` is open and its queue pair has failed; *fault says how. */
bool gw_session_failed(struct gw_session_pool *pool, uint32_t index, struct gw_fault *fault);
/* How many sessions clients can have. */
uint32_t gw_session_pool_size(const struct gw_session_pool *pool);
/* The loop's counts, as they are now, and those of the first model's batch sizes. Waits for nothing; any
 * thread. */
void gw_session_pool_counters(const struct gw_session_pool *pool, struct gw_serve_counters *total,
                              struct gw_serve_variant_counters variant[GW_SERVE_VARIANTS]);

/* Requests that the model answered, by the time from arrival until the answer was posted, as
 * gw_serve_bucket_end tells. */
void gw_session_pool_latency(const struct gw_session_pool *pool, uint64_t bucket[GW_SERVE_BUCKETS]);

/* From now on the loop answers every request that comes with GW_SERVE_CLOSING; those that wait are still
 * served. */
void gw_session_pool_closing(struct gw_session_pool *pool);

#endif
