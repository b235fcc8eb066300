/* SPDX-License-Identifier: Apache-2.0 */
/* Nodes as steps of oneDNN. */
#ifndef GW_MODEL_CPU_DNNL_NODES_H
#define GW_MODEL_CPU_DNNL_NODES_H

#include "src/model/cpu/cpu.h"

/* Adding a node may add steps that change layouts. -ENOTSUP when oneDNN has nothing for it. */
int gwm_dnnl_add(struct gwm_cpu *p, const struct gwm_node *n);

#endif
