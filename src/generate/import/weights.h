/* SPDX-License-Identifier: Apache-2.0 */
/* Weights of a program out of safetensors. Names are those of transformers, with what stands before them. */
#ifndef GW_GENERATE_IMPORT_WEIGHTS_H
#define GW_GENERATE_IMPORT_WEIGHTS_H

#include "src/generate/import/builder.h"
#include "src/generate/import/tensors.h"

struct gen_weights {
    struct gen_build *b;
    const struct gen_tensors *tensors;
    char prefix[128]; /* before each name: "model.layers.3." */
};

bool gen_weights_have(const struct gen_weights *w, const char *name);
/* The tensor [n, k], or for n 1 also [k]. Where the file has it not aligned, it is copied. Failures: as
 * struct gen_build says; the result has then no data. */
struct gen_weight gen_weights_matrix(struct gen_weights *w, const char *name, uint32_t n, uint32_t k);
/* The tensor [k, n] turned into [n, k], which takes memory. */
struct gen_weight gen_weights_turned(struct gen_weights *w, const char *name, uint32_t n, uint32_t k);
/* n numbers as floats; NULL: a failure. */
const float *gen_weights_floats(struct gen_weights *w, const char *name, uint32_t n);

#endif
