/* SPDX-License-Identifier: Apache-2.0 */
/* GPT-2, which differs from all other families. */
#ifndef GW_GENERATE_IMPORT_GPT2_H
#define GW_GENERATE_IMPORT_GPT2_H

#include "src/generate/import/builder.h"
#include "src/generate/import/json.h"
#include "src/generate/import/tensors.h"

void gen_gpt2_build(const struct gen_json *config, const struct gen_tensors *tensors, struct gen_build *b);

#endif
