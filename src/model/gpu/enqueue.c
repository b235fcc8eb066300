/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Launches with the addresses of a run filled in: into a stream of the GPU, or on the executor. A plan that
 * one kernel runs is one launch.
 */
#include <errno.h>
#include <string.h>

#include "src/model/gpu/enqueue.h"

#include "src/model/kernels/args.h"

GW_KERNEL_DECLARE(gwm_program_kernel);

/* Where a launch finds a buffer in this run. */
static struct gwm_ref enqueue_find(const struct gwm_gpu *p, const struct gwm_where *w, int buf)
{
    const struct gwm_gpu_buf *b = &p->buf[buf];
    struct gwm_ref r = {.type = b->type};
    bool in = b->mem == GWM_MEM_IN, out = b->mem == GWM_MEM_OUT;

    if (w->io && (in || out))
        r.slot = in ? (void *const *)&w->io->in[b->index] : (void *const *)&w->io->out[b->index];
    else if (w->in && in)
        r.at = (void *)w->in[b->index];
    else if (w->in && out)
        r.at = w->out[b->index];
    else
        r.at = w->at[buf];
    return r;
}

void gwm_gpu_args(const struct gwm_gpu *p, const struct gwm_launch *l, const struct gwm_where *w, void *args)
{
    memcpy(args, l->args, l->kernel->arg_size);
    for (int k = 0; k < l->nfix; k++) {
        struct gwm_ref r = enqueue_find(p, w, l->fix[k].buf);
        memcpy((char *)args + l->fix[k].at, l->fix[k].ref ? (void *)&r : (void *)&r.at,
               l->fix[k].ref ? sizeof(r) : sizeof(r.at));
    }
}

static int enqueue_call(struct gwm_gpu *p, const struct gwm_launch *l, const struct gwm_where *w,
                        void *stream)
{
    void *addr[GWM_FIXES] = {0};

    for (int k = 0; k < l->nfix; k++) addr[l->fix[k].at] = enqueue_find(p, w, l->fix[k].buf).at;
    return l->call->run(l->call, addr, stream ? stream : gw_exec_stream(p->exec));
}

static int launch_one(struct gwm_gpu *p, const struct gwm_launch *l, const struct gwm_where *w, void *stream)
{
    char args[GW_KERNEL_ARG_MAX] __attribute__((aligned(16)));

    if (l->call) return enqueue_call(p, l, w, stream);
    gwm_gpu_args(p, l, w, args);
    if (stream) return !l->kernel->gpu || l->kernel->gpu(l->grid, l->block, args, stream) ? -EIO : 0;
    int err = gw_launch(p->exec, l->kernel, l->grid, l->block, args);
    if (!err && gw_exec_kind(p->exec) == GW_EXEC_CPU)
        err = gw_exec_sync(p->exec, gw_deadline(GWM_SYNC_NS)); /* its queue is short */
    return err;
}

static int enqueue_program(struct gwm_gpu *p, const struct gwm_where *where, void *stream)
{
    struct gwm_program_args a = {
        .program = p->program, .io = where->io, .times = p->program_runs ? p->program_runs : 1};

    for (uint32_t i = 0; i < p->g->ninput && where->in; i++) a.own.in[i] = where->in[i];
    for (uint32_t i = 0; i < p->g->noutput && where->in; i++) a.own.out[i] = where->out[i];
    if (stream) {
        if (!gwm_program_kernel.gpu) return -EIO;
        return gwm_program_kernel.gpu(a.program.blocks, a.program.threads, &a, stream) ? -EIO : 0;
    }
    int err = gw_launch(p->exec, &gwm_program_kernel, a.program.blocks, a.program.threads, &a);
    if (!err && gw_exec_kind(p->exec) == GW_EXEC_CPU) err = gw_exec_sync(p->exec, gw_deadline(GWM_SYNC_NS));
    return err;
}

int gwm_gpu_enqueue_from(struct gwm_gpu *p, int first, const struct gwm_where *where, void *stream)
{
    int err = 0;

    if (p->program.ops) return enqueue_program(p, where, stream);
    for (int i = first; i < p->nlaunch && !err; i++) err = launch_one(p, &p->launch[i], where, stream);
    return err;
}

int gwm_gpu_enqueue_here(struct gwm_gpu *p, int first, void *stream)
{
    const void *in[GW_MODEL_MAX_IO];
    void *out[GW_MODEL_MAX_IO];

    for (uint32_t i = 0; i < p->g->ninput; i++) in[i] = p->io + p->in_at[i];
    for (uint32_t i = 0; i < p->g->noutput; i++) out[i] = p->io + p->out_at[i];
    return gwm_gpu_enqueue_from(p, first, &(struct gwm_where){.at = p->at, .in = in, .out = out}, stream);
}

int gwm_gpu_run_here(struct gwm_gpu *p)
{
    int err = gwm_gpu_enqueue_here(p, 0, NULL);

    return err ? err : gw_exec_sync(p->exec, gw_deadline(GWM_SYNC_NS));
}
