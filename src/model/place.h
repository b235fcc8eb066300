/* SPDX-License-Identifier: Apache-2.0 */
/* The two places a graph can be planned for. A plan keeps pointers into the graph, which must outlive it. */
#ifndef GW_MODEL_PLACE_H
#define GW_MODEL_PLACE_H

#include "src/model/each.h"
#include "src/model/graph/graph.h"

struct gwm_cpu;
struct gwm_gpu;
struct gwm_program;
struct gwm_program_times;

/* cpu.c: own loops and oneDNN (dnnl.c). */
int gwm_cpu_plan(const struct gwm_graph *g, const struct gw_plan_options *o, struct gwm_cpu **plan,
                 const struct gwm_msg *msg);
void gwm_cpu_free(struct gwm_cpu *p);
void gwm_cpu_stats(const struct gwm_cpu *p, struct gw_plan_stats *s);
int gwm_cpu_run(struct gwm_cpu *p, const void *const in[], void *const out[]);

/* gpu.c: own kernels (kernels.h), launched on an executor, or put into a stream of its GPU. */
int gwm_gpu_plan(const struct gwm_graph *g, const struct gw_plan_options *o, struct gwm_gpu **plan,
                 const struct gwm_msg *msg);
void gwm_gpu_free(struct gwm_gpu *p);
void gwm_gpu_stats(const struct gwm_gpu *p, struct gw_plan_stats *s);
int gwm_gpu_each(struct gwm_gpu *p, gwm_each one, void *arg);
int gwm_gpu_run(struct gwm_gpu *p, const void *const in[], void *const out[]);
/* As gwm_plan_program. */
int gwm_gpu_program(const struct gwm_gpu *p, struct gwm_program *program, struct gwm_program_times *times);
/* The addresses are in[] and out[], or, when io is given, what *io says when the kernels run. */
int gwm_gpu_enqueue(struct gwm_gpu *p, void *stream, const void *const in[], void *const out[],
                    const struct gw_plan_io *io);

#endif
