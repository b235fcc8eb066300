/* SPDX-License-Identifier: Apache-2.0 */
/* Loops of our own in the place of primitives, where NaN could be. */
#ifndef GW_MODEL_CPU_DNNL_CAREFUL_H
#define GW_MODEL_CPU_DNNL_CAREFUL_H

#include "src/model/cpu/dnnl.h"

/* Replacements of primitives where NaN could be. */
void gwm_careful_act(struct gwm_cpu *p, struct gwm_prim *q);   /* after its bare form */
void gwm_careful_unary(struct gwm_cpu *p, struct gwm_prim *q); /* `own` of these */
void gwm_careful_softmax(struct gwm_cpu *p, struct gwm_prim *q);
void gwm_careful_pool(struct gwm_cpu *p, struct gwm_prim *q);
/* The buffers that gwm_careful_pool wants. */
int gwm_careful_room(struct gwm_cpu *p, struct gwm_prim *q);

#endif
