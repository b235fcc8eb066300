/* SPDX-License-Identifier: Apache-2.0 */
/* The names of filters, tests and functions. */
#include "src/generate/text/jinja_names.h"

struct name {
    const char *text;
    int which;
};

static int name_find(const struct name *names, size_t count, const struct gen_jtext *text)
{
    for (size_t i = 0; i < count; i++) {
        if (gen_j_is(text, names[i].text)) return names[i].which;
    }
    return -1;
}

int gen_jfilter_find(const struct gen_jtext *name)
{
    static const struct name names[] = {
        {"abs", GEN_JF_ABS},
        {"capitalize", GEN_JF_CAPITALIZE},
        {"count", GEN_JF_COUNT},
        {"length", GEN_JF_COUNT},
        {"default", GEN_JF_DEFAULT},
        {"d", GEN_JF_DEFAULT},
        {"dictsort", GEN_JF_DICTSORT},
        {"escape", GEN_JF_ESCAPE},
        {"e", GEN_JF_ESCAPE},
        {"first", GEN_JF_FIRST},
        {"float", GEN_JF_FLOAT},
        {"indent", GEN_JF_INDENT},
        {"int", GEN_JF_INT},
        {"items", GEN_JF_ITEMS},
        {"join", GEN_JF_JOIN},
        {"last", GEN_JF_LAST},
        {"list", GEN_JF_LIST},
        {"lower", GEN_JF_LOWER},
        {"map", GEN_JF_MAP},
        {"max", GEN_JF_MAX},
        {"min", GEN_JF_MIN},
        {"reject", GEN_JF_REJECT},
        {"rejectattr", GEN_JF_REJECTATTR},
        {"replace", GEN_JF_REPLACE},
        {"reverse", GEN_JF_REVERSE},
        {"round", GEN_JF_ROUND},
        {"safe", GEN_JF_SAFE},
        {"select", GEN_JF_SELECT},
        {"selectattr", GEN_JF_SELECTATTR},
        {"sort", GEN_JF_SORT},
        {"string", GEN_JF_STRING},
        {"sum", GEN_JF_SUM},
        {"title", GEN_JF_TITLE},
        {"tojson", GEN_JF_TOJSON},
        {"trim", GEN_JF_TRIM},
        {"unique", GEN_JF_UNIQUE},
        {"upper", GEN_JF_UPPER},
    };
    return name_find(names, sizeof(names) / sizeof(names[0]), name);
}

int gen_jtest_find(const struct gen_jtext *name)
{
    static const struct name names[] = {
        {"boolean", GEN_JT_BOOLEAN},
        {"callable", GEN_JT_CALLABLE},
        {"defined", GEN_JT_DEFINED},
        {"divisibleby", GEN_JT_DIVISIBLEBY},
        {"eq", GEN_JT_EQ},
        {"equalto", GEN_JT_EQ},
        {"==", GEN_JT_EQ},
        {"even", GEN_JT_EVEN},
        {"false", GEN_JT_FALSE},
        {"float", GEN_JT_FLOAT},
        {"ge", GEN_JT_GE},
        {">=", GEN_JT_GE},
        {"gt", GEN_JT_GT},
        {"greaterthan", GEN_JT_GT},
        {">", GEN_JT_GT},
        {"in", GEN_JT_IN},
        {"integer", GEN_JT_INTEGER},
        {"iterable", GEN_JT_ITERABLE},
        {"le", GEN_JT_LE},
        {"<=", GEN_JT_LE},
        {"lower", GEN_JT_LOWER},
        {"lt", GEN_JT_LT},
        {"lessthan", GEN_JT_LT},
        {"<", GEN_JT_LT},
        {"mapping", GEN_JT_MAPPING},
        {"ne", GEN_JT_NE},
        {"!=", GEN_JT_NE},
        {"none", GEN_JT_NONE},
        {"number", GEN_JT_NUMBER},
        {"odd", GEN_JT_ODD},
        {"sameas", GEN_JT_SAMEAS},
        {"sequence", GEN_JT_SEQUENCE},
        {"string", GEN_JT_STRING},
        {"true", GEN_JT_TRUE},
        {"undefined", GEN_JT_UNDEFINED},
        {"upper", GEN_JT_UPPER},
    };
    return name_find(names, sizeof(names) / sizeof(names[0]), name);
}

int gen_jfunction_find(const struct gen_jtext *name)
{
    static const struct name names[] = {
        {"dict", GEN_JX_DICT},   {"namespace", GEN_JX_NAMESPACE},   {"raise_exception", GEN_JX_RAISE},
        {"range", GEN_JX_RANGE}, {"strftime_now", GEN_JX_STRFTIME},
    };
    return name_find(names, sizeof(names) / sizeof(names[0]), name);
}
