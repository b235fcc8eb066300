/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The sessions of a generator: queue pair, slots and keys of each, made before the first request. A client
 * opens one and writes its requests there (src/generate/wire/wire.h). Between two clients a session gets new
 * keys and zeroed memory.
 */
#ifndef GW_GENERATE_WORKER_POOL_H
#define GW_GENERATE_WORKER_POOL_H

#include <stdbool.h>
#include <stdint.h>

#include <gpuwire/verbs.h>

#include "src/generate/client/link.h"
#include "src/generate/device/device.h"

struct gen_pool;

struct gen_pool_opts {
    const char *name; /* of the model, which outlives the pool: for messages */
    struct gw_exec *exec;
    struct gw_device *dev;
    uint32_t sessions; /* all */
    uint32_t kept;     /* of them, for wishes that are `own`: clients never get these */
    uint32_t slots, context, depth;
    bool gpu_memory; /* slots in GPU memory; otherwise in host memory that the GPU sees */
};

/* Bytes of all sessions' slots and events. */
uint64_t gen_pool_bytes(const struct gen_pool_opts *opts);
/* Makes all of it. 0 or a negative errno with the reason in gw_last_error(). */
int gen_pool_create(const struct gen_pool_opts *opts, struct gen_pool **out);
/* Only when no loop uses it. NULL is allowed. */
void gen_pool_destroy(struct gen_pool *p);
/* Sets the kernels' part: args->cq, wake_fd, and the records of sessions. `board` is what the host sees of
 * args->board; the notices and the list of changes follow from args. loop_fd: the loop's wake_fd, -1 on a
 * GPU. Before the loop starts. */
int gen_pool_attach(struct gen_pool *p, struct gen_args *args, struct gen_board *board, int loop_fd);

/*
 * Opens a session while the loop runs, without waiting for the loop. Any thread. -EBUSY: none is free.
 * -EAGAIN: some are being made ready. -EINVAL: the wish makes no sense. Also what gw_qp_connect returns.
 */
int gen_pool_open(struct gen_pool *p, const struct gen_wish *wish, struct gen_grant *grant);
/* Cuts the client off at once; its requests end. Nothing happens when the session has ended already. Any
 * thread. */
void gen_pool_close(struct gen_pool *p, const struct gen_grant *grant);
/* Has that client the session still? Any thread. */
bool gen_pool_has(struct gen_pool *p, const struct gen_grant *grant);
/* Requests and events of a session so far; 0: none. Any thread. */
uint32_t gen_pool_activity(struct gen_pool *p, const struct gen_grant *grant);
/* Asks whether the client is still there: one that has gone breaks the session within seconds. Any thread. */
void gen_pool_ask(struct gen_pool *p, const struct gen_grant *grant);
/* Is the endpoint a queue pair of this pool? A session must not be connected to another one. */
bool gen_pool_owns(const struct gen_pool *p, const struct gw_endpoint *ep);
/* How many sessions clients can have; slots of each at most. */
uint32_t gen_pool_size(const struct gen_pool *p);
uint32_t gen_pool_slots(const struct gen_pool *p);
/* Sessions that clients have, without the server's own. Any thread. */
uint32_t gen_pool_open_count(struct gen_pool *p);

/* From now on requests end GEN_CLOSING: those that come and wait (1), and those that run (2). Any thread. */
void gen_pool_closing(struct gen_pool *p, uint32_t how);

/* Readable when gen_pool_tend has something to do. */
int gen_pool_news(const struct gen_pool *p);
/* Closes sessions that have failed, and makes closed ones ready for the next client. Returns how many are not
 * ready yet. One thread calls it; it waits a few milliseconds at most for each. */
uint32_t gen_pool_tend(struct gen_pool *p);

#endif
