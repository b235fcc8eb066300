/* SPDX-License-Identifier: Apache-2.0 */
/* Puts the tests' model together. */
#include "tests/generate/openai/words.h"

#include <errno.h>
#include <string.h>

#include <gpuwire/error.h>

#define WORDS_FIRST 256u /* the tokens below are single bytes */

int words_open(struct words *w, uint64_t token_ns, uint32_t slots)
{
    memset(w, 0, sizeof(*w));
    int err = gen_tokenizer_open(WORDS_MODEL, &w->tokenizer);
    if (!err) err = gen_chat_open(WORDS_MODEL, &w->chat);
    if (err) return err;
    w->end = gen_tokenizer_find(w->tokenizer, "<|end|>", 7);
    for (uint32_t i = WORDS_FIRST; i < w->end && w->letters < 64; i++) w->letter[w->letters++] = i;
    struct fake_source_opts opts = {
        .shape = {gen_tokenizer_size(w->tokenizer), WORDS_CONTEXT, WORDS_MAX_TOKENS, 64},
        .slots = slots,
        .token_ns = token_ns,
        .letter = w->letter,
        .letters = w->letters,
        .end = w->end,
        .end_every = 200};
    w->fake = fake_source_open(&opts);
    if (!w->fake) return gw_error(-ENOMEM, "no source");
    w->source = fake_source_of(w->fake);
    struct gen_service_opts service = {.name = "words",
                                       .source = &w->source,
                                       .tokenizer = w->tokenizer,
                                       .chat = w->chat,
                                       .defaults = GEN_DEFAULTS,
                                       .patience_ns = 100000000};
    return gen_service_open(&service, &w->service);
}

void words_close(struct words *w)
{
    gen_service_close(w->service);
    if (w->fake) fake_source_close(w->fake);
    gen_chat_close(w->chat);
    gen_tokenizer_close(w->tokenizer);
}
