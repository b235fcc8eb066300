/* SPDX-License-Identifier: Apache-2.0 */
/* A program by itself, as a kernel. */
#ifndef GW_MODEL_KERNELS_PROGRAM_ALONE_H
#define GW_MODEL_KERNELS_PROGRAM_ALONE_H

#include "src/model/kernels/program_run.h"

GW_KERNEL(gwm_program_kernel, struct gwm_program_args, a)
{
    uint32_t i;

    for (i = 0; i < a->times; i++) {
        if (i) gwm_meet(a->program.meeting); /* as the server's kernel, which then sends the answers */
        if (gw_global_idx() == 0) gwm_program_aim(&a->program, a->io ? a->io : &a->own);
        gwm_meet(a->program.meeting);
        gwm_program_run(&a->program);
    }
}

#endif
