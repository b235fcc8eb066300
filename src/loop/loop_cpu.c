/* SPDX-License-Identifier: Apache-2.0 */
/* A loop on the CPU: a thread that runs the stages in order. */
#include <errno.h>
#include <stdio.h>

#include "src/exec/cpu.h"
#include "src/loop/impl.h"

static int run_stage(struct gw_loop *l, const struct gw_loop_stage *s)
{
    if (s->kernel) return gw_cpu_run(l->pool, s->kernel, s->grid, s->block, s->arg);
    return s->run(s->ctx);
}

/* All stages of a variant, also after one that failed: a GPU cannot leave out the rest of a graph either. */
static void run_stages(struct gw_loop *l, struct gw_loop_ctl *ctl, const struct gw_loop_variant *v)
{
    const struct gw_loop_step *s;

    for (s = v->first; s; s = s->next) {
        int err = run_stage(l, &s->stage);

        if (err >= 0) continue;
        if (!l->why[0]) snprintf(l->why, sizeof(l->why), "stage %s: %s", s->stage.name, gw_last_error());
        gw_loop_fail(ctl, err);
    }
}

static void run_picked(struct gw_loop *l, struct gw_loop_ctl *ctl)
{
    uint32_t variant = ctl->picked;

    ctl->picked = 0;
    if (!variant) return;
    /* Acquire: the stages were added before it became ready. */
    if (variant <= l->variants && gw_ld_acquire_u32(&l->variant[variant].ready)) {
        run_stages(l, ctl, &l->variant[variant]);
        return;
    }
    snprintf(l->why, sizeof(l->why), "a stage picked variant %u, which has no stages", variant);
    gw_loop_fail(ctl, -EINVAL);
}

static void *loop_main(void *arg)
{
    struct gw_loop *l = arg;
    struct gw_loop_ctl *ctl = l->ctl_mem.dev;

    do {
        run_stages(l, ctl, &l->variant[0]);
        run_picked(l, ctl);
        ctl->iterations++;
        gw_st_relaxed_u64(&l->shared->iterations, ctl->iterations);
    } while (!gw_loop_stopping(ctl));
    l->shared->error = ctl->error;
    gw_st_release_u32(&l->shared->ended, 1); /* after error, iterations and why */
    gw_loop_note_end(l);
    return NULL;
}

static int cpu_prepare(struct gw_loop *l)
{
    struct gw_cpu_pool_opts opts = {"gw-lane", l->exec->lanes, l->exec->blocks, l->exec->cpu_pin};

    return gw_cpu_pool_create(&opts, &l->pool);
}

/* Before the loop runs, its threads are started here. Those that a later variant needs start with its first
 * kernel: the pool belongs to the loop's thread then. */
static int cpu_build(struct gw_loop *l, uint32_t variant)
{
    const struct gw_loop_step *s = l->prepared ? NULL : l->variant[variant].first;
    int err = 0;

    for (; !err && s; s = s->next)
        if (s->stage.kernel) err = gw_cpu_prepare(l->pool, s->stage.grid, s->stage.block);
    return err;
}

static int cpu_start(struct gw_loop *l)
{
    int err = gw_cpu_thread_start(&l->thread, "gw-loop", l->exec->cpu_pin, loop_main, l);

    l->thread_runs = !err;
    return err;
}

static int cpu_ended(struct gw_loop *l)
{
    return gw_ld_acquire_u32(&l->shared->ended) != 0; /* before error and why are read */
}

static void cpu_join(struct gw_loop *l)
{
    if (l->thread_runs) pthread_join(l->thread, NULL);
    l->thread_runs = 0;
}

static void loop_cpu_destroy(struct gw_loop *l)
{
    cpu_join(l);
    gw_cpu_pool_destroy(l->pool);
}

const struct gw_loop_ops gw_loop_cpu_ops = {cpu_prepare, cpu_build, cpu_start,
                                            cpu_join,    cpu_ended, loop_cpu_destroy};
