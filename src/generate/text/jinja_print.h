/* SPDX-License-Identifier: Apache-2.0 */
/* Values as text: as Python prints them, and as JSON. */
#ifndef GW_GENERATE_TEXT_JINJA_PRINT_H
#define GW_GENERATE_TEXT_JINJA_PRINT_H

#include "src/generate/text/jinja_value.h"

/* How JSON is laid out. Python's json.dumps has the same names. */
struct gen_jlayout {
    int indent; /* spaces a level; below 0: one line */
    bool sort, ascii;
    struct gen_jtext comma, colon; /* at NULL: ", " (or "," with indent) and ": " */
};

/* Appends the value as str() writes it. */
bool gen_j_print(struct gen_jinja *j, const struct gen_jvalue *v, struct gen_marked *out);
/* The value as a text: itself, where it is one. */
bool gen_j_string(struct gen_jinja *j, const struct gen_jvalue *v, struct gen_jvalue *out);
/* Appends the value as JSON. */
bool gen_j_json(struct gen_jinja *j, const struct gen_jvalue *v, const struct gen_jlayout *layout,
                struct gen_marked *out);
/* Fails when the text that is being made is longer than a prompt may be. */
bool gen_j_fits(struct gen_jinja *j, const struct gen_marked *m);

#endif
