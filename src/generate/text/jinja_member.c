/* SPDX-License-Identifier: Apache-2.0 */
/* Attributes, items and slices, as Python and Jinja find them. */
#include "src/generate/text/jinja_member.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "src/generate/text/jinja_method.h"
#include "src/generate/text/jinja_text.h"
#include "src/generate/text/utf8.h"

/* loop.name */
static void loop_attribute(const struct gen_jloop *loop, const struct gen_jtext *name, struct gen_jvalue *out)
{
    size_t n = loop->items.count, i = loop->index;
    *out = gen_j_undefined(*name);
    if (gen_j_is(name, "index"))
        *out = gen_j_int((int64_t)i + 1);
    else if (gen_j_is(name, "index0"))
        *out = gen_j_int((int64_t)i);
    else if (gen_j_is(name, "revindex"))
        *out = gen_j_int((int64_t)(n - i));
    else if (gen_j_is(name, "revindex0"))
        *out = gen_j_int((int64_t)(n - i) - 1);
    else if (gen_j_is(name, "first"))
        *out = gen_j_bool(i == 0);
    else if (gen_j_is(name, "last"))
        *out = gen_j_bool(i + 1 == n);
    else if (gen_j_is(name, "length"))
        *out = gen_j_int((int64_t)n);
    else if (gen_j_is(name, "depth") || gen_j_is(name, "depth0"))
        *out = gen_j_int(gen_j_is(name, "depth")); /* of recursive loops alone */
    else if (gen_j_is(name, "previtem") && i > 0)
        *out = loop->items.at[i - 1];
    else if (gen_j_is(name, "nextitem") && i + 1 < n)
        *out = loop->items.at[i + 1];
}

static bool member_method(struct gen_jinja *j, const struct gen_jvalue *of, const struct gen_jtext *name,
                          struct gen_jvalue *out)
{
    struct gen_jmethod *method = gen_j_take(j, sizeof(*method));
    if (!method) return false;
    *method = (struct gen_jmethod){.of = *of, .name = *name};
    *out = (struct gen_jvalue){.kind = GEN_J_METHOD, .method = method};
    return true;
}

static bool member_key(struct gen_jinja *j, const struct gen_jvalue *of, const struct gen_jtext *name,
                       struct gen_jvalue *out)
{
    const struct gen_jvalue *value = NULL;
    if (of->kind == GEN_J_DICT || of->kind == GEN_J_NAMESPACE)
        value = gen_j_get(j, of->dict, name->at, name->bytes);
    if (value) *out = *value;
    return value != NULL;
}

bool gen_j_attribute(struct gen_jinja *j, const struct gen_jvalue *of, const struct gen_jtext *name,
                     struct gen_jvalue *out)
{
    if (of->kind == GEN_J_UNDEFINED)
        return gen_j_fail(j, -EINVAL, "'%.*s' is undefined", (int)(of->text.bytes < 60 ? of->text.bytes : 60),
                          of->text.at ? of->text.at : "");
    /* As in Python, a mapping's methods hide keys of the same name. */
    if (gen_jmethod_exists(of, name)) return member_method(j, of, name, out);
    if (of->kind == GEN_J_LOOP)
        loop_attribute(of->loop, name, out);
    else if (!member_key(j, of, name, out))
        *out = gen_j_undefined(*name);
    return !j->err;
}

/* The place that an index means, counted from the end where it is below 0; SIZE_MAX: there is none. */
static size_t member_place(int64_t index, size_t count)
{
    if (index < 0) index += (int64_t)count;
    return index < 0 || (uint64_t)index >= count ? SIZE_MAX : (size_t)index;
}

/* Where character `n` begins, counted from byte `at`. */
static size_t text_place(const struct gen_jtext *text, size_t at, size_t n)
{
    while (n--) at += gen_utf8_length(text->at + at);
    return at;
}

bool gen_j_item(struct gen_jinja *j, const struct gen_jvalue *of, const struct gen_jvalue *index,
                struct gen_jvalue *out)
{
    struct gen_jtext none = {.at = "an item", .bytes = 7};
    *out = gen_j_undefined(index->kind == GEN_J_TEXT ? index->text : none);
    if (of->kind == GEN_J_UNDEFINED) return gen_j_attribute(j, of, &none, out);
    if (index->kind == GEN_J_TEXT) {
        if (member_key(j, of, &index->text, out) || j->err) return !j->err;
        return gen_j_attribute(j, of, &index->text, out);
    }
    if (index->kind != GEN_J_INT && index->kind != GEN_J_BOOL) return true;
    if (of->kind == GEN_J_LIST) {
        size_t place = member_place(index->number, of->list->count);
        if (place != SIZE_MAX) *out = of->list->at[place];
    } else if (of->kind == GEN_J_TEXT) {
        size_t place = member_place(index->number, gen_jtext_length(&of->text));
        if (place == SIZE_MAX || !gen_j_work(j, of->text.bytes / 16)) return !j->err;
        size_t from = text_place(&of->text, 0, place);
        *out = gen_j_text(gen_j_part(&of->text, from, from + gen_utf8_length(of->text.at + from)));
    } else if (of->kind == GEN_J_DICT) {
        for (size_t i = 0; i < of->dict->keys.count; i++) {
            if (gen_j_equal(j, &of->dict->keys.at[i], index)) *out = of->dict->values.at[i];
        }
    }
    return !j->err;
}

/* A bound of a slice within [low, high]; counted from the end where it is below 0. */
static int64_t slice_bound(const struct gen_jvalue *v, int64_t count, int64_t low, int64_t high,
                           int64_t otherwise)
{
    if (v->kind != GEN_J_INT && v->kind != GEN_J_BOOL) return otherwise;
    int64_t n = v->number < 0 ? v->number + count : v->number;
    return n < low ? low : n > high ? high : n;
}

static bool member_slice_list(struct gen_jinja *j, const struct gen_jlist *of, int64_t from, int64_t to,
                              int64_t step, struct gen_jvalue *out)
{
    if (!gen_j_list(j, out)) return false;
    for (int64_t i = from; step > 0 ? i < to : i > to; i += step) {
        if (!gen_j_push(j, out->list, &of->at[i])) return false;
    }
    return true;
}

static bool member_slice_text(struct gen_jinja *j, const struct gen_jtext *of, int64_t from, int64_t to,
                              int64_t step, struct gen_jvalue *out)
{
    if (step == 1) {
        size_t at = text_place(of, 0, (size_t)from),
               end = to > from ? text_place(of, at, (size_t)(to - from)) : at;
        *out = gen_j_text(gen_j_part(of, at, end));
        return true;
    }
    struct gen_jvalue whole = gen_j_text(*of);
    struct gen_jlist chars;
    struct gen_marked made = {.marks = true};
    if (!gen_j_items(j, &whole, &chars)) return false;
    for (int64_t i = from; step > 0 ? i < to : i > to; i += step) gen_j_write(&made, &chars.at[i].text);
    return gen_j_made(j, &made, out);
}

bool gen_j_slice(struct gen_jinja *j, const struct gen_jvalue *of, const struct gen_jvalue bounds[3],
                 struct gen_jvalue *out)
{
    if (of->kind != GEN_J_LIST && of->kind != GEN_J_TEXT)
        return gen_j_fail(j, -EINVAL, "%s has no parts", gen_j_type(of));
    int64_t count = (int64_t)(of->kind == GEN_J_LIST ? of->list->count : gen_jtext_length(&of->text));
    int64_t step = bounds[2].kind == GEN_J_INT ? bounds[2].number : 1;
    if (!step || step < -count - 1) step = step ? -count - 1 : 0;
    if (step > count + 1) step = count + 1;
    if (!step) return gen_j_fail(j, -EINVAL, "the step of a slice is 0");
    int64_t low = step > 0 ? 0 : -1, high = step > 0 ? count : count - 1;
    int64_t from = slice_bound(&bounds[0], count, low, high, step > 0 ? 0 : count - 1);
    int64_t to = slice_bound(&bounds[1], count, low, high, step > 0 ? count : -1);
    if (!gen_j_work(j, (uint64_t)count / 16 + 1)) return false;
    return of->kind == GEN_J_LIST ? member_slice_list(j, of->list, from, to, step, out)
                                  : member_slice_text(j, &of->text, from, to, step, out);
}

bool gen_j_path(struct gen_jinja *j, const struct gen_jvalue *of, const struct gen_jvalue *path,
                struct gen_jvalue *out)
{
    *out = *of;
    if (path->kind != GEN_J_TEXT) return gen_j_item(j, of, path, out);
    for (size_t from = 0; from <= path->text.bytes;) {
        const char *dot =
            path->text.bytes > from ? memchr(path->text.at + from, '.', path->text.bytes - from) : NULL;
        size_t to = dot ? (size_t)(dot - path->text.at) : path->text.bytes;
        struct gen_jvalue name = gen_j_text(gen_j_part(&path->text, from, to)), whole = *out;
        if (to > from && to - from < 10 && strspn(name.text.at, "0123456789") >= to - from)
            name = gen_j_int(strtol(name.text.at, NULL, 10));
        if (!gen_j_item(j, &whole, &name, out)) return false;
        from = to + 1;
    }
    return true;
}
