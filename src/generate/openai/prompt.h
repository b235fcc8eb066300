/* SPDX-License-Identifier: Apache-2.0 */
/* Token ids of what a request says, by the model's tokenizer and template. */
#ifndef GW_GENERATE_OPENAI_PROMPT_H
#define GW_GENERATE_OPENAI_PROMPT_H

#include "src/generate/openai/ask.h"

/* Of messages, which gen_openai_messages has passed. `ask` has the rest that a template may read. 0; -1. */
int gen_openai_chat_ids(const struct gen_service_opts *s, const struct gen_openai_ask *ask,
                        struct gen_ids *ids, struct gen_refusal *refusal);
/* Of one prompt. 0; -1. */
int gen_openai_prompt_ids(const struct gen_service_opts *s, const struct gen_openai_prompt *p,
                          bool special_tokens, struct gen_ids *ids, struct gen_refusal *refusal);

/* All prompts of a request: ids[0 … ask.prompts - 1], which are empty before, and the caller's to free. It
 * also puts the model's defaults in, and checks lengths and token ids against the model. 0; -1. */
int gen_openai_settle(const struct gen_service_opts *s, struct gen_openai_ask *ask, struct gen_ids *ids,
                      struct gen_refusal *refusal);

#endif
