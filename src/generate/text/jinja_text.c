/* SPDX-License-Identifier: Apache-2.0 */
/* Stripping, splitting, joining, replacing, upper and lower case. */
#include "src/generate/text/jinja_text.h"

#include <errno.h>
#include <string.h>

#include "src/generate/text/chars.h"
#include "src/generate/text/jinja_print.h"
#include "src/generate/text/limits.h"
#include "src/generate/text/utf8.h"

size_t gen_jtext_length(const struct gen_jtext *text)
{
    size_t n = 0;
    for (size_t i = 0; i < text->bytes; i++) n += ((unsigned char)text->at[i] & 0xC0) != 0x80;
    return n;
}

size_t gen_jtext_find(const struct gen_jtext *text, const struct gen_jtext *what, bool last)
{
    if (!what->bytes) return last ? text->bytes : 0;
    if (!text->bytes) return SIZE_MAX;
    const char *hit = memmem(text->at, text->bytes, what->at, what->bytes);
    size_t at = hit ? (size_t)(hit - text->at) : SIZE_MAX;
    while (hit && last) {
        at = (size_t)(hit - text->at);
        hit = memmem(hit + 1, text->bytes - at - 1, what->at, what->bytes);
    }
    return at;
}

static bool strip_takes(const struct gen_jtext *chars, const char *at)
{
    uint32_t c;
    unsigned n = gen_utf8_get(at, &c);
    if (!chars->bytes) return gen_char_is_space(c) || (c >= 0x1C && c <= 0x1F); /* Python counts those, too */
    return memmem(chars->at, chars->bytes, at, n) != NULL;
}

struct gen_jtext gen_jtext_strip(const struct gen_jtext *text, const struct gen_jtext *chars, bool left,
                                 bool right)
{
    size_t from = 0, to = text->bytes, before;
    while (left && from < to && strip_takes(chars, text->at + from)) from += gen_utf8_length(text->at + from);
    for (; right && to > from; to = before) {
        before = gen_utf8_before(text->at, to);
        if (!strip_takes(chars, text->at + before)) break;
    }
    return gen_j_part(text, from, to);
}

/* Python puts `with` between all characters for an old text without any. */
static void replace_nothing(const struct gen_jtext *text, const struct gen_jtext *with, int64_t count,
                            struct gen_marked *made)
{
    for (size_t i = 0, n; i < text->bytes; i += n) {
        n = gen_utf8_length(text->at + i);
        struct gen_jtext c = gen_j_part(text, i, i + n);
        if (count-- != 0)
            gen_j_write(made, with);
        else
            count = 0;
        gen_j_write(made, &c);
    }
    if (count != 0) gen_j_write(made, with);
}

bool gen_jtext_replace(struct gen_jinja *j, const struct gen_jtext *text, const struct gen_jtext *old,
                       const struct gen_jtext *with, int64_t count, struct gen_jvalue *out)
{
    struct gen_marked made = {.marks = true};
    struct gen_jtext rest = *text;
    size_t at;
    if (!gen_j_work(j, text->bytes / 16)) return false;
    if (!old->bytes) {
        if (with->bytes && text->bytes > GEN_MAX_PROMPT / with->bytes)
            return gen_j_fail(j, -E2BIG, "a replacement makes a string too long");
        replace_nothing(text, with, count, &made);
        return gen_j_made(j, &made, out);
    }
    bool fits = true;
    while (fits && count-- != 0 && (at = gen_jtext_find(&rest, old, false)) != SIZE_MAX) {
        struct gen_jtext before = gen_j_part(&rest, 0, at);
        gen_j_write(&made, &before);
        gen_j_write(&made, with);
        rest = gen_j_part(&rest, at + old->bytes, rest.bytes);
        fits = gen_j_fits(j, &made);
    }
    gen_j_write(&made, &rest);
    return gen_j_made(j, &made, out) && fits;
}

/* The characters of one owner, in another case. */
static void case_char(struct gen_marked *made, const char *at, bool upper, bool foreign)
{
    uint32_t c;
    gen_utf8_get(at, &c);
    if (upper)
        gen_char_upper(c, &made->text);
    else
        gen_char_lower(c, &made->text);
    char *marks = gw_text_room(&made->foreign, made->text.bytes - made->foreign.bytes);
    if (!marks) return;
    memset(marks, foreign, made->text.bytes - made->foreign.bytes);
    made->foreign.bytes = made->text.bytes;
}

/* Whether the character after this one begins a word. */
static bool case_begins(enum gen_jcase how, uint32_t c)
{
    if (how == GEN_JC_WORDS) return gen_char_is_space(c) || (c < 0x80 && c && strchr("-({[<", (int)c));
    return how == GEN_JC_TITLE && (!gen_char_is_word(c) || gen_char_is_numeric(c) || c == '_');
}

bool gen_jtext_case(struct gen_jinja *j, const struct gen_jtext *text, enum gen_jcase how,
                    struct gen_jvalue *out)
{
    struct gen_marked made = {.marks = true};
    bool start = true;
    if (!gen_j_work(j, text->bytes / 16)) return false;
    for (size_t i = 0; i < text->bytes;) {
        uint32_t c;
        unsigned n = gen_utf8_get(text->at + i, &c);
        bool foreign = text->foreign && (text->foreign == gen_jinja_all || text->foreign[i]);
        case_char(&made, text->at + i, how == GEN_JC_UPPER || (how >= GEN_JC_TITLE && start), foreign);
        start = case_begins(how, c);
        i += n;
    }
    return gen_j_made(j, &made, out);
}

static bool split_push(struct gen_jinja *j, struct gen_jvalue *list, const struct gen_jtext *text,
                       size_t from, size_t to)
{
    struct gen_jvalue part = gen_j_text(gen_j_part(text, from, to));
    return gen_j_push(j, list->list, &part);
}

static void list_reverse(struct gen_jlist *list)
{
    for (size_t i = 0; i < list->count / 2; i++) {
        struct gen_jvalue other = list->at[i];
        list->at[i] = list->at[list->count - 1 - i];
        list->at[list->count - 1 - i] = other;
    }
}

static bool split_right(struct gen_jinja *j, const struct gen_jtext *text, const struct gen_jtext *separator,
                        int64_t limit, struct gen_jvalue *out)
{
    struct gen_jtext rest = *text;
    size_t at;
    while (limit-- != 0 && (at = gen_jtext_find(&rest, separator, true)) != SIZE_MAX) {
        if (!gen_j_work(j, rest.bytes / 16) || !split_push(j, out, &rest, at + separator->bytes, rest.bytes))
            return false;
        rest.bytes = at;
    }
    if (!split_push(j, out, &rest, 0, rest.bytes)) return false;
    list_reverse(out->list);
    return true;
}

static bool split_left(struct gen_jinja *j, const struct gen_jtext *text, const struct gen_jtext *separator,
                       int64_t limit, struct gen_jvalue *out)
{
    struct gen_jtext rest = *text;
    size_t at;
    while (limit-- != 0 && (at = gen_jtext_find(&rest, separator, false)) != SIZE_MAX) {
        if (!split_push(j, out, &rest, 0, at)) return false;
        rest = gen_j_part(&rest, at + separator->bytes, rest.bytes);
    }
    return split_push(j, out, &rest, 0, rest.bytes);
}

/* The end of the word that the text begins with, or where the word begins that it ends with. */
static size_t split_word(const struct gen_jtext *text, int from)
{
    static const struct gen_jtext spaces = {0};
    size_t at = from > 0 ? 0 : text->bytes, before;
    while (from > 0 && at < text->bytes && !strip_takes(&spaces, text->at + at))
        at += gen_utf8_length(text->at + at);
    for (; from < 0 && at > 0; at = before) {
        before = gen_utf8_before(text->at, at);
        if (strip_takes(&spaces, text->at + before)) break;
    }
    return at;
}

/* At runs of white space; what would be empty is left out. The last part keeps the spaces at its far end. */
static bool split_spaces(struct gen_jinja *j, const struct gen_jtext *text, int from, int64_t limit,
                         struct gen_jvalue *out)
{
    static const struct gen_jtext spaces = {0};
    struct gen_jtext rest = gen_jtext_strip(text, &spaces, from > 0, from < 0);
    while (rest.bytes) {
        size_t at = split_word(&rest, from);
        if (limit-- == 0) at = from > 0 ? rest.bytes : 0;
        if (!split_push(j, out, &rest, from > 0 ? 0 : at, from > 0 ? at : rest.bytes)) return false;
        rest = from > 0 ? gen_j_part(&rest, at, rest.bytes) : gen_j_part(&rest, 0, at);
        rest = gen_jtext_strip(&rest, &spaces, from > 0, from < 0);
    }
    if (from < 0) list_reverse(out->list);
    return true;
}

bool gen_jtext_split(struct gen_jinja *j, const struct gen_jtext *text, const struct gen_jtext *separator,
                     int from, int64_t limit, struct gen_jvalue *out)
{
    if (!gen_j_list(j, out) || !gen_j_work(j, text->bytes / 16)) return false;
    if (!separator->bytes) return split_spaces(j, text, from, limit, out);
    return from > 0 ? split_left(j, text, separator, limit, out)
                    : split_right(j, text, separator, limit, out);
}

/* The bytes of the end of a line that is at `at`, or 0. */
static unsigned line_end(const struct gen_jtext *text, size_t at)
{
    uint32_t c;
    unsigned n = gen_utf8_get(text->at + at, &c);
    if (c == '\r' && at + 1 < text->bytes && text->at[at + 1] == '\n') return 2;
    return (c >= '\n' && c <= '\r') || (c >= 0x1C && c <= 0x1E) || c == 0x85 || c == 0x2028 || c == 0x2029
               ? n
               : 0;
}

bool gen_jtext_lines(struct gen_jinja *j, const struct gen_jtext *text, bool keep, struct gen_jvalue *out)
{
    size_t from = 0;
    if (!gen_j_list(j, out) || !gen_j_work(j, text->bytes / 16)) return false;
    for (size_t i = 0; i < text->bytes;) {
        unsigned end = line_end(text, i);
        if (!end) {
            i += gen_utf8_length(text->at + i);
            continue;
        }
        if (!split_push(j, out, text, from, keep ? i + end : i)) return false;
        i += end;
        from = i;
    }
    return from == text->bytes || split_push(j, out, text, from, text->bytes);
}

bool gen_jtext_join(struct gen_jinja *j, const struct gen_jtext *between, const struct gen_jlist *items,
                    struct gen_jvalue *out)
{
    struct gen_marked made = {.marks = true};
    bool done = true;
    for (size_t i = 0; i < items->count && done; i++) {
        if (i) gen_j_write(&made, between);
        done = gen_j_print(j, &items->at[i], &made);
    }
    return gen_j_made(j, &made, out) && done;
}

bool gen_jdict_items(struct gen_jinja *j, const struct gen_jdict *dict, struct gen_jvalue *out)
{
    if (!gen_j_list(j, out)) return false;
    for (size_t i = 0; i < dict->keys.count; i++) {
        struct gen_jvalue pair;
        if (!gen_j_list(j, &pair) || !gen_j_push(j, pair.list, &dict->keys.at[i]) ||
            !gen_j_push(j, pair.list, &dict->values.at[i]) || !gen_j_push(j, out->list, &pair))
            return false;
        pair.list->tuple = true;
    }
    return true;
}
