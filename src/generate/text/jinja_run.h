/* SPDX-License-Identifier: Apache-2.0 */
/* Statements of a template. */
#ifndef GW_GENERATE_TEXT_JINJA_RUN_H
#define GW_GENERATE_TEXT_JINJA_RUN_H

#include "src/generate/text/jinja_eval.h"

/* Runs statements. */
bool gen_j_body(struct gen_jrun *r, const struct gen_jnode *node);
/* Calls a macro: *out is its text. */
bool gen_j_macro(struct gen_jrun *r, const struct gen_jmacro *macro, const struct gen_jargs *args,
                 struct gen_jvalue *out);

#endif
