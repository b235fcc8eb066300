/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A graph becomes a plan that can run: its nodes become launches in their order, and the buffers get memory.
 * Where it is measured that is done for both layouts of pictures, and the faster one stays.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "src/model/gpu/build.h"

#include "src/model/gpu/attention.h"
#include "src/model/gpu/enqueue.h"
#include "src/model/gpu/form.h"
#include "src/model/gpu/launch.h"
#include "src/model/gpu/libs.h"
#include "src/model/gpu/lower.h"
#include "src/model/gpu/memory.h"
#include "src/model/gpu/program.h"
#include "src/model/gpu/strided.h"
#include "src/model/gpu/timer.h"
#include "src/model/graph/msg.h"

static int lower_all(struct gwm_gpu *p, const struct gwm_msg *msg)
{
    const struct gwm_graph *g = p->g;
    size_t values = (size_t)g->nvalue + 1;

    p->uses = (int *)calloc(values, sizeof(int));
    p->maker = (int *)calloc(values, sizeof(int));
    p->done = (bool *)calloc((size_t)g->nnode + 1, sizeof(bool));
    p->put_off = (bool *)calloc((size_t)g->nnode + 1, sizeof(bool));
    p->as = (int *)malloc(values * GWM_SLOTS * sizeof(int));
    p->picture = (bool *)calloc(values, sizeof(bool));
    if (!p->uses || !p->maker || !p->done || !p->put_off || !p->as || !p->picture) return -ENOMEM;
    p->lower = gwm_gpu_node;
    p->node = -1;
    gwm_uses(g, p->uses, p->maker);
    gwm_gpu_pictures(p);
    int err = gwm_gpu_border(p);
    for (int i = 0; i < g->nnode && !err; i++) {
        p->put_off[i] =
            !p->done[i] && (gwm_gpu_put_off(p, &g->node[i]) || gwm_gpu_attention_part(p, &g->node[i]));
        err = p->done[i] || p->put_off[i] ? 0 : gwm_gpu_node(p, &g->node[i]);
        if (err == -ENOTSUP)
            return gwm_fail(msg, err,
                            "node '%.60s' (%.30s): the GPU has no kernel for it, or not for its size",
                            g->node[i].name, g->node[i].type);
    }
    return err ? err : gwm_gpu_finish(p);
}

static int gpu_build_once(struct gwm_gpu *p, const struct gwm_msg *msg)
{
    int err = lower_all(p, msg);

    if (err && err != -E2BIG) return err;
    if (!err) err = gwm_gpu_memory(p);
    if (err == -E2BIG)
        return gwm_fail(msg, err, "weights, inputs, outputs and intermediate results take more than %zu MiB",
                        p->most >> 20);
    if (err) return gwm_fail(msg, err, "%s", gw_last_error());
    if (p->resident && (err = gwm_program_make(p, msg))) return err;
    /* Loads every kernel now: a load while a resident kernel runs would wait for it. */
    err = gw_exec_kind(p->exec) == GW_EXEC_GPU ? gwm_gpu_run_here(p) : 0;
    return err ? gwm_fail(msg, err, "%s", gw_last_error()) : 0;
}

void gwm_gpu_unbuild(struct gwm_gpu *p)
{
    gwm_gpu_drop(p);
    gwm_gpu_memory_free(p);
    free(p->uses);
    free(p->maker);
    free(p->done);
    free(p->put_off);
    free(p->as);
    free(p->picture);
}

/* Once more from the start, with pictures in the other layout. */
static void gpu_build_again(struct gwm_gpu *p, bool last)
{
    struct gwm_gpu fresh = {.g = p->g,
                            .exec = p->exec,
                            .own_exec = p->own_exec,
                            .gpu_io = p->gpu_io,
                            .half = p->half,
                            .tf32 = p->tf32,
                            .last = last,
                            .lib = p->lib,
                            .timer = p->timer,
                            .cache = p->cache,
                            .weights = p->weights,
                            .own_weights = p->own_weights,
                            .room = p->room,
                            .own_room = p->own_room,
                            .mark = p->mark,
                            .arena_added = p->arena_added,
                            .most = p->most};

    gwm_gpu_unbuild(p);
    gwm_weights_back(p->weights, p->mark); /* the other layout's */
    if (p->own_room) gwm_arena_clear(p->own_room);
    *p = fresh;
}

/* Both layouts of pictures, and the faster one stays. */
static int build_best(struct gwm_gpu *p, const struct gwm_msg *msg)
{
    bool pictures = false;
    int err = gpu_build_once(p, msg);

    for (int v = 0; v < p->g->nvalue && !err; v++) pictures |= p->picture[v];
    if (err || !p->timer || !pictures) return err;
    float plain = gwm_timer_plan(p->timer, p), last = -1;
    gpu_build_again(p, true);
    err = gpu_build_once(p, msg);
    if (!err) last = gwm_timer_plan(p->timer, p);
    if (!err && last >= 0 && (plain < 0 || last <= plain)) return 0;
    gpu_build_again(p, false);
    return gpu_build_once(p, msg);
}

/* The libraries may launch what the device cannot; own kernels it always can. */
static int gpu_build_checked(struct gwm_gpu *p, const struct gwm_msg *msg)
{
    if (!p->lib || gwm_timer_plan(p->timer, p) >= 0) return 0;
    fprintf(stderr,
            "gpuwire: %s: the libraries' kernels make no graph that the GPU can launch; own kernels "
            "take their place\n",
            msg->file);
    gpu_build_again(p, false);
    gwm_lib_close(p->lib);
    p->lib = NULL;
    return gpu_build_once(p, msg);
}

int gwm_gpu_build(struct gwm_gpu *p, const struct gwm_msg *msg)
{
    int err = build_best(p, msg);

    return err ? err : gpu_build_checked(p, msg);
}
