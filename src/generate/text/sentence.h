/* SPDX-License-Identifier: Apache-2.0 */
/* SentencePiece's tokenizer.model, read as the tokenizer.json that means the same. */
#ifndef GW_GENERATE_TEXT_SENTENCE_H
#define GW_GENERATE_TEXT_SENTENCE_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

/* Which tokens stand around a text. */
struct gen_sentence_ends {
    bool bos, eos;
};

/* Reads the bytes of a tokenizer.model. The caller drops the reference. 0; -ENOTSUP (a model that is not
 * BPE, or a normalizer that is not supported), -EINVAL or -ENOMEM with gw_error's line. */
int gen_sentence_json(const char *bytes, size_t size, struct gen_sentence_ends ends, json_t **out);

#endif
