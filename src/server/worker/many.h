/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Several models in one loop, with leases: what a worker of a fleet serves with.
 *
 * There is one loop and one pool of sessions. A session belongs to a client, which may ask for any model that
 * it has a lease for. The device runs one batch at a time. The next batch begins with the request whose
 * deadline comes first, and takes more requests of the same model.
 *
 *     gw_many_create(&opts, &many);
 *     gw_many_start(many);
 *     gw_many_add(many, &model, &number);             // also while it serves
 *     gw_many_place(many, number, GW_MODEL_PRESENT, 0);
 *     gw_many_lease(many, 7, &lease);
 *     gw_session_open(gw_many_sessions(many), &wish, &grant); // wish.owner is lease.owner
 *
 * What gw_many_place and gw_many_lease allow holds for each request that comes after they return: the device
 * looks at what the host has said before it refuses a request. What they take away holds after a moment: on a
 * GPU it looks every 50 us, and every 200 us while requests come.
 *
 * Threads: one at a time calls gw_many_add, gw_many_place, gw_many_lease and gw_many_stop. The others may be
 * called by any thread at any time between gw_many_create and gw_many_destroy.
 *
 * Times are nanoseconds of CLOCK_MONOTONIC; the device's clock is converted here.
 */
#ifndef GW_SERVER_WORKER_MANY_H
#define GW_SERVER_WORKER_MANY_H

#include <stdbool.h>
#include <stdint.h>

#include <gpuwire/exec.h>
#include <gpuwire/model.h>
#include <gpuwire/verbs.h>

#include "src/server/device/shared.h"
#include "src/server/wire/layout.h"
#include "src/server/worker/call.h"
#include "src/server/worker/session.h"

struct gw_many;

struct gw_many_opts {
    const char *name; /* for messages */
    struct gw_exec *exec;
    struct gw_device *dev;
    uint32_t sessions, slots;     /* of clients; slots that each session has */
    uint64_t in_bytes, out_bytes; /* the most that a request's tensors take in a slot, and an answer's */
    uint32_t max_models;          /* entries of the table */
    uint32_t max_batches; /* batch sizes of all models together; 0: GW_SERVE_VARIANTS for each model */
    uint32_t max_rows;    /* samples of a batch, of any model */
    uint32_t max_leases;  /* 0: no request needs a lease, and each names its model */
    /* Sessions beside the clients', for gw_many_calls; and a device for a CPU executor that they are used
     * from, which outlives this. */
    uint32_t own_sessions;
    struct gw_device *own_dev;
};

/* Makes the loop, and its sessions, without a model. 0 or a negative errno with the reason in
 * gw_last_error(). */
int gw_many_create(const struct gw_many_opts *opts, struct gw_many **out);
/* Starts to serve; also after gw_many_stop. On a GPU this and gw_many_destroy need that no other loop
 * runs. */
int gw_many_start(struct gw_many *m);
/* Each request that comes is answered with GW_SERVE_CLOSING as soon as the device has seen it; those that
 * wait are served. */
void gw_many_close(struct gw_many *m);
/* Stops and waits. -ETIMEDOUT: it is still at work on a batch at the deadline. */
int gw_many_stop(struct gw_many *m, uint64_t deadline_ns);
/* When it has stopped, or was never started. NULL is allowed. The plans are the caller's, also afterwards. */
int gw_many_destroy(struct gw_many *m);

/* Readable when the loop has ended by itself, which only an error does; gw_many_stop then says which. */
int gw_many_fd(const struct gw_many *m);
/* To open, close and look after clients' sessions: session.h. The caller is its housekeeper. */
struct gw_session_pool *gw_many_sessions(const struct gw_many *m);
/* Requests from inside the process; NULL: there are no sessions for them. Each call is aimed at a model by
 * gw_call_aim before its inputs are written. */
struct gw_calls *gw_many_calls(const struct gw_many *m);

/* ---- models ---- */

/* A batch size. The plan must work with any inputs and outputs (gw_plan_enqueue_indirect), and stay until
 * gw_many_destroy. */
struct gw_many_batch {
    uint32_t rows;
    struct gw_plan *plan;
};

struct gw_many_model {
    const char *name;
    struct gw_layout in, out; /* for the largest batch's rows */
    uint32_t batches;         /* 1 to GW_SERVE_VARIANTS, ascending by rows */
    struct gw_many_batch batch[GW_SERVE_VARIANTS];
    uint64_t delay_ns; /* a request may wait for others this long, while no other model's request waits */
};

/* Adds a model to the table; it is absent at first. Also while the loop serves: on a GPU its graphs are made
 * beside it, and its plans must be of own kernels then (GW_PLAN_OWN). *number is its place, from 0 on.
 * -ENOSPC: the table is full, of models or of batch sizes; -EFBIG: its tensors do not fit into a slot;
 * -EINVAL: no such batch sizes; and what CUDA reports. */
int gw_many_add(struct gw_many *m, const struct gw_many_model *model, uint32_t *number);

/* Says whether a model is there. Its requests are served from GW_MODEL_PRESENT on, when its weights must be
 * in place. From GW_MODEL_LEAVING on its requests are refused, also those that wait. Refusals say that it
 * may be tried again retry_ns later. Returns at once. -EINVAL: no such model; -EAGAIN: the loop has not yet
 * taken what it was told before. */
int gw_many_place(struct gw_many *m, uint32_t model, enum gw_model_state state, uint64_t retry_ns);

/* True when the device has acted on the last gw_many_place of the model. If that was GW_MODEL_LEAVING, no
 * kernel works with it any more: its weights may go. Acquire: what the device did before is over. */
bool gw_many_placed(const struct gw_many *m, uint32_t model);

/* ---- leases ---- */

struct gw_many_lease {
    uint64_t key;   /* not 0 */
    uint32_t owner; /* of the sessions that may use it: gw_session_wish.owner */
    uint32_t model;
    uint32_t slots;     /* requests in flight, at most */
    uint32_t max_batch; /* samples of the model's batches while the lease lives; 0: the model's own limit */
    double rate;        /* samples a second, with bursts of `slots`; 0: no limit */
    uint64_t until_ns;  /* when it ends */
};

/* Makes the lease of that number, renews it or changes it. With another key it is another lease: requests of
 * the old one that wait are refused. -EINVAL: no such number, model or owner, or no key or slots; -EAGAIN as
 * gw_many_place. */
int gw_many_lease(struct gw_many *m, uint32_t number, const struct gw_many_lease *lease);
/* Ends it; requests that wait are refused. */
int gw_many_lease_end(struct gw_many *m, uint32_t number);

/* ---- counts ---- */

/* Of one model. Each number is read by itself. */
int gw_many_counters(const struct gw_many *m, uint32_t model, struct gw_serve_model_counters *out);
/* How long runs of its batch size number i take, 99 of 100; 0: there was none, or no such batch size. */
uint64_t gw_many_p99(const struct gw_many *m, uint32_t model, uint32_t i);
/* Of all models together: `waiting` is the queue's length. */
void gw_many_total(const struct gw_many *m, struct gw_serve_counters *out);
/* True: no request waits and none is at work. */
bool gw_many_idle(const struct gw_many *m);

#endif
