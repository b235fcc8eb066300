/* SPDX-License-Identifier: Apache-2.0 */
/* Tests of values: of their kind, and against another value. */
#include "src/generate/text/jinja_test.h"

#include <errno.h>

#include "src/generate/text/jinja_text.h"

static bool test_order(struct gen_jinja *j, enum gen_jtest which, const struct gen_jvalue *v,
                       const struct gen_jvalue *other, bool *yes)
{
    int order;
    if (!gen_j_order(j, v, other, &order)) return false;
    *yes = which == GEN_JT_LT   ? order < 0
           : which == GEN_JT_LE ? order <= 0
           : which == GEN_JT_GT ? order > 0
                                : order >= 0;
    return true;
}

static bool test_same(struct gen_jinja *j, const struct gen_jvalue *v, const struct gen_jvalue *other)
{
    if (v->kind != other->kind) return false;
    if (v->kind == GEN_J_LIST || v->kind == GEN_J_DICT) return v->list == other->list;
    return gen_j_equal(j, v, other);
}

/* Those that need another value. */
static bool test_against(struct gen_jinja *j, enum gen_jtest which, const struct gen_jvalue *v,
                         const struct gen_jargs *args, bool *yes)
{
    const struct gen_jvalue *other = gen_j_arg(args, 0, NULL);
    if (!other) return gen_j_fail(j, -EINVAL, "the test needs a value to test against");
    switch (which) {
    case GEN_JT_EQ:
    case GEN_JT_NE: *yes = gen_j_equal(j, v, other) == (which == GEN_JT_EQ); return !j->err;
    case GEN_JT_IN: return gen_j_contains(j, other, v, yes);
    case GEN_JT_SAMEAS: *yes = test_same(j, v, other); return !j->err;
    case GEN_JT_DIVISIBLEBY:
        if (v->kind != GEN_J_INT || other->kind != GEN_J_INT || !other->number)
            return gen_j_fail(j, -EINVAL, "divisibleby needs integers, and none that is 0");
        *yes = other->number == -1 || v->number % other->number == 0;
        return true;
    default: return test_order(j, which, v, other, yes);
    }
}

static bool test_case(struct gen_jinja *j, const struct gen_jvalue *v, enum gen_jcase how, bool *yes)
{
    struct gen_jvalue same, other;
    *yes = false;
    if (v->kind != GEN_J_TEXT) return true;
    if (!gen_jtext_case(j, &v->text, how, &same) ||
        !gen_jtext_case(j, &v->text, how == GEN_JC_LOWER ? GEN_JC_UPPER : GEN_JC_LOWER, &other))
        return false;
    *yes = gen_j_equal(j, v, &same) && !gen_j_equal(j, v, &other);
    return !j->err;
}

/* Those that look at the kind alone. */
static bool test_kind(enum gen_jtest which, const struct gen_jvalue *v)
{
    bool list = v->kind == GEN_J_LIST || v->kind == GEN_J_DICT || v->kind == GEN_J_TEXT;
    switch (which) {
    case GEN_JT_DEFINED: return v->kind != GEN_J_UNDEFINED;
    case GEN_JT_UNDEFINED: return v->kind == GEN_J_UNDEFINED;
    case GEN_JT_NONE: return v->kind == GEN_J_NONE;
    case GEN_JT_BOOLEAN: return v->kind == GEN_J_BOOL;
    case GEN_JT_TRUE:
    case GEN_JT_FALSE: return v->kind == GEN_J_BOOL && v->number == (which == GEN_JT_TRUE);
    case GEN_JT_INTEGER: return v->kind == GEN_J_INT;
    case GEN_JT_FLOAT: return v->kind == GEN_J_FLOAT;
    case GEN_JT_NUMBER: return v->kind == GEN_J_INT || v->kind == GEN_J_FLOAT || v->kind == GEN_J_BOOL;
    case GEN_JT_STRING: return v->kind == GEN_J_TEXT;
    case GEN_JT_MAPPING: return v->kind == GEN_J_DICT;
    case GEN_JT_ITERABLE:
    case GEN_JT_SEQUENCE: /* an undefined value has a length, and can be walked */
        return list || v->kind == GEN_J_UNDEFINED || (v->kind == GEN_J_LOOP);
    default: return v->kind == GEN_J_FUNCTION || v->kind == GEN_J_METHOD || v->kind == GEN_J_MACRO;
    }
}

bool gen_jtest_apply(struct gen_jinja *j, enum gen_jtest which, const struct gen_jvalue *v,
                     const struct gen_jargs *args, bool *yes)
{
    switch (which) {
    case GEN_JT_EQ:
    case GEN_JT_NE:
    case GEN_JT_IN:
    case GEN_JT_SAMEAS:
    case GEN_JT_DIVISIBLEBY:
    case GEN_JT_LT:
    case GEN_JT_LE:
    case GEN_JT_GT:
    case GEN_JT_GE: return test_against(j, which, v, args, yes);
    case GEN_JT_LOWER: return test_case(j, v, GEN_JC_LOWER, yes);
    case GEN_JT_UPPER: return test_case(j, v, GEN_JC_UPPER, yes);
    case GEN_JT_ODD:
    case GEN_JT_EVEN:
        if (v->kind != GEN_J_INT) return gen_j_fail(j, -EINVAL, "odd and even need an integer");
        *yes = (v->number & 1) == (which == GEN_JT_ODD);
        return true;
    default: *yes = test_kind(which, v); return true;
    }
}
