/* SPDX-License-Identifier: Apache-2.0 */
/* The ONNX back-end: the importer's graph, planned by cpu.c or gpu.c. */
#include <errno.h>
#include <stdlib.h>

#include "src/model/place.h"

/* A plan of either place. */
struct plan {
    struct gwm_cpu *cpu;
    struct gwm_gpu *gpu;
};

static int load(const void *bytes, size_t len, const char *file, void **model, char *err, size_t errlen)
{
    const struct gwm_msg msg = {err, errlen, file};
    struct gwm_graph *g;
    int rc = gwm_import(bytes, len, &g, &msg);

    *model = g;
    return rc;
}

static void unload(void *model)
{
    gwm_graph_free((struct gwm_graph *)model);
}

static uint32_t count(const void *model, int output)
{
    const struct gwm_graph *g = (const struct gwm_graph *)model;

    return output ? g->noutput : g->ninput;
}

static const struct gw_tensor_info *info(const void *model, int output, uint32_t i)
{
    return &((const struct gwm_graph *)model)->info[output][i];
}

static void plan_free(void *plan)
{
    struct plan *p = (struct plan *)plan;

    gwm_cpu_free(p->cpu);
    gwm_gpu_free(p->gpu);
    free(p);
}

static int make_plan(const void *model, const struct gw_plan_options *o, void **plan, char *err,
                     size_t errlen)
{
    const struct gwm_graph *g = (const struct gwm_graph *)model;
    const struct gwm_msg msg = {err, errlen, "plan"};
    struct plan *p = calloc(1, sizeof(*p));
    int rc = -ENOMEM;

    if (p && o->rows > 1)
        rc = gwm_fail(&msg, -ENOTSUP, "%u rows: models from ONNX files run one sample at a time", o->rows);
    else if (p && o->place == GW_PLACE_CPU)
        rc = gwm_cpu_plan(g, o, &p->cpu, &msg);
    else if (p && o->place == GW_PLACE_GPU)
        rc = gwm_gpu_plan(g, o, &p->gpu, &msg);
    else if (p)
        rc = gwm_fail(&msg, -EINVAL, "no such place: %u", o->place);
    if (rc)
        free(p);
    else
        *plan = p;
    return rc;
}

static void stats(const void *plan, struct gw_plan_stats *s)
{
    const struct plan *p = (const struct plan *)plan;

    if (p->cpu)
        gwm_cpu_stats(p->cpu, s);
    else
        gwm_gpu_stats(p->gpu, s);
}

static int run(void *plan, const void *const in[], void *const out[])
{
    struct plan *p = (struct plan *)plan;

    return p->cpu ? gwm_cpu_run(p->cpu, in, out) : gwm_gpu_run(p->gpu, in, out);
}

static int enqueue(void *plan, void *stream, const void *const in[], void *const out[])
{
    struct plan *p = (struct plan *)plan;

    return p->gpu ? gwm_gpu_enqueue(p->gpu, stream, in, out, NULL) : -ENOTSUP;
}

static int enqueue_indirect(void *plan, void *stream, const struct gw_plan_io *io)
{
    struct plan *p = (struct plan *)plan;

    return p->gpu ? gwm_gpu_enqueue(p->gpu, stream, NULL, NULL, io) : -ENOTSUP;
}

const struct gw_model_backend *gw_model_onnx(void)
{
    static const struct gw_model_backend backend = {
        .abi = GW_MODEL_ABI,
        .name = "onnx",
        .load = load,
        .unload = unload,
        .count = count,
        .info = info,
        .plan = make_plan,
        .plan_free = plan_free,
        .stats = stats,
        .run = run,
        .enqueue = enqueue,
        .enqueue_indirect = enqueue_indirect,
    };
    return &backend;
}
