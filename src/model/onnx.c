/* SPDX-License-Identifier: Apache-2.0 */
/* The ONNX back-end: the importer's graph, planned for a CPU or a GPU. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "src/model/onnx.h"

#include "src/model/cpu/plan.h"
#include "src/model/cpu/run.h"
#include "src/model/gpu/plan.h"
#include "src/model/gpu/run.h"
#include "src/model/graph/graph.h"
#include "src/model/graph/msg.h"
#include "src/model/graph/slim.h"
#include "src/model/import/import.h"

/* A plan of either place. */
struct plan {
    struct gwm_graph *rows; /* the graph for several rows; NULL: the model's own is used */
    struct gwm_cpu *cpu;
    struct gwm_gpu *gpu;
};

/* Has a tensor for several rows the shape of the model's own, with `rows` samples if it is batched? */
static bool onnx_holds(const struct gw_tensor_info *many, const struct gw_tensor_info *one, uint32_t rows)
{
    bool same = many->rank == one->rank;

    for (uint32_t d = 0; d < one->rank && same; d++)
        same = many->dims[d] == one->dims[d] * (!d && one->batched ? rows : 1);
    return same;
}

/* Finds out from a graph for two rows which outputs have two samples. False: none, or one does not follow. */
static bool onnx_batches(struct gwm_graph *g, const struct gwm_graph *two)
{
    bool any = false;

    for (uint32_t i = 0; i < g->noutput; i++) {
        struct gw_tensor_info *a = &g->info[1][i];
        const struct gw_tensor_info *b = &two->info[1][i];
        a->batched = a->rank && b->rank && a->dims[0] == 1 && b->dims[0] == 2;
        if (!onnx_holds(b, a, 2)) return false;
        any = any || a->batched;
    }
    return any;
}

/* The graph for several rows. A file may let an output grow otherwise than the rows do: two samples for two
 * rows, and four for three. The caller's buffers would be too small for it. */
static int import_rows(const struct gwm_graph *g, uint32_t rows, struct gwm_graph **many,
                       const struct gwm_msg *msg)
{
    bool open = false;
    int err;

    for (uint32_t i = 0; i < g->noutput; i++) open = open || g->info[1][i].batched;
    if (!open) return gwm_fail(msg, -ENOTSUP, "%u rows: the model's batch dimension is fixed", rows);
    err = gwm_import_rows(g, rows, many, msg);
    for (uint32_t i = 0; i < g->noutput && !err; i++) {
        if (onnx_holds(&(*many)->info[1][i], &g->info[1][i], rows)) continue;
        gwm_graph_free(*many);
        *many = NULL;
        err = gwm_fail(msg, -ENOTSUP, "%u rows: output '%.60s' does not hold one sample for each", rows,
                       g->info[1][i].name);
    }
    return err;
}

/* Says which tensors hold several samples. A model whose batch dimension is open may still be made for one
 * alone: then none do. */
static void find_batched(struct gwm_graph *g)
{
    struct gwm_msg quiet = {0};
    struct gwm_graph *two;
    bool open = false, yes = false;

    for (uint32_t i = 0; i < g->ninput; i++) open = open || g->info[0][i].batched;
    if (!open) return;
    if (!gwm_import_rows(g, 2, &two, &quiet)) {
        yes = onnx_batches(g, two);
        gwm_graph_free(two);
    }
    for (uint32_t i = 0; i < g->ninput && !yes; i++) g->info[0][i].batched = 0;
    for (uint32_t i = 0; i < g->noutput && !yes; i++) g->info[1][i].batched = 0;
}

static int load_from(const void *bytes, size_t len, int dir, const struct gwm_msg *msg, void **model)
{
    struct gwm_graph *g;
    int err = gwm_import_file(bytes, len, dir, NULL, &g, msg);

    if (!err) find_batched(g);
    *model = g;
    return err;
}

static int onnx_load(const void *bytes, size_t len, const char *file, void **model, char *err, size_t errlen)
{
    const struct gwm_msg msg = {err, errlen, file};

    return load_from(bytes, len, -1, &msg, model);
}

static int load_in(const void *bytes, size_t len, const char *file, int dir, void **model, char *err,
                   size_t errlen)
{
    const struct gwm_msg msg = {err, errlen, file};

    return load_from(bytes, len, dir, &msg, model);
}

static void onnx_unload(void *model)
{
    gwm_graph_free((struct gwm_graph *)model);
}

static uint32_t onnx_count(const void *model, int output)
{
    const struct gwm_graph *g = (const struct gwm_graph *)model;

    return output ? g->noutput : g->ninput;
}

static const struct gw_tensor_info *onnx_info(const void *model, int output, uint32_t i)
{
    return &((const struct gwm_graph *)model)->info[output][i];
}

static void plan_free(void *plan)
{
    struct plan *p = (struct plan *)plan;

    gwm_cpu_free(p->cpu);
    gwm_gpu_free(p->gpu);
    gwm_graph_free(p->rows); /* the plan pointed into it */
    free(p);
}

/* What a plan's runs read of its graph. A plan for a GPU has all of it there. */
static void plan_needs(const struct plan *p, const struct gwm_graph *g, struct gwm_slim *s)
{
    bool *copied = (bool *)malloc((size_t)g->nnode + 1);

    s->full = s->full || !copied;
    if (copied) memset(copied, true, (size_t)g->nnode + 1);
    if (p && p->cpu)
        gwm_cpu_needs(p->cpu, s);
    else if (copied)
        gwm_slim_nodes(s, g, copied);
    free(copied);
}

int gwm_onnx_slim(void *model, void *const plan[], uint32_t n)
{
    struct gwm_graph *g = (struct gwm_graph *)model;
    struct gwm_slim s = {0};

    plan_needs(NULL, g, &s);
    for (uint32_t i = 0; i < n; i++) {
        const struct plan *p = (const struct plan *)plan[i];
        plan_needs(p, p->rows ? p->rows : g, &s);
    }
    gwm_slim(g, &s);
    return 0;
}

static int onnx_make_plan(const void *model, const struct gw_plan_options *o, void **plan, char *why,
                          size_t errlen)
{
    const struct gwm_graph *g = (const struct gwm_graph *)model;
    const struct gwm_msg msg = {why, errlen, "plan"};
    struct plan *p = calloc(1, sizeof(*p));
    int err = p ? 0 : -ENOMEM;

    if (!err && g->slim) err = gwm_fail(&msg, -EINVAL, "the model's constants are gone");
    if (!err && o->rows > 1) err = import_rows(g, o->rows, &p->rows, &msg);
    if (!err && p->rows) g = p->rows;
    if (!err && o->place == GW_PLACE_CPU)
        err = gwm_cpu_plan(g, o, &p->cpu, &msg);
    else if (!err && o->place == GW_PLACE_GPU)
        err = gwm_gpu_plan(g, o, &p->gpu, &msg);
    else if (!err)
        err = gwm_fail(&msg, -EINVAL, "no such place: %u", o->place);
    if (err && p) {
        gwm_graph_free(p->rows);
        free(p);
    }
    if (!err && p->rows) { /* this graph served to make the plan, which has copies of most constants */
        struct gwm_slim s = {0};
        plan_needs(p, p->rows, &s);
        gwm_slim(p->rows, &s);
    }
    if (!err) *plan = p;
    return err;
}

static void onnx_stats(const void *plan, struct gw_plan_stats *s)
{
    const struct plan *p = (const struct plan *)plan;

    if (p->cpu)
        gwm_cpu_stats(p->cpu, s);
    else
        gwm_gpu_stats(p->gpu, s);
}

static int onnx_run(void *plan, const void *const in[], void *const out[])
{
    struct plan *p = (struct plan *)plan;

    return p->cpu ? gwm_cpu_run(p->cpu, in, out) : gwm_gpu_run(p->gpu, in, out);
}

static int onnx_enqueue(void *plan, void *stream, const void *const in[], void *const out[])
{
    struct plan *p = (struct plan *)plan;

    return p->gpu ? gwm_gpu_enqueue(p->gpu, stream, in, out, NULL) : -ENOTSUP;
}

static int onnx_enqueue_indirect(void *plan, void *stream, const struct gw_plan_io *io)
{
    struct plan *p = (struct plan *)plan;

    return p->gpu ? gwm_gpu_enqueue(p->gpu, stream, NULL, NULL, io) : -ENOTSUP;
}

int gwm_onnx_each(void *plan, gwm_each one, void *arg)
{
    struct plan *p = (struct plan *)plan;

    return p->gpu ? gwm_gpu_each(p->gpu, one, arg) : -ENOTSUP;
}

int gwm_onnx_program(const void *plan, struct gwm_program *program, struct gwm_program_times *times)
{
    const struct plan *p = (const struct plan *)plan;

    return p->gpu ? gwm_gpu_program(p->gpu, program, times) : -ENOTSUP;
}

enum gwm_rows gwm_onnx_rows(const void *model, uint32_t rows, char *node, size_t size)
{
    const struct gwm_graph *g = (const struct gwm_graph *)model;
    const struct gwm_msg quiet = {0};
    struct gwm_graph *many, *more = NULL;
    enum gwm_rows is = GWM_ROWS_UNKNOWN;

    if (size) *node = '\0';
    if (g->slim) return is;
    if (import_rows(g, rows, &many, &quiet)) return is; /* no plan either */
    is = gwm_graph_rows(many, rows, node, size);
    if (is == GWM_ROWS_APART && !import_rows(g, rows + 1, &more, &quiet) &&
        gwm_graphs_differ(many, more, node, size))
        is = GWM_ROWS_MEET;
    gwm_graph_free(more);
    gwm_graph_free(many);
    return is;
}

const struct gw_model_backend *gw_model_onnx(void)
{
    static const struct gw_model_backend backend = {
        .abi = GW_MODEL_ABI,
        .name = "onnx",
        .load = onnx_load,
        .unload = onnx_unload,
        .count = onnx_count,
        .info = onnx_info,
        .plan = onnx_make_plan,
        .plan_free = plan_free,
        .stats = onnx_stats,
        .run = onnx_run,
        .enqueue = onnx_enqueue,
        .enqueue_indirect = onnx_enqueue_indirect,
        .load_in = load_in,
    };
    return &backend;
}
