/* SPDX-License-Identifier: Apache-2.0 */
/* Sorting of values, as Python's: what is equal keeps its order. */
#ifndef GW_GENERATE_TEXT_JINJA_SORT_H
#define GW_GENERATE_TEXT_JINJA_SORT_H

#include "src/generate/text/jinja_value.h"

/* Sorts both lists by the first; they become new ones. False after gen_j_fail: two keys have no order. */
bool gen_j_sort_pairs(struct gen_jinja *j, struct gen_jlist *keys, struct gen_jlist *values);

#endif
