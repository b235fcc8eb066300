/* SPDX-License-Identifier: Apache-2.0 */
/* Nodes that compute in any layout, or in C order. */
#ifndef GW_MODEL_CPU_DNNL_SIMPLE_H
#define GW_MODEL_CPU_DNNL_SIMPLE_H

#include "src/model/cpu/cpu.h"

/* Nodes that compute in any layout, or in C order: functions, sums, softmax, normalisation,
 * moves. */
int gwm_dnnl_simple(struct gwm_cpu *p, const struct gwm_node *n);

#endif
