/* SPDX-License-Identifier: Apache-2.0 */
/* The serving loop's kernels. One waits for requests and makes a batch of some; the model's own kernels
 * follow, beside one that takes up what arrives; the last sends the answers. Where several requests share a
 * run of the model, one kernel brings their inputs together before, and another one takes the outputs to
 * their slots behind it.
 *
 * Compiled twice, by serve_kernel.c for CPU threads and by serve_kernel.cu for a GPU.
 */
#ifndef GW_SERVE_KERNEL_H
#define GW_SERVE_KERNEL_H

#include "src/serve/serve_stages.h"

/* One thread. */
GW_KERNEL(gw_serve_wait, struct gw_serve_args, a)
{
    gw_serve_wait_stage(a);
    if (a->variants > 1 && a->work->items) gw_loop_pick(a->ctl, a->work->variant + 1);
}

/* For requests of few bytes, which have no batch: one block, whose first thread waits, copies the request
 * where the model reads it. That saves a kernel. */
GW_KERNEL(gw_serve_wait_small, struct gw_serve_args, a)
{
    if (gw_thread_idx() == 0) gw_serve_wait_stage(a);
    gw_syncthreads(); /* no thread copies before the first one has acquired the request's completion */
    gw_serve_gather_stage(a);
}

/* The same for the answer. One block. */
GW_KERNEL(gw_serve_send_small, struct gw_serve_args, a)
{
    gw_serve_scatter_stage(a);
    gw_syncthreads(); /* the answer's bytes before the post */
    gw_serve_send_stage(a);
}

/* One thread, beside the stages from gw_serve_gather to gw_serve_scatter. */
GW_KERNEL(gw_serve_company, struct gw_serve_args, a)
{
    gw_serve_company_stage(a);
}

/* Any number of blocks and threads. */
GW_KERNEL(gw_serve_gather, struct gw_serve_args, a)
{
    gw_serve_gather_stage(a);
}

/* Any number of blocks and threads. */
GW_KERNEL(gw_serve_scatter, struct gw_serve_args, a)
{
    gw_serve_scatter_stage(a);
}

/* One block. */
GW_KERNEL(gw_serve_send, struct gw_serve_args, a)
{
    gw_serve_send_stage(a);
}

#endif
