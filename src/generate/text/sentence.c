/* SPDX-License-Identifier: Apache-2.0 */
/*
 * SentencePiece's tokenizer.model, read as the tokenizer.json that means the same. It is a protobuf
 * message: a list of pieces with scores, how the model was trained, how texts are normalized. A BPE model
 * merges the pair whose piece has the highest score, so each way to cut a piece in two is a merge, and the
 * pieces' order ranks them.
 */
#include "src/generate/text/sentence.h"

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "gpuwire/error.h"
#include "src/generate/text/utf8.h"
#include "src/generate/text/vocab.h"

/* The longest piece, in bytes. Each way to cut one is looked at. */
#define MAX_PIECE  512
#define SPACE_MARK "\xE2\x96\x81"

/* Kinds of pieces, and of models, as sentencepiece_model.proto numbers them. */
enum { PIECE_NORMAL = 1, PIECE_UNKNOWN, PIECE_CONTROL, PIECE_OWN, PIECE_UNUSED, PIECE_BYTE };
enum { MODEL_UNIGRAM = 1, MODEL_BPE = 2 };

/* Bytes of a message that are still to be read. */
struct proto {
    const unsigned char *at, *end;
    bool broken;
};

/* One field: its number, and a number or bytes. */
struct field {
    uint64_t number;
    uint64_t value;
    struct proto bytes;
};

struct sentence {
    json_t *vocab, *merges, *added;
    struct gen_vocab known; /* the pieces and their ids */
    float *scores;
    uint32_t count, room;
    uint64_t model, bos, eos;
    bool byte_fallback, prefix, collapse, escape;
    char unknown[64];
};

static uint64_t proto_number(struct proto *p)
{
    uint64_t value = 0;
    for (unsigned shift = 0; shift < 64 && p->at < p->end; shift += 7) {
        value |= (uint64_t)(*p->at & 0x7F) << shift;
        if (!(*p->at++ & 0x80)) return value;
    }
    p->broken = true;
    return 0;
}

/* The next field; false at the end, or where the message is not valid. */
static bool proto_next(struct proto *p, struct field *f)
{
    if (p->broken || p->at == p->end) return false;
    uint64_t key = proto_number(p), size = 0;
    unsigned type = key & 7;
    memset(f, 0, sizeof(*f));
    f->number = key >> 3;
    if (type == 0) {
        f->value = proto_number(p);
        return !p->broken;
    }
    size = type == 1 ? 8 : type == 5 ? 4 : type == 2 ? proto_number(p) : UINT64_MAX;
    if (p->broken || size > (uint64_t)(p->end - p->at)) {
        p->broken = true;
        return false;
    }
    f->bytes = (struct proto){.at = p->at, .end = p->at + size};
    p->at += size;
    return true;
}

static bool bytes_are_text(const struct proto *bytes)
{
    bool whole = true, open;
    const char *at = (const char *)bytes->at;
    size_t n = (size_t)(bytes->end - bytes->at);
    for (size_t i = 0; i < n && whole;) i += gen_utf8_scan(at + i, n - i, &whole, &open);
    return whole && n && !memchr(at, 0, n);
}

static int piece_add(struct sentence *s, const struct proto *text, float score, uint64_t kind)
{
    uint32_t id = s->count;
    const char *at = (const char *)text->at;
    size_t n = (size_t)(text->end - text->at);
    if (!bytes_are_text(text)) return gw_error(-EINVAL, "tokenizer.model: piece %u is not text", id);
    if (n > MAX_PIECE)
        return gw_error(-E2BIG, "tokenizer.model: piece %u has %zu bytes; the limit is %d", id, n, MAX_PIECE);
    if (s->count == s->room) {
        s->room = s->room ? s->room * 2 : 1024;
        float *scores = realloc(s->scores, s->room * sizeof(*scores));
        if (!scores) return gw_error(-ENOMEM, "no memory for a tokenizer");
        s->scores = scores;
    }
    s->scores[s->count++] = score;
    int err = gen_vocab_add(&s->known, at, n, id);
    if (err) return gw_error(err, "tokenizer.model: piece %u is there twice, or there are too many", id);
    char *key = strndup(at, n);
    if (!key || json_object_set_new(s->vocab, key, json_integer(id))) err = -ENOMEM;
    free(key);
    if (kind == PIECE_UNKNOWN && n < sizeof(s->unknown)) memcpy(s->unknown, at, n);
    if (kind == PIECE_UNKNOWN || kind == PIECE_CONTROL || kind == PIECE_OWN) {
        json_t *added = json_pack("{s:i, s:s%, s:b, s:b}", "id", (int)id, "content", at, n, "special",
                                  kind != PIECE_OWN, "normalized", 0);
        if (json_array_append_new(s->added, added)) err = -ENOMEM;
    }
    return err ? gw_error(err, "no memory for a tokenizer") : 0;
}

static int sentence_piece(struct sentence *s, struct proto p)
{
    struct field f;
    struct proto text = {0};
    float score = 0;
    uint64_t kind = PIECE_NORMAL;
    while (proto_next(&p, &f)) {
        if (f.number == 1) text = f.bytes;
        if (f.number == 2 && f.bytes.end - f.bytes.at == 4) memcpy(&score, f.bytes.at, 4);
        if (f.number == 3) kind = f.value;
    }
    return p.broken ? gw_error(-EINVAL, "tokenizer.model: a piece is broken")
                    : piece_add(s, &text, score, kind);
}

static void read_trainer(struct sentence *s, struct proto *p)
{
    struct field f;
    while (proto_next(p, &f)) {
        if (f.number == 3) s->model = f.value;
        if (f.number == 35) s->byte_fallback = f.value;
        if (f.number == 41) s->bos = f.value;
        if (f.number == 42) s->eos = f.value;
    }
}

static int read_normalizer(struct sentence *s, struct proto *p)
{
    struct field f;
    while (proto_next(p, &f)) {
        if (f.number == 2 && f.bytes.at < f.bytes.end)
            return gw_error(-ENOTSUP,
                            "tokenizer.model: a normalizer with a table of characters is not supported");
        if (f.number == 3) s->prefix = f.value;
        if (f.number == 4) s->collapse = f.value;
        if (f.number == 5) s->escape = f.value;
    }
    return 0;
}

static int sentence_read(struct sentence *s, struct proto p)
{
    struct field f;
    int err = 0;
    while (!err && proto_next(&p, &f)) {
        if (f.number == 1) err = sentence_piece(s, f.bytes);
        if (f.number == 2) read_trainer(s, &f.bytes);
        if (f.number == 3) err = read_normalizer(s, &f.bytes);
        p.broken |= f.bytes.broken;
    }
    if (err) return err;
    if (p.broken || !s->count) return gw_error(-EINVAL, "tokenizer.model is not a valid SentencePiece model");
    if (s->model != MODEL_BPE)
        return gw_error(-ENOTSUP, "tokenizer.model: a model that is not BPE is not supported");
    if (!s->escape)
        return gw_error(-ENOTSUP, "tokenizer.model: a model that does not mark spaces is not supported");
    return 0;
}

/* ---- merges */

struct ranked {
    float score;
    uint32_t id;
};

static int ranked_order(const void *a, const void *b)
{
    const struct ranked *x = a, *y = b;
    if (x->score != y->score) return x->score < y->score ? 1 : -1;
    return (x->id > y->id) - (x->id < y->id);
}

/* Each cut of a piece into two pieces. */
static int sentence_cuts(struct sentence *s, uint32_t id)
{
    size_t n;
    const char *text = gen_vocab_text(&s->known, id, &n);
    for (size_t i = gen_utf8_length(text); i < n; i += gen_utf8_length(text + i)) {
        if (gen_vocab_find(&s->known, text, i) == UINT32_MAX ||
            gen_vocab_find(&s->known, text + i, n - i) == UINT32_MAX)
            continue;
        if (json_array_append_new(s->merges, json_pack("[s%, s%]", text, i, text + i, n - i)))
            return gw_error(-ENOMEM, "no memory for a tokenizer");
    }
    return 0;
}

static int sentence_merges(struct sentence *s)
{
    struct ranked *ranked = malloc((s->count + 1u) * sizeof(*ranked));
    if (!ranked) return gw_error(-ENOMEM, "no memory for a tokenizer");
    for (uint32_t i = 0; i < s->count; i++) ranked[i] = (struct ranked){.score = s->scores[i], .id = i};
    qsort(ranked, s->count, sizeof(*ranked), ranked_order);
    int err = 0;
    for (uint32_t i = 0; i < s->count && !err; i++) err = sentence_cuts(s, ranked[i].id);
    free(ranked);
    return err;
}

/* ---- the other parts */

static json_t *sentence_normalizer(const struct sentence *s)
{
    json_t *list = json_array();
    if (s->collapse) {
        json_array_append_new(list, json_pack("{s:s, s:{s:s}, s:s}", "type", "Replace", "pattern", "Regex",
                                              "\\A +|[ " SPACE_MARK "]+\\z", "content", ""));
        json_array_append_new(list, json_pack("{s:s, s:{s:s}, s:s}", "type", "Replace", "pattern", "Regex",
                                              " +", "content", " "));
    }
    if (s->prefix)
        json_array_append_new(list, json_pack("{s:s, s:s}", "type", "Prepend", "prepend", SPACE_MARK));
    json_array_append_new(list, json_pack("{s:s, s:{s:s}, s:s}", "type", "Replace", "pattern", "String", " ",
                                          "content", SPACE_MARK));
    return json_pack("{s:s, s:o}", "type", "Sequence", "normalizers", list);
}

static json_t *sentence_decoder(const struct sentence *s)
{
    json_t *list = json_pack("[{s:s, s:{s:s}, s:s}]", "type", "Replace", "pattern", "String", SPACE_MARK,
                             "content", " ");
    if (s->byte_fallback) json_array_append_new(list, json_pack("{s:s}", "type", "ByteFallback"));
    json_array_append_new(list, json_pack("{s:s}", "type", "Fuse"));
    if (s->prefix || s->collapse)
        json_array_append_new(list, json_pack("{s:s, s:s, s:i, s:i}", "type", "Strip", "content", " ",
                                              "start", s->collapse ? UINT16_MAX : 1, "stop", 0));
    return json_pack("{s:s, s:o}", "type", "Sequence", "decoders", list);
}

static json_t *sentence_post(const struct sentence *s, struct gen_sentence_ends ends)
{
    json_t *single = json_array(), *special = json_object();
    if (ends.bos && s->bos < s->count) {
        json_array_append_new(single, json_pack("{s:{s:s}}", "SpecialToken", "id", "bos"));
        json_object_set_new(special, "bos", json_pack("{s:[I]}", "ids", (json_int_t)s->bos));
    }
    json_array_append_new(single, json_pack("{s:{s:s}}", "Sequence", "id", "A"));
    if (ends.eos && s->eos < s->count) {
        json_array_append_new(single, json_pack("{s:{s:s}}", "SpecialToken", "id", "eos"));
        json_object_set_new(special, "eos", json_pack("{s:[I]}", "ids", (json_int_t)s->eos));
    }
    return json_pack("{s:s, s:o, s:o}", "type", "TemplateProcessing", "single", single, "special_tokens",
                     special);
}

static json_t *sentence_model(const struct sentence *s)
{
    json_t *model = json_pack("{s:s, s:O, s:O, s:b, s:b}", "type", "BPE", "vocab", s->vocab, "merges",
                              s->merges, "fuse_unk", 1, "byte_fallback", s->byte_fallback);
    if (s->unknown[0]) json_object_set_new(model, "unk_token", json_string(s->unknown));
    return model;
}

int gen_sentence_json(const char *bytes, size_t size, struct gen_sentence_ends ends, json_t **out)
{
    struct sentence s = {.vocab = json_object(),
                         .merges = json_array(),
                         .added = json_array(),
                         .model = MODEL_UNIGRAM,
                         .bos = 1,
                         .eos = 2,
                         .prefix = true,
                         .collapse = true,
                         .escape = true};
    const unsigned char *at = (const unsigned char *)bytes;
    int err = sentence_read(&s, (struct proto){.at = at, .end = at + size});
    if (!err) err = sentence_merges(&s);
    *out = NULL;
    if (!err) {
        *out = json_pack("{s:o, s:o, s:o, s:o, s:O}", "normalizer", sentence_normalizer(&s), "decoder",
                         sentence_decoder(&s), "post_processor", sentence_post(&s, ends), "model",
                         sentence_model(&s), "added_tokens", s.added);
        err = *out ? 0 : gw_error(-ENOMEM, "no memory for a tokenizer");
    }
    gen_vocab_free(&s.known);
    free(s.scores);
    json_decref(s.vocab);
    json_decref(s.merges);
    json_decref(s.added);
    return err;
}
