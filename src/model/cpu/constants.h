/* SPDX-License-Identifier: Apache-2.0 */
/* The constants of a plan, in the form that its steps read. */
#ifndef GW_MODEL_CPU_CONSTANTS_H
#define GW_MODEL_CPU_CONSTANTS_H

#include "src/model/cpu/cpu.h"

/* Zeroed memory to make constants in, for gwm_constant_take; NULL: there is none. */
void *gwm_constant_room(size_t bytes);
/* Takes over constants; the number of a buffer. Equal ones lie in one place. -E2BIG: more than the plan may
 * have; oneDNN's layouts make small tensors many times as large. */
int gwm_constant_take(struct gwm_cpu *p, void *made, size_t bytes);
/* Where the caller gave a place for weights: brings constants there that steps read as the graph has them. */
int gwm_constants_place(struct gwm_cpu *p);

#endif
