/* SPDX-License-Identifier: Apache-2.0 */
/* The calls that other parts of gpuwire may make on a model or a plan, beyond <gpuwire/model.h>. */
#ifndef GW_MODEL_INSIDE_H
#define GW_MODEL_INSIDE_H

#include <gpuwire/model.h>

#include "src/model/gpu/plan.h"
#include "src/model/graph/meet.h"

/* Measures each launch of a plan alone, eight in a row, and tells of them in order. Their results are spoilt:
 * run the plan once more. -ENOTSUP: it runs on a CPU, or in one launch. */
int gwm_plan_each(struct gw_plan *plan, gwm_each one, void *arg);

/* The program of a plan that was made with GW_PLAN_RESIDENT; it lives as long as the plan. -ENOTSUP:
 * another plan. */
int gwm_plan_program(const struct gw_plan *plan, struct gwm_program *program,
                     struct gwm_program_times *times);

/* Do rows meet in batches of `rows`? Unless they are apart, writes the node that is the reason:
 * "node 'NAME' (TYPE)", or an empty text. */
enum gwm_rows gwm_model_rows(const struct gw_model *model, uint32_t rows, char *node, size_t size);

/* Frees the model's constants that runs of these plans do not read; they are all that it has. No further plan
 * can be made of it. -ENOTSUP: another kind of model; -ENOMEM. */
int gwm_model_slim(struct gw_model *model, struct gw_plan *const plan[], uint32_t n);

#endif
