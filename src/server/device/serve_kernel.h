/* SPDX-License-Identifier: Apache-2.0 */
/* The serving loop's kernels. One waits for requests and makes a batch of some; the model's own kernels
 * follow, beside one that receives what arrives; the last sends the answers. Where several requests share a
 * run of the model, one kernel brings their inputs together before, and another one takes the outputs to
 * their slots after it.
 *
 * Compiled twice, by serve_kernel.c for CPU threads and by serve_kernel.cu for a GPU.
 */
#ifndef GW_SERVER_DEVICE_SERVE_KERNEL_H
#define GW_SERVER_DEVICE_SERVE_KERNEL_H

#include "src/server/device/serve_stages.h"

/* One thread. One block where requests are small and there is one batch size: all threads copy the request to
 * where the model reads it, which saves a kernel. */
GW_KERNEL(gw_serve_wait, struct gw_serve_args, a)
{
    if (gw_thread_idx() == 0) {
        gw_serve_wait_stage(a);
        if (a->picks && a->work->items) gw_loop_pick(a->ctl, a->work->variant + 1);
    }
    if (!a->small_in) return;
    gw_syncthreads(); /* no thread copies before the first one has acquired the request's completion */
    gw_serve_gather_stage(a);
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

/* One block. It takes small outputs to their slot, too. The first batch size is the one that can be small. */
GW_KERNEL(gw_serve_send, struct gw_serve_args, a)
{
    if (a->small_out && a->work->variant == 0) {
        gw_serve_scatter_stage(a);
        gw_syncthreads(); /* the answer's bytes before the post */
    }
    gw_serve_send_stage(a);
}

#endif
