/* SPDX-License-Identifier: Apache-2.0 */
/* Kinds of characters, as Unicode tells them and as the reference's language (Rust) names them. */
#ifndef GW_GENERATE_TEXT_CHARS_H
#define GW_GENERATE_TEXT_CHARS_H

#include <stdbool.h>
#include <stdint.h>

#include "src/door/text.h"

/* White_Space. */
bool gen_char_is_space(uint32_t c);
/* Categories N*. */
bool gen_char_is_numeric(uint32_t c);
/* Categories P*, and ASCII's symbols. */
bool gen_char_is_punctuation(uint32_t c);
/* What \w stands for: letters, marks, digits, connectors. */
bool gen_char_is_word(uint32_t c);
/* Categories M*. */
bool gen_char_is_mark(uint32_t c);

/* Appends the lower-case (upper-case) form of a character: one character, or where Unicode says so,
 * several. */
void gen_char_lower(uint32_t c, struct gw_text *text);
void gen_char_upper(uint32_t c, struct gw_text *text);

/* Forms that Unicode names NFC, NFD, NFKC and NFKD. */
enum gen_form { GEN_NFC, GEN_NFD, GEN_NFKC, GEN_NFKD };
/* Appends valid UTF-8 in that form. */
void gen_char_normalize(enum gen_form form, const char *at, size_t bytes, struct gw_text *text);

#endif
