/* SPDX-License-Identifier: Apache-2.0 */
/* Reads the defaults of sampling, which generation_config.json and genai_config.json name alike. */
#include "src/generate/import/sampling.h"

#include <errno.h>

#include <gpuwire/error.h>

void gen_sampling_init(struct gen_model_info *info)
{
    *info = (struct gen_model_info){
        .bos = GEN_MODEL_NO_TOKEN,
        .temperature = 1,
        .top_p = 1,
        .repetition = 1,
    };
}

static int sampling_token(const struct gen_json *j, const char *key, json_t *v, uint32_t vocab, uint32_t *out)
{
    if (!json_is_integer(v) || json_integer_value(v) < 0 || json_integer_value(v) >= vocab)
        return gw_error(-EBADMSG, "%s: %s: expected tokens below %u", j->where, key, vocab);
    *out = (uint32_t)json_integer_value(v);
    return 0;
}

int gen_sampling_tokens(const struct gen_json *j, uint32_t vocab, struct gen_model_info *info)
{
    json_t *bos = gen_json_get(j, "bos_token_id"), *eos = gen_json_get(j, "eos_token_id");
    size_t n = json_is_array(eos) ? json_array_size(eos) : eos ? 1 : 0;
    int err = bos ? sampling_token(j, "bos_token_id", bos, vocab, &info->bos) : 0;

    if (err || !n) return err;
    if (n > GEN_MODEL_MAX_EOS)
        return gw_error(-EBADMSG, "%s: eos_token_id: there must be at most %u", j->where, GEN_MODEL_MAX_EOS);
    info->eoss = 0;
    for (size_t i = 0; i < n && !err; i++)
        err = sampling_token(j, "eos_token_id", json_is_array(eos) ? json_array_get(eos, i) : eos, vocab,
                             &info->eos[info->eoss++]);
    return err;
}

int gen_sampling_read(const struct gen_json *j, struct gen_model_info *info)
{
    int err = gen_json_bool(j, "do_sample", &info->sample);

    if (!err) err = gen_json_float(j, "temperature", 0, 1000, &info->temperature);
    if (!err) err = gen_json_float(j, "top_p", 1e-6, 1, &info->top_p);
    if (!err) err = gen_json_float(j, "min_p", 0, 0.999, &info->min_p);
    if (!err) err = gen_json_u32(j, "top_k", 0, 1u << 30, &info->top_k);
    if (!err) err = gen_json_float(j, "repetition_penalty", 1e-3, 1000, &info->repetition);
    return err;
}
