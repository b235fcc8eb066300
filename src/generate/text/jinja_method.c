/* SPDX-License-Identifier: Apache-2.0 */
/* Methods of values, found by their names. */
#include "src/generate/text/jinja_method.h"

#include <errno.h>
#include <string.h>

#include "src/generate/text/chars.h"
#include "src/generate/text/jinja_print.h"
#include "src/generate/text/jinja_text.h"
#include "src/generate/text/utf8.h"

/* What a method gets. */
struct call {
    struct gen_jinja *j;
    const struct gen_jvalue *of;
    const struct gen_jargs *args;
    struct gen_jvalue *out;
};

/* ---- texts */

static bool text_strip(const struct call *c, bool left, bool right)
{
    struct gen_jtext chars = {0};
    if (!gen_j_arg_text(c->j, c->args, 0, NULL, &chars)) return false;
    *c->out = gen_j_text(gen_jtext_strip(&c->of->text, &chars, left, right));
    return true;
}

static bool m_strip(const struct call *c)
{
    return text_strip(c, true, true);
}

static bool m_lstrip(const struct call *c)
{
    return text_strip(c, true, false);
}

static bool m_rstrip(const struct call *c)
{
    return text_strip(c, false, true);
}

static bool m_lower(const struct call *c)
{
    return gen_jtext_case(c->j, &c->of->text, GEN_JC_LOWER, c->out);
}

static bool m_upper(const struct call *c)
{
    return gen_jtext_case(c->j, &c->of->text, GEN_JC_UPPER, c->out);
}

static bool m_title(const struct call *c)
{
    return gen_jtext_case(c->j, &c->of->text, GEN_JC_TITLE, c->out);
}

static bool m_capitalize(const struct call *c)
{
    return gen_jtext_case(c->j, &c->of->text, GEN_JC_CAPITAL, c->out);
}

/* Whether the text begins or ends with one of the texts of the argument. */
static bool text_has_end(const struct call *c, bool start)
{
    const struct gen_jvalue *arg = gen_j_arg(c->args, 0, NULL);
    const struct gen_jlist one = {.at = (struct gen_jvalue *)arg, .count = arg != NULL};
    const struct gen_jlist *list = arg && arg->kind == GEN_J_LIST ? arg->list : &one;
    const struct gen_jtext *text = &c->of->text;
    bool found = false;
    for (size_t i = 0; i < list->count; i++) {
        const struct gen_jtext *end = &list->at[i].text;
        if (list->at[i].kind != GEN_J_TEXT)
            return gen_j_fail(c->j, -EINVAL, "a string begins and ends with strings, not with %s",
                              gen_j_type(&list->at[i]));
        found |=
            end->bytes <= text->bytes &&
            (!end->bytes || !memcmp(text->at + (start ? 0 : text->bytes - end->bytes), end->at, end->bytes));
    }
    *c->out = gen_j_bool(found);
    return arg || gen_j_fail(c->j, -EINVAL, "startswith and endswith need a string");
}

static bool m_startswith(const struct call *c)
{
    return text_has_end(c, true);
}

static bool m_endswith(const struct call *c)
{
    return text_has_end(c, false);
}

static bool text_without(const struct call *c, bool start)
{
    *c->out = *c->of;
    struct gen_jvalue has;
    struct call probe = *c;
    probe.out = &has;
    const struct gen_jvalue *end = gen_j_arg(c->args, 0, NULL);
    if (!text_has_end(&probe, start) || !has.number || end->kind != GEN_J_TEXT) return !c->j->err;
    size_t n = end->text.bytes, whole = c->of->text.bytes;
    *c->out = gen_j_text(gen_j_part(&c->of->text, start ? n : 0, start ? whole : whole - n));
    return true;
}

static bool m_removeprefix(const struct call *c)
{
    return text_without(c, true);
}

static bool m_removesuffix(const struct call *c)
{
    return text_without(c, false);
}

static bool m_replace(const struct call *c)
{
    struct gen_jtext old = {0}, with = {0};
    int64_t count = -1;
    if (!gen_j_arg_text(c->j, c->args, 0, "old", &old) || !gen_j_arg_text(c->j, c->args, 1, "new", &with) ||
        !gen_j_arg_int(c->j, c->args, 2, "count", &count))
        return false;
    return gen_jtext_replace(c->j, &c->of->text, &old, &with, count, c->out);
}

static bool text_split(const struct call *c, bool right)
{
    struct gen_jtext separator = {0};
    int64_t limit = -1;
    if (!gen_j_arg_text(c->j, c->args, 0, "sep", &separator) ||
        !gen_j_arg_int(c->j, c->args, 1, "maxsplit", &limit))
        return false;
    const struct gen_jvalue *given = gen_j_arg(c->args, 0, "sep");
    if (given && given->kind == GEN_J_TEXT && !separator.bytes)
        return gen_j_fail(c->j, -EINVAL, "a string cannot be split at an empty string");
    return gen_jtext_split(c->j, &c->of->text, &separator, right ? -1 : 1, limit, c->out);
}

static bool m_split(const struct call *c)
{
    return text_split(c, false);
}

static bool m_rsplit(const struct call *c)
{
    return text_split(c, true);
}

static bool m_splitlines(const struct call *c)
{
    return gen_jtext_lines(c->j, &c->of->text, gen_j_arg_flag(c->args, 0, "keepends", false), c->out);
}

static bool m_join(const struct call *c)
{
    const struct gen_jvalue *arg = gen_j_arg(c->args, 0, NULL);
    struct gen_jlist items;
    if (!arg) return gen_j_fail(c->j, -EINVAL, "join needs a list");
    return gen_j_items(c->j, arg, &items) && gen_jtext_join(c->j, &c->of->text, &items, c->out);
}

/* The first place of the argument in the text, or the last; in characters, or -1. */
static bool text_find(const struct call *c, bool last, bool must)
{
    struct gen_jtext what = {0};
    if (!gen_j_arg_text(c->j, c->args, 0, NULL, &what) || !gen_j_work(c->j, c->of->text.bytes / 16))
        return false;
    const struct gen_jtext *text = &c->of->text;
    size_t hit = gen_jtext_find(text, &what, last);
    if (hit == SIZE_MAX && must) return gen_j_fail(c->j, -EINVAL, "substring not found");
    struct gen_jtext before = gen_j_part(text, 0, hit == SIZE_MAX ? 0 : hit);
    *c->out = gen_j_int(hit == SIZE_MAX ? -1 : (int64_t)gen_jtext_length(&before));
    return true;
}

static bool m_find(const struct call *c)
{
    return text_find(c, false, false);
}

static bool m_rfind(const struct call *c)
{
    return text_find(c, true, false);
}

static bool m_text_index(const struct call *c)
{
    return text_find(c, false, true);
}

static bool m_text_count(const struct call *c)
{
    struct gen_jtext what = {0};
    if (!gen_j_arg_text(c->j, c->args, 0, NULL, &what) || !gen_j_work(c->j, c->of->text.bytes / 16))
        return false;
    int64_t n = what.bytes ? 0 : (int64_t)gen_jtext_length(&c->of->text) + 1;
    struct gen_jtext rest = c->of->text;
    for (size_t at; what.bytes && (at = gen_jtext_find(&rest, &what, false)) != SIZE_MAX; n++)
        rest = gen_j_part(&rest, at + what.bytes, rest.bytes);
    *c->out = gen_j_int(n);
    return true;
}

/* Whether all characters are of a kind, and there is one. */
static bool text_all(const struct call *c, bool (*is)(uint32_t c))
{
    bool all = c->of->text.bytes != 0;
    uint32_t one;
    for (size_t i = 0; i < c->of->text.bytes && all;) {
        i += gen_utf8_get(c->of->text.at + i, &one);
        all = is(one);
    }
    *c->out = gen_j_bool(all);
    return gen_j_work(c->j, c->of->text.bytes / 16);
}

static bool char_is_letter(uint32_t c)
{
    return gen_char_is_word(c) && !gen_char_is_numeric(c) && !gen_char_is_mark(c) && c != '_' &&
           c != 0x200C && c != 0x200D;
}

static bool char_is_alnum(uint32_t c)
{
    return char_is_letter(c) || gen_char_is_numeric(c);
}

static bool m_isdigit(const struct call *c)
{
    return text_all(c, gen_char_is_numeric);
}

static bool m_isspace(const struct call *c)
{
    return text_all(c, gen_char_is_space);
}

static bool m_isalpha(const struct call *c)
{
    return text_all(c, char_is_letter);
}

static bool m_isalnum(const struct call *c)
{
    return text_all(c, char_is_alnum);
}

static bool text_is_case(const struct call *c, enum gen_jcase how)
{
    struct gen_jvalue other;
    if (!gen_jtext_case(c->j, &c->of->text, how == GEN_JC_LOWER ? GEN_JC_UPPER : GEN_JC_LOWER, &other))
        return false;
    bool cased = !gen_j_equal(c->j, &other, c->of);
    if (!gen_jtext_case(c->j, &c->of->text, how, &other)) return false;
    *c->out = gen_j_bool(cased && gen_j_equal(c->j, &other, c->of));
    return true;
}

static bool m_islower(const struct call *c)
{
    return text_is_case(c, GEN_JC_LOWER);
}

static bool m_isupper(const struct call *c)
{
    return text_is_case(c, GEN_JC_UPPER);
}

/* ---- mappings and lists */

static bool m_items(const struct call *c)
{
    return gen_jdict_items(c->j, c->of->dict, c->out);
}

static bool m_keys(const struct call *c)
{
    *c->out = (struct gen_jvalue){.kind = GEN_J_LIST, .list = &c->of->dict->keys};
    return true;
}

static bool m_values(const struct call *c)
{
    *c->out = (struct gen_jvalue){.kind = GEN_J_LIST, .list = &c->of->dict->values};
    return true;
}

static bool m_get(const struct call *c)
{
    const struct gen_jvalue *key = gen_j_arg(c->args, 0, NULL), *otherwise = gen_j_arg(c->args, 1, "default");
    if (!key) return gen_j_fail(c->j, -EINVAL, "get needs a key");
    *c->out = otherwise ? *otherwise : gen_j_none();
    for (size_t i = 0; i < c->of->dict->keys.count; i++) {
        if (gen_j_equal(c->j, &c->of->dict->keys.at[i], key)) *c->out = c->of->dict->values.at[i];
    }
    return !c->j->err;
}

static bool m_list_count(const struct call *c)
{
    const struct gen_jvalue *what = gen_j_arg(c->args, 0, NULL);
    int64_t n = 0;
    for (size_t i = 0; what && i < c->of->list->count; i++) n += gen_j_equal(c->j, &c->of->list->at[i], what);
    *c->out = gen_j_int(n);
    return !c->j->err;
}

static bool m_list_index(const struct call *c)
{
    const struct gen_jvalue *what = gen_j_arg(c->args, 0, NULL);
    for (size_t i = 0; what && i < c->of->list->count; i++) {
        if (gen_j_equal(c->j, &c->of->list->at[i], what)) {
            *c->out = gen_j_int((int64_t)i);
            return true;
        }
    }
    return gen_j_fail(c->j, -EINVAL, "the value is not in the list");
}

static bool m_refused(const struct call *c)
{
    return gen_j_fail(c->j, -EINVAL, "%s cannot be changed", gen_j_type(c->of));
}

static const struct method {
    enum gen_jkind kind;
    const char *name;
    bool (*call)(const struct call *c);
} methods[] = {
    {GEN_J_TEXT, "strip", m_strip},
    {GEN_J_TEXT, "lstrip", m_lstrip},
    {GEN_J_TEXT, "rstrip", m_rstrip},
    {GEN_J_TEXT, "lower", m_lower},
    {GEN_J_TEXT, "upper", m_upper},
    {GEN_J_TEXT, "title", m_title},
    {GEN_J_TEXT, "capitalize", m_capitalize},
    {GEN_J_TEXT, "startswith", m_startswith},
    {GEN_J_TEXT, "endswith", m_endswith},
    {GEN_J_TEXT, "removeprefix", m_removeprefix},
    {GEN_J_TEXT, "removesuffix", m_removesuffix},
    {GEN_J_TEXT, "replace", m_replace},
    {GEN_J_TEXT, "split", m_split},
    {GEN_J_TEXT, "rsplit", m_rsplit},
    {GEN_J_TEXT, "splitlines", m_splitlines},
    {GEN_J_TEXT, "join", m_join},
    {GEN_J_TEXT, "find", m_find},
    {GEN_J_TEXT, "rfind", m_rfind},
    {GEN_J_TEXT, "index", m_text_index},
    {GEN_J_TEXT, "count", m_text_count},
    {GEN_J_TEXT, "isdigit", m_isdigit},
    {GEN_J_TEXT, "isspace", m_isspace},
    {GEN_J_TEXT, "isalpha", m_isalpha},
    {GEN_J_TEXT, "isalnum", m_isalnum},
    {GEN_J_TEXT, "islower", m_islower},
    {GEN_J_TEXT, "isupper", m_isupper},
    {GEN_J_DICT, "items", m_items},
    {GEN_J_DICT, "keys", m_keys},
    {GEN_J_DICT, "values", m_values},
    {GEN_J_DICT, "get", m_get},
    {GEN_J_DICT, "update", m_refused},
    {GEN_J_DICT, "pop", m_refused},
    {GEN_J_DICT, "clear", m_refused},
    {GEN_J_DICT, "setdefault", m_refused},
    {GEN_J_DICT, "popitem", m_refused},
    {GEN_J_LIST, "append", m_refused},
    {GEN_J_LIST, "extend", m_refused},
    {GEN_J_LIST, "insert", m_refused},
    {GEN_J_LIST, "pop", m_refused},
    {GEN_J_LIST, "remove", m_refused},
    {GEN_J_LIST, "clear", m_refused},
    {GEN_J_LIST, "sort", m_refused},
    {GEN_J_LIST, "reverse", m_refused},
    {GEN_J_LIST, "count", m_list_count},
    {GEN_J_LIST, "index", m_list_index},
};

static const struct method *method_find(const struct gen_jvalue *of, const struct gen_jtext *name)
{
    for (size_t i = 0; i < sizeof(methods) / sizeof(methods[0]); i++) {
        if (methods[i].kind == of->kind && gen_j_is(name, methods[i].name)) return &methods[i];
    }
    return NULL;
}

bool gen_jmethod_exists(const struct gen_jvalue *of, const struct gen_jtext *name)
{
    return method_find(of, name) != NULL;
}

bool gen_jmethod_call(struct gen_jinja *j, const struct gen_jmethod *m, const struct gen_jargs *args,
                      struct gen_jvalue *out)
{
    const struct method *method = method_find(&m->of, &m->name);
    struct call c = {.j = j, .of = &m->of, .args = args, .out = out};
    return method ? method->call(&c) : gen_j_fail(j, -EINVAL, "there is no such method");
}
