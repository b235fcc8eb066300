/* SPDX-License-Identifier: Apache-2.0 */
/* Folders of onnxruntime-genai. */
#ifndef GW_GENERATE_IMPORT_GENAI_H
#define GW_GENERATE_IMPORT_GENAI_H

#include "src/generate/import/info.h"
#include "src/generate/import/json.h"
#include "src/generate/import/onnx_import.h"

/* Writes p and *info of a folder whose genai_config.json was read. As gen_onnx_import. */
int gen_genai_open(const char *folder, const struct gen_json *config, struct gen_maps *maps,
                   struct gen_program *p, struct gen_model_info *info, struct gwm_source **source);

#endif
