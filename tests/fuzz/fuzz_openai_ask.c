/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bodies of OpenAI's API. These must hold: a request that is taken is within its bounds, its texts lie in
 * the body, and a refusal is JSON with a status of a client's fault.
 */
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "src/generate/openai/ask.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(int so)
{
    if (!so) abort();
}

static void check_taken(const struct gen_openai_ask *a)
{
    const struct gen_request *r = &a->ask.request;
    require(a->n >= 1 && a->n == a->ask.n && (uint64_t)a->ask.prompts * a->n <= GEN_MAX_CHOICES &&
            a->ask.prompts);
    require(a->ask.stops <= GEN_MAX_STOPS && a->ask.stop_texts <= GEN_MAX_STOPS &&
            a->ask.biases <= GEN_MAX_BIAS);
    require(r->tops <= GEN_MAX_TOPS && (!r->tops || a->ask.logprobs));
    require(isfinite(r->temperature) && r->temperature >= 0 && isfinite(r->presence) &&
            isfinite(r->frequency));
    require(!a->top_p_said || (r->top_p > 0 && r->top_p <= 1));
    require(r->min_p >= 0 && r->min_p < 1 && r->repetition > 0 && r->priority >= 1);
    for (uint32_t i = 0; i < a->ask.biases; i++) require(fabsf(a->bias[i].logprob) <= GEN_MAX_LOGIT);
    for (uint32_t i = 0; i < a->ask.stop_texts; i++)
        require(a->stop_bytes[i] && strlen(a->stop_text[i]) <= a->stop_bytes[i]);
    if (a->kind == GEN_CHAT) require(json_array_size(a->messages) > 0);
    for (uint32_t i = 0; a->kind == GEN_COMPLETION && i < a->ask.prompts; i++)
        require(a->prompt[i].text || json_array_size(a->prompt[i].ids));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct gen_openai_ask ask;
    struct gen_refusal refusal;
    if (!size) return 0;
    enum gen_openai_kind kind = data[0] % 2 ? GEN_CHAT : GEN_COMPLETION;
    if (gen_openai_ask_parse(kind, (const char *)data + 1, size - 1, &ask, &refusal)) {
        json_t *why = gen_refusal_json(&refusal);
        require(refusal.status >= 400 && refusal.status < 500 && why);
        json_decref(why);
    } else {
        check_taken(&ask);
    }
    gen_openai_ask_free(&ask);
    return 0;
}
