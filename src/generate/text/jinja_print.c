/* SPDX-License-Identifier: Apache-2.0 */
/* Writes values as text. A stranger's text stays marked inside of lists and JSON, too. */
#include "src/generate/text/jinja_print.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/generate/text/jinja_sort.h"
#include "src/generate/text/limits.h"
#include "src/generate/text/utf8.h"

#define MAX_NESTING 100

/* What is printed, how, and how deep it stands. */
struct print {
    struct gen_jinja *j;
    struct gen_marked *out;
    const struct gen_jlayout *layout; /* NULL: as Python */
    unsigned depth;
};

static bool print_value(struct print *p, const struct gen_jvalue *v, bool quoted);

bool gen_j_fits(struct gen_jinja *j, const struct gen_marked *m)
{
    if (m->text.broken || m->foreign.broken) return gen_j_fail(j, -ENOMEM, "no memory for the text");
    return m->text.bytes <= GEN_MAX_PROMPT ||
           gen_j_fail(j, -E2BIG, "the messages make a text of more than %u bytes", GEN_MAX_PROMPT);
}

static void print_own(struct print *p, const char *text)
{
    gen_marked_add(p->out, text, strlen(text), false);
}

/* The shortest digits that give the same number back, as Python has them. */
static void print_real(struct print *p, double real)
{
    char text[40];
    if (isnan(real) || isinf(real)) {
        const char *name = isnan(real) ? "nan" : real < 0 ? "-inf" : "inf";
        const char *json = isnan(real) ? "NaN" : real < 0 ? "-Infinity" : "Infinity";
        print_own(p, p->layout ? json : name);
        return;
    }
    int digits = 1;
    do {
        snprintf(text, sizeof(text), "%.*e", digits - 1, real);
    } while (strtod(text, NULL) != real && digits++ < 17);
    int exponent = atoi(strchr(text, 'e') + 1);
    if (exponent >= -4 && exponent < 16) {
        int after = digits - 1 - exponent;
        snprintf(text, sizeof(text), "%.*f", after < 1 ? 1 : after, real);
    } else {
        snprintf(text, sizeof(text), "%.*e", digits - 1, real);
    }
    print_own(p, text);
}

/* How a character is written within quotes; NULL: as it is. */
static const char *quoted_char(unsigned char c, char quote, bool json, char room[8])
{
    static const char names[] = "\b\t\n\v\f\r", letters[] = "btnvfr";
    const char *name = c ? strchr(names, c) : NULL;
    if (c == (unsigned char)quote || c == '\\') {
        snprintf(room, 8, "\\%c", c);
    } else if (name && (json ? c != '\v' : c == '\t' || c == '\n' || c == '\r')) {
        snprintf(room, 8, "\\%c", letters[name - names]);
    } else if (c < 0x20 || (c == 0x7F && !json)) {
        snprintf(room, 8, json ? "\\u%04x" : "\\x%02x", c);
    } else {
        return NULL;
    }
    return room;
}

/* JSON of ASCII alone: a character beyond it as one or two units of UTF-16. */
static void print_units(struct print *p, uint32_t c, bool foreign)
{
    char text[16];
    if (c < 0x10000)
        snprintf(text, sizeof(text), "\\u%04x", c);
    else
        snprintf(text, sizeof(text), "\\u%04x\\u%04x", 0xD800 + ((c - 0x10000) >> 10),
                 0xDC00 + ((c - 0x10000) & 0x3FF));
    gen_marked_add(p->out, text, strlen(text), foreign);
}

static bool text_foreign(const struct gen_jtext *text, size_t at)
{
    return text->foreign && (text->foreign == gen_jinja_all || text->foreign[at]);
}

static void print_quoted(struct print *p, const struct gen_jtext *text)
{
    bool single = text->bytes && memchr(text->at, '\'', text->bytes),
         twice = text->bytes && memchr(text->at, '"', text->bytes);
    char quote = p->layout || (single && !twice) ? '"' : '\'', room[8];
    bool ascii = p->layout && p->layout->ascii;
    size_t run = 0;
    gen_marked_add(p->out, &quote, 1, false);
    for (size_t i = 0, n; i < text->bytes; i += n) {
        unsigned char c = (unsigned char)text->at[i];
        n = gen_utf8_length(text->at + i);
        const char *written = c < 0x80 ? quoted_char(c, quote, p->layout != NULL, room) : NULL;
        if (!written && (c < 0x7F || !ascii)) continue;
        struct gen_jtext part = gen_j_part(text, run, i);
        gen_j_write(p->out, &part);
        run = i + n;
        uint32_t whole;
        gen_utf8_get(text->at + i, &whole);
        if (written)
            gen_marked_add(p->out, written, strlen(written), text_foreign(text, i));
        else
            print_units(p, whole, text_foreign(text, i));
    }
    struct gen_jtext part = gen_j_part(text, run, text->bytes);
    gen_j_write(p->out, &part);
    gen_marked_add(p->out, &quote, 1, false);
}

/* What stands before an element of a list: a comma, a new line. */
static void print_gap(struct print *p, bool first, bool last)
{
    bool lines = p->layout && p->layout->indent >= 0;
    if (!first && !last) {
        if (p->layout && p->layout->comma.at)
            gen_j_write(p->out, &p->layout->comma);
        else
            print_own(p, lines ? "," : ", ");
    }
    if (!lines) return;
    print_own(p, "\n");
    for (unsigned i = 0; i < p->depth * (unsigned)p->layout->indent; i++) print_own(p, " ");
}

static bool print_list(struct print *p, const struct gen_jlist *list)
{
    bool tuple = list->tuple && !p->layout;
    print_own(p, tuple ? "(" : "[");
    for (size_t i = 0; i < list->count; i++) {
        print_gap(p, i == 0, false);
        if (!print_value(p, &list->at[i], true)) return false;
    }
    p->depth--;
    if (list->count) print_gap(p, false, true);
    p->depth++;
    print_own(p, !tuple ? "]" : list->count == 1 ? ",)" : ")");
    return true;
}

/* JSON has texts as keys: others are written as texts. */
static bool print_key(struct print *p, const struct gen_jvalue *key)
{
    if (!p->layout || key->kind == GEN_J_TEXT) return print_value(p, key, true);
    print_own(p, "\"");
    if (!print_value(p, key, true)) return false;
    print_own(p, "\"");
    return true;
}

static bool print_dict(struct print *p, const struct gen_jdict *dict)
{
    struct gen_jlist keys = dict->keys, values = dict->values;
    if (p->layout && p->layout->sort && !gen_j_sort_pairs(p->j, &keys, &values)) return false;
    print_own(p, "{");
    for (size_t i = 0; i < keys.count; i++) {
        print_gap(p, i == 0, false);
        if (!print_key(p, &keys.at[i])) return false;
        if (p->layout && p->layout->colon.at)
            gen_j_write(p->out, &p->layout->colon);
        else
            print_own(p, ": ");
        if (!print_value(p, &values.at[i], true)) return false;
    }
    p->depth--;
    if (keys.count) print_gap(p, false, true);
    p->depth++;
    print_own(p, "}");
    return true;
}

static bool print_value(struct print *p, const struct gen_jvalue *v, bool quoted)
{
    char text[32];
    if (p->depth >= MAX_NESTING) return gen_j_fail(p->j, -E2BIG, "lists stand in lists too deeply");
    if (!gen_j_work(p->j, 1) || !gen_j_fits(p->j, p->out)) return false;
    bool done = true;
    p->depth++;
    if (v->kind == GEN_J_TEXT && quoted) {
        print_quoted(p, &v->text);
    } else if (v->kind == GEN_J_TEXT) {
        gen_j_write(p->out, &v->text);
    } else if (v->kind == GEN_J_LIST) {
        done = print_list(p, v->list);
    } else if (v->kind == GEN_J_DICT) {
        done = print_dict(p, v->dict);
    } else if (v->kind == GEN_J_INT) {
        snprintf(text, sizeof(text), "%lld", (long long)v->number);
        print_own(p, text);
    } else if (v->kind == GEN_J_FLOAT) {
        print_real(p, v->real);
    } else if (v->kind == GEN_J_BOOL) {
        print_own(p, p->layout ? (v->number ? "true" : "false") : v->number ? "True" : "False");
    } else if (v->kind == GEN_J_NONE) {
        print_own(p, p->layout ? "null" : "None");
    } else if (p->layout) {
        done = gen_j_fail(p->j, -EINVAL, "%s cannot be JSON", gen_j_type(v));
    } else if (v->kind != GEN_J_UNDEFINED) {
        done = gen_j_fail(p->j, -EINVAL, "%s cannot be printed", gen_j_type(v));
    }
    p->depth--;
    return done && gen_j_fits(p->j, p->out);
}

bool gen_j_print(struct gen_jinja *j, const struct gen_jvalue *v, struct gen_marked *out)
{
    struct print p = {.j = j, .out = out};
    return print_value(&p, v, false);
}

bool gen_j_string(struct gen_jinja *j, const struct gen_jvalue *v, struct gen_jvalue *out)
{
    *out = *v;
    if (v->kind == GEN_J_TEXT) return true;
    struct gen_marked text = {.marks = true};
    bool done = gen_j_print(j, v, &text);
    return gen_j_made(j, &text, out) && done;
}

bool gen_j_json(struct gen_jinja *j, const struct gen_jvalue *v, const struct gen_jlayout *layout,
                struct gen_marked *out)
{
    struct print p = {.j = j, .out = out, .layout = layout};
    return print_value(&p, v, true);
}
