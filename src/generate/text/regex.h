/* SPDX-License-Identifier: Apache-2.0 */
/* Regular expressions, as tokenizer.json writes them. The reference (the `tokenizers` package) uses
 * Oniguruma, and so do we: what \s, \w and (?i:...) mean for all of Unicode differs between libraries. */
#ifndef GW_GENERATE_TEXT_REGEX_H
#define GW_GENERATE_TEXT_REGEX_H

#include <stddef.h>

struct gen_regex;

/* Compiles a pattern of UTF-8. 0; -EINVAL with gw_error's line. */
int gen_regex_open(const char *pattern, size_t bytes, struct gen_regex **out);
/* The same, of a text that stands for itself. */
int gen_regex_open_plain(const char *text, size_t bytes, struct gen_regex **out);
/* Frees it. NULL is fine. */
void gen_regex_close(struct gen_regex *re);
/* Finds the first match in text[from, bytes) that is not empty. 1: it is [*start, *end). 0: there is none.
 * -EINVAL: the search took too many steps; -ENOMEM. Any thread; many at once. */
int gen_regex_find(const struct gen_regex *re, const char *text, size_t bytes, size_t from, size_t match[2]);

#endif
