/* SPDX-License-Identifier: Apache-2.0 */
/* Functions that templates may call, and arithmetic. */
#ifndef GW_GENERATE_TEXT_JINJA_FUNCTION_H
#define GW_GENERATE_TEXT_JINJA_FUNCTION_H

#include "src/generate/text/jinja_args.h"
#include "src/generate/text/jinja_names.h"

bool gen_jfunction_call(struct gen_jinja *j, enum gen_jfunction which, const struct gen_jargs *args,
                        struct gen_jvalue *out);
/* a op b, `op` of enum gen_jop. */
bool gen_j_binary(struct gen_jinja *j, int op, const struct gen_jvalue *a, const struct gen_jvalue *b,
                  struct gen_jvalue *out);

#endif
