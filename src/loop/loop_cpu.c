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

/* All stages of a variant, also after one that failed: a GPU cannot leave out the rest of a graph either.
 * Returns how many there were. */
static uint32_t run_stages(struct gw_loop *l, struct gw_loop_ctl *ctl, uint32_t variant)
{
    uint32_t i, n = 0;

    for (i = 0; i < l->nstages; i++) {
        if (l->stage[i].variant != variant) continue;
        n++;
        int err = run_stage(l, &l->stage[i]);

        if (err >= 0) continue;
        if (!l->why[0]) snprintf(l->why, sizeof(l->why), "stage %s: %s", l->stage[i].name, gw_last_error());
        gw_loop_fail(ctl, err);
    }
    return n;
}

static void run_picked(struct gw_loop *l, struct gw_loop_ctl *ctl)
{
    uint32_t variant = ctl->picked;

    ctl->picked = 0;
    if (!variant || run_stages(l, ctl, variant)) return;
    snprintf(l->why, sizeof(l->why), "a stage picked variant %u, which has no stages", variant);
    gw_loop_fail(ctl, -EINVAL);
}

static void *loop_main(void *arg)
{
    struct gw_loop *l = arg;
    struct gw_loop_ctl *ctl = l->ctl_mem.dev;

    do {
        run_stages(l, ctl, 0);
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
    uint32_t i;
    int err = gw_cpu_pool_create(&opts, &l->pool);

    for (i = 0; !err && i < l->nstages; i++) {
        if (l->stage[i].kernel) err = gw_cpu_prepare(l->pool, l->stage[i].grid, l->stage[i].block);
    }
    if (err) gw_cpu_pool_destroy(l->pool);
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

const struct gw_loop_ops gw_loop_cpu_ops = {cpu_prepare, cpu_start, cpu_join, cpu_ended, loop_cpu_destroy};
