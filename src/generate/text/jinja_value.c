/* SPDX-License-Identifier: Apache-2.0 */
/* Values of templates: making them, comparing them, walking them. */
#include "src/generate/text/jinja_value.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gpuwire/error.h"
#include "src/generate/text/utf8.h"

/* How deep lists and dicts may stand in each other. */
#define MAX_NESTING 100

const unsigned char gen_jinja_all[1] = {1};

bool gen_j_fail(struct gen_jinja *j, int err, const char *format, ...)
{
    if (j->err) return false;
    char text[400];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    j->err = gw_error(err, "chat template, line %u: %s", j->line, text);
    return false;
}

void *gen_j_take(struct gen_jinja *j, size_t bytes)
{
    void *at = gen_arena_take(&j->arena, bytes);
    if (!at) gen_j_fail(j, -E2BIG, "the messages need more than %zu bytes of memory", j->arena.limit);
    return at;
}

bool gen_j_work(struct gen_jinja *j, uint64_t steps)
{
    if (steps > j->steps) return gen_j_fail(j, -E2BIG, "the messages take too many steps");
    j->steps -= steps;
    return true;
}

struct gen_jvalue gen_j_none(void)
{
    return (struct gen_jvalue){.kind = GEN_J_NONE};
}

struct gen_jvalue gen_j_bool(bool yes)
{
    return (struct gen_jvalue){.kind = GEN_J_BOOL, .number = yes};
}

struct gen_jvalue gen_j_int(int64_t number)
{
    return (struct gen_jvalue){.kind = GEN_J_INT, .number = number};
}

struct gen_jvalue gen_j_text(struct gen_jtext text)
{
    return (struct gen_jvalue){.kind = GEN_J_TEXT, .text = text};
}

struct gen_jvalue gen_j_own(const char *text)
{
    return gen_j_text((struct gen_jtext){.at = text, .bytes = strlen(text)});
}

struct gen_jvalue gen_j_undefined(struct gen_jtext name)
{
    return (struct gen_jvalue){.kind = GEN_J_UNDEFINED, .text = name};
}

bool gen_j_list(struct gen_jinja *j, struct gen_jvalue *out)
{
    *out = (struct gen_jvalue){.kind = GEN_J_LIST, .list = gen_j_take(j, sizeof(struct gen_jlist))};
    return out->list != NULL;
}

bool gen_j_dict(struct gen_jinja *j, enum gen_jkind kind, struct gen_jvalue *out)
{
    *out = (struct gen_jvalue){.kind = kind, .dict = gen_j_take(j, sizeof(struct gen_jdict))};
    return out->dict != NULL;
}

bool gen_j_push(struct gen_jinja *j, struct gen_jlist *list, const struct gen_jvalue *value)
{
    if (list->count == list->room) {
        size_t room = list->room ? list->room * 2 : 4;
        struct gen_jvalue *at = gen_j_take(j, room * sizeof(*at));
        if (!at) return false;
        if (list->count) memcpy(at, list->at, list->count * sizeof(*at));
        list->at = at;
        list->room = room;
    }
    list->at[list->count++] = *value;
    return true;
}

struct gen_jvalue *gen_j_get(struct gen_jinja *j, const struct gen_jdict *dict, const char *key, size_t bytes)
{
    if (!gen_j_work(j, dict->keys.count / 8)) return NULL;
    for (size_t i = 0; i < dict->keys.count; i++) {
        const struct gen_jvalue *k = &dict->keys.at[i];
        if (k->kind == GEN_J_TEXT && gen_j_same(&k->text, &(struct gen_jtext){.at = key, .bytes = bytes}))
            return &dict->values.at[i];
    }
    return NULL;
}

bool gen_j_put(struct gen_jinja *j, struct gen_jdict *dict, const struct gen_jvalue *key,
               const struct gen_jvalue *value)
{
    for (size_t i = 0; i < dict->keys.count; i++) {
        if (gen_j_equal(j, &dict->keys.at[i], key)) {
            dict->values.at[i] = *value;
            return true;
        }
    }
    return !j->err && gen_j_push(j, &dict->keys, key) && gen_j_push(j, &dict->values, value);
}

struct gen_jtext gen_j_part(const struct gen_jtext *text, size_t from, size_t to)
{
    struct gen_jtext part = {.at = text->at + from, .foreign = text->foreign, .bytes = to - from};
    if (part.foreign && part.foreign != gen_jinja_all) part.foreign += from;
    return part;
}

void gen_j_write(struct gen_marked *m, const struct gen_jtext *text)
{
    if (!text->bytes) return;
    if (!text->foreign || text->foreign == gen_jinja_all) {
        gen_marked_add(m, text->at, text->bytes, text->foreign != NULL);
        return;
    }
    gw_text_add(&m->text, text->at, text->bytes);
    if (m->marks) gw_text_add(&m->foreign, text->foreign, text->bytes);
}

bool gen_j_made(struct gen_jinja *j, struct gen_marked *m, struct gen_jvalue *out)
{
    struct gen_jtext text = {.at = m->text.at ? m->text.at : "", .bytes = m->text.bytes};
    bool foreign = gen_marked_foreign(m, 0, m->text.bytes), broken = m->text.broken || m->foreign.broken;
    if (foreign) text.foreign = (const unsigned char *)m->foreign.at;
    bool kept = !gen_arena_adopt(&j->arena, m->text.at, m->text.room);
    kept &= !gen_arena_adopt(&j->arena, m->foreign.at, m->foreign.room);
    *m = (struct gen_marked){.marks = m->marks};
    *out = gen_j_text(text);
    return kept && !broken
               ? true
               : gen_j_fail(j, -E2BIG, "the messages need more than %zu bytes of memory", j->arena.limit);
}

bool gen_j_is(const struct gen_jtext *text, const char *own)
{
    size_t n = strlen(own);
    return text->bytes == n && (!n || !memcmp(text->at, own, n));
}

bool gen_j_same(const struct gen_jtext *a, const struct gen_jtext *b)
{
    return a->bytes == b->bytes && (!a->bytes || !memcmp(a->at, b->at, a->bytes));
}

bool gen_j_truth(const struct gen_jvalue *v)
{
    switch (v->kind) {
    case GEN_J_UNDEFINED:
    case GEN_J_NONE: return false;
    case GEN_J_BOOL:
    case GEN_J_INT: return v->number != 0;
    case GEN_J_FLOAT: return v->real != 0;
    case GEN_J_TEXT: return v->text.bytes != 0;
    case GEN_J_LIST: return v->list->count != 0;
    case GEN_J_DICT: return v->dict->keys.count != 0;
    default: return true;
    }
}

static bool value_is_number(const struct gen_jvalue *v)
{
    return v->kind == GEN_J_BOOL || v->kind == GEN_J_INT || v->kind == GEN_J_FLOAT;
}

static double value_real(const struct gen_jvalue *v)
{
    return v->kind == GEN_J_FLOAT ? v->real : (double)v->number;
}

static int text_order(const struct gen_jtext *a, const struct gen_jtext *b)
{
    size_t n = a->bytes < b->bytes ? a->bytes : b->bytes;
    int order = n ? memcmp(a->at, b->at, n) : 0; /* UTF-8 has the order of its characters */
    return order ? order : (a->bytes > b->bytes) - (a->bytes < b->bytes);
}

static bool equal_within(struct gen_jinja *j, const struct gen_jvalue *a, const struct gen_jvalue *b,
                         unsigned depth);

static bool lists_equal(struct gen_jinja *j, const struct gen_jlist *a, const struct gen_jlist *b,
                        unsigned depth)
{
    if (a->count != b->count || a->tuple != b->tuple) return false;
    for (size_t i = 0; i < a->count; i++) {
        if (!equal_within(j, &a->at[i], &b->at[i], depth)) return false;
    }
    return true;
}

static bool dicts_equal(struct gen_jinja *j, const struct gen_jdict *a, const struct gen_jdict *b,
                        unsigned depth)
{
    if (a->keys.count != b->keys.count) return false;
    for (size_t i = 0; i < a->keys.count; i++) {
        const struct gen_jvalue *key = &a->keys.at[i];
        const struct gen_jvalue *other =
            key->kind == GEN_J_TEXT ? gen_j_get(j, b, key->text.at, key->text.bytes) : NULL;
        if (!other || !equal_within(j, &a->values.at[i], other, depth)) return false;
    }
    return true;
}

static bool equal_within(struct gen_jinja *j, const struct gen_jvalue *a, const struct gen_jvalue *b,
                         unsigned depth)
{
    if (!gen_j_work(j, 1)) return false;
    if (!depth) return gen_j_fail(j, -E2BIG, "lists stand in lists too deeply");
    if (value_is_number(a) && value_is_number(b)) {
        bool real = a->kind == GEN_J_FLOAT || b->kind == GEN_J_FLOAT;
        return real ? value_real(a) == value_real(b) : a->number == b->number;
    }
    if (a->kind != b->kind) return false;
    switch (a->kind) {
    case GEN_J_TEXT: return gen_j_same(&a->text, &b->text);
    case GEN_J_LIST: return lists_equal(j, a->list, b->list, depth - 1);
    case GEN_J_DICT: return dicts_equal(j, a->dict, b->dict, depth - 1);
    case GEN_J_NAMESPACE: return a->dict == b->dict;
    case GEN_J_FUNCTION: return a->number == b->number;
    case GEN_J_METHOD:
    case GEN_J_MACRO:
    case GEN_J_LOOP: return a->macro == b->macro;
    default: return true; /* both undefined, or both none */
    }
}

bool gen_j_equal(struct gen_jinja *j, const struct gen_jvalue *a, const struct gen_jvalue *b)
{
    return equal_within(j, a, b, MAX_NESTING);
}

bool gen_j_order(struct gen_jinja *j, const struct gen_jvalue *a, const struct gen_jvalue *b, int *order)
{
    *order = 0;
    if (value_is_number(a) && value_is_number(b)) {
        if (a->kind == GEN_J_FLOAT || b->kind == GEN_J_FLOAT)
            *order = (value_real(a) > value_real(b)) - (value_real(a) < value_real(b));
        else
            *order = (a->number > b->number) - (a->number < b->number);
        return true;
    }
    if (a->kind == GEN_J_TEXT && b->kind == GEN_J_TEXT) {
        *order = text_order(&a->text, &b->text);
        return true;
    }
    return gen_j_fail(j, -EINVAL, "%s and %s have no order", gen_j_type(a), gen_j_type(b));
}

static bool list_contains(struct gen_jinja *j, const struct gen_jlist *list, const struct gen_jvalue *item)
{
    for (size_t i = 0; i < list->count; i++) {
        if (gen_j_equal(j, &list->at[i], item)) return true;
    }
    return false;
}

bool gen_j_contains(struct gen_jinja *j, const struct gen_jvalue *of, const struct gen_jvalue *item,
                    bool *yes)
{
    *yes = false;
    if (of->kind == GEN_J_LIST) {
        *yes = list_contains(j, of->list, item);
    } else if (of->kind == GEN_J_DICT) {
        *yes = list_contains(j, &of->dict->keys, item);
    } else if (of->kind == GEN_J_TEXT && item->kind == GEN_J_TEXT) {
        *yes = !item->text.bytes || memmem(of->text.at, of->text.bytes, item->text.at, item->text.bytes);
        return gen_j_work(j, of->text.bytes / 16);
    } else if (of->kind != GEN_J_UNDEFINED) {
        return gen_j_fail(j, -EINVAL, "%s cannot be in %s", gen_j_type(item), gen_j_type(of));
    }
    return !j->err;
}

static bool text_items(struct gen_jinja *j, const struct gen_jtext *text, struct gen_jlist *out)
{
    if (!gen_j_work(j, text->bytes)) return false;
    for (size_t i = 0, n; i < text->bytes; i += n) {
        n = gen_utf8_length(text->at + i);
        struct gen_jvalue c = gen_j_text(gen_j_part(text, i, i + n));
        if (!gen_j_push(j, out, &c)) return false;
    }
    return true;
}

bool gen_j_items(struct gen_jinja *j, const struct gen_jvalue *of, struct gen_jlist *out)
{
    memset(out, 0, sizeof(*out));
    if (of->kind == GEN_J_LIST)
        *out = *of->list;
    else if (of->kind == GEN_J_DICT)
        *out = of->dict->keys;
    else if (of->kind == GEN_J_TEXT)
        return text_items(j, &of->text, out);
    else if (of->kind != GEN_J_UNDEFINED)
        return gen_j_fail(j, -EINVAL, "%s is not a list", gen_j_type(of));
    return true;
}

const char *gen_j_type(const struct gen_jvalue *v)
{
    static const char *const types[] = {
        [GEN_J_UNDEFINED] = "an undefined value",
        [GEN_J_NONE] = "none",
        [GEN_J_BOOL] = "a boolean",
        [GEN_J_INT] = "an integer",
        [GEN_J_FLOAT] = "a float",
        [GEN_J_TEXT] = "a string",
        [GEN_J_LIST] = "a list",
        [GEN_J_DICT] = "a mapping",
        [GEN_J_NAMESPACE] = "a namespace",
        [GEN_J_FUNCTION] = "a function",
        [GEN_J_METHOD] = "a method",
        [GEN_J_MACRO] = "a macro",
        [GEN_J_LOOP] = "a loop",
    };
    return types[v->kind];
}

/* ---- from JSON */

static bool json_within(struct gen_jinja *j, const json_t *json, bool foreign, unsigned depth,
                        struct gen_jvalue *out);

/* Whether it names a role that models know. Templates write <|ROLE|> at times; no stranger can spell
 * anything else by it. */
static bool json_is_role(const char *name, const json_t *value)
{
    static const char *const roles[] = {"system", "developer", "user", "assistant", "tool", "function"};
    const char *text = strcmp(name, "role") ? NULL : json_string_value(value);
    for (size_t i = 0; text && i < sizeof(roles) / sizeof(roles[0]); i++) {
        if (!strcmp(text, roles[i]) && json_string_length(value) == strlen(text)) return true;
    }
    return false;
}

static bool json_members(struct gen_jinja *j, const json_t *json, bool foreign, unsigned depth,
                         struct gen_jdict *dict)
{
    const unsigned char *marks = foreign ? gen_jinja_all : NULL;
    const char *name;
    json_t *member;
    json_object_foreach((json_t *)json, name, member)
    {
        struct gen_jvalue value;
        struct gen_jvalue key =
            gen_j_text((struct gen_jtext){.at = name, .foreign = marks, .bytes = strlen(name)});
        if (!json_within(j, member, foreign && !json_is_role(name, member), depth, &value) ||
            !gen_j_push(j, &dict->keys, &key) || !gen_j_push(j, &dict->values, &value))
            return false;
    }
    return true;
}

static bool json_elements(struct gen_jinja *j, const json_t *json, bool foreign, unsigned depth,
                          struct gen_jlist *list)
{
    for (size_t i = 0; i < json_array_size(json); i++) {
        struct gen_jvalue value;
        if (!json_within(j, json_array_get(json, i), foreign, depth, &value) || !gen_j_push(j, list, &value))
            return false;
    }
    return true;
}

static bool json_within(struct gen_jinja *j, const json_t *json, bool foreign, unsigned depth,
                        struct gen_jvalue *out)
{
    if (!depth) return gen_j_fail(j, -E2BIG, "the messages have lists in lists deeper than %d", MAX_NESTING);
    switch (json ? json_typeof(json) : JSON_NULL) {
    case JSON_OBJECT:
        return gen_j_dict(j, GEN_J_DICT, out) && json_members(j, json, foreign, depth - 1, out->dict);
    case JSON_ARRAY: return gen_j_list(j, out) && json_elements(j, json, foreign, depth - 1, out->list);
    case JSON_STRING:
        *out = gen_j_text((struct gen_jtext){.at = json_string_value(json),
                                             .foreign = foreign ? gen_jinja_all : NULL,
                                             .bytes = json_string_length(json)});
        return true;
    case JSON_INTEGER: *out = gen_j_int(json_integer_value(json)); return true;
    case JSON_REAL:
        *out = (struct gen_jvalue){.kind = GEN_J_FLOAT, .real = json_real_value(json)};
        return true;
    case JSON_NULL: *out = gen_j_none(); return true;
    default: *out = gen_j_bool(json_is_true(json)); return true;
    }
}

bool gen_j_from_json(struct gen_jinja *j, const json_t *json, bool foreign, struct gen_jvalue *out)
{
    return json_within(j, json, foreign, MAX_NESTING, out);
}
