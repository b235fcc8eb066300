/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any config.json and any safetensors file as a folder of transformers: imported, and, when that works,
 * evaluated. The input is the number of the configuration's bytes (2 bytes), these, and the other file. It
 * starts from a small model of each family.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <gpuwire/dtype.h>
#include <gpuwire/error.h>

#include "src/generate/import/families.h"
#include "src/generate/import/sampling.h"
#include "src/generate/program/reference.h"

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned int seed);
size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t max_size);

#define MAX_SEEDS 64
#define CONTEXT   16 /* tables of a whole context would take most of the time */

static uint8_t seeds[1 << 20];
static struct {
    size_t at, config, file;
} seed_at[MAX_SEEDS];
static unsigned nseeds;

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    FILE *f = fopen(GW_TEST_DATA "/families.bin", "rb");
    size_t size = f ? fread(seeds, 1, sizeof(seeds), f) : 0;

    (void)argc;
    (void)argv;
    if (!size) abort();
    fclose(f);
    for (size_t at = 0; at < size && nseeds < MAX_SEEDS; nseeds++) {
        uint16_t config;
        uint32_t file;
        memcpy(&config, seeds + at, 2);
        memcpy(&file, seeds + at + 2 + config, 4);
        seed_at[nseeds].at = at;
        seed_at[nseeds].config = config;
        seed_at[nseeds].file = file;
        at += 2 + (size_t)config + 4 + file;
    }
    return 0;
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned int seed)
{
    uint32_t r = seed * 2654435761u;

    if (size < 64 || r % 29 == 0) {
        unsigned i = (r >> 8) % nseeds;
        size_t config = 2 + seed_at[i].config;
        if (config + seed_at[i].file <= max_size) {
            memcpy(data, seeds + seed_at[i].at, config);
            memcpy(data + config, seeds + seed_at[i].at + config + 4, seed_at[i].file);
            size = config + seed_at[i].file;
        }
    }
    if (r % 3 == 0 || !size) return LLVMFuzzerMutate(data, size, max_size);
    for (uint32_t k = 0; k <= r % 4; k++) { /* in place: digits and letters mostly, so that JSON stays JSON */
        r = r * 1664525 + 1013904223;
        uint8_t *at = &data[(r >> 8) % (r & 1 && size > 1500 ? 1500 : size)];
        r = r * 1664525 + 1013904223;
        *at =
            *at >= '0' && *at <= '9' ? (uint8_t)('0' + (r >> 16) % 10) : (uint8_t)(*at ^ 1u << (r >> 8 & 7));
    }
    return size;
}

static void evaluate(const struct gen_program *p)
{
    static const uint32_t token[3] = {0, 1, 0};
    float *logits;

    if (p->max_position < 3 || p->vocab < 2 || p->ops > 200) return;
    logits = malloc(sizeof(float) * 3 * p->vocab);
    if (logits) gen_reference(p, token, 3, GW_DTYPE_F32, logits);
    free(logits);
}

static void import(const struct gen_json *config, const struct gen_tensors *tensors)
{
    struct gen_build b = {.p = gen_program_new()};
    struct gen_model_info info;

    if (!b.p) return;
    gen_family_build(config, tensors, &b);
    if (!b.err && !gen_program_check(b.p)) evaluate(b.p);
    gen_program_free(b.p);
    gen_sampling_init(&info);
    if (!gen_sampling_tokens(config, 8, &info)) gen_sampling_read(config, &info);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    size_t n = size < 2 ? 0 : (size_t)data[0] + 256 * (size_t)data[1];
    struct gen_tensors tensors = {0};
    struct gen_json config;
    uint32_t context = CONTEXT;

    if (size < 2 || n > size - 2 || gen_json_parse("config", data + 2, n, &config)) return 0;
    gen_json_u32(&config, "max_position_embeddings", 1, CONTEXT, &context);
    json_object_set_new(config.at, "max_position_embeddings", json_integer(context));
    if (!gen_tensors_add(&tensors, "file", data + 2 + n, size - 2 - n) && !gen_tensors_sort(&tensors))
        import(&config, &tensors);
    else if (strchr(gw_last_error(), '\n'))
        abort();
    gen_tensors_free(&tensors);
    gen_json_close(&config);
    return 0;
}
