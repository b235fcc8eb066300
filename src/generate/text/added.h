/* SPDX-License-Identifier: Apache-2.0 */
/* Added tokens: texts that become one token wherever they stand, before the model sees the text. Control
 * tokens are among them. */
#ifndef GW_GENERATE_TEXT_ADDED_H
#define GW_GENERATE_TEXT_ADDED_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "src/generate/text/pieces.h"

/* The longest added token in bytes: a text of many beginnings of one takes this many steps a byte at worst.
 * */
#define GEN_MAX_ADDED_BYTES 512

struct gen_added_token {
    char *text; /* as the file has it */
    size_t bytes;
    uint32_t id;
    bool single_word, left_strip, right_strip, normalized;
    bool special; /* a control token */
};

/* Reads one element of tokenizer.json's "added_tokens"; the caller frees the text. 0 or a negative errno
 * with gw_error's line. */
int gen_added_read(const json_t *element, struct gen_added_token *out);

struct gen_added;

/* Makes an empty set. NULL: no memory. */
struct gen_added *gen_added_open(void);
void gen_added_close(struct gen_added *a);
/* Adds a token that is found where `text` stands (its own text, or how the normalizer writes that). A later
 * one of the same text replaces an earlier one. 0; -E2BIG or -ENOMEM with gw_error's line. */
int gen_added_put(struct gen_added *a, const struct gen_added_token *token, const char *text, size_t bytes);
/* No stranger may write this token from now on, though the file does not call it special. */
void gen_added_guard(struct gen_added *a, uint32_t id);

/* Cuts `m` at the tokens: appends pieces of it to `out`, whose text the caller sets. Those that a stranger
 * may not write are found only where `control` and none of their bytes is a stranger's. `first`: nothing of
 * the whole text is before it. 0 or -ENOMEM with gw_error's line. */
int gen_added_cut(const struct gen_added *a, const struct gen_marked *m, bool control, bool first,
                  struct gen_pieces *out);

#endif
