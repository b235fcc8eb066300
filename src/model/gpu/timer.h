/* SPDX-License-Identifier: Apache-2.0 */
/* How long launches take. Without CUDA nothing is measured. */
#ifndef GW_MODEL_GPU_TIMER_H
#define GW_MODEL_GPU_TIMER_H

#include "src/model/gpu/gpu.h"

struct gwm_timer *gwm_timer_open(struct gw_exec *exec, size_t most);
void gwm_timer_close(struct gwm_timer *t);
/* Names the machine and its driver. */
void gwm_timer_machine(const struct gwm_timer *t, char *text, size_t size);
/* Microseconds that the launches from `first` on take; negative when they fail, or cannot be launched by the
 * device. */
float gwm_timer_nodes(struct gwm_timer *t, struct gwm_gpu *p, int first);
float gwm_timer_plan(struct gwm_timer *t, struct gwm_gpu *p);
/* The same of one launch of a plan that is made. */
float gwm_timer_one(struct gwm_timer *t, struct gwm_gpu *p, int number);
/* Why the last call of gwm_timer_plan failed. */
const char *gwm_timer_why(const struct gwm_timer *t);

#endif
