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

#include <stdbool.h>
#include <stdint.h>

#include "src/generate/program/program.h"

#define GEN_MODEL_MAX_EOS  16u
#define GEN_MODEL_NO_TOKEN 0xffffffffu

/* What the folder says about its model, beside the program. */
struct gen_model_info {
    char name[128];   /* of the folder, without what leads to it */
    char family[64];  /* "llama", "qwen2", … as the folder has it */
    char format[32];  /* "onnxruntime-genai" or "transformers" */
    uint32_t context; /* tokens that the model was made for; at most the program's max_position */
    uint32_t bos;     /* GEN_MODEL_NO_TOKEN: none */
    uint32_t eos[GEN_MODEL_MAX_EOS], eoss; /* tokens that end an answer */
    /* What the folder wants where a request says nothing. Without a word of it: sample is false, temperature,
     * top_p and repetition are 1, top_k and min_p are 0. Values lie in the bounds of struct gen_request. */
    bool sample; /* false: greedy */
    float temperature, top_p, min_p, repetition;
    uint32_t top_k; /* 0: all */
};

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
