/* SPDX-License-Identifier: Apache-2.0 */
/* The families of transformers that are known, by a configuration's model_type. */
#ifndef GW_GENERATE_IMPORT_FAMILIES_H
#define GW_GENERATE_IMPORT_FAMILIES_H

#include "src/generate/import/builder.h"
#include "src/generate/import/json.h"
#include "src/generate/import/tensors.h"

/* Writes the program of the family that config.json names. */
void gen_family_build(const struct gen_json *config, const struct gen_tensors *tensors, struct gen_build *b);

#endif
