/* SPDX-License-Identifier: Apache-2.0 */
/* Starts and stops one model: its plans, its sessions and its loop. */
#include "src/server/worker/worker.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include <gpuwire/loop.h>
#include <gpuwire/serve.h>

#include "src/model/inside.h"
#include "src/server/worker/apart.h"
#include "src/server/worker/stages.h"
#include "src/door/log.h"

/* What is not larger is copied without a kernel of its own. */
#define SMALL_BYTES 65536

struct gw_worker {
    char *name;
    unsigned version;
    struct gw_worker_opts opts;
    struct gw_model *model;
    struct gw_layout in, out;
    struct gw_serve_variant variant[GW_SERVE_VARIANTS];
    struct gw_stages_model batch[GW_SERVE_VARIANTS];
    struct gw_weights *weights; /* the plans of all batch sizes share them: one runs at a time */
    struct gw_plan_arena *arena;
    uint32_t variants;
    struct gw_session_pool *pool;
    struct gw_calls *calls;
    struct gw_loop *loop;
    struct gw_serve_args args;
    struct gw_resident resident;
    int started;
    int alone;                       /* rows of a batch would meet */
    const struct gw_worker_own *own; /* NULL, or the stages after the sessions; while the worker is made */
};

/* Are requests put together before the model runs? */
static bool has_copies(const struct gw_serve_variant *v)
{
    return v->rows > 1 || v->fixed;
}

static bool worker_on_gpu(const struct gw_worker *w)
{
    return gw_exec_kind(w->opts.exec) == GW_EXEC_GPU;
}

/* In host memory that the GPU sees where the NIC cannot reach the GPU's own. */
static bool slots_in_gpu_memory(const struct gw_worker *w)
{
    struct gw_device_info nic;
    gw_device_query(w->opts.dev, &nic);
    return nic.gpu_reach == GW_REACH_DIRECT || nic.gpu_reach == GW_REACH_DMABUF;
}

/* ---- batch sizes ---- */

static bool is_batched(const struct gw_worker *w)
{
    return w->in.tensors && w->out.tensors && !w->in.unbatched && !w->out.unbatched;
}

static int lay_out(struct gw_worker *w, uint32_t rows)
{
    int err = gw_layout_of_model(w->model, 0, rows, &w->in);
    if (!err) err = gw_layout_of_model(w->model, 1, rows, &w->out);
    return err ? gw_error(err, "model %s: the tensors of %u rows take over 2 GiB, which cannot be served",
                          w->name, rows)
               : 0;
}

static int choose_batches(struct gw_worker *w)
{
    const struct gw_worker_opts *o = &w->opts;
    int err = lay_out(w, 1);
    if (err) return err;
    w->variants = 1;
    w->variant[0].rows = 1;
    if (!o->batches || !is_batched(w)) return 0;
    for (uint32_t i = 0; i < o->batches; i++) {
        if (i == GW_SERVE_VARIANTS || o->batch[i] > GW_SERVING_MAX_ROWS ||
            o->batch[i] <= (i ? o->batch[i - 1] : 0))
            return gw_error(-EINVAL, "model %s: batch sizes are up to %d ascending numbers from 1 to %d",
                            w->name, GW_SERVE_VARIANTS, GW_SERVING_MAX_ROWS);
        w->variant[i].rows = o->batch[i];
    }
    w->variants = o->batches;
    return lay_out(w, o->batch[o->batches - 1]);
}

/* ---- plans and sessions ---- */

static struct gw_session_pool_opts session_opts(const struct gw_worker *w)
{
    struct gw_session_pool_opts opts = {
        .dev = w->opts.dev,
        .exec = w->opts.exec,
        .sessions = w->opts.sessions + w->opts.own_sessions,
        .slots = w->opts.slots,
        .kept = w->opts.own_sessions,
        .in = w->in,
        .out = w->out,
        .variants = w->variants,
        .delay_ns = w->opts.delay_ns,
        .gpu_memory = (uint32_t)slots_in_gpu_memory(w),
        .name = w->name,
    };
    memcpy(opts.variant, w->variant, sizeof(opts.variant));
    if (w->own) {
        opts.memory = w->own->memory;
        opts.gpu_memory = w->own->gpu_memory;
    }
    return opts;
}

static int worker_make_plan(struct gw_worker *w, uint32_t i, uint64_t memory)
{
    char why[GW_MODEL_ERR] = "";
    struct gw_plan_options options = {
        .place = worker_on_gpu(w) ? GW_PLACE_GPU : GW_PLACE_CPU,
        .threads = w->opts.threads,
        .device = gw_exec_device(w->opts.exec),
        .flags = slots_in_gpu_memory(w) ? GW_PLAN_GPU_IO : 0,
        .exec = w->opts.exec,
        .memory = memory,
        .rows = w->variant[i].rows,
        .weights = w->weights,
        .arena = w->arena,
    };
    w->resident.mode = w->opts.resident;
    int err = gw_resident_plan(&w->resident, i, w->model, &options, &w->batch[i].plan, why);
    if (err == -E2BIG)
        return gw_error(err, "model %s: %s beside its slots; raise --model-memory-limit (%llu MiB)", w->name,
                        why, (unsigned long long)w->opts.memory >> 20);
    if (!err && w->opts.resident != GW_RESIDENT_NEVER)
        gw_resident_tell(&w->resident, i, w->name, w->variant[i].rows);
    return err ? gw_error(err, "model %s: %s", w->name, why) : 0;
}

/* A file of a few bytes can ask for any amount of memory, so slots and plans together have a limit. The
 * largest batches come first: their room for intermediate results is large enough for all. */
static int make_plans(struct gw_worker *w)
{
    struct gw_session_pool_opts sessions = session_opts(w);
    uint64_t taken = gw_session_pool_bytes(&sessions), limit = w->opts.memory;
    int err = gw_weights_create(NULL, &w->weights);
    if (!err) err = gw_plan_arena_create(NULL, &w->arena);
    if (err) return gw_error(err, "model %s: no memory for its plans", w->name);
    for (uint32_t i = w->variants; !err && i--;) {
        struct gw_plan_stats stats;
        if (taken >= limit)
            return gw_error(
                -E2BIG,
                "model %s: %u sessions of %u slots with the doors' own take %llu MiB, the limit is %llu; "
                "take fewer --sessions or --slots, or raise --model-memory-limit",
                w->name, w->opts.sessions, sessions.slots, (unsigned long long)taken >> 20,
                (unsigned long long)limit >> 20);
        err = worker_make_plan(w, i, limit - taken);
        if (err) return err;
        gw_plan_stats(w->batch[i].plan, &stats);
        taken += stats.weight_bytes + stats.arena_bytes;
    }
    return err;
}

static int make_sessions(struct gw_worker *w)
{
    struct gw_session_pool_opts opts = session_opts(w);
    int err = gw_session_pool_create(&opts, &w->pool);
    if (err == -ENOMEM)
        return gw_error(err,
                        "model %s: no memory for %u sessions of %u slots; take fewer --sessions or --slots",
                        w->name, opts.sessions, opts.slots);
    return err;
}

static int make_calls(struct gw_worker *w)
{
    struct gw_calls_opts opts = {.name = w->name,
                                 .pool = w->pool,
                                 .dev = w->opts.own_dev,
                                 .sessions = w->opts.own_sessions,
                                 .slots = w->opts.slots,
                                 .rows = gw_worker_max_rows(w),
                                 .in = w->in,
                                 .out = w->out};
    return w->opts.own_sessions ? gw_calls_create(&opts, &w->calls) : 0;
}

/* ---- rows that meet ---- */

static void tell_meeting(const struct gw_worker *w, const char *node)
{
    gw_log(
        GW_LOG_WARNING,
        "model %s: rows of a batch meet%s%s, so one client's data would reach another; it takes one row at "
        "a time, without batches",
        w->name, *node ? " in " : "", node);
}

/* One row at a time from now on. */
static int be_alone(struct gw_worker *w)
{
    w->alone = 1;
    w->variants = 1;
    memset(w->variant, 0, sizeof(w->variant));
    w->variant[0].rows = 1;
    return lay_out(w, 1);
}

/* Reads the file, before plans are made of it. *unknown: it does not tell, for one batch size at least. */
static int read_rows(struct gw_worker *w, int *unknown)
{
    char node[GW_MODEL_ERR];
    for (uint32_t i = 0; i < w->variants; i++) {
        enum gwm_rows is = w->variant[i].rows > 1
                               ? gwm_model_rows(w->model, w->variant[i].rows, node, sizeof(node))
                               : GWM_ROWS_APART;
        if (is == GWM_ROWS_MEET) {
            tell_meeting(w, node);
            return be_alone(w);
        }
        *unknown |= is == GWM_ROWS_UNKNOWN;
    }
    return 0;
}

struct trial {
    const struct gw_worker_source *source;
    struct gw_worker_fixed fixed;
    struct gw_plan *plan;
};

static int run_trial(void *ctx, const void *const in[], void *const out[])
{
    const struct trial *t = ctx;
    return t->source->run ? t->source->run(&t->fixed, in, out) : gw_plan_run(t->plan, in, out);
}

static int find_example(void *ctx, void *const in[])
{
    const struct trial *t = ctx;
    return t->source->example(&t->fixed, in);
}

/* An enum gw_apart, or the error of a run. */
static int worker_try_variant(struct gw_worker *w, const struct gw_worker_source *source, uint32_t i)
{
    struct trial trial = {.source = source,
                          .plan = w->batch[i].plan,
                          .fixed = {.model = w->model,
                                    .exec = w->opts.exec,
                                    .v = &w->variant[i],
                                    .in = &w->in,
                                    .out = &w->out,
                                    .ctx = source->ctx}};
    const struct gw_apart_trial t = {.model = w->model,
                                     .in = &w->in,
                                     .out = &w->out,
                                     .rows = w->variant[i].rows,
                                     .run = run_trial,
                                     .example = source->example ? find_example : NULL,
                                     .ctx = &trial};
    return gw_apart_try(&t);
}

static void drop_plans(struct gw_worker *w)
{
    for (uint32_t i = 0; i < GW_SERVE_VARIANTS; i++) {
        if (w->batch[i].plan) gw_plan_free(w->batch[i].plan);
        w->batch[i].plan = NULL;
    }
    gw_weights_free(w->weights);
    gw_plan_arena_free(w->arena);
    w->weights = NULL;
    w->arena = NULL;
    gw_resident_free(&w->resident);
    memset(&w->resident, 0, sizeof(w->resident));
}

static int worker_place_batches(struct gw_worker *w, const struct gw_worker_source *source)
{
    int err = 0;
    for (uint32_t i = 0; !err && source->place && i < w->variants; i++)
        err = source->place(source->ctx, &w->variant[i]);
    return err;
}

static void tell_found(const struct gw_worker *w, int found)
{
    if (found == GW_APART_MEET) tell_meeting(w, "");
    if (found == GW_APART_CHANGES)
        gw_log(
            GW_LOG_WARNING,
            "model %s: equal inputs give other results after other inputs: it keeps data between requests, "
            "which other clients may see, or it draws random numbers; it takes no batches",
            w->name);
    if (found < 0)
        gw_log(
            GW_LOG_WARNING,
            "model %s: a run with made-up inputs failed (%s), so nothing shows whether rows of a batch meet; "
            "it takes no batches",
            w->name, strerror(-found));
}

/* Where the file does not tell, runs do. */
static int worker_try_rows(struct gw_worker *w, const struct gw_worker_source *source)
{
    int found = GW_APART;
    for (uint32_t i = 0; found == GW_APART && i < w->variants; i++) found = worker_try_variant(w, source, i);
    tell_found(w, found);
    if (found == GW_APART || w->variants + w->variant[0].rows == 2) return 0;
    drop_plans(w);
    int err = be_alone(w);
    if (!err) err = worker_place_batches(w, source);
    return err ? err : make_plans(w);
}

static int make_runs(struct gw_worker *w, const struct gw_worker_source *source)
{
    int unknown = strcmp(gw_model_kind(w->model), "onnx") != 0;
    int err = read_rows(w, &unknown);
    if (!err) err = worker_place_batches(w, source);
    if (!err) err = make_plans(w);
    return err || !unknown ? err : worker_try_rows(w, source);
}

/* ---- the loop ---- */

/* Are a single request's inputs copied by the kernel that waits, or its outputs by the one that sends? */
static bool worker_is_small(const struct gw_worker *w, const struct gw_layout *l)
{
    const struct gw_serve_variant *v = &w->variant[0];
    return v->fixed && v->rows == 1 && gw_layout_bytes(l, 1) <= SMALL_BYTES;
}

static struct gw_stages stages_of(const struct gw_worker *w)
{
    return (struct gw_stages){.loop = w->loop, .exec = w->opts.exec, .args = &w->args};
}

static int add_answers(struct gw_worker *w, uint32_t i, uint32_t variant)
{
    const struct gw_serve_variant *v = &w->variant[i];
    struct gw_stages s = stages_of(w);
    if (!i && w->args.small_out)
        return gw_stages_kernel(&s, variant, &gw_serve_send, 1, GW_STAGES_THREADS, 0);
    if (!has_copies(v)) return gw_stages_kernel(&s, variant, &gw_serve_send, 1, 1, 0);
    return gw_stages_after(&s, variant, v->rows);
}

/* The stages after the wait for one batch size: they are a variant of the loop when there are several. */
static int add_batch(struct gw_worker *w, uint32_t i)
{
    const struct gw_serve_variant *v = &w->variant[i];
    uint32_t variant = w->variants > 1 ? i + 1 : 0;
    struct gw_stages s = stages_of(w);
    int err = gw_stages_before(&s, variant, v->rows > 1, has_copies(v) && !w->args.small_in);
    if (!err) err = gw_stages_model(&s, variant, &w->batch[i]);
    return err ? err : add_answers(w, i, variant);
}

/* The stage that waits: another one where a batch size is served by the kernel that waits. */
static int add_wait(struct gw_worker *w)
{
    struct gw_loop_stage resident;
    w->resident.args.serve = w->args;
    for (uint32_t i = 0; i < w->variants; i++) {
        if (!gw_resident_has(&w->resident, i)) continue;
        int err = gw_resident_stage(&w->resident, w->opts.exec, &resident);
        return err ? err : gw_loop_add(w->loop, &resident);
    }
    struct gw_stages s = stages_of(w);
    return gw_stages_kernel(&s, 0, &gw_serve_wait, 1, w->args.small_in ? GW_STAGES_THREADS : 1, 0);
}

static int make_loop(struct gw_worker *w)
{
    struct gw_loop_opts opts = {.name = w->name};
    int err = gw_loop_create(w->opts.exec, &opts, &w->loop);
    if (err) return err;
    struct gw_loop_ctl *ctl = gw_loop_ctl(w->loop);
    int loop_fd = worker_on_gpu(w) ? -1 : ctl->wake_fd; /* on a GPU, ctl is in its memory */
    err = gw_session_pool_args(w->pool, ctl, loop_fd, &w->args);
    if (err) return err;
    if (w->own) {
        err = w->own->stages(w->own->ctx, w->loop, &w->args);
        return err ? err : gw_loop_prepare(w->loop);
    }
    w->args.small_in = w->variants == 1 && worker_is_small(w, &w->in);
    w->args.small_out = worker_is_small(w, &w->out);
    err = add_wait(w);
    for (uint32_t i = 0; !err && i < w->variants; i++)
        if (!gw_resident_has(&w->resident, i)) err = add_batch(w, i);
    return err ? err : gw_loop_prepare(w->loop);
}

int gw_worker_create_from(const struct gw_worker_source *source, const struct gw_worker_opts *opts,
                          struct gw_worker **out)
{
    struct gw_worker *w = calloc(1, sizeof(*w));
    if (!w) {
        gw_model_close(source->model);
        return -ENOMEM;
    }
    w->opts = *opts;
    w->version = source->version;
    w->model = source->model;
    w->own = source->own;
    if (w->own) w->opts.own_sessions = 0;
    w->name = strdup(source->name);
    int err = w->name ? choose_batches(w) : -ENOMEM;
    if (!err && !w->own) err = make_runs(w, source);
    if (!err) err = make_sessions(w);
    if (!err) err = make_calls(w);
    if (!err) err = make_loop(w);
    w->own = NULL;
    if (err)
        gw_worker_destroy(w);
    else
        *out = w;
    return err;
}

int gw_worker_create(const struct gw_repository_entry *entry, const struct gw_worker_opts *opts,
                     struct gw_worker **out)
{
    char why[GW_MODEL_ERR] = "";
    struct gw_worker_source source = {.name = entry->name, .version = entry->version};
    int err = gw_repository_is_plugin(entry->path)
                  ? gw_model_open_plugin(entry->path, &source.model, why, sizeof(why))
                  : gw_model_open(entry->path, &source.model, why, sizeof(why));
    return err ? gw_error(err, "%s", why) : gw_worker_create_from(&source, opts, out);
}

int gw_worker_start(struct gw_worker *w)
{
    int err = w->started ? gw_loop_restart(w->loop) : gw_loop_start(w->loop);
    w->started |= !err;
    return err;
}

void gw_worker_close(struct gw_worker *w)
{
    gw_session_pool_closing(w->pool);
}

int gw_worker_run_error(const struct gw_worker *w)
{
    int err = 0;
    for (uint32_t i = 0; !err && i < w->variants; i++)
        err = __atomic_load_n(&w->batch[i].run_error, __ATOMIC_RELAXED); /* each stands alone */
    return err;
}

void gw_worker_stop_soon(struct gw_worker *w)
{
    gw_loop_stop(w->loop);
}

int gw_worker_stop(struct gw_worker *w, uint64_t deadline_ns, uint64_t *stop_ns)
{
    struct gw_loop_end end = {0};
    int err;
    gw_loop_stop(w->loop);
    while ((err = gw_loop_wait(w->loop, deadline_ns, &end)) == -EINTR) continue;
    *stop_ns = end.stop_ns;
    return err ? err : end.error;
}

int gw_worker_destroy(struct gw_worker *w)
{
    if (!w) return 0;
    int err = w->loop ? gw_loop_destroy(w->loop) : 0;
    if (err) return err; /* it still runs: nothing it uses may go */
    gw_calls_destroy(w->calls);
    gw_session_pool_destroy(w->pool);
    drop_plans(w);
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
    return w->variant[w->variants - 1].rows;
}
int gw_worker_is_alone(const struct gw_worker *w)
{
    return w->alone;
}
uint32_t gw_worker_batches(const struct gw_worker *w, uint32_t rows[GW_SERVE_VARIANTS])
{
    for (uint32_t i = 0; i < w->variants; i++) rows[i] = w->variant[i].rows;
    return w->variants;
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
bool gw_worker_resident(const struct gw_worker *w, uint32_t i)
{
    return gw_resident_has(&w->resident, i);
}
const struct gw_resident_choice *gw_worker_choice(const struct gw_worker *w, uint32_t i)
{
    return &w->resident.choice[i];
}
int gw_worker_fd(const struct gw_worker *w)
{
    return gw_loop_fd(w->loop);
}
