/* SPDX-License-Identifier: Apache-2.0 */
/* Filters that walk a list and need no other filter. */
#ifndef GW_GENERATE_TEXT_JINJA_FILTER_LIST_H
#define GW_GENERATE_TEXT_JINJA_FILTER_LIST_H

#include "src/generate/text/jinja_args.h"
#include "src/generate/text/jinja_names.h"

/* One of first, last, list, items, join, reverse, sort, dictsort, unique, sum, min, max, select, reject,
 * selectattr, rejectattr. */
bool gen_jfilter_list(struct gen_jinja *j, enum gen_jfilter which, const struct gen_jvalue *v,
                      const struct gen_jargs *args, struct gen_jvalue *out);

#endif
