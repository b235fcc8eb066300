/* SPDX-License-Identifier: Apache-2.0 */
/* Runs of a plan. */
#ifndef GW_MODEL_CPU_RUN_H
#define GW_MODEL_CPU_RUN_H

struct gwm_cpu;

int gwm_cpu_run(struct gwm_cpu *p, const void *const in[], void *const out[]);

#endif
