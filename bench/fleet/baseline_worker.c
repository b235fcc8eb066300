/* SPDX-License-Identifier: Apache-2.0 */
/* baseline_worker.c: emulated workers that take batches with their tensors from the controller. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include <gpuwire/error.h>

#include "bench/fleet/baseline.h"
#include "src/fleet/plan/plan.h"
#include "src/fleet/sim/random.h"

#define GPU_LAG (20 * BASELINE_MS) /* a timer that comes later than this delays the GPU too */

struct gpu_job {
    struct gpu_job *next;
    struct fleet_batch head;
    uint64_t seq;
    uint32_t got; /* samples */
    int64_t arrived_at;
    uint8_t *answers;
};

struct gpu {
    const struct baseline_opts *o;
    struct fleet_loop *loop;
    struct fleet_conn *conn;
    uint8_t id[FLEET_ID];
    bool *loaded;
    int64_t loads_until;           /* the copies of weights come one after another */
    struct gpu_job *coming;        /* some of its samples are here */
    struct gpu_job *first, **last; /* that wait */
    struct gpu_job *running;
    int64_t began_at, free_at;
    struct fleet_timer timer;
    struct sim_random random;
};

struct gpu_load {
    struct gpu *gpu;
    struct fleet_timer timer;
    uint64_t seq;
    uint32_t model;
    int64_t began_at;
};

/* ---- weights */

static void gpu_result(struct gpu *g, uint64_t seq, uint32_t model, enum fleet_outcome outcome,
                       int64_t began_at)
{
    struct fleet_result r = {.outcome = outcome, .model = model, .began_at = began_at};
    r.where = g->loaded[model] ? FLEET_GPU : FLEET_HOST;
    r.ended_at = fleet_loop_now(g->loop);
    fleet_send(g->conn, FLEET_RESULT, seq, &r, sizeof r, NULL, 0, NULL);
}

static void gpu_loaded(void *ctx)
{
    struct gpu_load *l = ctx;
    l->gpu->loaded[l->model] = true;
    gpu_result(l->gpu, l->seq, l->model, FLEET_DONE, l->began_at);
    free(l);
}

static void gpu_act(struct gpu *g, uint64_t seq, const struct fleet_act *a)
{
    int64_t now = fleet_loop_now(g->loop);
    if (a->model >= g->o->models) return;
    if (a->kind != FLEET_LOAD) {
        g->loaded[a->model] = false;
        gpu_result(g, seq, a->model, FLEET_DONE, now);
        return;
    }
    struct gpu_load *l = calloc(1, sizeof *l);
    if (!l) abort();
    *l = (struct gpu_load){.gpu = g, .seq = seq, .model = a->model};
    l->began_at = g->loads_until > now ? g->loads_until : now;
    g->loads_until = l->began_at + g->o->profile.load_ns;
    if (fleet_timer_set(g->loop, &l->timer, g->loads_until, gpu_loaded, l)) abort();
}

/* ---- batches */

static void gpu_look(void *ctx);

static void gpu_answer(struct gpu *g, struct gpu_job *j, enum fleet_outcome outcome)
{
    struct fleet_batched b = {.outcome = outcome, .samples = j->head.samples, .began_at = g->began_at};
    b.ended_at = g->free_at;
    b.bytes = outcome == FLEET_DONE ? g->o->profile.answer_bytes : 0;
    fleet_send(g->conn, FLEET_BATCHED, j->seq, &b, sizeof b, j->answers, b.samples * b.bytes, NULL);
    free(j->answers);
    free(j);
}

static void gpu_ended(void *ctx)
{
    struct gpu *g = ctx;
    struct gpu_job *j = g->running;
    g->running = NULL;
    gpu_answer(g, j, FLEET_DONE);
    gpu_look(g);
}

/* The same law as of src/fleet/worker/emulated_batch.c. */
static int64_t gpu_duration(struct gpu *g, uint32_t samples)
{
    const struct fleet_profile *f = &g->o->profile;
    double part = (double)f->spread_ns / (double)f->exec_ns[4];
    double took = (double)fleet_profile_exec(f, samples) * (1 - part + part / 2.326 * sim_normal(&g->random));
    return took < 1 ? 1 : (int64_t)took;
}

/* A GPU goes on when it became free, though the timer came a little later. */
static int64_t gpu_begin_at(const struct gpu *g, const struct gpu_job *j)
{
    int64_t now = fleet_loop_now(g->loop), at = g->free_at;
    if (now - at > GPU_LAG || j->arrived_at > at) at = now;
    return at > j->head.earliest_at ? at : j->head.earliest_at;
}

static void gpu_look(void *ctx)
{
    struct gpu *g = ctx;
    int64_t now = fleet_loop_now(g->loop);
    while (!g->running && g->first) {
        struct gpu_job *j = g->first;
        if (j->head.earliest_at > now) {
            if (fleet_timer_set(g->loop, &g->timer, j->head.earliest_at, gpu_look, g)) abort();
            return;
        }
        g->first = j->next;
        if (!g->first) g->last = &g->first;
        g->began_at = gpu_begin_at(g, j);
        bool late = g->began_at > j->head.latest_at;
        if (late || !g->loaded[j->head.model]) {
            gpu_answer(g, j, late ? FLEET_TOO_LATE : FLEET_NO_MODEL);
            continue;
        }
        g->running = j;
        g->free_at = g->began_at + gpu_duration(g, j->head.samples);
        if (fleet_timer_set(g->loop, &g->timer, g->free_at, gpu_ended, g)) abort();
    }
}

/* A sample: it computes nothing, and its answer begins as it does. */
static void gpu_sample(struct gpu *g, uint64_t seq, const struct fleet_batch *b, uint32_t bytes)
{
    uint32_t answer = g->o->profile.answer_bytes;
    if (bytes - sizeof *b != b->bytes || b->model >= g->o->models || !b->samples ||
        b->samples > FLEET_MAX_BATCH || b->sample >= b->samples)
        return;
    struct gpu_job *j = g->coming;
    if (!j) {
        j = g->coming = calloc(1, sizeof *j);
        if (!j || !(j->answers = calloc(b->samples, answer + 1))) abort();
        j->head = *b;
        j->seq = seq;
    }
    if (j->seq != seq || j->got != b->sample || j->head.samples != b->samples) return;
    memcpy(j->answers + (size_t)j->got * answer, b + 1, b->bytes < answer ? b->bytes : answer);
    if (++j->got < b->samples) return;
    g->coming = NULL;
    j->arrived_at = fleet_loop_now(g->loop);
    *g->last = j;
    g->last = &j->next;
    gpu_look(g);
}

/* ---- the connection */

static void gpu_open(void *ctx, struct fleet_conn *c)
{
    struct gpu *g = ctx;
    struct fleet_hello_worker w = {.gpu_pages = g->o->pages, .models = g->o->models, .emulated = 1};
    w.host_pages = UINT32_MAX / 2;
    fleet_send(c, FLEET_WORKER, 0, &w, sizeof w, NULL, 0, NULL);
}

static void gpu_message(void *ctx, struct fleet_conn *c, const struct fleet_frame *f, const void *body)
{
    (void)c;
    const struct fleet_act *a = f->kind == FLEET_ACTION ? FLEET_BODY(struct fleet_act, f, body) : NULL;
    const struct fleet_batch *b = f->kind == FLEET_BATCH ? FLEET_BODY(struct fleet_batch, f, body) : NULL;
    if (a) gpu_act(ctx, f->seq, a);
    if (b) gpu_sample(ctx, f->seq, b, f->bytes);
}

static void gpu_closed(void *ctx, struct fleet_conn *c, int err, const char *why)
{
    struct gpu *g = ctx;
    (void)c;
    (void)err;
    fprintf(stderr, "baseline: a worker ends: %s\n", why);
    fleet_loop_stop(g->loop);
}

static const struct fleet_handler gpu_handler = {gpu_open, gpu_message, gpu_closed};

int baseline_workers(const struct baseline_opts *o)
{
    struct fleet_loop *loop;
    struct gpu *all = calloc(o->workers, sizeof *all);
    if (!all || fleet_loop_create(&loop)) return 1;
    for (uint32_t i = 0; i < o->workers; i++) {
        struct gpu *g = &all[i];
        g->o = o;
        g->loop = loop;
        g->last = &g->first;
        g->loaded = calloc(o->models, sizeof *g->loaded);
        g->random.state = 0x9e3779b97f4a7c15u * (i + 1);
        if (!g->loaded || getrandom(g->id, FLEET_ID, 0) != FLEET_ID) return 1;
        struct fleet_conn_opts c = baseline_conn(FLEET_IS_WORKER, 1 << FLEET_IS_CONTROLLER, g->id);
        if (fleet_dial(loop, &c, o->controller, &gpu_handler, g, &g->conn)) {
            fprintf(stderr, "baseline: %s\n", gw_last_error());
            return 1;
        }
    }
    fleet_loop_run(loop, INT64_MAX);
    return 1; /* it runs until it is ended, or the controller is gone */
}
