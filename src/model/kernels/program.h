/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A plan as a program that one kernel runs (program_run.h), so that a resident kernel launches nothing. The
 * program lists the plan's launches in order, and says before which of them all blocks must meet.
 */
#ifndef GW_MODEL_PROGRAM_H
#define GW_MODEL_PROGRAM_H

#include <gpuwire/model.h>

#define GWM_PROGRAM_THREADS 256 /* of a block: with this number any kernel's registers suffice */
#define GWM_PROGRAM_BLOCKS  32  /* at most */

/* Where the blocks of a kernel wait for each other. In the executor's own memory, all 0 at first. */
struct gwm_meeting {
    uint32_t came;  /* blocks that have come to this meeting */
    uint32_t round; /* meetings that are over */
};

/* One kernel's work. */
struct gwm_do {
    uint32_t kernel; /* its number in GWM_PROGRAM_KERNELS */
    uint32_t blocks; /* of those that have a block for each result */
    uint32_t meet;   /* 1: it needs what was done since the last meeting */
    uint32_t reserved;
    const void *args;
};

/* All of it lies in the executor's own memory. `ops` is 0 where there is no program. */
struct gwm_program {
    const struct gwm_do *op;
    struct gw_plan_io *io; /* where the program finds the addresses of inputs and outputs */
    struct gwm_meeting *meeting;
    uint32_t ops;
    uint32_t blocks, threads; /* that suit it best */
    uint32_t nin, nout;       /* inputs, outputs */
    uint32_t reserved;
};

/* The time of a run when the program was made, with 1, 2, 4 blocks and so on. */
#define GWM_PROGRAM_TRIES 6
struct gwm_program_times {
    uint32_t tries;              /* 0: nothing was measured */
    float us[GWM_PROGRAM_TRIES]; /* negative: with that number of blocks it failed */
    char why[128];               /* what the last that failed says */
};

/* The argument of the kernel that runs a program. */
struct gwm_program_args {
    struct gwm_program program;
    const struct gw_plan_io *io; /* NULL: own */
    struct gw_plan_io own;
    uint32_t times; /* that it runs the program: more than one when that is measured */
    uint32_t reserved;
};

#endif
