/* SPDX-License-Identifier: Apache-2.0 */
/* Inferences asked for from inside the process: what doors other than RDMA (HTTP, gRPC) use.
 *
 * A gw_calls is a client of one model in the worker's own process. It has sessions as any client has, so its
 * requests share slots, order and counts with those that come by RDMA. Each session's slots are `calls`. The
 * caller takes one, writes the inputs into its memory and submits it. Then it reads the outputs where the
 * worker wrote them, and gives the call back. Nothing is allocated or copied on the way.
 *
 * The sessions are opened when they are first needed. One that breaks is opened again; its requests end with
 * -EIO. Any thread may call all of it. A call belongs to the thread that has taken it.
 */
#ifndef GW_SERVER_WORKER_CALL_H
#define GW_SERVER_WORKER_CALL_H

#include "src/server/wire/layout.h"
#include "src/server/worker/session.h"
#include "src/server/wire/wire.h"

struct gw_calls;

/* One inference: a slot, from gw_call_take to gw_call_give. */
struct gw_call {
    const struct gw_serve_reply *reply; /* valid when `error` is 0 or the model answered at all */
    /* When it is over. 0; -EINVAL: the worker refused the request; -EREMOTEIO: the model failed; -ETIME: its
     * answer would have come too late; -ESHUTDOWN: the model is being stopped; -EIO: the session broke.
     * Where there are leases: -EKEYEXPIRED: no such lease; -EDQUOT: it is more than the lease allows;
     * -EAGAIN: the model is not there. gw_call_retry_ns says when to try again. */
    int error;
    uint64_t submitted, ended; /* on CLOCK_MONOTONIC */
};

struct gw_calls_opts {
    const char *name; /* of the model, for messages */
    struct gw_session_pool *pool;
    struct gw_device *dev; /* made for a CPU executor: it outlives the calls */
    uint32_t sessions;     /* of the pool's, which keeps that many for them; each has `slots` calls */
    uint32_t slots;
    uint32_t rows; /* the most samples of one call; 0: each call is aimed at a model (gw_call_aim) */
    struct gw_layout in, out;     /* the tensors of a slot */
    uint64_t in_bytes, out_bytes; /* that they take; 0: what the layouts take */
};

/* Makes buffers and queue pairs, and the thread that takes answers and sleeps otherwise. 0 or a negative
 * errno with the reason in gw_last_error(). Before the worker's loop starts. */
int gw_calls_create(const struct gw_calls_opts *opts, struct gw_calls **out);
/* No call can be taken or submitted any more. Calls under way may end until the deadline, then they end with
 * -ESHUTDOWN. NULL is allowed. */
void gw_calls_close(struct gw_calls *c, uint64_t deadline_ns);
/* When every call has been given back. It closes the sessions. NULL is allowed. */
void gw_calls_destroy(struct gw_calls *c);

/* How many calls there are in all; the most samples that one may have, where there is one model. */
uint32_t gw_calls_size(const struct gw_calls *c);
uint32_t gw_calls_rows(const struct gw_calls *c);
/* How many are taken: they are being filled, wait, are at work, or have answers that are being sent. */
uint32_t gw_calls_taken(struct gw_calls *c);
/* How many callers hold the gw_calls: they wait for a call, or have just taken one. */
uint32_t gw_calls_held(struct gw_calls *c);

/* A caller that waits for a call holds the gw_calls: they stay until it releases them, also when their model
 * is removed. */
void gw_calls_hold(struct gw_calls *c);
void gw_calls_release(struct gw_calls *c);

/* Waits for a free call until the deadline (0: not at all), for the client that `who` names as
 * src/door/who.h does. One client has three quarters of the calls at most. -EAGAIN: none is free and the
 * deadline is 0; -ETIMEDOUT; -ESHUTDOWN: gw_calls_close was called; -EBUSY and others: no session can be
 * had. */
int gw_call_take(struct gw_calls *c, const char *who, uint64_t deadline_ns, struct gw_call **out);

/* What a call asks, where the worker has several models (many.h). */
struct gw_call_target {
    const struct gw_layout *in, *out; /* of the model; they outlive the call */
    uint32_t rows;                    /* the most samples of a call */
    uint32_t lease;                   /* the lease's number + 1; 0: none, and the model is named */
    uint64_t key;                     /* the lease's; or the number of the model */
};
/* Before the inputs are written. -EFBIG: that number of samples does not fit into a slot. */
int gw_call_aim(struct gw_call *call, const struct gw_call_target *target);
/* Of a call that a worker with leases has refused: how long to wait before the next try. */
uint64_t gw_call_retry_ns(const struct gw_call *call);
/* Also while it is at work: it is then free when it has ended. NULL is allowed. */
void gw_call_give(struct gw_call *call);

/*
 * For inputs and outputs that lie where the worker's slots do: on a GPU. Between the two calls the caller
 * owns the tensors of the call's slot at the worker. Input 0 begins at *in, and output 0 at *out; the others
 * follow as gw_layout_offset tells. Both are addresses of the worker's executor. A caller writes the inputs
 * there before gw_call_submit with GW_SERVE_PLACED. It reads the outputs, which GW_SERVE_STAY has left there,
 * when the call has ended.
 *
 * It waits for nothing; a session that breaks during that waits for gw_call_leave_slot. -EIO: the session has
 * broken since the inputs were written, or since the call was submitted.
 */
int gw_call_enter_slot(struct gw_call *call, uint8_t **in, uint8_t **out);
void gw_call_leave_slot(struct gw_call *call);
/* The layouts of what the slot holds. */
const struct gw_layout *gw_call_layout(const struct gw_call *call, int output);

/* Where input i begins when the call has `rows` samples, and how many bytes it takes: write it there. */
void *gw_call_input(struct gw_call *call, uint32_t i, uint32_t rows, uint64_t *bytes);
/* Output i of a call that has ended with error 0, and its size. It stays until the call is given back. */
const void *gw_call_output(const struct gw_call *call, uint32_t i, uint64_t *bytes);

struct gw_call_ask {
    uint32_t rows;      /* 1 … gw_calls_rows */
    uint32_t priority;  /* 1 is served first; 0: the model's default */
    uint64_t budget_ns; /* an answer later than this is worth nothing; 0: no deadline */
    uint32_t flags;     /* GW_SERVE_PLACED, GW_SERVE_STAY, GW_SERVE_RECALL (wire.h) */
    /* Called once when it has ended, on the calls' one thread: it must not wait for anything. It may give the
     * call back. NULL: gw_call_wait is used. Not called when gw_call_submit fails. */
    void (*done)(void *ctx, struct gw_call *call);
    void *ctx;
};
/* Sends the inputs to the worker. 0; -EINVAL: rows are out of range; -ESHUTDOWN; -EIO: the session broke. */
int gw_call_submit(struct gw_call *call, const struct gw_call_ask *ask);
/* Takes back a call that was submitted with GW_SERVE_RECALL. If the model has not begun with it, it ends
 * soon, with -ECANCELED; otherwise it ends as usual. 0, or a negative errno: its session is broken, and so it
 * ends. */
int gw_call_cancel(struct gw_call *call);
/* Sleeps until it has ended: 0, and call->error says how. -ETIMEDOUT: it has not by the deadline. */
int gw_call_wait(struct gw_call *call, uint64_t deadline_ns);

#endif
