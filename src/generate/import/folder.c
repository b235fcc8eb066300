/* SPDX-License-Identifier: Apache-2.0 */
/* Finds out what kind of folder it is, and opens it. */
#include "src/generate/import/folder.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <gpuwire/error.h>

#include "src/generate/import/families.h"
#include "src/generate/import/genai.h"
#include "src/generate/import/json.h"
#include "src/generate/import/sampling.h"
#include "src/model/import/source.h"

/* The last name of a path, as the folder itself knows it: "." has a name, too. */
static void folder_name(const char *folder, char *out, size_t size)
{
    char *real = realpath(folder, NULL), *slash = real ? strrchr(real, '/') : NULL;

    snprintf(out, size, "%s", slash && slash[1] ? slash + 1 : "model");
    free(real);
}

/* Tokens and sampling: generation_config.json's, and where it is silent config.json's. */
static int transformers_info(const char *folder, const struct gen_json *config, uint32_t vocab,
                             struct gen_model_info *info)
{
    struct gen_json generation;
    int err = gen_json_text(config, "model_type", info->family, sizeof(info->family));

    snprintf(info->format, sizeof(info->format), "transformers");
    if (!err) err = gen_sampling_tokens(config, vocab, info);
    if (err) return err;
    err = gen_json_open(folder, "generation_config.json", GEN_JSON_MAX_CONFIG, &generation);
    if (err) return err == -ENOENT ? 0 : err;
    err = gen_sampling_tokens(&generation, vocab, info);
    if (!err) err = gen_sampling_read(&generation, info);
    gen_json_close(&generation);
    return err;
}

static int transformers_open(const char *folder, const struct gen_json *config, struct gen_maps *maps,
                             struct gen_program *p, struct gen_model_info *info)
{
    struct gen_tensors tensors;
    struct gen_build b = {.p = p};

    b.err = gen_tensors_open(folder, maps, &tensors);
    if (!b.err) gen_family_build(config, &tensors, &b);
    gen_tensors_free(&tensors);
    return b.err ? b.err : transformers_info(folder, config, p->vocab, info);
}

/* What a program needs as long as it lives. */
struct folder_keep {
    struct gen_maps *maps;
    struct gwm_source *source; /* of an ONNX file */
};

static void folder_release(void *ctx)
{
    struct folder_keep *k = ctx;

    gwm_source_free(k->source);
    gen_maps_free(k->maps);
    free(k);
}

static int folder_open(const char *folder, struct folder_keep *keep, struct gen_program *p,
                       struct gen_model_info *info)
{
    struct gen_json config;
    int err = gen_json_open(folder, "genai_config.json", GEN_JSON_MAX_CONFIG, &config);

    if (!err) {
        err = gen_genai_open(folder, &config, keep->maps, p, info, &keep->source);
        gen_json_close(&config);
        return err;
    }
    if (err == -ENOENT) err = gen_json_open(folder, "config.json", GEN_JSON_MAX_CONFIG, &config);
    if (err == -ENOENT)
        return gw_error(err, "%s: no model lies there: neither genai_config.json nor config.json", folder);
    if (err) return err;
    err = transformers_open(folder, &config, keep->maps, p, info);
    gen_json_close(&config);
    return err;
}

int gen_model_open(const char *folder, struct gen_program **program, struct gen_model_info *info)
{
    struct gen_program *p = gen_program_new();
    struct folder_keep *keep = calloc(1, sizeof(*keep));
    struct gen_model_info unused;
    int err = p && keep && (keep->maps = gen_maps_new()) ? 0 : gw_error(-ENOMEM, "%s: no memory", folder);

    if (!info) info = &unused;
    gen_sampling_init(info);
    folder_name(folder, info->name, sizeof(info->name));
    if (!err) err = folder_open(folder, keep, p, info);
    if (!err) err = gen_program_check(p);
    *program = err ? NULL : p;
    if (!err) {
        info->context = p->max_position;
        p->ctx = keep;
        p->release = folder_release;
        return 0;
    }
    gen_program_free(p);
    if (keep) folder_release(keep);
    return err;
}
