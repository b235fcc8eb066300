/* SPDX-License-Identifier: Apache-2.0 */
/* The words of a template. Text between tags is a word, too, with its white space as trim_blocks and
 * lstrip_blocks leave it: chat templates are written for both. */
#ifndef GW_GENERATE_TEXT_JINJA_LEX_H
#define GW_GENERATE_TEXT_JINJA_LEX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "src/generate/text/arena.h"

enum gen_jword {
    GEN_JW_END,     /* of the template */
    GEN_JW_DATA,    /* text between tags */
    GEN_JW_OPEN,    /* {{ */
    GEN_JW_CLOSE,   /* }} */
    GEN_JW_TAG,     /* {% */
    GEN_JW_TAG_END, /* %} */
    GEN_JW_NAME,
    GEN_JW_TEXT, /* of a literal, unescaped */
    GEN_JW_INT,
    GEN_JW_FLOAT,
    GEN_JW_OPERATOR, /* `at` has its one or two characters */
};

struct gen_jtoken {
    enum gen_jword kind;
    uint32_t line;
    const char *at;
    size_t bytes;
    int64_t number;
    double real;
};

struct gen_jlex {
    const char *source; /* valid UTF-8, with a final zero; it outlives the words */
    size_t bytes, at;
    uint32_t line;
    bool inside, tag; /* in {{ or {%; it is {% */
    bool fresh_line;  /* the text that comes begins a line */
    bool strip;       /* a - was there: the text that comes loses its white space */
    unsigned nested;  /* brackets that are open */
    struct gen_arena *arena;
};

/* The next word. 0; -EINVAL or -ENOMEM with gw_error's line. */
int gen_jlex_next(struct gen_jlex *l, struct gen_jtoken *out);

#endif
