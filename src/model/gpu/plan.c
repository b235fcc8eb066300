/* SPDX-License-Identifier: Apache-2.0 */
/* Plans for a GPU: options, the executor, what measuring needs; and what a plan tells about itself. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "src/model/gpu/plan.h"

#include "src/model/gpu/build.h"
#include "src/model/gpu/cache.h"
#include "src/model/gpu/libs.h"
#include "src/model/gpu/program.h"
#include "src/model/gpu/timer.h"
#include "src/model/graph/msg.h"
#include "src/model/kernels/args.h"

/* Opens what measuring needs. Without it the first of the ways that works is taken. */
static void gpu_plan_measure(struct gwm_gpu *p)
{
    char machine[512], versions[128];

    p->timer = gwm_timer_open(p->exec, p->most);
    if (!p->timer) return;
    p->lib = gwm_lib_open();
    gwm_timer_machine(p->timer, machine, sizeof(machine) - sizeof(versions));
    gwm_lib_versions(p->lib, versions, sizeof(versions));
    strncat(machine, versions, sizeof(machine) - strlen(machine) - 1);
    p->cache = gwm_cache_open(machine);
}

static int find_exec(struct gwm_gpu *p, const struct gw_plan_options *o, const struct gwm_msg *msg)
{
    struct gw_exec_opts opts = {.device = o->device};

    p->exec = o->exec;
    if (!p->exec) {
        int err = gw_exec_create("gpu", &opts, &p->exec);
        if (err) return gwm_fail(msg, err, "%s", gw_last_error());
        p->own_exec = true;
    }
    if (gw_exec_lanes(p->exec) < GWM_CONV_THREADS && !p->resident)
        return gwm_fail(msg, -EINVAL, "a CPU executor needs %d lanes for the GPU's kernels",
                        GWM_CONV_THREADS);
    return 0;
}

/* What the plan shares, or its own. */
static int gpu_plan_memory(struct gwm_gpu *p, const struct gw_plan_options *o)
{
    int err = o->weights ? 0 : gw_weights_create(NULL, &p->own_weights);

    if (!err && !o->arena) err = gw_plan_arena_create(NULL, &p->own_room);
    p->weights = o->weights ? o->weights : p->own_weights;
    p->room = o->arena ? o->arena : p->own_room;
    if (!err) p->mark = gwm_weights_mark(p->weights);
    return err;
}

int gwm_gpu_plan(const struct gwm_graph *g, const struct gw_plan_options *o, struct gwm_gpu **plan,
                 const struct gwm_msg *msg)
{
    struct gwm_gpu *p = (struct gwm_gpu *)calloc(1, sizeof(*p));

    if (!p) return -ENOMEM;
    p->g = g;
    p->gpu_io = o->flags & GW_PLAN_GPU_IO;
    p->tf32 = o->flags & GW_PLAN_TF32;
    p->half = o->flags & GW_PLAN_F16;
    p->most = o->memory ? o->memory : GWM_ARENA_MAX;
    p->resident = o->flags & GW_PLAN_RESIDENT;
    int err = p->resident ? gwm_program_fits(g, msg) : 0;
    if (!err) err = gpu_plan_memory(p, o);
    if (!err) err = find_exec(p, o, msg);
    if (!err && gw_exec_kind(p->exec) == GW_EXEC_GPU && !(o->flags & (GW_PLAN_OWN | GW_PLAN_RESIDENT)))
        gpu_plan_measure(p);
    p->last = p->half && !p->timer && !p->resident; /* where it is not measured */
    if (!err) err = gwm_gpu_build(p, msg);
    if (!err && p->timer) p->run_us = gwm_timer_plan(p->timer, p);
    gwm_cache_close(p->cache);
    gwm_timer_close(p->timer);
    p->cache = NULL;
    p->timer = NULL;
    if (err && p->weights) gwm_weights_back(p->weights, p->mark);
    if (err)
        gwm_gpu_free(p);
    else
        *plan = p;
    return err;
}

void gwm_gpu_free(struct gwm_gpu *p)
{
    if (!p) return;
    gwm_gpu_unbuild(p);
    gwm_lib_close(p->lib);
    gw_weights_free(p->own_weights);
    gw_plan_arena_free(p->own_room);
    if (p->own_exec) gw_exec_destroy(p->exec);
    free(p);
}

void gwm_gpu_stats(const struct gwm_gpu *p, struct gw_plan_stats *s)
{
    *s = (struct gw_plan_stats){.weight_bytes = p->const_bytes,
                                .arena_bytes = p->own_room ? p->arena_bytes : p->arena_added,
                                .shares = (p->own_weights ? 0 : GW_PLAN_SHARES_WEIGHTS) |
                                          (p->own_room ? 0 : GW_PLAN_SHARES_ARENA),
                                .steps = p->program.ops ? 1 : (uint32_t)p->nlaunch,
                                .run_ns = p->run_us > 0 ? (uint64_t)(p->run_us * 1000) : 0};
}

int gwm_gpu_program(const struct gwm_gpu *p, struct gwm_program *program, struct gwm_program_times *times)
{
    if (!p->program.ops) return -ENOTSUP;
    *program = p->program;
    *times = p->times;
    return 0;
}

int gwm_gpu_each(struct gwm_gpu *p, gwm_each one, void *arg)
{
    bool can = gw_exec_kind(p->exec) == GW_EXEC_GPU && !p->program.ops;
    struct gwm_timer *t = can ? gwm_timer_open(p->exec, p->most) : NULL;

    if (!t) return -ENOTSUP;
    for (int i = 0; i < p->nlaunch; i++) {
        const struct gwm_launch *l = &p->launch[i];
        one(arg, l->call ? l->call->name : l->kernel->name, l->node < 0 ? "" : p->g->node[l->node].name,
            gwm_timer_one(t, p, i));
    }
    gwm_timer_close(t);
    return 0;
}
