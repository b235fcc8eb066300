/* SPDX-License-Identifier: Apache-2.0 */
/* Tests: `is defined` and the others. */
#ifndef GW_GENERATE_TEXT_JINJA_TEST_H
#define GW_GENERATE_TEXT_JINJA_TEST_H

#include "src/generate/text/jinja_args.h"
#include "src/generate/text/jinja_names.h"

bool gen_jtest_apply(struct gen_jinja *j, enum gen_jtest which, const struct gen_jvalue *v,
                     const struct gen_jargs *args, bool *yes);

#endif
