/* SPDX-License-Identifier: Apache-2.0 */
/* The tokenizer over HTTP, as vLLM has it. */
#ifndef GW_GENERATE_OPENAI_TOKENS_H
#define GW_GENERATE_OPENAI_TOKENS_H

#include "src/door/text.h"
#include "src/generate/openai/prompt.h"

/* Answers a body into *text. 0; -1 and *refusal. */
typedef int gen_openai_text_call(const struct gen_service_opts *s, json_t *body, struct gw_text *text,
                                 struct gen_refusal *refusal);

/* {"prompt": …} or {"messages": …} becomes {"count", "max_model_len", "tokens"}. */
gen_openai_text_call gen_openai_tokenize;
/* {"tokens": […]} becomes {"prompt"}. */
gen_openai_text_call gen_openai_detokenize;

#endif
