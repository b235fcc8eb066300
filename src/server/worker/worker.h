/* SPDX-License-Identifier: Apache-2.0 */
/* One model being served: its plan, its sessions, and the loop that waits, runs the model and answers. */
#ifndef GW_SERVER_WORKER_WORKER_H
#define GW_SERVER_WORKER_WORKER_H

#include <stdbool.h>

#include <gpuwire/model.h>
#include <gpuwire/verbs.h>

#include "src/server/worker/call.h"
#include "src/server/worker/repository.h"
#include "src/server/worker/resident.h"
#include "src/server/worker/session.h"

struct gw_worker;

struct gw_worker_opts {
    struct gw_exec *exec;
    struct gw_device *dev;
    uint32_t sessions, slots;
    uint32_t threads; /* CPU executor: that one inference uses */
    uint64_t memory;  /* bytes that the model may take with its sessions' slots */
    /* For the doors: sessions beside the clients', and a device for a CPU executor that they are used from;
     * it outlives the worker. */
    uint32_t own_sessions;
    struct gw_device *own_dev;
    /* The batch sizes that there are plans for, ascending, where the model's tensors are batched; else, and
     * when none are named, one request is run at a time. */
    uint32_t batch[GW_SERVE_VARIANTS], batches;
    uint64_t delay_ns; /* how long a request may wait for others to share its batch */
    enum gw_resident_mode resident;
};

/* How a program runs a model by itself, on the loop's thread: there is no plan then, and no session for the
 * doors. */
struct gw_worker_own {
    struct gw_model *model; /* says what its tensors are; the worker's from then on */
    /* Adds the loop's stages; *args stays as it is from then on. 0, or a negative errno with the reason. */
    int (*stages)(void *ctx, struct gw_loop *loop, const struct gw_serve_args *args);
    void *ctx;
    struct gw_exec *memory; /* whose memory the slots are; NULL: the worker's */
    uint32_t gpu_memory;    /* 1: slots in GPU memory */
};

/* A model that works at fixed addresses: those of one batch size. */
struct gw_worker_fixed {
    const struct gw_model *model;
    struct gw_exec *exec;
    const struct gw_serve_variant *v;
    const struct gw_layout *in, *out;
    void *ctx; /* the source's */
};

/* The model that a worker serves. */
struct gw_worker_source {
    const char *name;
    unsigned version;
    struct gw_model *model; /* the worker's from now on, also when it cannot be made */
    /* NULL, or sets the addresses that the model always works at with `rows` rows, and v->fixed. */
    int (*place)(void *ctx, struct gw_serve_variant *v);
    /* NULL where plans run by themselves. They run the model once, and read the inputs that lie there. */
    int (*run)(const struct gw_worker_fixed *f, const void *const in[], void *const out[]);
    int (*example)(const struct gw_worker_fixed *f, void *const in[]);
    void *ctx;
    const struct gw_worker_own *own; /* NULL: the worker runs a plan of the model */
};

/* Loads the model, plans it, makes its sessions. 0 or a negative errno with the reason in gw_last_error(). */
int gw_worker_create(const struct gw_repository_entry *entry, const struct gw_worker_opts *opts,
                     struct gw_worker **out);
/* The same with a model that is open. */
int gw_worker_create_from(const struct gw_worker_source *source, const struct gw_worker_opts *opts,
                          struct gw_worker **out);
/* Starts answering, also after gw_worker_stop. On a GPU no worker may be created or destroyed while one
 * answers. */
int gw_worker_start(struct gw_worker *w);
/* Answers all further requests with GW_SERVE_CLOSING, and those that wait as ever. */
void gw_worker_close(struct gw_worker *w);
/* Asks it to stop and returns at once; gw_worker_stop follows. */
void gw_worker_stop_soon(struct gw_worker *w);
/* Stops and waits; *stop_ns is what it took. -ETIMEDOUT: it is still at work on a request at the deadline. */
int gw_worker_stop(struct gw_worker *w, uint64_t deadline_ns, uint64_t *stop_ns);
int gw_worker_destroy(struct gw_worker *w);

const char *gw_worker_name(const struct gw_worker *w);
uint32_t gw_worker_slots(const struct gw_worker *w);    /* that a session has at most */
uint32_t gw_worker_max_rows(const struct gw_worker *w); /* that a request has at most */
unsigned gw_worker_version(const struct gw_worker *w);
const struct gw_model *gw_worker_model(const struct gw_worker *w);
struct gw_session_pool *gw_worker_sessions(const struct gw_worker *w);
/* Inferences asked for from inside the process; NULL: it has no sessions for them. */
struct gw_calls *gw_worker_calls(const struct gw_worker *w);
/* The error of a failed run of the model, on the CPU executor; 0: none has failed. Any thread. */
int gw_worker_run_error(const struct gw_worker *w);
/* 1: rows of a batch would meet, so that it takes one at a time, whatever its options say. */
int gw_worker_is_alone(const struct gw_worker *w);
/* The batch sizes; how many. */
uint32_t gw_worker_batches(const struct gw_worker *w, uint32_t rows[GW_SERVE_VARIANTS]);
/* Does the kernel that waits for requests run the model itself, with the batch size of that number? */
bool gw_worker_resident(const struct gw_worker *w, uint32_t i);
/* The measurements for that. */
const struct gw_resident_choice *gw_worker_choice(const struct gw_worker *w, uint32_t i);
/* Readable when the loop has ended by itself, which only an error does. */
int gw_worker_fd(const struct gw_worker *w);

#endif
