/* SPDX-License-Identifier: Apache-2.0 */
/* The turn's kernel, for CPU threads and for a GPU: one block. */
#include "tests/generate/gpu/turn_kernels.h"

GW_KERNEL(turn_kernel, struct turn_args, a)
{
    uint32_t at = *a->at, i;

    for (i = gw_thread_idx(); at > 0 && i < a->floats; i += gw_block_dim())
        a->kept[(uint64_t)(at - 1) * a->floats + i] = a->logits[i];
    gw_syncthreads(); /* all have read `at` */
    if (gw_thread_idx() > 0) return;
    if (at == a->n || gw_loop_ending(a->ctl)) {
        gw_loop_fail(a->ctl, TURN_END);
        return;
    }
    *a->step = a->list[at];
    *a->at = at + 1;
    gw_loop_pick(a->ctl, a->variant[at]);
}
