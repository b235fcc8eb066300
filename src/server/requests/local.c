/* SPDX-License-Identifier: Apache-2.0 */
/* Requests for the models of this process: a door's call is a gw_call of the model's worker. */
#include "src/server/requests/local.h"

#include <errno.h>
#include <string.h>

#include <gpuwire/error.h>

#include "src/server/worker/call.h"

static struct gw_call *infer_local_call(const struct gw_infer_call *call)
{
    return (struct gw_call *)(uintptr_t)call;
}

void gw_infer_local_of(const struct gw_server_view *view, struct gw_infer_local *out)
{
    *out = (struct gw_infer_local){.worker = view->worker,
                                   .workers = view->workers,
                                   .lock = view->lock,
                                   .missing = view->missing,
                                   .on_gpu = view->on_gpu};
}

/* ---- models ---- */

static void infer_local_enter(void *ctx)
{
    struct gw_infer_local *l = ctx;
    if (l->lock) pthread_rwlock_rdlock(l->lock);
}

static void infer_local_leave(void *ctx)
{
    struct gw_infer_local *l = ctx;
    if (l->lock) pthread_rwlock_unlock(l->lock);
}

static uint32_t infer_local_max_batch(const struct gw_worker *w)
{
    const struct gw_model *m = gw_worker_model(w);
    uint32_t rows = gw_worker_calls(w) ? gw_calls_rows(gw_worker_calls(w)) : 1, batched = 0;
    for (uint32_t i = 0; i < gw_model_inputs(m); i++) batched |= gw_model_input(m, i)->batched;
    return batched && rows > 1 ? rows : 0;
}

static void infer_local_describe(struct gw_worker *w, struct gw_infer_model *out)
{
    *out = (struct gw_infer_model){.name = gw_worker_name(w),
                                   .version = gw_worker_version(w),
                                   .model = gw_worker_model(w),
                                   .max_batch = infer_local_max_batch(w),
                                   .rdma_slots = gw_worker_slots(w),
                                   .own = w};
}

static int infer_local_find(void *ctx, const char *name, struct gw_infer_model *out,
                            struct gw_infer_error *error)
{
    const struct gw_infer_local *l = ctx;
    size_t i = 0;
    while (i < *l->workers && strcmp(gw_worker_name(l->worker[i]), name)) i++;
    if (i == *l->workers)
        return gw_infer_fail(error, GW_INFER_NOT_FOUND, "Request for unknown model: '%.200s' is not found",
                             name);
    infer_local_describe(l->worker[i], out);
    return 0;
}

static bool infer_local_model(void *ctx, size_t i, struct gw_infer_model *out)
{
    const struct gw_infer_local *l = ctx;
    if (i >= *l->workers) return false;
    infer_local_describe(l->worker[i], out);
    return true;
}

static const struct gw_missing_model *infer_local_missing(void *ctx, size_t i)
{
    const struct gw_infer_local *l = ctx;
    return l->missing && i < l->missing->count ? &l->missing->model[i] : NULL;
}

static void infer_local_stats(void *ctx, const struct gw_infer_model *m, struct gw_infer_stats *out)
{
    (void)ctx;
    gw_infer_worker_stats(m->own, out);
}

static const char *infer_local_executor(void *ctx)
{
    const struct gw_infer_local *l = ctx;
    return l->on_gpu ? "gpu" : "cpu";
}

/* ---- calls ---- */

static int infer_local_hold(void *ctx, const struct gw_infer_model *m, struct gw_infer_error *error)
{
    (void)ctx;
    if (!gw_worker_calls(m->own))
        return gw_infer_fail(error, GW_INFER_UNSUPPORTED, "model '%s' takes requests over RDMA only",
                             m->name);
    gw_calls_hold(gw_worker_calls(m->own));
    return 0;
}

static void infer_local_release(void *ctx, const struct gw_infer_model *m)
{
    (void)ctx;
    gw_calls_release(gw_worker_calls(m->own));
}

static int infer_local_take(void *ctx, const struct gw_infer_model *m, uint32_t rows, const char *who,
                            uint64_t deadline, struct gw_infer_call **out)
{
    struct gw_call *call = NULL;
    (void)ctx, (void)rows; /* every slot has room for all that the model takes */
    int err = gw_call_take(gw_worker_calls(m->own), who, deadline, &call);
    if (!err) *out = (struct gw_infer_call *)call;
    return err;
}

static void infer_local_give(struct gw_infer_call *call)
{
    gw_call_give(infer_local_call(call));
}

static const struct gw_layout *infer_local_layout(const struct gw_infer_call *call, int output)
{
    return gw_call_layout(infer_local_call(call), output);
}

static void *infer_local_input(struct gw_infer_call *call, uint32_t tensor, uint32_t rows, uint64_t *bytes)
{
    return gw_call_input(infer_local_call(call), tensor, rows, bytes);
}

static const void *infer_local_output(const struct gw_infer_call *call, uint32_t tensor, uint64_t *bytes)
{
    return gw_call_output(infer_local_call(call), tensor, bytes);
}

static int infer_local_submit(struct gw_infer_call *call, const struct gw_infer_ask *ask)
{
    const struct gw_call_ask all = {
        .rows = ask->rows, .priority = ask->priority, .budget_ns = ask->budget_ns, .flags = ask->flags};
    return gw_call_submit(infer_local_call(call), &all);
}

static int infer_local_wait(struct gw_infer_call *call, uint64_t deadline)
{
    return gw_call_wait(infer_local_call(call), deadline);
}

static int infer_local_cancel(struct gw_infer_call *call)
{
    return gw_call_cancel(infer_local_call(call));
}

static int infer_local_failed(int err, const struct gw_infer_model *m, struct gw_infer_error *error)
{
    switch (err) {
    case -ETIME: return gw_infer_fail_late(error, gw_infer_local.late);
    case -ECANCELED:
        return gw_infer_fail(error, GW_INFER_UNAVAILABLE, "the client has gone before its request began");
    case -ESHUTDOWN:
        return gw_infer_fail(error, GW_INFER_UNAVAILABLE, "model '%s' is being stopped", m->name);
    case -EREMOTEIO:
        return gw_infer_fail(error, GW_INFER_INTERNAL, "model '%s' failed on this request: %s", m->name,
                             strerror(-gw_worker_run_error(m->own)));
    default:
        return gw_infer_fail(error, GW_INFER_INTERNAL, "model '%s': the request was lost: %s", m->name,
                             strerror(-err));
    }
}

static int infer_local_result(struct gw_infer_call *call, const struct gw_infer_model *m,
                              struct gw_infer_times *times, struct gw_infer_error *error)
{
    const struct gw_call *c = infer_local_call(call);
    if (c->error != -EIO && c->error != -ESHUTDOWN)
        *times = (struct gw_infer_times){.queue_ns = c->reply->started - c->reply->arrived,
                                         .compute_ns = c->reply->done - c->reply->started};
    return c->error ? infer_local_failed(c->error, m, error) : 0;
}

static int infer_local_enter_slot(struct gw_infer_call *call, uint8_t **in, uint8_t **out)
{
    return gw_call_enter_slot(infer_local_call(call), in, out);
}

static void infer_local_leave_slot(struct gw_infer_call *call)
{
    gw_call_leave_slot(infer_local_call(call));
}

const struct gw_infer_backend gw_infer_local = {.enter = infer_local_enter,
                                                .leave = infer_local_leave,
                                                .find = infer_local_find,
                                                .model = infer_local_model,
                                                .missing = infer_local_missing,
                                                .stats = infer_local_stats,
                                                .hold = infer_local_hold,
                                                .release = infer_local_release,
                                                .take = infer_local_take,
                                                .give = infer_local_give,
                                                .layout = infer_local_layout,
                                                .input = infer_local_input,
                                                .output = infer_local_output,
                                                .submit = infer_local_submit,
                                                .wait = infer_local_wait,
                                                .cancel = infer_local_cancel,
                                                .result = infer_local_result,
                                                .enter_slot = infer_local_enter_slot,
                                                .leave_slot = infer_local_leave_slot,
                                                .executor = infer_local_executor,
                                                .late = GW_INFER_UNAVAILABLE};
