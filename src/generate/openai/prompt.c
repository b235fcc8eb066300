/* SPDX-License-Identifier: Apache-2.0 */
/* Makes token ids of prompts and chats, and fits a request to its model. */
#include "src/generate/openai/prompt.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <gpuwire/error.h>

#define PROMPT_WORD   256u /* bytes of the longest token, with room: of a longer text not even such ones fit */
#define PROMPT_TOKENS 16u  /* max_tokens of a completion that does not say, as OpenAI has it */

/* A text that cannot fit is refused before it costs time. */
static int prompt_check_bytes(const struct gen_service_opts *s, const char *param, size_t bytes,
                              struct gen_refusal *refusal)
{
    struct gen_source_shape shape;
    s->source->ops->shape(s->source->own, &shape);
    if (bytes / PROMPT_WORD < shape.context) return 0;
    return gen_refuse(refusal, 400, param, "context_length_exceeded",
                      "%s: %zu bytes of text, which the model's context of %u tokens cannot hold", param,
                      bytes, shape.context);
}

static int prompt_failed(struct gen_refusal *refusal, const char *param, int err)
{
    if (err == -ENOMEM) return gen_refuse(refusal, 503, NULL, NULL, "out of memory");
    return gen_refuse_field(refusal, param, "%s: %s", param, gw_last_error());
}

int gen_openai_chat_ids(const struct gen_service_opts *s, const struct gen_openai_ask *ask,
                        struct gen_ids *ids, struct gen_refusal *refusal)
{
    struct gen_rendered text = {0};
    if (!s->chat)
        return gen_refuse(refusal, 400, "messages", NULL,
                          "the model has no chat template; ask v1/completions with a prompt");
    json_t *variables = ask->kwargs ? json_copy((json_t *)ask->kwargs) : json_object();
    json_object_set(variables, "messages", (json_t *)ask->messages);
    json_object_set_new(variables, "add_generation_prompt", json_boolean(ask->generation_prompt));
    if (ask->tools) json_object_set(variables, "tools", (json_t *)ask->tools);
    int err = variables ? gen_chat_render(s->chat, variables, &text) : -ENOMEM;
    struct gen_mixed mixed = {text.text, text.foreign, text.bytes};
    int wrong = err ? 0 : prompt_check_bytes(s, "messages", text.bytes, refusal);
    if (!err && !wrong) err = gen_tokenizer_encode_mixed(s->tokenizer, &mixed, ids);
    json_decref(variables);
    gen_rendered_free(&text);
    return err ? prompt_failed(refusal, "messages", err) : wrong;
}

/* A completion's prompt is the client's whole text: control tokens in it are meant. */
int gen_openai_prompt_ids(const struct gen_service_opts *s, const struct gen_openai_prompt *p,
                          bool special_tokens, struct gen_ids *ids, struct gen_refusal *refusal)
{
    if (prompt_check_bytes(s, "prompt", p->bytes, refusal)) return -1;
    unsigned flags = GEN_ENCODE_CONTROL | (special_tokens ? GEN_ENCODE_SPECIAL : 0);
    int err = p->text ? gen_tokenizer_encode(s->tokenizer, p->text, p->bytes, flags, ids) : 0;
    for (size_t i = 0; !err && i < json_array_size(p->ids); i++)
        err = gen_ids_add(ids, (uint32_t)json_integer_value(json_array_get(p->ids, i)));
    return err ? prompt_failed(refusal, "prompt", err) : 0;
}

static void prompt_put_defaults(const struct gen_defaults *d, struct gen_openai_ask *a)
{
    struct gen_request *r = &a->ask.request;
    if (!a->temperature_said) r->temperature = d->temperature;
    if (!a->top_p_said) r->top_p = d->top_p;
    if (!a->top_k_said) r->top_k = d->top_k;
    if (!a->min_p_said) r->min_p = d->min_p;
    if (!a->repetition_said) r->repetition = d->repetition;
}

static bool prompt_known(const struct gen_source_shape *shape, const struct gen_ids *ids)
{
    size_t i = 0;
    while (i < ids->count && ids->at[i] < shape->vocab) i++;
    return i == ids->count;
}

static int prompt_check_tokens(const struct gen_source_shape *shape, const struct gen_openai_ask *a,
                               struct gen_refusal *refusal)
{
    for (uint32_t i = 0; i < a->ask.stops; i++)
        if (a->stop[i] >= shape->vocab)
            return gen_refuse_field(refusal, "stop_token_ids", "stop_token_ids: must be below %u",
                                    shape->vocab);
    for (uint32_t i = 0; i < a->ask.biases; i++)
        if (a->bias[i].token >= shape->vocab)
            return gen_refuse_field(refusal, "logit_bias", "logit_bias: token ids must be below %u",
                                    shape->vocab);
    return 0;
}

/* `longest`: tokens of the longest prompt. */
static int prompt_check_lengths(const struct gen_source_shape *shape, struct gen_openai_ask *a,
                                size_t longest, struct gen_refusal *refusal)
{
    struct gen_request *r = &a->ask.request;
    const char *name = a->kind == GEN_CHAT ? "messages" : "prompt";
    if (longest >= shape->context)
        return gen_refuse(refusal, 400, name, "context_length_exceeded",
                          "%s: %zu tokens, and the model's context has %u, with room for at least one more",
                          name, longest, shape->context);
    uint32_t room = shape->context - (uint32_t)longest;
    if (room > shape->max_tokens) room = shape->max_tokens;
    if (!a->max_tokens_said)
        r->max_tokens = a->kind == GEN_CHAT || room < PROMPT_TOKENS ? room : PROMPT_TOKENS;
    if (r->max_tokens > room)
        return gen_refuse(refusal, 400, "max_tokens", "context_length_exceeded",
                          "max_tokens: %u, and after %zu tokens of the prompt the model makes %u at most",
                          r->max_tokens, longest, room);
    if (r->min_tokens > r->max_tokens)
        return gen_refuse_field(refusal, "min_tokens", "min_tokens: must be at most max_tokens (%u)",
                                r->max_tokens);
    return 0;
}

int gen_openai_settle(const struct gen_service_opts *s, struct gen_openai_ask *a, struct gen_ids *ids,
                      struct gen_refusal *refusal)
{
    const char *name = a->kind == GEN_CHAT ? "messages" : "prompt";
    struct gen_source_shape shape;
    size_t longest = 0;
    s->source->ops->shape(s->source->own, &shape);
    prompt_put_defaults(&s->defaults, a);
    for (uint32_t i = 0; i < a->ask.prompts; i++) {
        int wrong = a->kind == GEN_CHAT
                        ? gen_openai_chat_ids(s, a, &ids[i], refusal)
                        : gen_openai_prompt_ids(s, &a->prompt[i], a->special_tokens, &ids[i], refusal);
        if (wrong) return -1;
        if (!ids[i].count) return gen_refuse_field(refusal, name, "%s: it has no tokens", name);
        if (!prompt_known(&shape, &ids[i]))
            return gen_refuse_field(refusal, name, "%s: token ids must be below %u", name, shape.vocab);
        if (ids[i].count > longest) longest = ids[i].count;
    }
    a->ask.prompt = ids;
    return prompt_check_tokens(&shape, a, refusal) ? -1 : prompt_check_lengths(&shape, a, longest, refusal);
}
