/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The turn between steps of a loop, in place of a scheduler. It keeps the logits of the step that has run,
 * and takes the next one of a list. So a GPU launches the network's graphs itself.
 */
#ifndef GW_TESTS_GENERATE_GPU_TURN_KERNELS_H
#define GW_TESTS_GENERATE_GPU_TURN_KERNELS_H

#include <errno.h>

#include <gpuwire/loop.h>

#include "src/generate/step/step.h"

#define TURN_END (-ECANCELED) /* how the loop ends when the list does */

struct turn_args {
    struct gw_loop_ctl *ctl;
    struct gen_step *step;       /* the network's */
    const struct gen_step *list; /* n of them */
    const uint32_t *variant;     /* of each */
    uint32_t *at;                /* steps that have been taken */
    const float *logits;
    float *kept; /* [n][floats] */
    uint32_t n, floats;
};

GW_KERNEL_DECLARE(turn_kernel);

#endif
