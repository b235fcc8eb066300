/* SPDX-License-Identifier: Apache-2.0 */
/* oneDNN's part of a plan. */
#ifndef GW_MODEL_CPU_DNNL_PLAN_H
#define GW_MODEL_CPU_DNNL_PLAN_H

#include "src/model/cpu/cpu.h"

int gwm_dnnl_new(struct gwm_cpu *p);
void gwm_dnnl_free(struct gwm_dnnl *d);
/* After the arena is there. */
int gwm_dnnl_bind(struct gwm_cpu *p);
int gwm_dnnl_run(struct gwm_cpu *p, struct gwm_prim *prim);

#endif
