/* SPDX-License-Identifier: Apache-2.0 */
/* Normalizers: Unicode's forms, lower case, replacing, prepending, stripping. Each keeps track of a
 * stranger's bytes. */
#include "src/generate/text/normalize.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "gpuwire/error.h"
#include "src/generate/text/bytechars.h"
#include "src/generate/text/chars.h"
#include "src/generate/text/regex.h"
#include "src/generate/text/spec.h"
#include "src/generate/text/utf8.h"

enum normalize_kind { FORM, LOWERCASE, STRIP_ACCENTS, BYTE_LEVEL, NMT, REPLACE, PREPEND, STRIP };

struct normalize_step {
    enum normalize_kind kind;
    enum gen_form form;
    bool left, right;        /* STRIP */
    struct gen_regex *regex; /* REPLACE */
    char *text;              /* what REPLACE and PREPEND put there */
    size_t bytes;
};

struct gen_normalizer {
    struct normalize_step steps[GEN_MAX_SPEC_PARTS];
    unsigned count;
};

static int step_text(struct normalize_step *step, const json_t *part, const char *name)
{
    const char *text = gen_spec_text(part, name, &step->bytes);
    if (!text)
        return gw_error(-EINVAL, "tokenizer.json: a normalizer %s has no %s", gen_spec_type(part), name);
    step->text = malloc(step->bytes + 1);
    if (!step->text) return gw_error(-ENOMEM, "no memory for a normalizer");
    memcpy(step->text, text, step->bytes);
    return 0;
}

static int step_read(struct normalize_step *step, const json_t *part)
{
    static const struct {
        const char *type;
        enum normalize_kind kind;
        enum gen_form form;
    } kinds[] = {
        {"NFC", FORM, GEN_NFC},   {"NFD", FORM, GEN_NFD},       {"NFKC", FORM, GEN_NFKC},
        {"NFKD", FORM, GEN_NFKD}, {"Lowercase", LOWERCASE, 0},  {"StripAccents", STRIP_ACCENTS, 0},
        {"Nmt", NMT, 0},          {"ByteLevel", BYTE_LEVEL, 0}, {"Replace", REPLACE, 0},
        {"Prepend", PREPEND, 0},  {"Strip", STRIP, 0},
    };
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        if (strcmp(gen_spec_type(part), kinds[i].type) != 0) continue;
        step->kind = kinds[i].kind;
        step->form = kinds[i].form;
        step->left = gen_spec_flag(part, "strip_left", true);
        step->right = gen_spec_flag(part, "strip_right", true);
        if (step->kind == PREPEND) return step_text(step, part, "prepend");
        if (step->kind != REPLACE) return 0;
        int err = step_text(step, part, "content");
        return err ? err : gen_spec_pattern(part, &step->regex);
    }
    return gen_spec_unknown("normalizer", part);
}

static int normalizer_add(void *to, const json_t *part)
{
    struct gen_normalizer *n = to;
    return step_read(&n->steps[n->count++], part);
}

int gen_normalizer_open(const json_t *spec, struct gen_normalizer **out)
{
    *out = calloc(1, sizeof(**out));
    if (!*out) return gw_error(-ENOMEM, "no memory for a normalizer");
    int err = gen_spec_each(spec, "normalizers", normalizer_add, *out);
    if (err) {
        gen_normalizer_close(*out);
        *out = NULL;
    }
    return err;
}

void gen_normalizer_close(struct gen_normalizer *n)
{
    if (!n) return;
    for (unsigned i = 0; i < n->count; i++) {
        gen_regex_close(n->steps[i].regex);
        free(n->steps[i].text);
    }
    free(n);
}

/* The end of the run of bytes from `from` on that are all a stranger's, or none. */
static size_t marked_run(const struct gen_marked *m, size_t from)
{
    if (!m->marks || from == m->text.bytes) return m->text.bytes;
    const char *other = memchr(m->foreign.at + from, !m->foreign.at[from], m->text.bytes - from);
    return other ? (size_t)(other - m->foreign.at) : m->text.bytes;
}

static bool nmt_drops(uint32_t c)
{
    return (c >= 1 && c <= 8) || c == 0x0B || (c >= 0x0E && c <= 0x1F) || c == 0x7F || c == 0x8F || c == 0x9F;
}

static bool nmt_is_space(uint32_t c)
{
    return c == '\t' || c == '\n' || c == '\f' || c == '\r' || c == 0x1680 || (c >= 0x200B && c <= 0x200F) ||
           c == 0x2028 || c == 0x2029 || c == 0x2581 || c == 0xFEFF || c == 0xFFFD;
}

/* What becomes of one character, which has `bytes` at `at`. */
static void normalize_char(enum normalize_kind kind, const char *at, unsigned bytes, struct gw_text *out)
{
    uint32_t c;
    gen_utf8_get(at, &c);
    if (kind == LOWERCASE) {
        gen_char_lower(c, out);
    } else if (kind == STRIP_ACCENTS) {
        if (!gen_char_is_mark(c)) gw_text_add(out, at, bytes);
    } else if (kind == BYTE_LEVEL) {
        char chars[8];
        gw_text_add(out, chars, gen_bytes_to_chars(at, bytes, chars));
    } else if (nmt_is_space(c)) {
        gw_text_add(out, " ", 1);
    } else if (!nmt_drops(c)) {
        gw_text_add(out, at, bytes);
    }
}

/* The steps that go run by run: characters of a stranger never join with ours. */
static void normalize_runs(const struct normalize_step *step, const struct gen_marked *in,
                           struct gen_marked *out)
{
    for (size_t from = 0, to; from < in->text.bytes; from = to) {
        to = marked_run(in, from);
        size_t before = out->text.bytes;
        if (step->kind == FORM) {
            gen_char_normalize(step->form, in->text.at + from, to - from, &out->text);
        } else {
            for (size_t i = from; i < to; i += gen_utf8_length(in->text.at + i))
                normalize_char(step->kind, in->text.at + i, gen_utf8_length(in->text.at + i), &out->text);
        }
        char *marks = in->marks ? gw_text_room(&out->foreign, out->text.bytes - before) : NULL;
        if (marks) {
            memset(marks, in->foreign.at[from], out->text.bytes - before);
            out->foreign.bytes += out->text.bytes - before;
        }
    }
}

/* Copies a part of `in`, with its marks. */
static void marked_copy(const struct gen_marked *in, size_t from, size_t to, struct gen_marked *out)
{
    if (from == to) return;
    gw_text_add(&out->text, in->text.at + from, to - from);
    if (in->marks) gw_text_add(&out->foreign, in->foreign.at + from, to - from);
}

static int normalize_replace(const struct normalize_step *step, const struct gen_marked *in,
                             struct gen_marked *out)
{
    size_t from = 0, match[2];
    int found;
    while ((found = gen_regex_find(step->regex, in->text.at, in->text.bytes, from, match)) > 0) {
        marked_copy(in, from, match[0], out);
        gen_marked_add(out, step->text, step->bytes, gen_marked_foreign(in, match[0], match[1]));
        from = match[1];
    }
    marked_copy(in, from, in->text.bytes, out);
    return found;
}

static void normalize_strip(const struct normalize_step *step, const struct gen_marked *in,
                            struct gen_marked *out)
{
    const char *s = in->text.at;
    size_t from = 0, to = in->text.bytes, before;
    uint32_t c;
    for (; step->left && from < to && (gen_utf8_get(s + from, &c), gen_char_is_space(c));)
        from += gen_utf8_length(s + from);
    for (; step->right && to > from; to = before) {
        before = gen_utf8_before(s, to);
        gen_utf8_get(s + before, &c);
        if (!gen_char_is_space(c)) break;
    }
    marked_copy(in, from, to, out);
}

static int normalize_step_apply(const struct normalize_step *step, const struct gen_marked *in,
                                struct gen_marked *out)
{
    if (step->kind == REPLACE) return normalize_replace(step, in, out);
    if (step->kind == STRIP) {
        normalize_strip(step, in, out);
    } else if (step->kind == PREPEND) {
        gen_marked_add(out, step->text, step->bytes, false);
        marked_copy(in, 0, in->text.bytes, out);
    } else {
        normalize_runs(step, in, out);
    }
    return 0;
}

int gen_normalizer_apply(const struct gen_normalizer *n, struct gen_marked *m, struct gen_marked *spare)
{
    for (unsigned i = 0; i < n->count && m->text.bytes; i++) {
        gen_marked_clear(spare);
        spare->marks = m->marks;
        int err = normalize_step_apply(&n->steps[i], m, spare);
        if (err) return err;
        if (spare->text.broken || spare->foreign.broken || spare->text.bytes > UINT32_MAX)
            return gw_error(-ENOMEM, "no memory to normalize a text");
        struct gen_marked other = *m;
        *m = *spare;
        *spare = other;
    }
    return 0;
}
