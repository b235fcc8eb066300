/* SPDX-License-Identifier: Apache-2.0 */
/* Filters: `value | name(arguments)`. */
#ifndef GW_GENERATE_TEXT_JINJA_FILTER_H
#define GW_GENERATE_TEXT_JINJA_FILTER_H

#include "src/generate/text/jinja_args.h"
#include "src/generate/text/jinja_names.h"

bool gen_jfilter_apply(struct gen_jinja *j, enum gen_jfilter which, const struct gen_jvalue *v,
                       const struct gen_jargs *args, struct gen_jvalue *out);

#endif
