/* SPDX-License-Identifier: Apache-2.0 */
/* The network on CPU threads: its shape, its memory, and the stage of a loop that runs a step. */
#include "src/generate/cpu/cpu.h"

#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/generate/cpu/run.h"
#include "src/model/graph/arena.h"

struct cpu_net {
    struct gen_cpu_run run;
    struct gen_cpu_plan *plan;
    uint32_t max_rows, dtype;
    char name[32];
    void *memory; /* of values, members and tiles */
};

/* ---- what it is ---- */

/* A weight's data, and how many bytes all of it has. */
struct weight_size {
    uintptr_t at;
    uint64_t bytes;
};

static int weight_order(const void *a, const void *b)
{
    uintptr_t x = ((const struct weight_size *)a)->at, y = ((const struct weight_size *)b)->at;

    return (x > y) - (x < y);
}

/* Of all weights, each counted once: a tied head is the embedding. 0: no memory to count them. */
static uint64_t cpu_weight_bytes(const struct gen_program *p)
{
    struct weight_size *w = calloc(p->ops, sizeof(*w));
    uint64_t bytes = 0;
    uint32_t n = 0;

    for (uint32_t i = 0; w && i < p->ops; i++) {
        const struct gen_weight *of = &p->op[i].weight;

        if (of->data) w[n++] = (struct weight_size){(uintptr_t)of->data, gen_weight_bytes(of)};
    }
    if (n) qsort(w, n, sizeof(*w), weight_order);
    for (uint32_t i = 0; i < n; i++) bytes += i && w[i].at == w[i - 1].at ? 0 : w[i].bytes;
    free(w);
    return bytes;
}

static void cpu_shape(const void *net, struct gen_net_shape *out)
{
    const struct cpu_net *n = net;
    const struct gen_program *p = n->plan->program;

    *out = (struct gen_net_shape){.kind = "program", .vocab = p->vocab, .max_position = p->max_position};
    out->layers = p->layers;
    out->heads = p->heads;
    out->width = p->head;
    out->dtype = n->dtype;
    out->size[0] = n->max_rows;
    out->sizes = 1;
    out->weight_bytes = cpu_weight_bytes(p);
}

/* ---- memory ---- */

static size_t cpu_padded(size_t bytes)
{
    return (bytes + GEN_CPU_ALIGN - 1) / GEN_CPU_ALIGN * GEN_CPU_ALIGN;
}

/* Where each value lies among the others; the logits lie elsewhere. */
static int cpu_spans(const struct cpu_net *n, struct gwm_span *span, size_t *total)
{
    const struct gen_program *p = n->plan->program;
    int err;

    for (uint32_t i = 0; i < p->values; i++) {
        uint64_t rows = n->plan->picked[i] ? n->run.step->lanes : n->run.step->max_rows;

        if (n->plan->first[i] < 0 || (int32_t)i == p->logits) continue;
        span[i] = (struct gwm_span){.first = n->plan->first[i], .last = n->plan->last[i]};
        span[i].bytes = rows * n->run.stride[i] * sizeof(float);
    }
    err = gwm_arena_plan(span, p->values, GWM_ARENA_MAX, total);
    return err ? gw_error(err, "steps of %u rows of this model need too much memory", n->run.step->max_rows)
               : 0;
}

/* Gives each thread its part of the memory from `at` on. NULL: counts alone. Returns what all take. */
static size_t cpu_members(struct cpu_net *n, char *at)
{
    size_t x = cpu_padded(gen_cpu_x_floats(n->plan, n->max_rows) * sizeof(float));
    size_t up = cpu_padded(gen_cpu_up_floats(n->plan, n->max_rows) * sizeof(float));
    size_t panel = cpu_padded(gen_cpu_panel_floats(n->plan) * sizeof(float));
    size_t attend = cpu_padded(gen_cpu_attend_floats(n->plan) * sizeof(float));
    uint32_t threads = gen_team_threads(n->run.team);

    for (uint32_t i = 0; at && i < threads; i++, at += x + up + panel + attend) {
        struct gen_cpu_member *m = n->run.member + i;

        *m = (struct gen_cpu_member){
            .x = (float *)at, .up = (float *)(at + x), .panel = (float *)(at + x + up)};
        m->attend = (float *)(at + x + up + panel);
    }
    return threads * (x + up + panel + attend);
}

static int cpu_memory(struct cpu_net *n, const struct gen_net_memory *memory, const struct gwm_span *span,
                      size_t values)
{
    const struct gen_program *p = n->plan->program;
    size_t members = cpu_members(n, NULL);
    char *at;

    free(n->memory);
    n->memory =
        aligned_alloc(GWM_ARENA_ALIGN, (cpu_padded(values) + members + GWM_ARENA_ALIGN) & -GWM_ARENA_ALIGN);
    if (!(at = n->memory)) return gw_error(-ENOMEM, "no memory for steps of %u rows", n->run.step->max_rows);
    cpu_members(n, at + cpu_padded(values));
    for (uint32_t i = 0; i < p->values; i++)
        n->run.value[i] = n->plan->first[i] < 0 ? NULL : (float *)(at + span[i].offset);
    n->run.value[p->logits] = memory->logits;
    n->run.stride[p->logits] = memory->logit_stride;
    return 0;
}

/* ---- the network ---- */

static int cpu_check(const struct cpu_net *n, const struct gen_net_memory *m)
{
    const struct gen_program *p = n->plan->program;

    if (m->step->max_rows > n->max_rows)
        return gw_error(-EINVAL, "a step of %u rows: this network was made for %u", m->step->max_rows,
                        n->max_rows);
    if (m->cache.layers < p->layers || m->cache.heads < p->heads || m->cache.width < p->head)
        return gw_error(-EINVAL, "the cache is too small for %u layers of %u heads of %u", p->layers,
                        p->heads, p->head);
    if (m->cache.dtype != n->dtype) return gw_error(-EINVAL, "the cache has another type than the network's");
    if (m->logit_stride < p->vocab)
        return gw_error(-EINVAL, "%u logits in a row: the network makes %u", m->logit_stride, p->vocab);
    return 0;
}

static int cpu_bind(void *net, struct gw_exec *exec, struct gen_net_memory *memory)
{
    struct cpu_net *n = net;
    struct gwm_span *span = calloc(n->plan->program->values, sizeof(*span));
    size_t values;
    int err = span ? cpu_check(n, memory) : gw_error(-ENOMEM, "no memory to bind a network");

    (void)exec;
    n->run.step = memory->step;
    n->run.cache = memory->cache;
    if (!err) err = cpu_spans(n, span, &values);
    if (!err) err = cpu_memory(n, memory, span, values);
    free(span);
    return err;
}

static int cpu_run(void *ctx)
{
    struct cpu_net *n = ctx;

    if (!n->run.step->rows) return 0;
    gen_cpu_cut_tiles(&n->run);
    for (uint32_t i = 0; i < n->plan->items; i++) {
        const struct gen_cpu_item *item = n->plan->item + i;

        if (item->kind == GEN_CPU_ROWS)
            gen_cpu_run_rows(&n->run, item);
        else if (item->kind == GEN_CPU_PRODUCT)
            gen_cpu_run_product(&n->run, item);
        else
            gen_cpu_run_attend(&n->run, item);
    }
    return 0;
}

static int cpu_add(void *net, struct gw_loop *loop, uint32_t variant, uint32_t size)
{
    struct gw_loop_stage stage = {.name = "network", .run = cpu_run, .ctx = net, .variant = variant};
    const struct cpu_net *n = net;

    if (!n->memory) return gw_error(-EINVAL, "the network is not bound to memory");
    if (size != n->max_rows)
        return gw_error(-EINVAL, "%u rows: this network has stages for %u", size, n->max_rows);
    return gw_loop_add(loop, &stage);
}

static void cpu_free(void *net)
{
    struct cpu_net *n = net;

    if (!n) return;
    gen_team_free(n->run.team);
    gen_cpu_plan_free(n->plan);
    free(n->run.value);
    free(n->run.stride);
    free(n->run.member);
    free(n->run.tile);
    free(n->memory);
    free(n);
}

int gen_cpu_step(struct gen_net *net)
{
    return cpu_run(net->own);
}

const char *gen_cpu_name(const struct gen_net *net)
{
    return ((const struct cpu_net *)net->own)->name;
}

static int cpu_fill(struct cpu_net *n, const struct gen_program *p, uint32_t threads)
{
    int err = gen_cpu_plan_make(p, &n->plan);

    if (err) return err;
    n->run.plan = n->plan;
    n->run.value = calloc(p->values, sizeof(*n->run.value));
    n->run.stride = calloc(p->values, sizeof(*n->run.stride));
    n->run.member = calloc(threads, sizeof(*n->run.member));
    n->run.tile = calloc(n->max_rows, sizeof(*n->run.tile));
    if (!n->run.value || !n->run.stride || !n->run.member || !n->run.tile)
        return gw_error(-ENOMEM, "no memory for a network");
    for (uint32_t i = 0; i < p->values; i++) n->run.stride[i] = (p->width[i] + 15) / 16 * 16;
    return gen_team_new(threads, &n->run.team);
}

static uint32_t cpu_threads(void)
{
    cpu_set_t set;
    int n = sched_getaffinity(0, sizeof(set), &set) ? 1 : CPU_COUNT(&set);

    return n < (int)GEN_TEAM_MAX_THREADS ? (uint32_t)n : GEN_TEAM_MAX_THREADS;
}

int gen_cpu_net(const struct gen_program *program, const struct gen_cpu_opts *opts, struct gen_net *out)
{
    static const struct gen_net_ops ops = {
        .shape = cpu_shape, .bind = cpu_bind, .add = cpu_add, .free = cpu_free};
    struct gen_cpu_opts o = opts ? *opts : (struct gen_cpu_opts){0};
    const struct gen_cpu_kernels *kernels = gen_cpu_kernels(o.kernels);
    struct cpu_net *n;
    int err;

    if (!o.threads) o.threads = cpu_threads();
    if (!o.max_rows) o.max_rows = GEN_MAX_ROWS;
    if (!o.dtype) o.dtype = GW_DTYPE_F32;
    if (o.threads > GEN_TEAM_MAX_THREADS || o.max_rows > GEN_MAX_ROWS)
        return gw_error(-EINVAL, "%u threads and %u rows: there must be at most %u and %u", o.threads,
                        o.max_rows, GEN_TEAM_MAX_THREADS, GEN_MAX_ROWS);
    if (o.dtype != GW_DTYPE_F32 && o.dtype != GW_DTYPE_F16 && o.dtype != GW_DTYPE_BF16)
        return gw_error(-EINVAL, "a cache of %s: it must be FP32, FP16 or BF16", gw_dtype_name(o.dtype));
    if (!kernels) return gw_error(-ENOTSUP, "this processor has no kernels named %s", o.kernels);
    if (!(n = calloc(1, sizeof(*n)))) return gw_error(-ENOMEM, "no memory for a network");
    n->max_rows = o.max_rows;
    n->dtype = o.dtype;
    n->run.kernels = kernels;
    snprintf(n->name, sizeof(n->name), "%s, %u thread%s", kernels->name, o.threads,
             o.threads == 1 ? "" : "s");
    if ((err = cpu_fill(n, program, o.threads))) {
        cpu_free(n);
        return err;
    }
    *out = (struct gen_net){.ops = &ops, .own = n};
    return 0;
}
