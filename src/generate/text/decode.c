/* SPDX-License-Identifier: Apache-2.0 */
/* Decoders: the steps that work on each token alone are done once, into a table; the rest keeps a few bytes
 * of state. */
#include "src/generate/text/decode.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "gpuwire/error.h"
#include "src/generate/text/bytechars.h"
#include "src/generate/text/regex.h"
#include "src/generate/text/spec.h"
#include "src/generate/text/utf8.h"
#include "src/generate/text/vocab.h"

enum decode_kind { REPLACE, META_SPACE, STRIP };

/* A step that works on each token alone. */
struct decode_step {
    enum decode_kind kind;
    struct gen_regex *regex; /* REPLACE */
    char *text;              /* REPLACE: what it puts there */
    size_t bytes;
    uint32_t c;           /* META_SPACE, STRIP */
    bool drops;           /* META_SPACE: from the first token */
    uint32_t start, stop; /* STRIP: how many characters at most */
};

struct decode_entry {
    size_t at;
    uint32_t bytes;
    bool known, byte; /* it was put; it is one of <0x00> to <0xFF> */
};

struct gen_decode {
    struct decode_step steps[GEN_MAX_SPEC_PARTS];
    unsigned count;
    bool byte_level;            /* tokens are bytes, written as characters */
    bool byte_fallback;         /* <0x41> is the byte 0x41 */
    bool fused;                 /* what follows works on the whole text */
    bool spaced;                /* no decoder at all: a space between tokens */
    uint32_t strip, strip_char; /* how many characters are taken off the text's beginning at most */
    bool first_differs;
    struct gw_text table;
    struct decode_entry *entries;
    uint32_t entry_count;
    struct gen_vocab written; /* how tokens are written, where the first one of a text differs */
};

static int read_replace(struct gen_decode *d, const json_t *part)
{
    struct decode_step *step = &d->steps[d->count++];
    step->kind = REPLACE;
    const char *text = gen_spec_text(part, "content", &step->bytes);
    step->text = malloc(step->bytes + 1);
    if (!step->text) return gw_error(-ENOMEM, "no memory for a decoder");
    if (text) memcpy(step->text, text, step->bytes);
    return gen_spec_pattern(part, &step->regex);
}

static uint32_t read_number(const json_t *part, const char *name)
{
    json_int_t value = json_integer_value(json_object_get(part, name));
    return value < 0 ? 0 : value > UINT16_MAX ? UINT16_MAX : (uint32_t)value;
}

static int read_strip(struct gen_decode *d, const json_t *part)
{
    struct decode_step step = {.kind = STRIP,
                               .c = gen_spec_char(part, "content", ' '),
                               .start = read_number(part, "start"),
                               .stop = read_number(part, "stop")};
    if (!d->fused) {
        d->steps[d->count++] = step;
        return 0;
    }
    if (step.stop || d->strip)
        return gw_error(-ENOTSUP,
                        "tokenizer.json: a decoder that strips the end of the text is not supported");
    d->strip = step.start;
    d->strip_char = step.c;
    return 0;
}

static void decode_meta_space(struct gen_decode *d, const json_t *part)
{
    struct decode_step *step = &d->steps[d->count++];
    size_t bytes;
    const char *scheme = gen_spec_text(part, "prepend_scheme", &bytes);
    step->kind = META_SPACE;
    step->c = gen_spec_char(part, "replacement", 0x2581);
    step->drops = gen_spec_flag(part, "add_prefix_space", true) && !(scheme && !strcmp(scheme, "never"));
    d->first_differs |= step->drops;
}

static int decode_add(void *to, const json_t *part)
{
    struct gen_decode *d = to;
    const char *type = gen_spec_type(part);
    d->spaced = false;
    if (!strcmp(type, "Strip") && (d->fused || !d->byte_fallback)) return read_strip(d, part);
    if (!strcmp(type, "Fuse")) {
        d->fused = true;
        return 0;
    }
    if (d->fused || d->byte_fallback)
        return gw_error(-ENOTSUP,
                        "tokenizer.json: a decoder of type '%.60s' after ByteFallback, ByteLevel or Fuse is "
                        "not supported",
                        type);
    if (!strcmp(type, "ByteLevel")) {
        d->byte_level = d->fused = true;
    } else if (!strcmp(type, "ByteFallback")) {
        d->byte_fallback = true;
    } else if (!strcmp(type, "Replace")) {
        return read_replace(d, part);
    } else if (!strcmp(type, "Metaspace")) {
        decode_meta_space(d, part);
    } else {
        return gen_spec_unknown("decoder", part);
    }
    return 0;
}

int gen_decode_open(const json_t *spec, struct gen_decode **out)
{
    *out = calloc(1, sizeof(**out));
    if (!*out) return gw_error(-ENOMEM, "no memory for a decoder");
    (*out)->spaced = true;
    int err = gen_spec_each(spec, "decoders", decode_add, *out);
    if (err) {
        gen_decode_close(*out);
        *out = NULL;
    }
    return err;
}

void gen_decode_close(struct gen_decode *d)
{
    if (!d) return;
    for (unsigned i = 0; i < d->count; i++) {
        gen_regex_close(d->steps[i].regex);
        free(d->steps[i].text);
    }
    free(d->table.at);
    free(d->entries);
    gen_vocab_free(&d->written);
    free(d);
}

/* ---- one token alone */

static int token_replace(const struct decode_step *step, const struct gw_text *in, struct gw_text *out)
{
    size_t from = 0, match[2];
    int found = 0;
    while (in->bytes && (found = gen_regex_find(step->regex, in->at, in->bytes, from, match)) > 0) {
        gw_text_add(out, in->at + from, match[0] - from);
        gw_text_add(out, step->text, step->bytes);
        from = match[1];
    }
    if (in->bytes > from) gw_text_add(out, in->at + from, in->bytes - from);
    return found;
}

static void token_meta_space(const struct decode_step *step, const struct gw_text *in, bool first,
                             struct gw_text *out)
{
    for (size_t i = 0; i < in->bytes;) {
        uint32_t c;
        unsigned n = gen_utf8_get(in->at + i, &c);
        if (c != step->c)
            gw_text_add(out, in->at + i, n);
        else if (!first || !step->drops)
            gw_text_add(out, " ", 1);
        i += n;
    }
}

static void token_strip(const struct decode_step *step, const struct gw_text *in, struct gw_text *out)
{
    size_t from = 0, to = in->bytes;
    uint32_t c;
    for (uint32_t i = 0; i < step->start && from < to; i++) {
        unsigned n = gen_utf8_get(in->at + from, &c);
        if (c != step->c) break;
        from += n;
    }
    for (uint32_t i = 0; i < step->stop && to > from; i++) {
        size_t before = gen_utf8_before(in->at, to);
        gen_utf8_get(in->at + before, &c);
        if (c != step->c) break;
        to = before;
    }
    if (to > from) gw_text_add(out, in->at + from, to - from);
}

/* The bytes of characters that stand for bytes; a token with any other character stands for itself. */
static void token_bytes(const struct gw_text *in, struct gw_text *out)
{
    size_t before = out->bytes;
    uint32_t c;
    for (size_t i = 0; i < in->bytes;) {
        i += gen_utf8_get(in->at + i, &c);
        int byte = gen_char_byte(c);
        if (byte < 0) {
            out->bytes = before;
            gw_text_add(out, in->at, in->bytes);
            return;
        }
        char one = (char)byte;
        gw_text_add(out, &one, 1);
    }
}

/* Appends to `out` what the steps make of a token. */
static int token_decode(const struct gen_decode *d, const char *text, size_t bytes, bool first,
                        struct gw_text *out)
{
    struct gw_text in = {0}, next = {0};
    int err = 0;
    gw_text_add(&in, text, bytes);
    for (unsigned i = 0; i < d->count && !err; i++) {
        const struct decode_step *step = &d->steps[i];
        next.bytes = 0;
        if (step->kind == REPLACE)
            err = token_replace(step, &in, &next);
        else if (step->kind == META_SPACE)
            token_meta_space(step, &in, first, &next);
        else
            token_strip(step, &in, &next);
        struct gw_text other = in;
        in = next;
        next = other;
    }
    if (!err && (in.broken || next.broken)) err = gw_error(-ENOMEM, "no memory for a decoder");
    if (!err && in.bytes) {
        if (d->byte_level)
            token_bytes(&in, out);
        else
            gw_text_add(out, in.at, in.bytes);
    }
    free(in.at);
    free(next.at);
    return err;
}

/* The byte that <0x41> stands for, or -1. */
static int fallback_byte(const char *text, size_t bytes)
{
    static const char digits[] = "0123456789abcdef";
    if (bytes != 6 || memcmp(text, "<0x", 3) != 0 || text[5] != '>') return -1;
    int byte = 0;
    for (unsigned i = 3; i < 5; i++) {
        char c = text[i] >= 'A' && text[i] <= 'F' ? (char)(text[i] | 0x20) : text[i];
        const char *digit = c ? strchr(digits, c) : NULL;
        if (!digit) return -1;
        byte = byte * 16 + (int)(digit - digits);
    }
    return byte;
}

static int decode_reach(struct gen_decode *d, uint32_t id)
{
    if (id < d->entry_count) return 0;
    uint32_t count = d->entry_count ? d->entry_count : 1024;
    while (count <= id) count *= 2;
    struct decode_entry *entries = realloc(d->entries, count * sizeof(*entries));
    if (!entries) return gw_error(-ENOMEM, "no memory for a decoder");
    memset(entries + d->entry_count, 0, (count - d->entry_count) * sizeof(*entries));
    d->entries = entries;
    d->entry_count = count;
    return 0;
}

int gen_decode_put(struct gen_decode *d, uint32_t id, const char *text, size_t bytes)
{
    int err = decode_reach(d, id);
    if (err) return err;
    struct decode_entry *entry = &d->entries[id];
    entry->at = d->table.bytes;
    entry->known = true;
    int byte = d->byte_fallback ? fallback_byte(text, bytes) : -1;
    entry->byte = byte >= 0;
    if (entry->byte)
        gw_text_add(&d->table, &(char){(char)byte}, 1);
    else
        err = token_decode(d, text, bytes, false, &d->table);
    if (!err && d->table.broken) err = gw_error(-ENOMEM, "no memory for a decoder");
    if (err) return err;
    entry->bytes = (uint32_t)(d->table.bytes - entry->at);
    if (!d->first_differs) return 0;
    err = gen_vocab_add(&d->written, text, bytes, id);
    return err == -ENOMEM ? gw_error(err, "no memory for a decoder") : 0;
}

const char *gen_decode_bytes(const struct gen_decode *d, uint32_t id, size_t *bytes)
{
    bool known = id < d->entry_count && d->entries[id].known;
    *bytes = known ? d->entries[id].bytes : 0;
    return known ? d->table.at + d->entries[id].at : NULL;
}

/* ---- the stream */

/* Appends text of the stream: the characters that are taken off its beginning are left out. */
static void stream_put(const struct gen_decode *d, struct gen_decoder *s, const char *at, size_t bytes,
                       struct gw_text *out)
{
    while (bytes && !s->whole && s->stripped < d->strip) {
        uint32_t c;
        unsigned n = gen_utf8_get(at, &c);
        if (c != d->strip_char) break;
        s->stripped++;
        at += n;
        bytes -= n;
    }
    if (!bytes) return;
    s->whole = true;
    gw_text_add(out, at, bytes);
}

/* What a fault of `n` bytes becomes: one character for all, or with byte tokens one for each. */
static void stream_fault(const struct gen_decode *d, struct gen_decoder *s, unsigned n, struct gw_text *out)
{
    for (unsigned i = 0; i < (d->byte_fallback ? n : 1); i++) stream_put(d, s, GEN_UTF8_FAULT, 3, out);
}

static void stream_byte(const struct gen_decode *d, struct gen_decoder *s, unsigned char byte,
                        struct gw_text *out)
{
    s->held[s->holds++] = byte;
    while (s->holds) {
        bool whole, open;
        unsigned n = gen_utf8_scan((const char *)s->held, s->holds, &whole, &open);
        if (open) return;
        if (whole)
            stream_put(d, s, (const char *)s->held, n, out);
        else
            stream_fault(d, s, n, out);
        s->holds = (uint8_t)(s->holds - n);
        memmove(s->held, s->held + n, s->holds);
    }
}

/* Bytes that need not end with a character. */
static void stream_bytes(const struct gen_decode *d, struct gen_decoder *s, const char *at, size_t bytes,
                         struct gw_text *out)
{
    for (size_t i = 0; i < bytes;) {
        size_t run = i;
        while (!s->holds && run < bytes && (unsigned char)at[run] < 0x80) run++;
        if (run > i) stream_put(d, s, at + i, run - i, out);
        if (run < bytes) stream_byte(d, s, (unsigned char)at[run++], out);
        i = run;
    }
}

static void stream_flush(const struct gen_decode *d, struct gen_decoder *s, struct gw_text *out)
{
    if (s->holds) stream_fault(d, s, s->holds, out);
    s->holds = 0;
}

/* The first token of a text, where it decodes in another way. */
static int stream_first(const struct gen_decode *d, struct gen_decoder *s, uint32_t id, struct gw_text *out)
{
    size_t bytes;
    const char *written = gen_vocab_text(&d->written, id, &bytes);
    struct gw_text text = {0};
    int err = written ? token_decode(d, written, bytes, true, &text) : 0;
    if (!err && text.bytes) stream_put(d, s, text.at, text.bytes, out);
    free(text.at);
    return err;
}

int gen_decode_next(const struct gen_decode *d, struct gen_decoder *s, uint32_t id, struct gw_text *out)
{
    size_t bytes;
    const char *at = gen_decode_bytes(d, id, &bytes);
    if (!at) return 0;
    bool first = !s->begun;
    s->begun = true;
    if (d->entries[id].byte || d->byte_level) {
        stream_bytes(d, s, at, bytes, out);
    } else {
        stream_flush(d, s, out);
        if (d->spaced && !first) stream_put(d, s, " ", 1, out);
        if (first && d->first_differs) {
            int err = stream_first(d, s, id, out);
            if (err) return err;
        } else {
            stream_put(d, s, at, bytes, out);
        }
    }
    return out->broken ? -ENOMEM : 0;
}

int gen_decode_end(const struct gen_decode *d, struct gen_decoder *s, struct gw_text *out)
{
    stream_flush(d, s, out);
    memset(s, 0, sizeof(*s));
    return out->broken ? -ENOMEM : 0;
}

/* How many byte tokens stand in a row. Their bytes go to `bytes`. */
static size_t byte_run(const struct gen_decode *d, const uint32_t *ids, size_t count, struct gw_text *bytes)
{
    size_t n = 0;
    bytes->bytes = 0;
    for (; n < count && ids[n] < d->entry_count && d->entries[ids[n]].byte; n++)
        gw_text_add(bytes, d->table.at + d->entries[ids[n]].at, 1);
    return n;
}

static bool text_is_valid(const struct gw_text *text)
{
    bool whole = true, open;
    for (size_t i = 0; i < text->bytes && whole;)
        i += gen_utf8_scan(text->at + i, text->bytes - i, &whole, &open);
    return whole;
}

int gen_decode_all(const struct gen_decode *d, const uint32_t *ids, size_t count, struct gw_text *out)
{
    struct gen_decoder s = {0};
    struct gw_text bytes = {0};
    int err = 0;
    for (size_t i = 0; i < count && !err;) {
        size_t run = d->byte_fallback ? byte_run(d, ids + i, count - i, &bytes) : 0;
        if (bytes.broken) {
            err = -ENOMEM;
        } else if (!run) {
            err = gen_decode_next(d, &s, ids[i++], out);
        } else {
            /* The reference takes a run of byte tokens as a whole: one fault spoils all of it. */
            s.begun = true;
            if (text_is_valid(&bytes))
                stream_put(d, &s, bytes.at, bytes.bytes, out);
            else
                stream_fault(d, &s, (unsigned)run, out);
            i += run;
        }
    }
    free(bytes.at);
    return err ? err : gen_decode_end(d, &s, out);
}
