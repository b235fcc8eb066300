/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ONNX decoders with changed bytes: imported, and, when that works, evaluated. The first byte of the input
 * chooses a model of tests/generate/import/data/onnx. Then come changes: a place (3 bytes) and the new byte.
 * fuzz_onnx looks at files that are not well-formed.
 */
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <gpuwire/dtype.h>

#include "src/generate/import/onnx_import.h"
#include "src/generate/program/reference.h"
#include "src/model/import/source.h"

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char *const folders[] = {"bytes",   "floats",    "gathered", "halves", "norms",
                                      "outside", "symmetric", "turned",   "zeros"};
#define FOLDERS (sizeof(folders) / sizeof(folders[0]))

static struct {
    int dir;
    uint8_t onnx[1 << 17];
    size_t len;
} seeds[FOLDERS];

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    char path[512];

    (void)argc;
    (void)argv;
    for (size_t i = 0; i < FOLDERS; i++) {
        snprintf(path, sizeof(path), "%s/onnx/%s", GW_TEST_DATA, folders[i]);
        seeds[i].dir = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        strncat(path, "/model.onnx", sizeof(path) - strlen(path) - 1);
        FILE *f = fopen(path, "rb");
        seeds[i].len = f ? fread(seeds[i].onnx, 1, sizeof(seeds[i].onnx), f) : 0;
        if (seeds[i].dir < 0 || seeds[i].len < 100) abort();
        fclose(f);
    }
    return 0;
}

/* A copy of the model that the input chooses, with its changes. */
static uint8_t *changed(const uint8_t *data, size_t size, size_t i)
{
    uint8_t *onnx = malloc(seeds[i].len);

    if (onnx) memcpy(onnx, seeds[i].onnx, seeds[i].len);
    for (size_t at = 1; onnx && at + 4 <= size; at += 4) {
        size_t place = (size_t)data[at] | (size_t)data[at + 1] << 8 | (size_t)data[at + 2] << 16;
        onnx[place % seeds[i].len] = data[at + 3];
    }
    return onnx;
}

static void evaluate(struct gen_program *p)
{
    static const uint32_t token[3] = {0, 1, 0};
    float *logits;

    if (gen_program_check(p) || p->max_position < 3 || p->vocab < 2 || p->vocab > 4096 || p->ops > 200)
        return;
    logits = malloc(sizeof(float) * 3 * p->vocab);
    if (logits) gen_reference(p, token, 3, GW_DTYPE_F32, logits);
    free(logits);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const struct gen_onnx_names names = {
        "input_ids", "attention_mask", "position_ids", "past_key_values.%d.key", "past_key_values.%d.value",
        "logits"};
    size_t i = size ? data[0] % FOLDERS : 0;
    uint8_t *onnx = size ? changed(data, size, i) : NULL;
    struct gen_onnx_file file = {onnx, seeds[i].len, "fuzz", seeds[i].dir, gen_maps_new()};
    struct gen_program *p = gen_program_new();
    struct gwm_source *source = NULL;

    if (onnx && p && file.maps && !gen_onnx_import(&file, &names, p, &source)) evaluate(p);
    gen_program_free(p);
    gwm_source_free(source);
    gen_maps_free(file.maps);
    free(onnx);
    return 0;
}
