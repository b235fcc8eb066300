/* SPDX-License-Identifier: Apache-2.0 */
/* What templates do with texts: Python's methods of str, which filters use, too. Marks of a stranger's
 * bytes go along. */
#ifndef GW_GENERATE_TEXT_JINJA_TEXT_H
#define GW_GENERATE_TEXT_JINJA_TEXT_H

#include "src/generate/text/jinja_value.h"

/* How many characters it has. */
size_t gen_jtext_length(const struct gen_jtext *text);
/* The byte where `what` is first, or last; SIZE_MAX: it is not there. */
size_t gen_jtext_find(const struct gen_jtext *text, const struct gen_jtext *what, bool last);
/* Without the characters of `chars` at its ends; without white space, where `chars` has no bytes. */
struct gen_jtext gen_jtext_strip(const struct gen_jtext *text, const struct gen_jtext *chars, bool left,
                                 bool right);
/* `with` for each `old`, `count` times at most (below 0: always). */
bool gen_jtext_replace(struct gen_jinja *j, const struct gen_jtext *text, const struct gen_jtext *old,
                       const struct gen_jtext *with, int64_t count, struct gen_jvalue *out);

/* TITLE: as str.title; WORDS: as the filter title; CAPITAL: the first character alone. */
enum gen_jcase { GEN_JC_LOWER, GEN_JC_UPPER, GEN_JC_TITLE, GEN_JC_WORDS, GEN_JC_CAPITAL };
bool gen_jtext_case(struct gen_jinja *j, const struct gen_jtext *text, enum gen_jcase how,
                    struct gen_jvalue *out);

/* As str.split: at `separator` (white space, where it has no bytes), `limit` times at most (below 0:
 * always), from the left (`from` 1) or the right (-1). */
bool gen_jtext_split(struct gen_jinja *j, const struct gen_jtext *text, const struct gen_jtext *separator,
                     int from, int64_t limit, struct gen_jvalue *out);
/* As str.splitlines. */
bool gen_jtext_lines(struct gen_jinja *j, const struct gen_jtext *text, bool keep, struct gen_jvalue *out);
/* As str.join, but what is no text is made one. */
bool gen_jtext_join(struct gen_jinja *j, const struct gen_jtext *between, const struct gen_jlist *items,
                    struct gen_jvalue *out);
/* A mapping's pairs, as a list of lists. */
bool gen_jdict_items(struct gen_jinja *j, const struct gen_jdict *dict, struct gen_jvalue *out);

#endif
