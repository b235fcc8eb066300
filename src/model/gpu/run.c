/* SPDX-License-Identifier: Apache-2.0 */
/* Runs of a plan: with tensors of the host, or into a stream. */
#include <errno.h>

#include "src/model/gpu/run.h"

#include "src/model/gpu/enqueue.h"

static size_t tensor_bytes(const struct gwm_gpu *p, int value)
{
    return gwm_bytes(&p->g->value[value]);
}

int gwm_gpu_run(struct gwm_gpu *p, const void *const in[], void *const out[])
{
    int err = 0;

    for (uint32_t i = 0; i < p->g->ninput && !err; i++)
        err = gw_copy_in(p->exec, p->io + p->in_at[i], in[i], tensor_bytes(p, p->g->input[i]));
    if (!err) err = gwm_gpu_run_here(p);
    for (uint32_t i = 0; i < p->g->noutput && !err; i++)
        err = gw_copy_out(p->exec, out[i], p->io + p->out_at[i], tensor_bytes(p, p->g->output[i]));
    return err ? -EIO : 0;
}

int gwm_gpu_enqueue(struct gwm_gpu *p, void *stream, const void *const in[], void *const out[],
                    const struct gw_plan_io *io)
{
    const struct gwm_where where = {.at = p->at, .in = in, .out = out, .io = io};

    /* The executor of the CPU has no streams: there its queue is meant. */
    if (!stream && gw_exec_kind(p->exec) == GW_EXEC_GPU) stream = gw_exec_stream(p->exec);
    return gwm_gpu_enqueue_from(p, 0, &where, stream) ? -EIO : 0;
}
