/* SPDX-License-Identifier: Apache-2.0 */
/* Requests of the Open Inference Protocol, whatever carries them: HTTP and gRPC translate to this and back.
 *
 * A door describes a request (struct gw_infer_request), and gw_infer_begin checks it against the model and
 * takes a slot for it. The door then writes the inputs' elements straight into the slot, starts the
 * inference, and sends the outputs from where the worker wrote them:
 *
 *     gw_infer_begin(infer, &request, &run, &error);
 *     for each input: memcpy(gw_infer_input(run, i, &bytes), data, bytes);
 *     gw_infer_wait(run, &error);
 *     for each output: gw_infer_output(run, i)->data
 *     gw_infer_end(run);
 *
 * Functions that can fail return 0, or -1 with *error filled in: its text is for the client. Any thread may
 * call all of it; a run belongs to the thread that began it.
 */
#ifndef GW_SERVER_REQUESTS_INFER_H
#define GW_SERVER_REQUESTS_INFER_H

#include <stdbool.h>

#include <gpuwire/model.h>

#include "src/server/requests/backend.h"
#include "src/server/requests/control.h"
#include "src/server/requests/error.h"
#include "src/server/requests/region.h"
#include "src/door/access.h"

#define GW_INFER_NAME                                                                                        \
    256 /* bytes of a name with its final zero: models', versions', tensors', regions', ids' */

struct gw_infer;

struct gw_infer_opts {
    const struct gw_infer_backend *backend; /* whose models they are; it and its ctx outlive the gw_infer */
    void *ctx;
    struct gw_control *control; /* that loads and unloads models; NULL: they are fixed */
    struct gw_access *access;   /* where doors log requests; it outlives the gw_infer. NULL: nowhere */
};
int gw_infer_create(const struct gw_infer_opts *opts, struct gw_infer **out);
/* When no run is left. NULL is allowed. */
void gw_infer_destroy(struct gw_infer *infer);

/* From now on it begins no run, and the server is not ready: it serves what it has, and then ends. */
void gw_infer_drain(struct gw_infer *infer);
bool gw_infer_draining(const struct gw_infer *infer);
/* Why nothing new is taken on while it drains: GW_INFER_UNAVAILABLE. Returns -1. */
int gw_infer_refuse_draining(struct gw_infer_error *error);
/* 0: requests are served; or -1 with *error. */
int gw_infer_check_ready(struct gw_infer *infer, struct gw_infer_error *error);

/* For the code of runs: the backend, and its ctx. */
const struct gw_infer_backend *gw_infer_backend(const struct gw_infer *infer, void **ctx);

/* ---- models ---- */

/* Between these two, a model that gw_infer_find or gw_infer_model has given stays. gw_infer_begin and its run
 * need neither. A thread between the two must not call gw_infer_begin. The thread that changes the models may
 * be waiting for this one to leave, and gw_infer_begin would wait for that. */
void gw_infer_enter(struct gw_infer *infer);
void gw_infer_leave(struct gw_infer *infer);

/* The model of that name; version NULL or "": whichever is served. GW_INFER_NOT_FOUND: there is none. */
int gw_infer_find(struct gw_infer *infer, const char *model, const char *version, struct gw_infer_model *out,
                  struct gw_infer_error *error);
/* The i-th model that is served; false: there are fewer. */
bool gw_infer_model(struct gw_infer *infer, size_t i, struct gw_infer_model *out);
/* The first one from the *i-th on whose tensors are known, and *i is the number after it. So those of other
 * hosts that no request has named yet are skipped. False: there are no more. */
bool gw_infer_known_model(struct gw_infer *infer, size_t *i, struct gw_infer_model *out);
/* What a model that gw_infer_find or gw_infer_model has given did so far. */
void gw_infer_stats(struct gw_infer *infer, const struct gw_infer_model *m, struct gw_infer_stats *out);
/* The i-th model that is there and not served; NULL: there are fewer. */
const struct gw_missing_model *gw_infer_missing(struct gw_infer *infer, size_t i);
/* The shape of one of the model's tensors as the protocol tells it: -1 stands for an open number of samples.
 * Returns the rank. */
uint32_t gw_infer_shape(const struct gw_infer_model *m, const struct gw_tensor_info *t,
                        int64_t dims[GW_MODEL_MAX_RANK]);
/* gw_control_ask, where clients may. Not between gw_infer_enter and gw_infer_leave. */
int gw_infer_change(struct gw_infer *infer, enum gw_control_what what, const char *model,
                    struct gw_infer_error *error);
/* Where the models run, as metrics name it; and what the backend has to add to these. */
const char *gw_infer_executor(struct gw_infer *infer);
void gw_infer_metrics(struct gw_infer *infer, struct gw_text *t);
/* Shared memory that clients have registered. */
struct gw_regions *gw_infer_regions(struct gw_infer *infer);
/* gw_region_register_cuda and gw_region_unregister, while the models pause. `handle` has `length` bytes. */
int gw_infer_register_cuda(struct gw_infer *infer, const char *who, const struct gw_region_info *info,
                           const void *handle, size_t length, struct gw_infer_error *error);
int gw_infer_unregister_cuda(struct gw_infer *infer, const char *who, const char *name,
                             struct gw_infer_error *error);

/* ---- one request ---- */

/* An input or a requested output. Strings need only live until gw_infer_begin returns. */
struct gw_infer_tensor {
    const char *name;
    const char *datatype; /* inputs: the protocol's name of it */
    uint32_t rank;        /* inputs */
    int64_t dims[GW_MODEL_MAX_RANK];
    const char *region; /* shared memory that holds it, or takes it; NULL: the message does */
    uint64_t region_offset, region_bytes;
};

struct gw_infer_request {
    const char *model, *version; /* version: NULL or "": whichever is served */
    const char *who;             /* the client, as src/door/who.h tells clients apart */
    uint32_t inputs, outputs;    /* outputs 0: all that the model has, in the message */
    struct gw_infer_tensor input[GW_MODEL_MAX_IO], output[GW_MODEL_MAX_IO];
    int (*gone)(void *ctx); /* has the client gone? It is then refused, unless it has begun; NULL: unknown */
    void *ctx;
    uint64_t priority;   /* 1 is served first; 0: the model's default */
    uint64_t timeout_us; /* an answer later than that is worth nothing; 0: no deadline */
};

struct gw_infer_output {
    const struct gw_tensor_info *info;
    uint32_t rank;
    int64_t dims[GW_MODEL_MAX_RANK];
    uint64_t bytes;
    const void *data; /* in the slot, until gw_infer_end; NULL: it is in shared memory */
    uint32_t asked;   /* which of the request's outputs it is; its own number when none were named */
};

struct gw_infer_run;

/* Checks the request and takes a slot for it, which may wait for other requests to end: up to timeout_us, or
 * half a minute. Models may come and go during the call. Inputs in shared memory are copied. */
int gw_infer_begin(struct gw_infer *infer, const struct gw_infer_request *request, struct gw_infer_run **out,
                   struct gw_infer_error *error);
/* It stays until gw_infer_end. */
const struct gw_infer_model *gw_infer_run_model(const struct gw_infer_run *run);
/* Where the elements of the request's i-th input go, and how many bytes they are: little-endian, in C order.
 * NULL: it came from shared memory. */
void *gw_infer_input(struct gw_infer_run *run, uint32_t i, uint64_t *bytes);
const struct gw_tensor_info *gw_infer_input_info(const struct gw_infer_run *run, uint32_t i);

/* Runs it: asks the worker and sleeps until the answer is there. Outputs for shared memory are copied. */
int gw_infer_wait(struct gw_infer_run *run, struct gw_infer_error *error);

/* Once it has succeeded: what the request asked for, in its order. NULL: there are fewer. */
const struct gw_infer_output *gw_infer_output(const struct gw_infer_run *run, uint32_t i);
/* Fills in what the access log says of the run: model and samples; once it has been answered, how long it
 * waited and was in the model. */
void gw_infer_account(const struct gw_infer_run *run, struct gw_access_request *line);
/* Where doors log requests; NULL: nowhere. */
struct gw_access *gw_infer_access(struct gw_infer *infer);
/* Gives the slot back; a run that was started and has not ended is abandoned. NULL is allowed. */
void gw_infer_end(struct gw_infer_run *run);

#endif
