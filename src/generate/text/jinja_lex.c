/* SPDX-License-Identifier: Apache-2.0 */
/* Cuts a template into words. The rules for white space are Jinja's, which are subtle: tests compare with
 * it. */
#include "src/generate/text/jinja_lex.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "gpuwire/error.h"
#include "src/generate/text/chars.h"
#include "src/generate/text/utf8.h"

static int lex_fail(const struct gen_jlex *l, const char *what)
{
    return gw_error(-EINVAL, "chat template, line %u: %s", l->line, what);
}

static bool lex_is(const struct gen_jlex *l, size_t at, const char *text)
{
    size_t n = strlen(text);
    return l->bytes - at >= n && !memcmp(l->source + at, text, n);
}

static void lex_go(struct gen_jlex *l, size_t to)
{
    for (; l->at < to; l->at++) l->line += l->source[l->at] == '\n';
}

static bool lex_space(char c)
{
    return c == ' ' || (c >= '\t' && c <= '\r');
}

/* Where the next {{, {% or {# is; the end for none. */
static size_t lex_tag(const struct gen_jlex *l, size_t from)
{
    for (size_t i = from; i + 1 < l->bytes; i++) {
        const char *brace = memchr(l->source + i, '{', l->bytes - i - 1);
        if (!brace) break;
        i = (size_t)(brace - l->source);
        if (memchr("{%#", brace[1], 3)) return i;
    }
    return l->bytes;
}

/* How far the text before a tag goes: the tag's sign, or its place alone on a line, takes white space away.
 * */
static size_t lex_trimmed(const struct gen_jlex *l, size_t from, size_t tag)
{
    size_t to = tag, line = tag;
    char sign = tag + 2 < l->bytes ? l->source[tag + 2] : 0;
    if (tag == l->bytes) return tag;
    if (sign == '-') {
        while (to > from && lex_space(l->source[to - 1])) to--;
        return to;
    }
    if (sign == '+' || l->source[tag + 1] == '{') return tag;
    while (line > from && l->source[line - 1] != '\n' && lex_space(l->source[line - 1])) line--;
    bool starts = line > from ? l->source[line - 1] == '\n' : l->fresh_line;
    return starts ? line : tag;
}

/* Passes what may follow the end of a tag: all white space after a -, else one new line. */
static void lex_after(struct gen_jlex *l, bool strip, bool block)
{
    size_t at = l->at;
    if (strip) {
        while (at < l->bytes && lex_space(l->source[at])) at++;
    } else if (block && at < l->bytes && l->source[at] == '\n') {
        at++;
    }
    lex_go(l, at);
    l->fresh_line = at && l->source[at - 1] == '\n';
}

static int lex_comment(struct gen_jlex *l)
{
    const char *end = memmem(l->source + l->at + 2, l->bytes - l->at - 2, "#}", 2);
    if (!end) return lex_fail(l, "a comment has no end: #} is missing");
    lex_go(l, (size_t)(end - l->source) + 2);
    lex_after(l, end[-1] == '-', end[-1] != '+');
    return 0;
}

/* {% raw %}: passes it, and gives the text up to {% endraw %}. 1: it was there. 0: it is another tag. */
static int lex_raw(struct gen_jlex *l, struct gen_jtoken *out)
{
    size_t at = l->at + 2;
    at += at < l->bytes && (l->source[at] == '-' || l->source[at] == '+');
    while (at < l->bytes && lex_space(l->source[at])) at++;
    if (!lex_is(l, at, "raw")) return 0;
    at += 3;
    while (at < l->bytes && lex_space(l->source[at])) at++;
    bool strip = at < l->bytes && l->source[at] == '-';
    at += at < l->bytes && (l->source[at] == '-' || l->source[at] == '+');
    if (!lex_is(l, at, "%}")) return 0;
    lex_go(l, at + 2);
    lex_after(l, strip, true);
    for (size_t tag = lex_tag(l, l->at); tag < l->bytes; tag = lex_tag(l, tag + 2)) {
        size_t word = tag + 2;
        word += l->source[word] == '-' || l->source[word] == '+';
        while (lex_space(l->source[word])) word++;
        if (l->source[tag + 1] != '%' || !lex_is(l, word, "endraw")) continue;
        const char *end = memmem(l->source + word, l->bytes - word, "%}", 2);
        if (!end) break;
        size_t to = lex_trimmed(l, l->at, tag);
        *out = (struct gen_jtoken){
            .kind = GEN_JW_DATA, .line = l->line, .at = l->source + l->at, .bytes = to - l->at};
        lex_go(l, (size_t)(end - l->source) + 2);
        lex_after(l, end[-1] == '-', end[-1] != '+');
        return 1;
    }
    return lex_fail(l, "{% raw %} has no {% endraw %}");
}

/* Between tags. */
static int lex_data(struct gen_jlex *l, struct gen_jtoken *out)
{
    for (;;) {
        size_t from = l->at, tag = lex_tag(l, from), to = lex_trimmed(l, from, tag);
        *out = (struct gen_jtoken){
            .kind = GEN_JW_DATA, .line = l->line, .at = l->source + from, .bytes = to - from};
        lex_go(l, tag);
        if (out->bytes) return 0;
        if (tag == l->bytes) {
            out->kind = GEN_JW_END;
            return 0;
        }
        int err;
        if (l->source[tag + 1] == '#') {
            err = lex_comment(l);
            if (err) return err;
            continue;
        }
        l->tag = l->source[tag + 1] == '%';
        err = l->tag ? lex_raw(l, out) : 0;
        if (err < 0 || (err > 0 && out->bytes)) return err < 0 ? err : 0;
        if (err > 0) continue;
        *out = (struct gen_jtoken){
            .kind = l->tag ? GEN_JW_TAG : GEN_JW_OPEN, .line = l->line, .at = l->source + tag};
        char sign = tag + 2 < l->bytes ? l->source[tag + 2] : 0;
        lex_go(l, tag + 2 + (sign == '-' || sign == '+'));
        l->inside = true;
        l->nested = 0;
        return 0;
    }
}

/* The end of a tag, if it is here: 1. */
static int lex_close(struct gen_jlex *l, struct gen_jtoken *out)
{
    const char *end = l->tag ? "%}" : "}}";
    char sign = l->source[l->at];
    size_t at = l->at + (sign == '-' || sign == '+');
    if (l->nested || !lex_is(l, at, end) || (sign == '+' && !l->tag)) return 0;
    *out = (struct gen_jtoken){
        .kind = l->tag ? GEN_JW_TAG_END : GEN_JW_CLOSE, .line = l->line, .at = l->source + at};
    lex_go(l, at + 2);
    lex_after(l, sign == '-', l->tag && sign != '+');
    l->inside = false;
    return 1;
}

/* The character of an escape such as \n or \u00e9, past its backslash; *at moves past it. */
static uint32_t lex_escape(const struct gen_jlex *l, size_t *at)
{
    static const char letters[] = "abfnrtv0", codes[] = "\a\b\f\n\r\t\v";
    char c = l->source[(*at)++];
    const char *known = c ? strchr(letters, c) : NULL;
    if (known) return (unsigned char)codes[known - letters];
    unsigned digits = c == 'x' ? 2 : c == 'u' ? 4 : c == 'U' ? 8 : 0;
    char hex[9] = {0}, *end;
    if (!digits || l->bytes - *at < digits)
        return c == '\\' || c == '\'' || c == '"' ? (unsigned char)c : UINT32_MAX;
    memcpy(hex, l->source + *at, digits);
    uint32_t value = (uint32_t)strtoul(hex, &end, 16);
    if (end != hex + digits || value > 0x10FFFF || (value >= 0xD800 && value < 0xE000)) return UINT32_MAX;
    *at += digits;
    return value;
}

static int lex_text(struct gen_jlex *l, struct gen_jtoken *out)
{
    char quote = l->source[l->at];
    size_t at = l->at + 1, n = 0;
    const char *end = l->source + at;
    while (end < l->source + l->bytes && *end != quote) end += *end == '\\' ? 2 : 1;
    if (end >= l->source + l->bytes) return lex_fail(l, "a string has no end");
    size_t last = (size_t)(end - l->source);
    char *text = gen_arena_take(l->arena, 2 * (last - at) + 4);
    if (!text) return gw_error(-ENOMEM, "no memory for a chat template");
    while (at < last) {
        if (l->source[at] != '\\') {
            text[n++] = l->source[at++];
            continue;
        }
        at++;
        if (l->source[at] == '\n') { /* the line goes on */
            at++;
            continue;
        }
        size_t back = at;
        uint32_t c = lex_escape(l, &at);
        if (c == UINT32_MAX) { /* none that Python knows: it stays as it is */
            at = back;
            text[n++] = '\\';
        } else {
            n += gen_utf8_put(text + n, c);
        }
    }
    *out = (struct gen_jtoken){.kind = GEN_JW_TEXT, .line = l->line, .at = text, .bytes = n};
    lex_go(l, last + 1);
    return 0;
}

static bool lex_digit(char c)
{
    return c >= '0' && c <= '9';
}

static int lex_number(struct gen_jlex *l, struct gen_jtoken *out)
{
    char text[64];
    size_t at = l->at, n = 0;
    bool real = false;
    for (; n < sizeof(text) - 1; at++) {
        char c = l->source[at];
        bool point = c == '.' && !real && lex_digit(l->source[at + 1]);
        bool power =
            (c == 'e' || c == 'E') &&
            (lex_digit(l->source[at + 1]) ||
             ((l->source[at + 1] == '-' || l->source[at + 1] == '+') && lex_digit(l->source[at + 2])));
        bool sign = (c == '-' || c == '+') && n && (text[n - 1] == 'e' || text[n - 1] == 'E');
        if (!lex_digit(c) && c != '_' && !point && !power && !sign) break;
        real |= point || power;
        if (c != '_') text[n++] = c;
    }
    text[n] = 0;
    errno = 0;
    *out = (struct gen_jtoken){
        .kind = real ? GEN_JW_FLOAT : GEN_JW_INT, .line = l->line, .at = l->source + l->at};
    out->real = strtod(text, NULL);
    out->number = real ? 0 : strtoll(text, NULL, 10);
    if (errno || n == sizeof(text) - 1) return lex_fail(l, "a number is too large");
    lex_go(l, at);
    return 0;
}

static bool lex_letter(uint32_t c)
{
    return gen_char_is_word(c);
}

static int lex_name(struct gen_jlex *l, struct gen_jtoken *out)
{
    size_t at = l->at;
    uint32_t c;
    unsigned n;
    while (at < l->bytes && (n = gen_utf8_get(l->source + at, &c), lex_letter(c))) at += n;
    *out = (struct gen_jtoken){
        .kind = GEN_JW_NAME, .line = l->line, .at = l->source + l->at, .bytes = at - l->at};
    lex_go(l, at);
    return 0;
}

static int lex_operator(struct gen_jlex *l, struct gen_jtoken *out)
{
    static const char *const operators[] = {"**", "//", "==", "!=", ">=", "<=", "+", "-", "*",
                                            "/",  "%",  "~",  "(",  ")",  "[",  "]", "{", "}",
                                            ">",  "<",  "=",  ".",  ":",  "|",  ",", ";"};
    for (size_t i = 0; i < sizeof(operators) / sizeof(operators[0]); i++) {
        if (!lex_is(l, l->at, operators[i])) continue;
        char c = operators[i][0];
        if (strchr("([{", c))
            l->nested++;
        else if (strchr(")]}", c) && l->nested-- == 0)
            return lex_fail(l, "a bracket is closed that was never opened");
        *out = (struct gen_jtoken){
            .kind = GEN_JW_OPERATOR, .line = l->line, .at = l->source + l->at, .bytes = strlen(operators[i])};
        lex_go(l, l->at + out->bytes);
        return 0;
    }
    return lex_fail(l, "a character that has no meaning here");
}

int gen_jlex_next(struct gen_jlex *l, struct gen_jtoken *out)
{
    if (!l->inside) return lex_data(l, out);
    size_t at = l->at;
    while (at < l->bytes && lex_space(l->source[at])) at++;
    lex_go(l, at);
    if (at == l->bytes)
        return lex_fail(l, l->tag ? "a tag has no end: %} is missing"
                                  : "an expression has no end: }} is missing");
    if (lex_close(l, out)) return 0;
    uint32_t c;
    gen_utf8_get(l->source + at, &c);
    if (c == '"' || c == '\'') return lex_text(l, out);
    if (c < 0x80 && lex_digit((char)c)) return lex_number(l, out);
    return lex_letter(c) ? lex_name(l, out) : lex_operator(l, out);
}
