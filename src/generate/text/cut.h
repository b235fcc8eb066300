/* SPDX-License-Identifier: Apache-2.0 */
/* Cutting a text at what matches: by a pattern, or by kinds of characters; and what happens to the matches.
 * */
#ifndef GW_GENERATE_TEXT_CUT_H
#define GW_GENERATE_TEXT_CUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "src/generate/text/pieces.h"

struct gen_regex;

/* What is looked for. */
enum gen_cut_at {
    GEN_CUT_REGEX,
    GEN_CUT_CHAR,        /* `c` */
    GEN_CUT_SPACE,       /* each White_Space */
    GEN_CUT_NUMERIC,     /* each numeric character */
    GEN_CUT_PUNCTUATION, /* each mark of punctuation */
    GEN_CUT_WORDS,       /* runs of \w, and runs of neither \w nor spaces */
};

/* What becomes of a match. */
enum gen_cut_keep {
    GEN_CUT_REMOVED,
    GEN_CUT_ISOLATED,
    GEN_CUT_WITH_PREVIOUS,
    GEN_CUT_WITH_NEXT,
    GEN_CUT_CONTIGUOUS
};

struct gen_cut {
    enum gen_cut_at at;
    enum gen_cut_keep keep;
    bool invert; /* what lies between the matches counts as the matches */
    uint32_t c;
    struct gen_regex *regex; /* the owner's */
};

/* Reads the name of tokenizer.json's "behavior". 0 or -EINVAL with gw_error's line. */
int gen_cut_keep_read(const char *name, enum gen_cut_keep *keep);
/* Cuts one piece of `text`, and adds the parts to `out`, which holds the same text. 0 or a negative errno. */
int gen_cut(const struct gen_cut *cut, const char *text, const struct gen_piece *piece,
            struct gen_pieces *out);

#endif
