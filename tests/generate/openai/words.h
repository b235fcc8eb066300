/* SPDX-License-Identifier: Apache-2.0 */
/* The tests' tokenizer (its folder lies here), a source that speaks its words, and a service of both. */
#ifndef GW_TESTS_GENERATE_OPENAI_WORDS_H
#define GW_TESTS_GENERATE_OPENAI_WORDS_H

#include "src/generate/openai/service.h"
#include "tests/generate/fake_source.h"

#define WORDS_CONTEXT    4096u
#define WORDS_MAX_TOKENS 2048u

struct words {
    struct gen_tokenizer *tokenizer;
    struct gen_chat *chat;
    struct fake_source *fake;
    struct gen_source source;
    struct gen_service *service;
    uint32_t letter[64], letters, end;
};

/* The model is called "words". 0, or a negative errno with gw_last_error()'s line. */
int words_open(struct words *w, uint64_t token_ns, uint32_t slots);
void words_close(struct words *w);

#endif
