/* SPDX-License-Identifier: Apache-2.0 */
/* What a folder says of its model. */
#ifndef GW_GENERATE_IMPORT_INFO_H
#define GW_GENERATE_IMPORT_INFO_H

#include <stdbool.h>
#include <stdint.h>

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

#endif
