/* SPDX-License-Identifier: Apache-2.0 */
/* One request: checked against its model, given a slot, run, and its outputs found. */
#include "src/server/requests/infer.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <gpuwire/exec.h>

#include "src/door/who.h"

#define PATIENCE_NS 30000000000u /* how long a request without a timeout waits for a slot */
#define LOOK_NS     100000000u   /* how often we check in that time whether the client has gone */

/* A part of shared memory that a tensor comes from or goes to. */
struct place {
    char region[GW_INFER_NAME]; /* "": none */
    uint64_t offset, bytes;
};

struct gw_infer_run {
    struct gw_infer *infer;
    const struct gw_infer_backend *backend;
    void *ctx; /* the backend's */
    struct gw_infer_model model;
    struct gw_infer_call *call;
    char who[GW_WHO_TEXT];
    uint32_t inputs, outputs, rows, priority;
    /* GW_SERVE_PLACED, GW_SERVE_STAY: what goes from GPU to GPU, past the call's own memory */
    uint32_t flags;
    struct gw_infer_times times;                              /* once it has been answered */
    uint64_t deadline, timeout_us;                            /* 0: none */
    uint32_t input[GW_MODEL_MAX_IO], output[GW_MODEL_MAX_IO]; /* the request's i-th: which of the model's */
    struct place from[GW_MODEL_MAX_IO], to[GW_MODEL_MAX_IO];
    struct gw_infer_output out[GW_MODEL_MAX_IO];
    int (*gone)(void *ctx); /* the request's */
    void *gone_ctx;
};

/* ---- is it a request that the model takes? ---- */

static const char *infer_run_shape_text(const int64_t *dims, uint32_t rank, char text[160])
{
    size_t at = 0;
    text[0] = 0;
    for (uint32_t i = 0; i < rank && at < 150; i++)
        at += (size_t)snprintf(text + at, 160 - at, "%s%lld", i ? "," : "", (long long)dims[i]);
    return text;
}

static int find_tensor(const struct gw_model *m, int output, const char *name)
{
    uint32_t n = output ? gw_model_outputs(m) : gw_model_inputs(m);
    for (uint32_t i = 0; i < n; i++)
        if (!strcmp((output ? gw_model_output(m, i) : gw_model_input(m, i))->name, name)) return (int)i;
    return -1;
}

static bool infer_run_fits(const int64_t *want, const int64_t *have, uint32_t rank, uint32_t rows)
{
    for (uint32_t i = 0; i < rank; i++)
        if (have[i] != (want[i] < 0 ? (int64_t)rows : want[i])) return false;
    return true;
}

static int check_shape(struct gw_infer_run *r, const struct gw_tensor_info *info,
                       const struct gw_infer_tensor *t, struct gw_infer_error *error)
{
    int64_t want[GW_MODEL_MAX_RANK];
    char wanted[160], got[160];
    const char *model = r->model.name;
    uint32_t rank = gw_infer_shape(&r->model, info, want), most = r->model.max_batch;
    int open = rank && want[0] < 0;
    if (open && t->rank == rank && !r->rows) {
        if (t->dims[0] < 1 || t->dims[0] > (int64_t)most)
            return gw_infer_fail(error, GW_INFER_INVALID,
                                 "inference request batch-size must be from 1 to %u for '%s', and is %lld",
                                 most, model, (long long)t->dims[0]);
        r->rows = (uint32_t)t->dims[0];
    }
    if (t->rank == rank && infer_run_fits(want, t->dims, rank, r->rows)) return 0;
    return gw_infer_fail(error, GW_INFER_INVALID,
                         "unexpected shape for input '%.100s' for model '%s'. Expected [%s], got [%s]%s",
                         info->name, model, infer_run_shape_text(want, rank, wanted),
                         infer_run_shape_text(t->dims, t->rank, got),
                         open ? "; all inputs have the same number of samples" : "");
}

static struct gw_region_part infer_run_part_of(const struct gw_infer_run *r, const struct place *p,
                                               uint64_t bytes)
{
    return (struct gw_region_part){r->who, p->region, p->offset, bytes};
}

static int infer_run_take_place(struct gw_infer_run *r, const struct gw_infer_tensor *t, struct place *p,
                                struct gw_infer_error *error)
{
    if (!t->region) return 0;
    if (strlen(t->region) >= sizeof(p->region) || !*t->region)
        return gw_infer_fail(error, GW_INFER_INVALID,
                             "tensor '%.100s': not the name of a shared memory region", t->name);
    strcpy(p->region, t->region);
    p->offset = t->region_offset;
    p->bytes = t->region_bytes;
    struct gw_region_part part = infer_run_part_of(r, p, p->bytes);
    return gw_region_check(gw_infer_regions(r->infer), &part, error);
}

static int check_input(struct gw_infer_run *r, const struct gw_infer_tensor *t, uint32_t *seen,
                       struct gw_infer_error *error)
{
    const struct gw_model *m = r->model.model;
    const char *model = r->model.name;
    int i = find_tensor(m, 0, t->name);
    if (i < 0)
        return gw_infer_fail(error, GW_INFER_INVALID, "unexpected inference input '%.100s' for model '%s'",
                             t->name, model);
    if (*seen >> i & 1)
        return gw_infer_fail(error, GW_INFER_INVALID, "input '%.100s' already exists in request", t->name);
    const struct gw_tensor_info *info = gw_model_input(m, (uint32_t)i);
    if (gw_dtype_parse(t->datatype) != info->dtype)
        return gw_infer_fail(error, GW_INFER_INVALID,
                             "inference input '%.100s' data-type is '%.20s', but model '%s' expects '%s'",
                             t->name, t->datatype, model, gw_dtype_name(info->dtype));
    if (check_shape(r, info, t, error)) return -1;
    *seen |= 1u << i;
    r->input[r->inputs] = (uint32_t)i;
    return infer_run_take_place(r, t, &r->from[r->inputs++], error);
}

static int infer_run_check_inputs(struct gw_infer_run *r, const struct gw_infer_request *q,
                                  struct gw_infer_error *error)
{
    uint32_t want = gw_model_inputs(r->model.model), seen = 0;
    for (uint32_t i = 0; i < q->inputs; i++)
        if (check_input(r, &q->input[i], &seen, error)) return -1;
    if (q->inputs != want)
        return gw_infer_fail(error, GW_INFER_INVALID, "expected %u inputs but got %u inputs for model '%s'",
                             want, q->inputs, r->model.name);
    if (!r->rows) r->rows = 1;
    return 0;
}

static int check_outputs(struct gw_infer_run *r, const struct gw_infer_request *q,
                         struct gw_infer_error *error)
{
    const struct gw_model *m = r->model.model;
    if (!q->outputs) {
        r->outputs = gw_model_outputs(m);
        for (uint32_t i = 0; i < r->outputs; i++) r->output[i] = i;
        return 0;
    }
    for (uint32_t k = 0; k < q->outputs; k++) {
        int i = find_tensor(m, 1, q->output[k].name);
        if (i < 0)
            return gw_infer_fail(error, GW_INFER_INVALID,
                                 "unexpected inference output '%.100s' for model '%s'", q->output[k].name,
                                 r->model.name);
        for (uint32_t before = 0; before < k; before++)
            if (r->output[before] == (uint32_t)i)
                return gw_infer_fail(error, GW_INFER_INVALID, "output '%.100s' already requested",
                                     q->output[k].name);
        r->output[k] = (uint32_t)i;
        if (infer_run_take_place(r, &q->output[k], &r->to[k], error)) return -1;
    }
    r->outputs = q->outputs;
    return 0;
}

/* ---- beginning ---- */

static int too_late(const struct gw_infer_run *r, struct gw_infer_error *error)
{
    return gw_infer_fail_late(error, r->backend->late);
}

static int infer_run_is_gone(const struct gw_infer_run *r, struct gw_infer_error *error)
{
    return r->gone && r->gone(r->gone_ctx)
               ? gw_infer_fail(error, GW_INFER_UNAVAILABLE, "the client has gone before its request began")
               : 0;
}

static int take_call(struct gw_infer_run *r, uint64_t deadline, struct gw_infer_error *error)
{
    int err;
    do {
        uint64_t look = gw_deadline(LOOK_NS), until = r->gone && deadline > look ? look : deadline;
        err = infer_run_is_gone(r, error)
                  ? -ECANCELED
                  : r->backend->take(r->ctx, &r->model, r->rows, r->who, until, &r->call);
    } while (err == -ETIMEDOUT && gw_deadline(0) < deadline);
    if (err == -ECANCELED) return -1;
    if (err == -ETIMEDOUT && r->deadline) return too_late(r, error);
    return err ? gw_infer_fail_errno(error, err) : 0;
}

/* Finds the model and checks the request. The model is held when it succeeds. */
static int infer_run_check(struct gw_infer_run *r, const struct gw_infer_request *q,
                           struct gw_infer_error *error)
{
    gw_infer_enter(r->infer);
    int wrong = gw_infer_find(r->infer, q->model, q->version, &r->model, error) ||
                infer_run_check_inputs(r, q, error) || check_outputs(r, q, error) ||
                r->backend->hold(r->ctx, &r->model, error);
    gw_infer_leave(r->infer);
    return wrong;
}

static uint64_t infer_run_bytes_of(const struct gw_infer_run *r, int output, uint32_t tensor)
{
    return gw_layout_tensor_bytes(r->backend->layout(r->call, output), tensor, r->rows);
}

static int infer_run_check_sizes(const struct gw_infer_run *r, struct gw_infer_error *error)
{
    for (uint32_t i = 0; i < r->inputs; i++) {
        uint64_t bytes = infer_run_bytes_of(r, 0, r->input[i]);
        if (r->from[i].region[0] && r->from[i].bytes != bytes)
            return gw_infer_fail(error, GW_INFER_INVALID,
                                 "input '%.100s' got unexpected byte size %llu, expected %llu",
                                 gw_infer_input_info(r, i)->name, (unsigned long long)r->from[i].bytes,
                                 (unsigned long long)bytes);
    }
    return 0;
}

/* Where the worker has tensor `tensor` of the call, after `first`, which is tensor 0. */
static uint8_t *infer_run_there(const struct gw_infer_run *r, int output, uint32_t tensor, uint8_t *first)
{
    return first + gw_layout_offset(r->backend->layout(r->call, output), tensor, r->rows);
}

/* Do all inputs, or outputs, lie where the GPU copies them from or to the worker's own slot? */
static bool all_reach(const struct gw_infer_run *r, int output, uint8_t *first)
{
    const struct place *p = output ? r->to : r->from;
    const uint32_t *tensor = output ? r->output : r->input;
    uint32_t n = output ? r->outputs : r->inputs;
    for (uint32_t i = 0; i < n; i++)
        if (!p[i].region[0] || !gw_region_reaches(gw_infer_regions(r->infer), r->who, p[i].region,
                                                  infer_run_there(r, output, tensor[i], first),
                                                  infer_run_bytes_of(r, output, tensor[i])))
            return false;
    return n != 0;
}

/* Finds out what goes past the host, and brings the inputs that do. */
static int fetch_on_gpu(struct gw_infer_run *r, struct gw_infer_error *error)
{
    uint8_t *in, *out;
    int wrong = 0, shared = 0;
    for (uint32_t i = 0; i < r->inputs; i++) shared |= r->from[i].region[0];
    for (uint32_t k = 0; k < r->outputs; k++) shared |= r->to[k].region[0];
    if (!shared || !r->backend->enter_slot) return 0;
    int err = r->backend->enter_slot(r->call, &in, &out);
    if (err) return gw_infer_fail_errno(error, err);
    if (all_reach(r, 1, out)) r->flags |= GW_SERVE_STAY;
    if (all_reach(r, 0, in)) r->flags |= GW_SERVE_PLACED;
    for (uint32_t i = 0; !wrong && r->flags & GW_SERVE_PLACED && i < r->inputs; i++) {
        struct gw_region_part part = infer_run_part_of(r, &r->from[i], r->from[i].bytes);
        wrong = gw_region_copy(gw_infer_regions(r->infer), &part, infer_run_there(r, 0, r->input[i], in), 1,
                               error);
    }
    r->backend->leave_slot(r->call);
    return wrong;
}

/* Inputs that lie in shared memory. */
static int infer_run_fetch(struct gw_infer_run *r, struct gw_infer_error *error)
{
    if (infer_run_check_sizes(r, error) || fetch_on_gpu(r, error)) return -1;
    for (uint32_t i = 0; i < r->inputs && !(r->flags & GW_SERVE_PLACED); i++) {
        const struct place *p = &r->from[i];
        uint64_t bytes;
        if (!p->region[0]) continue;
        void *to = r->backend->input(r->call, r->input[i], r->rows, &bytes);
        struct gw_region_part part = infer_run_part_of(r, p, bytes);
        if (gw_region_read(gw_infer_regions(r->infer), &part, to, error)) return -1;
    }
    return 0;
}

int gw_infer_begin(struct gw_infer *f, const struct gw_infer_request *q, struct gw_infer_run **out,
                   struct gw_infer_error *error)
{
    if (gw_infer_draining(f)) return gw_infer_refuse_draining(error);
    struct gw_infer_run *r = calloc(1, sizeof(*r));
    if (!r) return gw_infer_fail(error, GW_INFER_INTERNAL, "out of memory");
    r->infer = f;
    r->backend = gw_infer_backend(f, &r->ctx);
    r->gone = q->gone;
    r->gone_ctx = q->ctx;
    r->priority = q->priority < UINT32_MAX ? (uint32_t)q->priority : UINT32_MAX;
    r->timeout_us = q->timeout_us;
    r->deadline = q->timeout_us
                      ? gw_deadline(q->timeout_us < UINT64_MAX / 1000 ? q->timeout_us * 1000 : UINT64_MAX)
                      : 0;
    snprintf(r->who, sizeof(r->who), "%s", q->who);
    uint64_t wait = r->deadline ? r->deadline : gw_deadline(PATIENCE_NS);
    int wrong = infer_run_check(r, q, error);
    if (!wrong) {
        wrong = take_call(r, wait, error);
        r->backend->release(r->ctx, &r->model); /* from here on its call keeps the model */
    }
    if (wrong || infer_run_fetch(r, error)) {
        gw_infer_end(r);
        return -1;
    }
    *out = r;
    return 0;
}

const struct gw_infer_model *gw_infer_run_model(const struct gw_infer_run *r)
{
    return &r->model;
}

void *gw_infer_input(struct gw_infer_run *r, uint32_t i, uint64_t *bytes)
{
    void *to = r->backend->input(r->call, r->input[i], r->rows, bytes);
    return r->from[i].region[0] ? NULL : to;
}

const struct gw_tensor_info *gw_infer_input_info(const struct gw_infer_run *r, uint32_t i)
{
    return gw_model_input(r->model.model, r->input[i]);
}

/* ---- running ---- */

static int infer_run_submit(struct gw_infer_run *r, struct gw_infer_error *error)
{
    uint64_t now = gw_deadline(0);
    uint32_t flags = r->flags | (r->gone ? GW_SERVE_RECALL : 0);
    struct gw_infer_ask ask = {.rows = r->rows, .priority = r->priority, .flags = flags};
    if (r->deadline && now >= r->deadline) return too_late(r, error);
    if (infer_run_is_gone(r, error)) return -1;
    if (r->deadline) ask.budget_ns = r->deadline - now;
    int err = r->backend->submit(r->call, &ask);
    return err ? gw_infer_fail_errno(error, err) : 0;
}

/* Where output k is, and what it looks like. first: where the worker has output 0, of outputs that stayed
 * there. */
static int deliver(struct gw_infer_run *r, uint32_t k, uint8_t *first, struct gw_infer_error *error)
{
    const struct place *p = &r->to[k];
    struct gw_infer_output *o = &r->out[k];
    o->info = gw_model_output(r->model.model, r->output[k]);
    o->asked = k;
    o->rank = gw_infer_shape(&r->model, o->info, o->dims);
    if (o->rank && o->dims[0] < 0) o->dims[0] = r->rows;
    o->data = r->backend->output(r->call, r->output[k], &o->bytes);
    if (!p->region[0]) return 0;
    if (p->bytes < o->bytes)
        return gw_infer_fail(
            error, GW_INFER_INVALID,
            "shared memory size specified with the request for output '%.100s' (%llu bytes) should be "
            "at least %llu bytes to hold the results",
            o->info->name, (unsigned long long)p->bytes, (unsigned long long)o->bytes);
    const void *data = o->data;
    o->data = NULL;
    struct gw_region_part part = infer_run_part_of(r, p, o->bytes);
    if (r->flags & GW_SERVE_STAY)
        return gw_region_copy(gw_infer_regions(r->infer), &part, infer_run_there(r, 1, r->output[k], first),
                              0, error);
    return gw_region_write(gw_infer_regions(r->infer), &part, data, error);
}

static int deliver_all(struct gw_infer_run *r, uint8_t *first, struct gw_infer_error *error)
{
    for (uint32_t k = 0; k < r->outputs; k++)
        if (deliver(r, k, first, error)) return -1;
    return 0;
}

static int infer_run_finish(struct gw_infer_run *r, struct gw_infer_error *error)
{
    if (r->backend->result(r->call, &r->model, &r->times, error)) return -1;
    if (!(r->flags & GW_SERVE_STAY)) return deliver_all(r, NULL, error);
    uint8_t *in, *out;
    int err = r->backend->enter_slot(r->call, &in, &out);
    if (err) return gw_infer_fail_errno(error, err);
    int wrong = deliver_all(r, out, error);
    r->backend->leave_slot(r->call);
    return wrong;
}

/* A request whose client goes is taken back, unless the model has it already. */
static int infer_run_wait_for_end(struct gw_infer_run *r, struct gw_infer_error *error)
{
    uint64_t deadline = r->deadline ? r->deadline : GW_NEVER;
    int cancelled = 0;
    for (;;) {
        uint64_t look = gw_deadline(LOOK_NS),
                 until = r->gone && !cancelled && deadline > look ? look : deadline;
        if (!r->backend->wait(r->call, until)) return 0;
        if (gw_deadline(0) >= deadline) return too_late(r, error);
        cancelled = cancelled || (infer_run_is_gone(r, error) && !r->backend->cancel(r->call));
    }
}

int gw_infer_wait(struct gw_infer_run *r, struct gw_infer_error *error)
{
    if (infer_run_submit(r, error) || infer_run_wait_for_end(r, error)) return -1;
    return infer_run_finish(r, error);
}

const struct gw_infer_output *gw_infer_output(const struct gw_infer_run *r, uint32_t i)
{
    return i < r->outputs ? &r->out[i] : NULL;
}

void gw_infer_account(const struct gw_infer_run *r, struct gw_access_request *line)
{
    line->model = r->model.name;
    line->version = r->model.version;
    line->rows = r->rows;
    line->queue_ns = r->times.queue_ns;
    line->compute_ns = r->times.compute_ns;
}

void gw_infer_end(struct gw_infer_run *r)
{
    if (!r) return;
    r->backend->give(r->call);
    free(r);
}
