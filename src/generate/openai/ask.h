/* SPDX-License-Identifier: Apache-2.0 */
/* A request of OpenAI's API, from its JSON: a chat or a completion, with vLLM's further fields. */
#ifndef GW_GENERATE_OPENAI_ASK_H
#define GW_GENERATE_OPENAI_ASK_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "src/generate/openai/refusal.h"
#include "src/generate/openai/service.h"

enum gen_openai_kind { GEN_CHAT, GEN_COMPLETION };

#define GEN_MAX_CHOICES GEN_MAX_SLOTS /* answers of one request: each takes a slot */
#define GEN_MAX_LOGIT   100           /* that logit_bias adds or subtracts */

/* A prompt of a completion: text, or token ids. A chat has none: its messages make one. */
struct gen_openai_prompt {
    const char *text; /* of the body; NULL: ids */
    size_t bytes;
    const json_t *ids; /* of the body: integers that are token ids */
};

struct gen_openai_ask {
    enum gen_openai_kind kind;
    json_t *body;                            /* keeps the texts below */
    const char *model;                       /* NULL: not said */
    const json_t *messages, *tools, *kwargs; /* chat; the last two may be NULL */
    struct gen_openai_prompt *prompt;        /* completion: `prompts` of them */
    uint32_t prompts;
    bool stream, include_usage, echo;
    bool generation_prompt; /* chat: the text ends where the assistant begins */
    bool special_tokens;    /* completion: the tokenizer's own around the prompt */
    bool max_tokens_said;
    bool temperature_said, top_p_said, top_k_said, min_p_said,
        repetition_said; /* else the model's defaults */
    uint32_t n;
    struct gen_ask ask; /* its prompts are missing; its lists point to what follows */
    uint32_t stop[GEN_MAX_STOPS];
    struct gen_top *bias;
    const char *stop_text[GEN_MAX_STOPS];
    size_t stop_bytes[GEN_MAX_STOPS];
};

/* Parses a body. 0; -1 and *refusal. In both cases gen_openai_ask_free frees *out. It allocates no more than
 * a small multiple of the body. */
int gen_openai_ask_parse(enum gen_openai_kind kind, const char *text, size_t bytes,
                         struct gen_openai_ask *out, struct gen_refusal *refusal);
void gen_openai_ask_free(struct gen_openai_ask *a);
/* Lets go of the body but for what an answer needs: prompts and stop strings, which are bounded. Messages
 * are gone. */
void gen_openai_ask_trim(struct gen_openai_ask *a);

/* Parses any body that is an object: a new reference; NULL and *refusal. */
json_t *gen_openai_body(const char *text, size_t bytes, struct gen_refusal *refusal);
/* Are these messages that a template may get? 0; -1 and *refusal. Arrays of text parts become one text. */
int gen_openai_messages(json_t *messages, struct gen_refusal *refusal);
/* A prompt, at that place of a list (or -1): 0; -1 and *refusal. */
int gen_openai_prompt_read(const json_t *value, int place, struct gen_openai_prompt *out,
                           struct gen_refusal *refusal);

#endif
