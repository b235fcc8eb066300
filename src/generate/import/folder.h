/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A model's folder becomes a row program. Two kinds of folders are known:
 *
 *   onnxruntime-genai: genai_config.json, and the ONNX file that it names, with its external data
 *   transformers:      config.json, and model.safetensors or model.safetensors.index.json with its parts
 *
 * All files of a folder are strangers' input. Weights are mapped, not read: a folder must not change while
 * its program is in use.
 */
#ifndef GW_GENERATE_IMPORT_FOLDER_H
#define GW_GENERATE_IMPORT_FOLDER_H

#include "src/generate/import/info.h"
#include "src/generate/program/program.h"

/*
 * Opens a folder. *program has passed gen_program_check and is the caller's: gen_program_free unmaps the
 * weights, too. `info` may be NULL. Host, any thread.
 *
 * 0; -ENOENT: no model lies there; -ENOTSUP: a family, an operator or a number that is not supported;
 * -EBADMSG: a damaged file; -ENOMEM; or what opening a file has said. gw_last_error() names the file and the
 * field, tensor or node.
 */
int gen_model_open(const char *folder, struct gen_program **program, struct gen_model_info *info);

#endif
