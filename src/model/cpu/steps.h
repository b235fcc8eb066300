/* SPDX-License-Identifier: Apache-2.0 */
/* The buffers and steps that a plan is made of. */
#ifndef GW_MODEL_CPU_STEPS_H
#define GW_MODEL_CPU_STEPS_H

#include "src/model/cpu/cpu.h"

/* A new arena buffer, or step; its number, or -ENOMEM. */
int gwm_cpu_buf(struct gwm_cpu *p, size_t bytes);
int gwm_cpu_step(struct gwm_cpu *p, const struct gwm_node *node, struct gwm_prim *prim);
/* The step made last uses a buffer. */
void gwm_cpu_use(struct gwm_cpu *p, int buf);
/* Where a buffer is in the run under way (before one: NULL for inputs and outputs). */
void *gwm_cpu_at(const struct gwm_cpu *p, int buf);

#endif
