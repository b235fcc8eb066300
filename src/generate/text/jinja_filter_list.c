/* SPDX-License-Identifier: Apache-2.0 */
/* Filters of lists. */
#include "src/generate/text/jinja_filter_list.h"

#include <errno.h>

#include "src/generate/text/jinja_member.h"
#include "src/generate/text/jinja_sort.h"
#include "src/generate/text/jinja_test.h"
#include "src/generate/text/jinja_text.h"

/* What a filter gets: the list that it walks among it. */
struct filter {
    struct gen_jinja *j;
    enum gen_jfilter which;
    const struct gen_jvalue *v;
    const struct gen_jargs *args;
    struct gen_jlist items;
    struct gen_jvalue *out;
};

static bool filter_end(const struct filter *f)
{
    size_t n = f->items.count;
    *f->out = n ? f->items.at[f->which == GEN_JF_FIRST ? 0 : n - 1] : gen_j_undefined((struct gen_jtext){0});
    return true;
}

/* A new list of the same items, back to front where asked. */
static bool filter_copy(const struct filter *f)
{
    size_t n = f->items.count;
    if (!gen_j_list(f->j, f->out)) return false;
    for (size_t i = 0; i < n; i++) {
        if (!gen_j_push(f->j, f->out->list, &f->items.at[f->which == GEN_JF_REVERSE ? n - 1 - i : i]))
            return false;
    }
    return true;
}

static bool filter_reverse(const struct filter *f)
{
    if (f->v->kind != GEN_J_TEXT) return filter_copy(f);
    struct gen_marked made = {.marks = true};
    for (size_t i = f->items.count; i > 0; i--) gen_j_write(&made, &f->items.at[i - 1].text);
    return gen_j_made(f->j, &made, f->out);
}

/* Items, or an attribute of each, where the argument names one. */
static bool filter_keys(const struct filter *f, const struct gen_jvalue *attribute, struct gen_jlist *keys)
{
    *keys = (struct gen_jlist){0};
    for (size_t i = 0; i < f->items.count; i++) {
        struct gen_jvalue key = f->items.at[i];
        if (attribute && attribute->kind != GEN_J_NONE && !gen_j_path(f->j, &f->items.at[i], attribute, &key))
            return false;
        if (!gen_j_push(f->j, keys, &key)) return false;
    }
    return true;
}

static bool filter_join(const struct filter *f)
{
    struct gen_jtext between = {0};
    struct gen_jlist keys;
    return gen_j_arg_text(f->j, f->args, 0, "d", &between) &&
           filter_keys(f, gen_j_arg(f->args, 1, "attribute"), &keys) &&
           gen_jtext_join(f->j, &between, &keys, f->out);
}

/* What texts are sorted by, unless their case matters. */
static bool filter_fold(struct gen_jinja *j, struct gen_jlist *keys, bool matters)
{
    for (size_t i = 0; i < keys->count && !matters; i++) {
        struct gen_jvalue text = keys->at[i];
        if (text.kind == GEN_J_TEXT && !gen_jtext_case(j, &text.text, GEN_JC_LOWER, &keys->at[i]))
            return false;
    }
    return true;
}

static void filter_turn(struct gen_jlist *list)
{
    for (size_t i = 0; i < list->count / 2; i++) {
        struct gen_jvalue other = list->at[i];
        list->at[i] = list->at[list->count - 1 - i];
        list->at[list->count - 1 - i] = other;
    }
}

/* Sorted: with `reverse`, what is equal keeps its order, so the list is turned before and after. */
static bool filter_sorted(const struct filter *f, struct gen_jlist *keys, bool reverse)
{
    struct gen_jlist values = {0};
    for (size_t i = 0; i < f->items.count; i++) {
        if (!gen_j_push(f->j, &values, &f->items.at[i])) return false;
    }
    if (reverse) {
        filter_turn(keys);
        filter_turn(&values);
    }
    if (!gen_j_sort_pairs(f->j, keys, &values) || !gen_j_list(f->j, f->out)) return false;
    if (reverse) filter_turn(&values);
    *f->out->list = values;
    return true;
}

static bool filter_sort(const struct filter *f)
{
    struct gen_jlist keys;
    return filter_keys(f, gen_j_arg(f->args, 2, "attribute"), &keys) &&
           filter_fold(f->j, &keys, gen_j_arg_flag(f->args, 1, "case_sensitive", false)) &&
           filter_sorted(f, &keys, gen_j_arg_flag(f->args, 0, "reverse", false));
}

static bool filter_dictsort(struct filter *f)
{
    struct gen_jtext by = {0};
    struct gen_jvalue pairs, place;
    struct gen_jlist keys;
    if (f->v->kind != GEN_J_DICT)
        return gen_j_fail(f->j, -EINVAL, "dictsort needs a mapping, not %s", gen_j_type(f->v));
    if (!gen_j_arg_text(f->j, f->args, 1, "by", &by) || !gen_jdict_items(f->j, f->v->dict, &pairs))
        return false;
    f->items = *pairs.list;
    place = gen_j_int(gen_j_is(&by, "value"));
    return filter_keys(f, &place, &keys) &&
           filter_fold(f->j, &keys, gen_j_arg_flag(f->args, 0, "case_sensitive", false)) &&
           filter_sorted(f, &keys, gen_j_arg_flag(f->args, 2, "reverse", false));
}

static bool filter_unique(const struct filter *f)
{
    struct gen_jlist keys, seen = {0};
    if (!gen_j_list(f->j, f->out) || !filter_keys(f, gen_j_arg(f->args, 1, "attribute"), &keys) ||
        !filter_fold(f->j, &keys, gen_j_arg_flag(f->args, 0, "case_sensitive", false)))
        return false;
    struct gen_jvalue list = {.kind = GEN_J_LIST, .list = &seen};
    for (size_t i = 0; i < keys.count; i++) {
        bool known;
        if (!gen_j_contains(f->j, &list, &keys.at[i], &known)) return false;
        if (!known &&
            (!gen_j_push(f->j, &seen, &keys.at[i]) || !gen_j_push(f->j, f->out->list, &f->items.at[i])))
            return false;
    }
    return true;
}

static bool filter_sum(const struct filter *f)
{
    struct gen_jlist keys;
    const struct gen_jvalue *start = gen_j_arg(f->args, 1, "start");
    if (!filter_keys(f, gen_j_arg(f->args, 0, "attribute"), &keys)) return false;
    struct gen_jvalue sum = start ? *start : gen_j_int(0);
    for (size_t i = 0; i < keys.count; i++) {
        const struct gen_jvalue *v = &keys.at[i];
        if ((v->kind != GEN_J_INT && v->kind != GEN_J_FLOAT) ||
            (sum.kind != GEN_J_INT && sum.kind != GEN_J_FLOAT))
            return gen_j_fail(f->j, -EINVAL, "sum needs numbers, not %s", gen_j_type(v));
        double left = sum.kind == GEN_J_INT ? (double)sum.number : sum.real;
        if (sum.kind == GEN_J_INT && v->kind == GEN_J_INT &&
            __builtin_add_overflow(sum.number, v->number, &sum.number))
            return gen_j_fail(f->j, -EINVAL, "a sum is too large");
        if (sum.kind == GEN_J_FLOAT || v->kind == GEN_J_FLOAT)
            sum = (struct gen_jvalue){.kind = GEN_J_FLOAT,
                                      .real = left + (v->kind == GEN_J_INT ? (double)v->number : v->real)};
    }
    *f->out = sum;
    return true;
}

static bool filter_extreme(const struct filter *f)
{
    struct gen_jlist keys;
    size_t best = 0;
    if (!filter_keys(f, gen_j_arg(f->args, 1, "attribute"), &keys) ||
        !filter_fold(f->j, &keys, gen_j_arg_flag(f->args, 0, "case_sensitive", false)))
        return false;
    for (size_t i = 1; i < keys.count; i++) {
        int order;
        if (!gen_j_order(f->j, &keys.at[i], &keys.at[best], &order)) return false;
        if (f->which == GEN_JF_MIN ? order < 0 : order > 0) best = i;
    }
    *f->out = keys.count ? f->items.at[best] : gen_j_undefined((struct gen_jtext){0});
    return true;
}

/* select, reject and the same of an attribute: by truth, or by a test that is named. */
static bool filter_select(const struct filter *f)
{
    bool attribute = f->which == GEN_JF_SELECTATTR || f->which == GEN_JF_REJECTATTR;
    bool keep = f->which == GEN_JF_SELECT || f->which == GEN_JF_SELECTATTR;
    const struct gen_jvalue *path = attribute ? gen_j_arg(f->args, 0, NULL) : NULL;
    struct gen_jtext name = {0};
    struct gen_jlist keys;
    if (attribute && !path) return gen_j_fail(f->j, -EINVAL, "selectattr and rejectattr need an attribute");
    if (!gen_j_arg_text(f->j, f->args, attribute, NULL, &name) || !filter_keys(f, path, &keys) ||
        !gen_j_list(f->j, f->out))
        return false;
    int test = name.bytes ? gen_jtest_find(&name) : -1;
    if (name.bytes && test < 0)
        return gen_j_fail(f->j, -ENOTSUP, "the test '%.*s' is not supported",
                          (int)(name.bytes < 60 ? name.bytes : 60), name.at);
    struct gen_jargs rest = gen_j_arg_rest(f->args, attribute + 1u);
    for (size_t i = 0; i < keys.count; i++) {
        bool yes = gen_j_truth(&keys.at[i]);
        if (test >= 0 && !gen_jtest_apply(f->j, (enum gen_jtest)test, &keys.at[i], &rest, &yes)) return false;
        if (yes == keep && !gen_j_push(f->j, f->out->list, &f->items.at[i])) return false;
    }
    return true;
}

static bool filter_items(const struct filter *f)
{
    if (f->v->kind == GEN_J_UNDEFINED) return gen_j_list(f->j, f->out);
    if (f->v->kind != GEN_J_DICT)
        return gen_j_fail(f->j, -EINVAL, "items needs a mapping, not %s", gen_j_type(f->v));
    return gen_jdict_items(f->j, f->v->dict, f->out);
}

bool gen_jfilter_list(struct gen_jinja *j, enum gen_jfilter which, const struct gen_jvalue *v,
                      const struct gen_jargs *args, struct gen_jvalue *out)
{
    struct filter f = {.j = j, .which = which, .v = v, .args = args, .out = out};
    if (!gen_j_items(j, v, &f.items) || !gen_j_work(j, f.items.count)) return false;
    switch (which) {
    case GEN_JF_FIRST:
    case GEN_JF_LAST: return filter_end(&f);
    case GEN_JF_ITEMS: return filter_items(&f);
    case GEN_JF_JOIN: return filter_join(&f);
    case GEN_JF_REVERSE: return filter_reverse(&f);
    case GEN_JF_SORT: return filter_sort(&f);
    case GEN_JF_DICTSORT: return filter_dictsort(&f);
    case GEN_JF_UNIQUE: return filter_unique(&f);
    case GEN_JF_SUM: return filter_sum(&f);
    case GEN_JF_MIN:
    case GEN_JF_MAX: return filter_extreme(&f);
    case GEN_JF_SELECT:
    case GEN_JF_REJECT:
    case GEN_JF_SELECTATTR:
    case GEN_JF_REJECTATTR: return filter_select(&f);
    default: return filter_copy(&f);
    }
}
