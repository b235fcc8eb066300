/* SPDX-License-Identifier: Apache-2.0 */
/* Pre-tokenizers: a list of steps. Each cuts every piece, or writes its text in another way. */
#include "src/generate/text/pretoken.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "gpuwire/error.h"
#include "src/generate/text/bytechars.h"
#include "src/generate/text/cut.h"
#include "src/generate/text/regex.h"
#include "src/generate/text/spec.h"
#include "src/generate/text/utf8.h"

/* How ByteLevel cuts, unless it is told not to: GPT-2's words. */
#define GPT2_WORDS "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+"

enum pretoken_kind { CUT, BYTE_CHARS, PREFIX_SPACE, META_SPACE };
enum pretoken_prefix { PREFIX_ALWAYS, PREFIX_FIRST, PREFIX_NEVER };

struct pretoken_step {
    enum pretoken_kind kind;
    struct gen_cut cut;
    enum pretoken_prefix prefix; /* META_SPACE */
    char mark[4];                /* META_SPACE: what stands for a space */
    unsigned mark_bytes;
};

/* One part makes three steps at most. */
struct gen_pretokenizer {
    struct pretoken_step steps[3 * GEN_MAX_SPEC_PARTS];
    unsigned count;
};

static struct pretoken_step *pretoken_add(struct gen_pretokenizer *p, enum pretoken_kind kind)
{
    struct pretoken_step *step = &p->steps[p->count++];
    step->kind = kind;
    return step;
}

static int read_byte_level(struct gen_pretokenizer *p, const json_t *part)
{
    int err = 0;
    if (gen_spec_flag(part, "add_prefix_space", true)) pretoken_add(p, PREFIX_SPACE);
    if (gen_spec_flag(part, "use_regex", true)) {
        struct pretoken_step *step = pretoken_add(p, CUT);
        step->cut.keep = GEN_CUT_ISOLATED;
        err = gen_regex_open(GPT2_WORDS, strlen(GPT2_WORDS), &step->cut.regex);
    }
    pretoken_add(p, BYTE_CHARS);
    return err;
}

static int pretoken_meta_space(struct gen_pretokenizer *p, const json_t *part)
{
    struct pretoken_step *step = pretoken_add(p, META_SPACE);
    uint32_t mark = gen_spec_char(part, "replacement", 0x2581);
    step->mark_bytes = gen_utf8_put(step->mark, mark);
    size_t bytes;
    const char *scheme = gen_spec_text(part, "prepend_scheme", &bytes);
    if (!gen_spec_flag(part, "add_prefix_space", true) || (scheme && !strcmp(scheme, "never")))
        step->prefix = PREFIX_NEVER;
    else
        step->prefix = scheme && !strcmp(scheme, "first") ? PREFIX_FIRST : PREFIX_ALWAYS;
    if (gen_spec_flag(part, "split", true)) {
        step = pretoken_add(p, CUT);
        step->cut = (struct gen_cut){.at = GEN_CUT_CHAR, .keep = GEN_CUT_WITH_NEXT, .c = mark};
    }
    return 0;
}

static int read_split(struct gen_pretokenizer *p, const json_t *part)
{
    struct pretoken_step *step = pretoken_add(p, CUT);
    step->cut.invert = gen_spec_flag(part, "invert", false);
    size_t bytes;
    int err = gen_cut_keep_read(gen_spec_text(part, "behavior", &bytes), &step->cut.keep);
    return err ? err : gen_spec_pattern(part, &step->cut.regex);
}

static int read_punctuation(struct gen_pretokenizer *p, const json_t *part)
{
    struct pretoken_step *step = pretoken_add(p, CUT);
    step->cut = (struct gen_cut){.at = GEN_CUT_PUNCTUATION, .keep = GEN_CUT_ISOLATED};
    size_t bytes;
    const char *keep = gen_spec_text(part, "behavior", &bytes);
    return keep ? gen_cut_keep_read(keep, &step->cut.keep) : 0;
}

static int pretokenizer_add(void *to, const json_t *part)
{
    struct gen_pretokenizer *p = to;
    const char *type = gen_spec_type(part);
    struct gen_cut cut = {.keep = GEN_CUT_REMOVED};
    if (!strcmp(type, "ByteLevel")) return read_byte_level(p, part);
    if (!strcmp(type, "Metaspace")) return pretoken_meta_space(p, part);
    if (!strcmp(type, "Split")) return read_split(p, part);
    if (!strcmp(type, "Punctuation")) return read_punctuation(p, part);
    if (!strcmp(type, "Digits")) {
        cut.at = GEN_CUT_NUMERIC;
        cut.keep = gen_spec_flag(part, "individual_digits", false) ? GEN_CUT_ISOLATED : GEN_CUT_CONTIGUOUS;
    } else if (!strcmp(type, "WhitespaceSplit")) {
        cut.at = GEN_CUT_SPACE;
    } else if (!strcmp(type, "Whitespace")) {
        cut.at = GEN_CUT_WORDS;
        cut.invert = true;
    } else if (!strcmp(type, "CharDelimiterSplit")) {
        cut.at = GEN_CUT_CHAR;
        cut.c = gen_spec_char(part, "delimiter", ' ');
    } else {
        return gen_spec_unknown("pre-tokenizer", part);
    }
    pretoken_add(p, CUT)->cut = cut;
    return 0;
}

int gen_pretokenizer_open(const json_t *spec, struct gen_pretokenizer **out)
{
    *out = calloc(1, sizeof(**out));
    if (!*out) return gw_error(-ENOMEM, "no memory for a pre-tokenizer");
    int err = gen_spec_each(spec, "pretokenizers", pretokenizer_add, *out);
    if (err) {
        gen_pretokenizer_close(*out);
        *out = NULL;
    }
    return err;
}

void gen_pretokenizer_close(struct gen_pretokenizer *p)
{
    if (!p) return;
    for (unsigned i = 0; i < p->count; i++) gen_regex_close(p->steps[i].cut.regex);
    free(p);
}

/* Appends the piece's text, with `mark` for each space. */
static void put_marked(const struct pretoken_step *step, const char *at, size_t bytes, struct gw_text *out)
{
    for (size_t from = 0; from < bytes;) {
        const char *space = memchr(at + from, ' ', bytes - from);
        size_t to = space ? (size_t)(space - at) : bytes;
        gw_text_add(out, at + from, to - from);
        if (space) gw_text_add(out, step->mark, step->mark_bytes);
        from = to + (space != NULL);
    }
}

static void put_meta_space(const struct pretoken_step *step, const char *at, const struct gen_piece *piece,
                           struct gw_text *out)
{
    bool marked =
        at[0] == ' ' || (piece->bytes >= step->mark_bytes && !memcmp(at, step->mark, step->mark_bytes));
    if (!marked && (step->prefix == PREFIX_ALWAYS || (step->prefix == PREFIX_FIRST && piece->first)))
        gw_text_add(out, step->mark, step->mark_bytes);
    put_marked(step, at, piece->bytes, out);
}

static void put_byte_chars(const char *at, size_t bytes, struct gw_text *out)
{
    char *to = gw_text_room(out, 2 * bytes);
    if (to) out->bytes += gen_bytes_to_chars(at, bytes, to);
}

/* The steps that write the text in another way: each piece goes from `in` to `out`. */
static int pretoken_rewrite(const struct pretoken_step *step, const struct gen_pieces *in,
                            struct gen_pieces *out)
{
    for (size_t i = 0; i < in->count; i++) {
        const struct gen_piece *piece = &in->at[i];
        const char *at = in->text.at + piece->at;
        size_t before = out->text.bytes;
        if (step->kind == BYTE_CHARS) {
            put_byte_chars(at, piece->bytes, &out->text);
        } else if (step->kind == META_SPACE) {
            put_meta_space(step, at, piece, &out->text);
        } else {
            if (at[0] != ' ') gw_text_add(&out->text, " ", 1);
            gw_text_add(&out->text, at, piece->bytes);
        }
        struct gen_piece made = {
            .at = before, .bytes = out->text.bytes - before, .token = UINT32_MAX, .first = piece->first};
        if (out->text.broken || gen_pieces_add(out, made))
            return gw_error(-ENOMEM, "no memory to cut a text");
    }
    return 0;
}

static int pretoken_cut(const struct gen_cut *cut, struct gen_pieces *in, struct gen_pieces *out)
{
    for (size_t i = 0; i < in->count; i++) {
        int err = gen_cut(cut, in->text.at, &in->at[i], out);
        if (err) return err;
    }
    struct gw_text text = out->text; /* the text is the same: it moves */
    out->text = in->text;
    in->text = text;
    return 0;
}

int gen_pretokenizer_apply(const struct gen_pretokenizer *p, struct gen_pieces *pieces,
                           struct gen_pieces *spare)
{
    for (unsigned i = 0; i < p->count; i++) {
        const struct pretoken_step *step = &p->steps[i];
        gen_pieces_clear(spare);
        int err = step->kind == CUT ? pretoken_cut(&step->cut, pieces, spare)
                                    : pretoken_rewrite(step, pieces, spare);
        if (err) return err;
        struct gen_pieces other = *pieces;
        *pieces = *spare;
        *spare = other;
    }
    return 0;
}
