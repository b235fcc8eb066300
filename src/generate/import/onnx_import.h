/* SPDX-License-Identifier: Apache-2.0 */
/* An ONNX decoder becomes a row program. */
#ifndef GW_GENERATE_IMPORT_ONNX_IMPORT_H
#define GW_GENERATE_IMPORT_ONNX_IMPORT_H

#include <stddef.h>

#include "src/generate/import/maps.h"
#include "src/generate/program/program.h"

/* How the graph's inputs and outputs are called; past_* have "%d" for the layer. */
struct gen_onnx_names {
    char tokens[128], mask[128], positions[128], past_key[128], past_value[128], logits[128];
};

/* The file. */
struct gen_onnx_file {
    const void *bytes;
    size_t len;
    const char *name; /* for messages */
    int dir;          /* the folder of external data; -1: there is none */
    struct gen_maps *maps;
};

struct gwm_source;

/* Writes p, which has no operators yet. On success *source, gwm_source_free's, must live as long as the
 * program does. 0, or a negative errno with gw_last_error(). */
int gen_onnx_import(const struct gen_onnx_file *file, const struct gen_onnx_names *names,
                    struct gen_program *p, struct gwm_source **source);

#endif
