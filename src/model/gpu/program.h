/* SPDX-License-Identifier: Apache-2.0 */
/* Plans that one kernel runs (GW_PLAN_RESIDENT). */
#ifndef GW_MODEL_GPU_PROGRAM_H
#define GW_MODEL_GPU_PROGRAM_H

#include "src/model/gpu/gpu.h"
#include "src/model/graph/msg.h"

/* Whether a program of it can be small: 0, or -ENOTSUP with the reason. */
int gwm_program_fits(const struct gwm_graph *g, const struct gwm_msg *msg);
/* Makes p->program of the launches, whose memory is there. -ENOTSUP: of one of them it cannot. */
int gwm_program_make(struct gwm_gpu *p, const struct gwm_msg *msg);

#endif
