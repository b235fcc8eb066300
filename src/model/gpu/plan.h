/* SPDX-License-Identifier: Apache-2.0 */
/* Plans for a GPU. A plan keeps pointers into the graph, which must outlive it. */
#ifndef GW_MODEL_GPU_PLAN_H
#define GW_MODEL_GPU_PLAN_H

#include <gpuwire/model.h>

struct gwm_graph;
struct gwm_gpu;
struct gwm_msg;
struct gwm_program;
struct gwm_program_times;

/* Own kernels, launched on an executor, or put into a stream of its GPU; and NVIDIA's libraries where
 * they are faster. */
int gwm_gpu_plan(const struct gwm_graph *g, const struct gw_plan_options *o, struct gwm_gpu **plan,
                 const struct gwm_msg *msg);
void gwm_gpu_free(struct gwm_gpu *p);
void gwm_gpu_stats(const struct gwm_gpu *p, struct gw_plan_stats *s);
/* As gwm_plan_program. */
int gwm_gpu_program(const struct gwm_gpu *p, struct gwm_program *program, struct gwm_program_times *times);

/* A launch: its kernel or library, the file's node ("": none), microseconds (negative: it failed alone). */
typedef void (*gwm_each)(void *arg, const char *kernel, const char *node, float us);
/* As gwm_plan_each. */
int gwm_gpu_each(struct gwm_gpu *p, gwm_each one, void *arg);

#endif
