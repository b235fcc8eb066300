/* SPDX-License-Identifier: Apache-2.0 */
/* /tokenize and /detokenize: what the model sees of a text, and back. */
#include "src/generate/openai/tokens.h"

#include <stdlib.h>

#include "src/generate/openai/fields.h"

static int tokens_read(const struct gen_service_opts *s, json_t *body, struct gen_ids *ids,
                       struct gen_refusal *refusal)
{
    struct gen_fields f = {body, refusal};
    struct gen_openai_ask ask = {.kind = GEN_CHAT, .generation_prompt = true};
    struct gen_openai_prompt prompt;
    bool special = true;
    json_t *messages = json_object_get(body, "messages");
    gen_field_bool(&f, "add_generation_prompt", &ask.generation_prompt);
    gen_field_bool(&f, "add_special_tokens", &special);
    if (gen_field_wrong(&f)) return -1;
    if (messages) {
        ask.messages = messages;
        return gen_openai_messages(messages, refusal) ? -1 : gen_openai_chat_ids(s, &ask, ids, refusal);
    }
    if (gen_openai_prompt_read(json_object_get(body, "prompt"), -1, &prompt, refusal)) return -1;
    return gen_openai_prompt_ids(s, &prompt, special, ids, refusal);
}

int gen_openai_tokenize(const struct gen_service_opts *s, json_t *body, struct gw_text *text,
                        struct gen_refusal *refusal)
{
    struct gen_source_shape shape;
    struct gen_ids ids = {0};
    int wrong = tokens_read(s, body, &ids, refusal);
    s->source->ops->shape(s->source->own, &shape);
    if (!wrong) {
        gw_text_printf(text, "{\"count\":%zu,\"max_model_len\":%u,\"tokens\":[", ids.count, shape.context);
        for (size_t i = 0; i < ids.count; i++) gw_text_printf(text, i ? ",%u" : "%u", ids.at[i]);
        gw_text_printf(text, "]}");
    }
    gen_ids_free(&ids);
    return wrong;
}

int gen_openai_detokenize(const struct gen_service_opts *s, json_t *body, struct gw_text *text,
                          struct gen_refusal *refusal)
{
    struct gen_ids ids = {0};
    struct gw_text plain = {0};
    struct gen_openai_prompt p = {.ids = json_object_get(body, "tokens")};
    for (size_t i = 0; i < json_array_size(p.ids); i++) {
        const json_t *id = json_array_get(p.ids, i);
        if (!json_is_integer(id) || json_integer_value(id) < 0 ||
            json_integer_value(id) >= gen_tokenizer_size(s->tokenizer))
            return gen_refuse_field(refusal, "tokens", "tokens: must be token ids below %u",
                                    gen_tokenizer_size(s->tokenizer));
    }
    if (!json_is_array(p.ids))
        return gen_refuse_field(refusal, "tokens", "tokens: must be a list of token ids");
    int wrong = gen_openai_prompt_ids(s, &p, false, &ids, refusal);
    if (!wrong && gen_tokenizer_decode(s->tokenizer, ids.at, ids.count, true, &plain)) plain.broken = 1;
    gw_text_json(text,
                 wrong || plain.broken
                     ? NULL
                     : json_pack("{s:o}", "prompt", json_stringn(plain.bytes ? plain.at : "", plain.bytes)));
    free(plain.at);
    gen_ids_free(&ids);
    return wrong;
}
