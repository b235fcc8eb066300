/* SPDX-License-Identifier: Apache-2.0 */
/* Tensors of safetensors files: a header in JSON says where each lies. */
#ifndef GW_GENERATE_IMPORT_TENSORS_H
#define GW_GENERATE_IMPORT_TENSORS_H

#include <stddef.h>
#include <stdint.h>

#include "src/generate/import/maps.h"

#define GEN_TENSOR_RANK 4

struct gen_tensor {
    char *name;
    char type[8]; /* as the file says: "F32", "BF16", … */
    uint32_t rank;
    uint64_t shape[GEN_TENSOR_RANK];
    const uint8_t *data; /* all of its elements are in the file; not aligned */
};

struct gen_tensors {
    struct gen_tensor *tensor; /* by name, ascending */
    size_t n, room;
    char where[512]; /* for messages: the folder */
};

/* All tensors of the folder: of model.safetensors, or of the files that model.safetensors.index.json names.
 * 0 or a negative errno with gw_last_error(); gen_tensors_free in any case. */
int gen_tensors_open(const char *folder, struct gen_maps *maps, struct gen_tensors *out);
void gen_tensors_free(struct gen_tensors *t);
/* NULL: there is none of that name. */
const struct gen_tensor *gen_tensors_find(const struct gen_tensors *t, const char *name);

/* Adds those of one file in memory, which outlives them. For gen_tensors_open and the fuzzer. */
int gen_tensors_add(struct gen_tensors *t, const char *file, const uint8_t *at, size_t size);
/* Orders them, after the last gen_tensors_add. -EBADMSG: two have the same name. */
int gen_tensors_sort(struct gen_tensors *t);

#endif
