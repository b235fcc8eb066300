/* SPDX-License-Identifier: Apache-2.0 */
/* The filters, tests and functions that templates may use. A template that names another is refused when it
 * is opened. */
#ifndef GW_GENERATE_TEXT_JINJA_NAMES_H
#define GW_GENERATE_TEXT_JINJA_NAMES_H

#include "src/generate/text/jinja_value.h"

enum gen_jfilter {
    GEN_JF_ABS,
    GEN_JF_CAPITALIZE,
    GEN_JF_COUNT,
    GEN_JF_DEFAULT,
    GEN_JF_DICTSORT,
    GEN_JF_ESCAPE,
    GEN_JF_FIRST,
    GEN_JF_FLOAT,
    GEN_JF_INDENT,
    GEN_JF_INT,
    GEN_JF_ITEMS,
    GEN_JF_JOIN,
    GEN_JF_LAST,
    GEN_JF_LIST,
    GEN_JF_LOWER,
    GEN_JF_MAP,
    GEN_JF_MAX,
    GEN_JF_MIN,
    GEN_JF_REJECT,
    GEN_JF_REJECTATTR,
    GEN_JF_REPLACE,
    GEN_JF_REVERSE,
    GEN_JF_ROUND,
    GEN_JF_SAFE,
    GEN_JF_SELECT,
    GEN_JF_SELECTATTR,
    GEN_JF_SORT,
    GEN_JF_STRING,
    GEN_JF_SUM,
    GEN_JF_TITLE,
    GEN_JF_TOJSON,
    GEN_JF_TRIM,
    GEN_JF_UNIQUE,
    GEN_JF_UPPER,
};

enum gen_jtest {
    GEN_JT_BOOLEAN,
    GEN_JT_CALLABLE,
    GEN_JT_DEFINED,
    GEN_JT_DIVISIBLEBY,
    GEN_JT_EQ,
    GEN_JT_EVEN,
    GEN_JT_FALSE,
    GEN_JT_FLOAT,
    GEN_JT_GE,
    GEN_JT_GT,
    GEN_JT_IN,
    GEN_JT_INTEGER,
    GEN_JT_ITERABLE,
    GEN_JT_LE,
    GEN_JT_LOWER,
    GEN_JT_LT,
    GEN_JT_MAPPING,
    GEN_JT_NE,
    GEN_JT_NONE,
    GEN_JT_NUMBER,
    GEN_JT_ODD,
    GEN_JT_SAMEAS,
    GEN_JT_SEQUENCE,
    GEN_JT_STRING,
    GEN_JT_TRUE,
    GEN_JT_UNDEFINED,
    GEN_JT_UPPER,
};

enum gen_jfunction { GEN_JX_DICT, GEN_JX_NAMESPACE, GEN_JX_RAISE, GEN_JX_RANGE, GEN_JX_STRFTIME };

/* Which one has the name, or -1. */
int gen_jfilter_find(const struct gen_jtext *name);
int gen_jtest_find(const struct gen_jtext *name);
int gen_jfunction_find(const struct gen_jtext *name);

#endif
