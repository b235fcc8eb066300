/* SPDX-License-Identifier: Apache-2.0 */
/* Filters of single values, and `map`, which may apply any other. */
#include "src/generate/text/jinja_filter.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "src/generate/text/jinja_filter_list.h"
#include "src/generate/text/jinja_member.h"
#include "src/generate/text/jinja_print.h"
#include "src/generate/text/jinja_text.h"

static bool filter_count(struct gen_jinja *j, const struct gen_jvalue *v, struct gen_jvalue *out)
{
    struct gen_jlist items = {0};
    if (v->kind == GEN_J_TEXT && !gen_j_work(j, v->text.bytes / 16)) return false;
    if (v->kind == GEN_J_TEXT)
        items.count = gen_jtext_length(&v->text);
    else if (!gen_j_items(j, v, &items))
        return false;
    *out = gen_j_int((int64_t)items.count);
    return true;
}

static bool filter_default(const struct gen_jvalue *v, const struct gen_jargs *args, struct gen_jvalue *out)
{
    const struct gen_jvalue *otherwise = gen_j_arg(args, 0, "default_value");
    bool falsy = gen_j_arg_flag(args, 1, "boolean", false);
    *out = *v;
    if (v->kind == GEN_J_UNDEFINED || (falsy && !gen_j_truth(v)))
        *out = otherwise ? *otherwise : gen_j_own("");
    return true;
}

static bool filter_escape(struct gen_jinja *j, const struct gen_jtext *text, struct gen_jvalue *out)
{
    static const struct {
        char c;
        const char *as;
    } escapes[] = {{'&', "&amp;"}, {'<', "&lt;"}, {'>', "&gt;"}, {'\'', "&#39;"}, {'"', "&#34;"}};
    struct gen_marked made = {.marks = true};
    for (size_t i = 0; i < text->bytes; i++) {
        struct gen_jtext c = gen_j_part(text, i, i + 1);
        for (size_t k = 0; k < sizeof(escapes) / sizeof(escapes[0]); k++) {
            if (escapes[k].c == text->at[i])
                c = (struct gen_jtext){.at = escapes[k].as, .bytes = strlen(escapes[k].as)};
        }
        gen_j_write(&made, &c);
    }
    return gen_j_made(j, &made, out);
}

/* A number that a text spells, after white space; false: it spells none. */
static bool text_number(const struct gen_jtext *text, double *number)
{
    char copy[64], *end;
    struct gen_jtext none = {0}, bare = gen_jtext_strip(text, &none, true, true);
    if (!bare.bytes || bare.bytes >= sizeof(copy)) return false;
    memcpy(copy, bare.at, bare.bytes);
    copy[bare.bytes] = 0;
    *number = strtod(copy, &end);
    return end == copy + bare.bytes;
}

static bool filter_number(struct gen_jinja *j, bool whole, const struct gen_jvalue *v,
                          const struct gen_jargs *args, struct gen_jvalue *out)
{
    const struct gen_jvalue *otherwise = gen_j_arg(args, 0, "default");
    double number = 0;
    bool is = true;
    if (whole && (v->kind == GEN_J_INT || v->kind == GEN_J_BOOL)) {
        *out = gen_j_int(v->number);
        return true;
    }
    if (v->kind == GEN_J_INT || v->kind == GEN_J_BOOL)
        number = (double)v->number;
    else if (v->kind == GEN_J_FLOAT)
        number = v->real;
    else
        is = v->kind == GEN_J_TEXT && text_number(&v->text, &number);
    is &= !whole || (number > -9.2e18 && number < 9.2e18);
    if (!is)
        *out = otherwise ? *otherwise : whole ? gen_j_int(0) : (struct gen_jvalue){.kind = GEN_J_FLOAT};
    else
        *out = whole ? gen_j_int((int64_t)number) : (struct gen_jvalue){.kind = GEN_J_FLOAT, .real = number};
    return !j->err;
}

static bool filter_abs(struct gen_jinja *j, const struct gen_jvalue *v, struct gen_jvalue *out)
{
    *out = *v;
    if (v->kind == GEN_J_INT && v->number != INT64_MIN)
        out->number = v->number < 0 ? -v->number : v->number;
    else if (v->kind == GEN_J_FLOAT)
        out->real = fabs(v->real);
    else
        return gen_j_fail(j, -EINVAL, "abs needs a number, not %s", gen_j_type(v));
    return true;
}

static bool filter_round(struct gen_jinja *j, const struct gen_jvalue *v, const struct gen_jargs *args,
                         struct gen_jvalue *out)
{
    int64_t digits = 0;
    struct gen_jtext how = {0};
    if (v->kind != GEN_J_INT && v->kind != GEN_J_FLOAT)
        return gen_j_fail(j, -EINVAL, "round needs a number, not %s", gen_j_type(v));
    if (!gen_j_arg_int(j, args, 0, "precision", &digits) || !gen_j_arg_text(j, args, 1, "method", &how))
        return false;
    double number = v->kind == GEN_J_INT ? (double)v->number : v->real;
    double scale = pow(10, digits < -15 ? -15 : digits > 15 ? 15 : (double)digits);
    number = gen_j_is(&how, "ceil")    ? ceil(number * scale)
             : gen_j_is(&how, "floor") ? floor(number * scale)
                                       : rint(number * scale);
    *out = (struct gen_jvalue){.kind = GEN_J_FLOAT, .real = number / scale};
    return true;
}

/* The layout that tojson's arguments ask for. Their order is transformers': ensure_ascii, indent,
 * separators, sort_keys. */
static bool filter_json(struct gen_jinja *j, const struct gen_jvalue *v, const struct gen_jargs *args,
                        struct gen_jvalue *out)
{
    struct gen_jlayout layout = {.ascii = gen_j_arg_flag(args, 0, "ensure_ascii", false),
                                 .sort = gen_j_arg_flag(args, 3, "sort_keys", false)};
    int64_t indent = -1;
    if (!gen_j_arg_int(j, args, 1, "indent", &indent)) return false;
    layout.indent = indent > 32 ? 32 : (int)indent;
    const struct gen_jvalue *separators = gen_j_arg(args, 2, "separators");
    if (separators && separators->kind == GEN_J_LIST && separators->list->count == 2 &&
        separators->list->at[0].kind == GEN_J_TEXT && separators->list->at[1].kind == GEN_J_TEXT) {
        layout.comma = separators->list->at[0].text;
        layout.colon = separators->list->at[1].text;
    }
    struct gen_marked made = {.marks = true};
    bool done = gen_j_json(j, v, &layout, &made);
    return gen_j_made(j, &made, out) && done;
}

static bool filter_indent(struct gen_jinja *j, const struct gen_jtext *text, const struct gen_jargs *args,
                          struct gen_jvalue *out)
{
    const struct gen_jvalue *width = gen_j_arg(args, 0, "width");
    bool first = gen_j_arg_flag(args, 1, "first", false), blank = gen_j_arg_flag(args, 2, "blank", false);
    static const char spaces[65] = "                                                                ";
    struct gen_jtext gap = {.at = spaces, .bytes = 4};
    if (width && width->kind == GEN_J_TEXT)
        gap = width->text;
    else if (width && width->kind == GEN_J_INT)
        gap.bytes = width->number < 0 ? 0 : width->number > 64 ? 64 : (size_t)width->number;
    struct gen_jvalue lines;
    struct gen_marked made = {.marks = true};
    if (!gen_jtext_lines(j, text, true, &lines)) return false;
    bool fits = true;
    for (size_t i = 0; i < lines.list->count && fits; i++) {
        const struct gen_jtext *line = &lines.list->at[i].text;
        bool empty = line->at[0] == '\n' || line->at[0] == '\r';
        if (i ? !empty || blank : first) gen_j_write(&made, &gap);
        gen_j_write(&made, line);
        fits = gen_j_fits(j, &made);
    }
    return gen_j_made(j, &made, out) && fits;
}

static bool filter_replace(struct gen_jinja *j, const struct gen_jtext *text, const struct gen_jargs *args,
                           struct gen_jvalue *out)
{
    struct gen_jtext old = {0}, with = {0};
    int64_t count = -1;
    return gen_j_arg_text(j, args, 0, "old", &old) && gen_j_arg_text(j, args, 1, "new", &with) &&
           gen_j_arg_int(j, args, 2, "count", &count) && gen_jtext_replace(j, text, &old, &with, count, out);
}

static bool filter_trim(struct gen_jinja *j, const struct gen_jtext *text, const struct gen_jargs *args,
                        struct gen_jvalue *out)
{
    struct gen_jtext chars = {0};
    if (!gen_j_arg_text(j, args, 0, "chars", &chars)) return false;
    *out = gen_j_text(gen_jtext_strip(text, &chars, true, true));
    return true;
}

/* map(attribute="a", default=...), or map("filter", arguments). */
static bool filter_map(struct gen_jinja *j, const struct gen_jvalue *v, const struct gen_jargs *args,
                       struct gen_jvalue *out)
{
    const struct gen_jvalue *attribute = gen_j_arg(args, SIZE_MAX, "attribute"),
                            *otherwise = gen_j_arg(args, SIZE_MAX, "default");
    struct gen_jtext name = {0};
    struct gen_jlist items;
    if (!gen_j_arg_text(j, args, 0, NULL, &name) || !gen_j_items(j, v, &items) || !gen_j_list(j, out))
        return false;
    int which = name.bytes ? gen_jfilter_find(&name) : -1;
    if (which < 0 && !attribute)
        return gen_j_fail(j, -ENOTSUP, "map needs an attribute, or the name of a filter that is supported");
    /* A filter that maps with a filter that maps: texts of a template are finite, calls need not be. */
    if (which == GEN_JF_MAP) return gen_j_fail(j, -ENOTSUP, "map of map is not supported");
    struct gen_jargs rest = gen_j_arg_rest(args, 1);
    for (size_t i = 0; i < items.count; i++) {
        struct gen_jvalue made;
        if (!gen_j_work(j, 1) ||
            !(attribute ? gen_j_path(j, &items.at[i], attribute, &made)
                        : gen_jfilter_apply(j, (enum gen_jfilter)which, &items.at[i], &rest, &made)))
            return false;
        if (made.kind == GEN_J_UNDEFINED && otherwise) made = *otherwise;
        if (!gen_j_push(j, out->list, &made)) return false;
    }
    return true;
}

/* Those that make a text of the value first. */
static bool filter_text(struct gen_jinja *j, enum gen_jfilter which, const struct gen_jvalue *v,
                        const struct gen_jargs *args, struct gen_jvalue *out)
{
    struct gen_jvalue text;
    if (!gen_j_string(j, v, &text) || !gen_j_work(j, text.text.bytes / 16)) return false;
    switch (which) {
    case GEN_JF_CAPITALIZE: return gen_jtext_case(j, &text.text, GEN_JC_CAPITAL, out);
    case GEN_JF_LOWER: return gen_jtext_case(j, &text.text, GEN_JC_LOWER, out);
    case GEN_JF_UPPER: return gen_jtext_case(j, &text.text, GEN_JC_UPPER, out);
    case GEN_JF_TITLE: return gen_jtext_case(j, &text.text, GEN_JC_WORDS, out);
    case GEN_JF_ESCAPE: return filter_escape(j, &text.text, out);
    case GEN_JF_INDENT: return filter_indent(j, &text.text, args, out);
    case GEN_JF_REPLACE: return filter_replace(j, &text.text, args, out);
    case GEN_JF_TRIM: return filter_trim(j, &text.text, args, out);
    default: *out = text; return true;
    }
}

bool gen_jfilter_apply(struct gen_jinja *j, enum gen_jfilter which, const struct gen_jvalue *v,
                       const struct gen_jargs *args, struct gen_jvalue *out)
{
    switch (which) {
    case GEN_JF_ABS: return filter_abs(j, v, out);
    case GEN_JF_COUNT: return filter_count(j, v, out);
    case GEN_JF_DEFAULT: return filter_default(v, args, out);
    case GEN_JF_INT:
    case GEN_JF_FLOAT: return filter_number(j, which == GEN_JF_INT, v, args, out);
    case GEN_JF_ROUND: return filter_round(j, v, args, out);
    case GEN_JF_SAFE: *out = *v; return true;
    case GEN_JF_TOJSON: return filter_json(j, v, args, out);
    case GEN_JF_MAP: return filter_map(j, v, args, out);
    case GEN_JF_CAPITALIZE:
    case GEN_JF_LOWER:
    case GEN_JF_UPPER:
    case GEN_JF_TITLE:
    case GEN_JF_ESCAPE:
    case GEN_JF_INDENT:
    case GEN_JF_REPLACE:
    case GEN_JF_TRIM:
    case GEN_JF_STRING: return filter_text(j, which, v, args, out);
    default: return gen_jfilter_list(j, which, v, args, out);
    }
}
