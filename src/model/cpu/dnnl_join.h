/* SPDX-License-Identifier: Apache-2.0 */
/* Channels put together by our own loop. */
#ifndef GW_MODEL_CPU_DNNL_JOIN_H
#define GW_MODEL_CPU_DNNL_JOIN_H

#include "src/model/cpu/cpu.h"

/* Channels put together by our own loop; -ENOTSUP: not in the layout that it knows. */
int gwm_dnnl_join(struct gwm_cpu *p, const struct gwm_node *n);
void gwm_join_free(struct gwm_join *all);
void gwm_join_run(struct gwm_cpu *p, struct gwm_join *j);

#endif
