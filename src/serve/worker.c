/* SPDX-License-Identifier: Apache-2.0 */
#include "src/serve/worker.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <gpuwire/loop.h>

GW_KERNEL_DECLARE(gw_serve_wait);
GW_KERNEL_DECLARE(gw_serve_send);

struct gw_worker {
    char *name;
    unsigned version;
    struct gw_worker_opts opts;
    struct gw_model *model;
    uint32_t rows; /* of a request at most */
    struct gw_layout in, out;
    struct gw_plan *plan;
    struct gw_session_pool *pool;
    struct gw_calls *calls;
    struct gw_loop *loop;
    struct gw_serve_args args;
    int run_error; /* what the last failed run of the model ended with; atomic */
};

/* The model's stage on CPU threads. */
static int run_model(void *ctx)
{
    struct gw_worker *w = ctx;
    if (!w->args.work->valid) return 0;
    int error = gw_plan_run(w->plan, w->args.io->in, w->args.io->out);
    if (error) __atomic_store_n(&w->run_error, error, __ATOMIC_RELAXED); /* it stands alone */
    w->args.work->failed = error;
    return 0; /* that request's client is told; the loop goes on */
}

/* The model's stage on a GPU: its kernels find the slot's addresses in *io, which the first stage writes. */
static int enqueue_model(void *ctx, void *stream)
{
    struct gw_worker *w = ctx;
    return gw_plan_enqueue_indirect(w->plan, stream, w->args.io);
}

/* In host memory that the GPU sees where the NIC cannot reach the GPU's own. */
static int slots_in_gpu_memory(const struct gw_worker *w)
{
    struct gw_device_info nic;
    gw_device_query(w->opts.dev, &nic);
    return nic.gpu_reach == GW_REACH_DIRECT || nic.gpu_reach == GW_REACH_DMABUF;
}

static int load(struct gw_worker *w, const struct gw_repository_entry *entry)
{
    char why[GW_MODEL_ERR] = "";
    int error = gw_model_open(entry->path, &w->model, why, sizeof(why));
    if (error) return gw_error(error, "%s", why);
    w->rows = 1;
    error = gw_layout_of_model(w->model, 0, w->rows, &w->in);
    if (!error) error = gw_layout_of_model(w->model, 1, w->rows, &w->out);
    return error ? gw_error(error, "%s: the tensors of a request take over 2 GiB, which cannot be served",
                            w->name)
                 : 0;
}

static struct gw_session_pool_opts session_opts(const struct gw_worker *w)
{
    return (struct gw_session_pool_opts){
        .dev = w->opts.dev,
        .exec = w->opts.exec,
        .sessions = w->opts.sessions + w->opts.own_sessions,
        .slots = w->opts.slots,
        .kept = w->opts.own_sessions,
        .rows = w->rows,
        .in = w->in,
        .out = w->out,
        .gpu_memory = (uint32_t)slots_in_gpu_memory(w),
    };
}

/* A file of a few bytes can ask for any amount of memory, so slots and plan together have a limit. */
static int make_plan(struct gw_worker *w)
{
    char why[GW_MODEL_ERR] = "";
    struct gw_session_pool_opts sessions = session_opts(w);
    uint64_t slots = gw_session_pool_bytes(&sessions), limit = w->opts.memory;
    if (slots >= limit)
        return gw_error(
            -E2BIG,
            "model %s: %u sessions of %u slots take %llu MiB, the limit is %llu; take fewer --sessions or "
            "--slots, or raise --model-memory-limit",
            w->name, w->opts.sessions, sessions.slots, (unsigned long long)slots >> 20,
            (unsigned long long)limit >> 20);
    struct gw_plan_options options = {
        .place = gw_exec_kind(w->opts.exec) == GW_EXEC_GPU ? GW_PLACE_GPU : GW_PLACE_CPU,
        .threads = w->opts.threads,
        .device = gw_exec_device(w->opts.exec),
        .flags = slots_in_gpu_memory(w) ? GW_PLAN_GPU_IO : 0,
        .exec = w->opts.exec,
        .memory = limit - slots,
    };
    int error = gw_plan_create(w->model, &options, &w->plan, why, sizeof(why));
    if (error == -E2BIG)
        return gw_error(error, "model %s: %s beside its slots; raise --model-memory-limit (%llu MiB)",
                        w->name, why, (unsigned long long)limit >> 20);
    return error ? gw_error(error, "model %s: %s", w->name, why) : 0;
}

static int make_sessions(struct gw_worker *w)
{
    struct gw_session_pool_opts opts = session_opts(w);
    int error = gw_session_pool_create(&opts, &w->pool);
    if (error == -ENOMEM)
        return gw_error(error,
                        "model %s: no memory for %u sessions of %u slots; take fewer --sessions or --slots",
                        w->name, opts.sessions, opts.slots);
    return error;
}

static int make_calls(struct gw_worker *w)
{
    struct gw_calls_opts opts = {.name = w->name,
                                 .pool = w->pool,
                                 .dev = w->opts.own_dev,
                                 .sessions = w->opts.own_sessions,
                                 .slots = w->opts.slots,
                                 .rows = w->rows,
                                 .in = w->in,
                                 .out = w->out};
    return w->opts.own_sessions ? gw_calls_create(&opts, &w->calls) : 0;
}

static int make_loop(struct gw_worker *w)
{
    struct gw_loop_opts opts = {.name = w->name};
    int error = gw_loop_create(w->opts.exec, &opts, &w->loop);
    if (error) return error;
    struct gw_loop_ctl *ctl = gw_loop_ctl(w->loop);
    int loop_fd =
        gw_exec_kind(w->opts.exec) == GW_EXEC_CPU ? ctl->wake_fd : -1; /* on a GPU, ctl is in its memory */
    error = gw_session_pool_args(w->pool, ctl, loop_fd, &w->args);
    if (error) return error;
    struct gw_loop_stage wait = {.kernel = &gw_serve_wait, .grid = 1, .block = 1, .arg = &w->args};
    struct gw_loop_stage model = {.name = "model", .enqueue = enqueue_model, .run = run_model, .ctx = w};
    struct gw_loop_stage send = {.kernel = &gw_serve_send, .grid = 1, .block = 1, .arg = &w->args};
    error = gw_loop_add(w->loop, &wait);
    if (!error) error = gw_loop_add(w->loop, &model);
    if (!error) error = gw_loop_add(w->loop, &send);
    return error;
}

int gw_worker_create(const struct gw_repository_entry *entry, const struct gw_worker_opts *opts,
                     struct gw_worker **out)
{
    struct gw_worker *w = calloc(1, sizeof(*w));
    if (!w) return -ENOMEM;
    w->opts = *opts;
    w->version = entry->version;
    w->name = strdup(entry->name);
    int error = w->name ? load(w, entry) : -ENOMEM;
    if (!error) error = make_plan(w);
    if (!error) error = make_sessions(w);
    if (!error) error = make_calls(w);
    if (!error) error = make_loop(w);
    if (error)
        gw_worker_destroy(w);
    else
        *out = w;
    return error;
}

int gw_worker_start(struct gw_worker *w)
{
    return gw_loop_start(w->loop);
}

int gw_worker_run_error(const struct gw_worker *w)
{
    return __atomic_load_n(&w->run_error, __ATOMIC_RELAXED);
}

void gw_worker_stop_soon(struct gw_worker *w)
{
    gw_loop_stop(w->loop);
}

int gw_worker_stop(struct gw_worker *w, uint64_t deadline_ns, uint64_t *stop_ns)
{
    struct gw_loop_end end = {0};
    int error;
    gw_loop_stop(w->loop);
    while ((error = gw_loop_wait(w->loop, deadline_ns, &end)) == -EINTR) continue;
    *stop_ns = end.stop_ns;
    return error ? error : end.error;
}

int gw_worker_destroy(struct gw_worker *w)
{
    if (!w) return 0;
    int error = w->loop ? gw_loop_destroy(w->loop) : 0;
    if (error) return error; /* it still runs: nothing it uses may go */
    gw_calls_destroy(w->calls);
    gw_session_pool_destroy(w->pool);
    if (w->plan) gw_plan_free(w->plan);
    gw_model_close(w->model);
    free(w->name);
    free(w);
    return 0;
}

const char *gw_worker_name(const struct gw_worker *w)
{
    return w->name;
}
uint32_t gw_worker_slots(const struct gw_worker *w)
{
    return w->opts.slots;
}
uint32_t gw_worker_max_rows(const struct gw_worker *w)
{
    return w->rows;
}
unsigned gw_worker_version(const struct gw_worker *w)
{
    return w->version;
}
const struct gw_model *gw_worker_model(const struct gw_worker *w)
{
    return w->model;
}
struct gw_session_pool *gw_worker_sessions(const struct gw_worker *w)
{
    return w->pool;
}
struct gw_calls *gw_worker_calls(const struct gw_worker *w)
{
    return w->calls;
}
int gw_worker_fd(const struct gw_worker *w)
{
    return gw_loop_fd(w->loop);
}
