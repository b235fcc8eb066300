/* SPDX-License-Identifier: Apache-2.0 */
/* The forms in which a value may lie in memory, and the buffers that hold it in each. */
#ifndef GW_MODEL_GPU_FORM_H
#define GW_MODEL_GPU_FORM_H

#include "src/model/gpu/gpu.h"

/* A form for a root, without the bits that make no difference to it. */
uint32_t gwm_gpu_form(const struct gwm_gpu *p, int root, uint32_t form);
/* The form that the plan wants results in. */
uint32_t gwm_gpu_wanted(const struct gwm_gpu *p, int root);
/* Which roots are pictures. */
void gwm_gpu_pictures(struct gwm_gpu *p);

/* Between the orders N C H W and N H W C: which of the two a move's result has, or 0 for another move. */
enum { GWM_TO_LAST = 1, GWM_TO_FIRST = 2 };
int gwm_gpu_turns(const struct gwm_graph *g, const struct gwm_node *n);

/* Where to read a value in a form, to which it is brought first if need be; fixed: at an address that does
 * not change from run to run. A value that was put off is made first. */
int gwm_gpu_in(struct gwm_gpu *p, int value, uint32_t form, bool fixed);
/* Where to write a value, which is in that form then; and the form in which an own kernel should write it. */
int gwm_gpu_out(struct gwm_gpu *p, int value, uint32_t form, bool fixed);
uint32_t gwm_gpu_out_form(const struct gwm_gpu *p, int value);
/* Copies `count` elements of a root from one buffer and form to another. */
int gwm_gpu_convert(struct gwm_gpu *p, int root, int from, uint32_t from_form, int to, uint32_t to_form);
/* Makes the buffers of the model's inputs and outputs; brings the outputs to their places, at the end. */
int gwm_gpu_border(struct gwm_gpu *p);
int gwm_gpu_finish(struct gwm_gpu *p);

#endif
