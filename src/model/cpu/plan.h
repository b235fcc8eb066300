/* SPDX-License-Identifier: Apache-2.0 */
/* Plans for a CPU. A plan keeps pointers into the graph, which must outlive it. */
#ifndef GW_MODEL_CPU_PLAN_H
#define GW_MODEL_CPU_PLAN_H

#include <gpuwire/model.h>

struct gwm_graph;
struct gwm_cpu;
struct gwm_msg;

/* Own loops, and oneDNN where it has something for a node. */
int gwm_cpu_plan(const struct gwm_graph *g, const struct gw_plan_options *o, struct gwm_cpu **plan,
                 const struct gwm_msg *msg);
void gwm_cpu_free(struct gwm_cpu *p);
/* The addresses in the graph that runs read. */
struct gwm_slim;
void gwm_cpu_needs(const struct gwm_cpu *p, struct gwm_slim *s);
void gwm_cpu_stats(const struct gwm_cpu *p, struct gw_plan_stats *s);

#endif
