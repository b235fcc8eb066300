/* SPDX-License-Identifier: Apache-2.0 */
/* Reads how a model's makers want its tokens drawn. */
#include <errno.h>
#include <stdio.h>
#include <sys/stat.h>

#include <gpuwire/error.h>

#include "src/generate/openai/fields.h"
#include "src/generate/openai/service.h"

#define DEFAULTS_MAX_FILE (1 << 20)

/* Greedy models say do_sample false, and their other numbers count for nothing. */
static void defaults_take(struct gen_fields *f, struct gen_defaults *out)
{
    bool sample = true;
    gen_field_bool(f, "do_sample", &sample);
    gen_field_float(f, "temperature", 0, 100, &out->temperature);
    gen_field_float(f, "top_p", 1e-6, 1, &out->top_p);
    gen_field_float(f, "min_p", 0, 0.999, &out->min_p);
    gen_field_u32(f, "top_k", 0, UINT32_MAX, &out->top_k);
    gen_field_float(f, "repetition_penalty", 0.01, 100, &out->repetition);
    if (!sample && !gen_field_wrong(f))
        *out = (struct gen_defaults){.top_p = 1, .repetition = out->repetition};
}

int gen_defaults_read(const char *folder, struct gen_defaults *out)
{
    char path[4096];
    struct stat st;
    json_error_t where;
    struct gen_refusal refusal = {0};
    *out = GEN_DEFAULTS;
    if (snprintf(path, sizeof(path), "%s/generation_config.json", folder) >= (int)sizeof(path))
        return gw_error(-ENAMETOOLONG, "%.100s...: the folder's name is too long", folder);
    if (stat(path, &st)) return 0;
    if (st.st_size > DEFAULTS_MAX_FILE) return gw_error(-EINVAL, "%s: must be at most 1 MiB", path);
    json_t *all = json_load_file(path, 0, &where);
    struct gen_fields f = {all, &refusal};
    if (json_is_object(all)) defaults_take(&f, out);
    int err = !json_is_object(all) ? gw_error(-EINVAL, "%s: it is not a JSON object", path)
              : refusal.status     ? gw_error(-EINVAL, "%s: %s", path, refusal.message)
                                   : 0;
    json_decref(all);
    return err;
}
