/* SPDX-License-Identifier: Apache-2.0 */
/* Questions that only the importer's own models and plans can answer: `plan` and `model` are its objects. */
#ifndef GW_MODEL_ONNX_H
#define GW_MODEL_ONNX_H

#include <gpuwire/model.h>

#include "src/model/gpu/plan.h"
#include "src/model/graph/meet.h"

/* As gwm_plan_each, gwm_plan_program, gwm_model_slim and gwm_model_rows. */
int gwm_onnx_each(void *plan, gwm_each one, void *arg);
int gwm_onnx_program(const void *plan, struct gwm_program *program, struct gwm_program_times *times);
int gwm_onnx_slim(void *model, void *const plan[], uint32_t n);
enum gwm_rows gwm_onnx_rows(const void *model, uint32_t rows, char *node, size_t size);

#endif
