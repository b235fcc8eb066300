/* SPDX-License-Identifier: Apache-2.0 */
/* Adds kernels and models to a serving loop. */
#include "src/server/worker/stages.h"

/* Warps that post a batch's answers, at most. */
#define SEND_WARPS 16

static bool stages_on_gpu(const struct gw_stages *s)
{
    return gw_exec_kind(s->exec) == GW_EXEC_GPU;
}

/* On CPU threads. */
static int stages_run_model(void *ctx)
{
    struct gw_stages_model *m = ctx;
    if (!m->args->work->items) return 0;
    int err = gw_plan_run(m->plan, m->args->io->in, m->args->io->out);
    if (err) __atomic_store_n(&m->run_error, err, __ATOMIC_RELAXED); /* it stands alone */
    m->args->work->failed = err;
    return 0; /* the clients of those requests are told; the loop goes on */
}

/* On a GPU the model's kernels find the tensors' addresses in *io, which the first stage writes. */
static int stages_enqueue_model(void *ctx, void *stream)
{
    const struct gw_stages_model *m = ctx;
    return gw_plan_enqueue_indirect(m->plan, stream, m->args->io);
}

int gw_stages_kernel(const struct gw_stages *s, uint32_t variant, const struct gw_kernel *kernel,
                     uint32_t blocks, uint32_t threads, uint32_t beside)
{
    uint32_t lanes = gw_exec_lanes(s->exec);
    struct gw_loop_stage stage = {.kernel = kernel,
                                  .grid = blocks,
                                  .block = threads < lanes ? threads : lanes,
                                  .arg = s->args,
                                  .variant = variant,
                                  .beside = beside};
    return gw_loop_add(s->loop, &stage);
}

int gw_stages_model(const struct gw_stages *s, uint32_t variant, struct gw_stages_model *model)
{
    struct gw_loop_stage stage = {.name = "model",
                                  .enqueue = stages_enqueue_model,
                                  .run = stages_run_model,
                                  .ctx = model,
                                  .variant = variant};
    model->args = s->args;
    return gw_loop_add(s->loop, &stage);
}

int gw_stages_before(const struct gw_stages *s, uint32_t variant, bool company, bool copies)
{
    uint32_t blocks = stages_on_gpu(s) ? GW_STAGES_BLOCKS : 1;
    int err = 0;
    /* Beside what brings the requests together, the model, and what takes the outputs apart. */
    if (stages_on_gpu(s) && company) err = gw_stages_kernel(s, variant, &gw_serve_company, 1, 1, 3);
    return err || !copies ? err
                          : gw_stages_kernel(s, variant, &gw_serve_gather, blocks, GW_STAGES_THREADS, 0);
}

int gw_stages_after(const struct gw_stages *s, uint32_t variant, uint32_t rows)
{
    uint32_t blocks = stages_on_gpu(s) ? GW_STAGES_BLOCKS : 1, warps = rows < SEND_WARPS ? rows : SEND_WARPS;
    int err = gw_stages_kernel(s, variant, &gw_serve_scatter, blocks, GW_STAGES_THREADS, 0);
    return err ? err : gw_stages_kernel(s, variant, &gw_serve_send, 1, 32 * warps, 0);
}
