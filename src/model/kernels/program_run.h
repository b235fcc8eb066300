/* SPDX-License-Identifier: Apache-2.0 */
/* For kernels: runs a program (program.h). The kernels' own code is used, for which this file includes it
 * without the kernels. */
#ifndef GW_MODEL_PROGRAM_RUN_H
#define GW_MODEL_PROGRAM_RUN_H

#define GWM_BODIES

#include "src/model/kernels/direct.h"
#include "src/model/kernels/index.h"
#include "src/model/kernels/elements.h"
#include "src/model/kernels/reduce.h"
#include "src/model/kernels/program.h"
#include "src/model/kernels/program_list.h"

/*
 * Returns when all blocks of the grid have called it; what any of them did before is visible to all after.
 * All threads of the grid call it, and all blocks must be able to run at once.
 */
GW_DEV void gwm_meet(struct gwm_meeting *m)
{
    gw_syncthreads();
    if (gw_grid_dim() > 1 && gw_thread_idx() == 0) {
        /* It cannot change before this block has come. */
        uint32_t round = gw_ld_relaxed_u32_gpu(&m->round), look = 0;
        /* acq_rel: it publishes what this block did, which the barrier above ordered before it. And the last
         * to come sees all that the others have published. */
        if (gw_add_acq_rel_u32_gpu(&m->came, 1) == gw_grid_dim() - 1) {
            gw_st_relaxed_u32_gpu(&m->came, 0);
            gw_st_release_u32_gpu(&m->round, round + 1); /* after `came`, and after all that it has seen */
        } else {
            /* Acquire: nothing after the meeting is read before it. */
            while (gw_ld_acquire_u32_gpu(&m->round) == round) gw_pause(look++);
        }
    }
    gw_syncthreads();
}

/* One kernel's work, by all blocks. */
GW_DEV void gwm_program_do(const struct gwm_do *d)
{
    int32_t block;

    switch (d->kernel) {
#define GWM_ALL(name, type)                                                                                  \
    case GWM_DO_##name:                                                                                      \
        name##_work((const struct type *)d->args);                                                           \
        break;
#define GWM_EACH(name, type)                                                                                 \
    case GWM_DO_##name:                                                                                      \
        for (block = (int32_t)gw_block_idx(); block < (int32_t)d->blocks; block += (int32_t)gw_grid_dim())   \
            name##_work((const struct type *)d->args, block);                                                \
        break;
        GWM_PROGRAM_KERNELS(GWM_ALL, GWM_EACH)
#undef GWM_ALL
#undef GWM_EACH
    default: break;
    }
}

/* All threads of the grid. program->io was written before, and a meeting has come after it. All blocks see
 * the program's writes after the next meeting. */
GW_DEV void gwm_program_run(const struct gwm_program *program)
{
    uint32_t i;

    for (i = 0; i < program->ops; i++) {
        const struct gwm_do *d = &program->op[i];
        if (d->meet) gwm_meet(program->meeting);
        gwm_program_do(d);
    }
}

/* One thread, before the meeting that gwm_program_run wants. */
GW_DEV void gwm_program_aim(const struct gwm_program *program, const struct gw_plan_io *io)
{
    uint32_t i;

    for (i = 0; i < program->nin; i++) program->io->in[i] = io->in[i];
    for (i = 0; i < program->nout; i++) program->io->out[i] = io->out[i];
}

#endif
