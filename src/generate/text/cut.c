/* SPDX-License-Identifier: Apache-2.0 */
/* Cuts a text at its matches, and joins matches with their neighbours as asked. */
#include "src/generate/text/cut.h"

#include <errno.h>
#include <string.h>

#include "gpuwire/error.h"
#include "src/generate/text/chars.h"
#include "src/generate/text/regex.h"
#include "src/generate/text/utf8.h"

int gen_cut_keep_read(const char *name, enum gen_cut_keep *keep)
{
    static const char *const names[] = {
        [GEN_CUT_REMOVED] = "Removed",
        [GEN_CUT_ISOLATED] = "Isolated",
        [GEN_CUT_WITH_PREVIOUS] = "MergedWithPrevious",
        [GEN_CUT_WITH_NEXT] = "MergedWithNext",
        [GEN_CUT_CONTIGUOUS] = "Contiguous",
    };
    for (unsigned i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        if (name && !strcmp(name, names[i])) {
            *keep = (enum gen_cut_keep)i;
            return 0;
        }
    }
    return gw_error(-EINVAL, "tokenizer.json: '%.60s' is no behavior of a pre-tokenizer", name ? name : "");
}

/* The kind of the character, for GEN_CUT_WORDS. */
enum cut_word { WORD, SPACE, OTHER };

static enum cut_word cut_word(uint32_t c)
{
    return gen_char_is_word(c) ? WORD : gen_char_is_space(c) ? SPACE : OTHER;
}

static bool cut_matches(const struct gen_cut *cut, uint32_t c)
{
    switch (cut->at) {
    case GEN_CUT_CHAR: return c == cut->c;
    case GEN_CUT_SPACE: return gen_char_is_space(c);
    case GEN_CUT_NUMERIC: return gen_char_is_numeric(c);
    case GEN_CUT_PUNCTUATION: return gen_char_is_punctuation(c);
    default: return cut_word(c) != SPACE;
    }
}

/* The next match in [from, end), by characters: as gen_regex_find. */
static int cut_find_chars(const struct gen_cut *cut, const char *text, size_t end, size_t from,
                          size_t match[2])
{
    uint32_t c = 0;
    unsigned n = 0;
    for (; from < end; from += n) {
        n = gen_utf8_get(text + from, &c);
        if (cut_matches(cut, c)) break;
    }
    if (from >= end) return 0;
    match[0] = from;
    match[1] = from + n;
    if (cut->at != GEN_CUT_WORDS) return 1;
    enum cut_word kind = cut_word(c);
    while (match[1] < end && (n = gen_utf8_get(text + match[1], &c), cut_word(c) == kind)) match[1] += n;
    return 1;
}

/* The parts of one piece, as they come: the last is kept back, as the next may join it. */
struct cut_parts {
    struct gen_pieces *out;
    enum gen_cut_keep keep;
    size_t start, from, to; /* of the piece; of the part that is kept back */
    bool first;             /* of the piece */
    bool held, match;       /* a part is kept back; it is (or ends with) a match */
};

static int cut_flush(struct cut_parts *p)
{
    if (!p->held) return 0;
    p->held = false;
    struct gen_piece part = {.at = p->from,
                             .bytes = p->to - p->from,
                             .token = UINT32_MAX,
                             .first = p->first && p->from == p->start};
    return gen_pieces_add(p->out, part) ? gw_error(-ENOMEM, "no memory to cut a text") : 0;
}

static int cut_part(struct cut_parts *p, size_t from, size_t to, bool match)
{
    if (from == to) return 0;
    bool join = p->held && ((p->keep == GEN_CUT_CONTIGUOUS && p->match == match) ||
                            (p->keep == GEN_CUT_WITH_PREVIOUS && match && !p->match) ||
                            (p->keep == GEN_CUT_WITH_NEXT && p->match && !match));
    int err = 0;
    if (join) {
        p->to = to;
        p->match = match;
        return 0;
    }
    err = cut_flush(p);
    p->held = !(match && p->keep == GEN_CUT_REMOVED);
    p->from = from;
    p->to = to;
    p->match = match;
    return err;
}

int gen_cut(const struct gen_cut *cut, const char *text, const struct gen_piece *piece,
            struct gen_pieces *out)
{
    const char *at = text + piece->at;
    struct cut_parts parts = {.out = out, .keep = cut->keep, .start = piece->at, .first = piece->first};
    size_t from = 0, match[2];
    int found, err = 0;
    while (!err) {
        found = cut->at == GEN_CUT_REGEX ? gen_regex_find(cut->regex, at, piece->bytes, from, match)
                                         : cut_find_chars(cut, at, piece->bytes, from, match);
        if (found < 0) return found;
        if (!found) break;
        err = cut_part(&parts, piece->at + from, piece->at + match[0], cut->invert);
        if (!err) err = cut_part(&parts, piece->at + match[0], piece->at + match[1], !cut->invert);
        from = match[1];
    }
    if (!err) err = cut_part(&parts, piece->at + from, piece->at + piece->bytes, cut->invert);
    return err ? err : cut_flush(&parts);
}
