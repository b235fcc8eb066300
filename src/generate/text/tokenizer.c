/* SPDX-License-Identifier: Apache-2.0 */
/* A tokenizer: takes tokenizer.json apart into its steps, and leads a text through them. */
#include "src/generate/text/tokenizer.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "gpuwire/error.h"
#include "src/generate/text/added.h"
#include "src/generate/text/bpe.h"
#include "src/generate/text/bpe_read.h"
#include "src/generate/text/file.h"
#include "src/generate/text/normalize.h"
#include "src/generate/text/post.h"
#include "src/generate/text/pretoken.h"
#include "src/generate/text/sentence.h"
#include "src/generate/text/spec.h"
#include "src/generate/text/special.h"
#include "src/generate/text/utf8.h"
#include "src/generate/text/vocab.h"

struct gen_tokenizer {
    struct gen_bpe *bpe;
    struct gen_normalizer *normalizer;
    struct gen_pretokenizer *pretokenizer;
    struct gen_added *raw, *normalized; /* added tokens, found before normalizing and after */
    struct gen_vocab added;             /* their texts */
    struct gen_post post;
    struct gen_decode *decode;
    struct gen_special special;
    unsigned char *control; /* by id, `size` of them: what decoding leaves out */
    uint32_t size;
};

/* What one encoding works with. */
struct encode {
    const struct gen_tokenizer *t;
    bool control;
    struct gen_ids *ids;
    struct gen_marked piece, spare_piece;
    struct gen_pieces parts, words, spare_words;
    struct gen_bpe_scratch scratch;
};

/* ---- opening */

static int put_vocab(struct gen_tokenizer *t)
{
    const struct gen_vocab *v = &t->bpe->vocab;
    int err = 0;
    for (uint32_t id = 0; id < v->ids && !err; id++) {
        size_t bytes;
        const char *text = gen_vocab_text(v, id, &bytes);
        if (!text) continue;
        t->size = id + 1;
        err = gen_decode_put(t->decode, id, text, bytes);
    }
    return err;
}

/* How the token is written in a text that was normalized. */
static int added_normalized(const struct gen_tokenizer *t, const struct gen_added_token *token,
                            struct gen_marked *to)
{
    struct gen_marked spare = {0};
    gen_marked_add(to, token->text, token->bytes, false);
    int err = to->text.broken ? gw_error(-ENOMEM, "no memory for the added tokens") : 0;
    if (!err && token->normalized) err = gen_normalizer_apply(t->normalizer, to, &spare);
    gen_marked_free(&spare);
    return err;
}

static int control_reach(struct gen_tokenizer *t, uint32_t id, uint32_t *room)
{
    if (id < *room) return 0;
    uint32_t more = *room ? *room : 1024;
    while (more <= id) more *= 2;
    unsigned char *control = realloc(t->control, more);
    if (!control) return gw_error(-ENOMEM, "no memory for the added tokens");
    memset(control + *room, 0, more - *room);
    t->control = control;
    *room = more;
    return 0;
}

static int put_added(struct gen_tokenizer *t, const struct gen_added_token *token)
{
    struct gen_marked written = {0};
    int err = gen_vocab_add(&t->added, token->text, token->bytes, token->id);
    if (err && err != -EEXIST) return gw_error(err, "no memory for the added tokens");
    err = added_normalized(t, token, &written);
    if (!err && written.text.bytes)
        err = gen_added_put(token->normalized ? t->normalized : t->raw, token, written.text.at,
                            written.text.bytes);
    if (!err) err = gen_decode_put(t->decode, token->id, written.text.at, written.text.bytes);
    gen_marked_free(&written);
    if (token->id >= t->size) t->size = token->id + 1;
    return err;
}

static int read_added(struct gen_tokenizer *t, const json_t *list)
{
    uint32_t room = 0;
    int err = 0;
    for (size_t i = 0; i < json_array_size(list) && !err; i++) {
        struct gen_added_token token;
        err = gen_added_read(json_array_get(list, i), &token);
        if (!err && token.bytes) {
            /* A token that the model has keeps the model's id. */
            uint32_t own = gen_vocab_find(&t->bpe->vocab, token.text, token.bytes);
            token.id = own == UINT32_MAX ? token.id : own;
            err = put_added(t, &token);
            if (!err) err = control_reach(t, token.id, &room);
            if (!err) t->control[token.id] = token.special;
        }
        free(token.text);
    }
    return err ? err : control_reach(t, t->size, &room);
}

static int read_parts(struct gen_tokenizer *t, const json_t *file)
{
    int err = gen_normalizer_open(json_object_get(file, "normalizer"), &t->normalizer);
    if (!err) err = gen_pretokenizer_open(json_object_get(file, "pre_tokenizer"), &t->pretokenizer);
    if (!err) err = gen_bpe_open(json_object_get(file, "model"), &t->bpe);
    if (!err) err = gen_post_open(json_object_get(file, "post_processor"), &t->post);
    if (!err) err = gen_decode_open(json_object_get(file, "decoder"), &t->decode);
    if (err) return err;
    t->raw = gen_added_open();
    t->normalized = gen_added_open();
    if (!t->raw || !t->normalized) return gw_error(-ENOMEM, "no memory for a tokenizer");
    err = put_vocab(t);
    return err ? err : read_added(t, json_object_get(file, "added_tokens"));
}

static int tokenizer_read(const json_t *file, struct gen_tokenizer **out)
{
    *out = calloc(1, sizeof(**out));
    if (!*out) return gw_error(-ENOMEM, "no memory for a tokenizer");
    (*out)->special.bos = (*out)->special.pad = GEN_NO_TOKEN;
    int err = read_parts(*out, file);
    if (err) {
        gen_tokenizer_close(*out);
        *out = NULL;
    }
    return err;
}

static uint32_t tokenizer_find(const void *t, const char *text, size_t bytes)
{
    return gen_tokenizer_find(t, text, bytes);
}

/* tokenizer.model, as the tokenizer.json that means the same. */
static int read_sentence(const char *folder, json_t **out)
{
    struct gw_text model = {0};
    json_t *config;
    int err = gen_file_read(folder, "tokenizer.model", &model);
    if (err)
        return err == -ENOENT ? gw_error(err, "%s has no tokenizer.json and no tokenizer.model", folder)
                              : err;
    err = gen_file_json(folder, "tokenizer_config.json", &config);
    if (!err || err == -ENOENT) {
        struct gen_sentence_ends ends = {.bos = gen_spec_flag(config, "add_bos_token", true),
                                         .eos = gen_spec_flag(config, "add_eos_token", false)};
        err = gen_sentence_json(model.at, model.bytes, ends, out);
    }
    json_decref(config);
    free(model.at);
    return err;
}

int gen_tokenizer_open(const char *folder, struct gen_tokenizer **out)
{
    json_t *file;
    *out = NULL;
    int err = gen_file_json(folder, "tokenizer.json", &file);
    if (err == -ENOENT) err = read_sentence(folder, &file);
    if (err) return err;
    err = tokenizer_read(file, out);
    json_decref(file);
    if (err) return err;
    err = gen_special_read(folder, tokenizer_find, *out, &(*out)->special);
    if (err) {
        gen_tokenizer_close(*out);
        *out = NULL;
        return err;
    }
    /* What ends an answer is a control token, whatever the file calls it. */
    for (size_t i = 0; i < (*out)->special.eos.count; i++) {
        gen_added_guard((*out)->raw, (*out)->special.eos.at[i]);
        gen_added_guard((*out)->normalized, (*out)->special.eos.at[i]);
    }
    return 0;
}

int gen_tokenizer_parse(const char *json, size_t bytes, struct gen_tokenizer **out)
{
    json_t *file;
    *out = NULL;
    int err = gen_file_parse("tokenizer.json", json, bytes, &file);
    if (err) return err;
    err = tokenizer_read(file, out);
    json_decref(file);
    return err;
}

void gen_tokenizer_close(struct gen_tokenizer *t)
{
    if (!t) return;
    gen_bpe_close(t->bpe);
    gen_normalizer_close(t->normalizer);
    gen_pretokenizer_close(t->pretokenizer);
    gen_added_close(t->raw);
    gen_added_close(t->normalized);
    gen_vocab_free(&t->added);
    gen_post_close(&t->post);
    gen_decode_close(t->decode);
    gen_ids_free(&t->special.eos);
    free(t->control);
    free(t);
}

/* ---- encoding */

static void encode_free(struct encode *e)
{
    gen_marked_free(&e->piece);
    gen_marked_free(&e->spare_piece);
    gen_pieces_free(&e->parts);
    gen_pieces_free(&e->words);
    gen_pieces_free(&e->spare_words);
    gen_bpe_scratch_free(&e->scratch);
}

/* A part that no added token stands in: words, then tokens. */
static int encode_part(struct encode *e, const char *at, size_t bytes, bool first)
{
    gen_pieces_clear(&e->words);
    gw_text_add(&e->words.text, at, bytes);
    struct gen_piece whole = {.bytes = bytes, .token = UINT32_MAX, .first = first};
    if (e->words.text.broken || gen_pieces_add(&e->words, whole))
        return gw_error(-ENOMEM, "no memory to encode a text");
    int err = gen_pretokenizer_apply(e->t->pretokenizer, &e->words, &e->spare_words);
    for (size_t i = 0; i < e->words.count && !err; i++) {
        const struct gen_piece *word = &e->words.at[i];
        if (gen_bpe_word(e->t->bpe, e->words.text.at + word->at, word->bytes, &e->scratch, e->ids))
            err = gw_error(-ENOMEM, "no memory to encode a text");
    }
    return err;
}

/* A piece between added tokens of the raw text: it is normalized, and may hold others. */
static int encode_piece(struct encode *e, const struct gen_marked *text, const struct gen_piece *piece)
{
    gen_marked_clear(&e->piece);
    e->piece.marks = text->marks;
    gw_text_add(&e->piece.text, text->text.at + piece->at, piece->bytes);
    if (text->marks) gw_text_add(&e->piece.foreign, text->foreign.at + piece->at, piece->bytes);
    if (e->piece.text.broken || e->piece.foreign.broken)
        return gw_error(-ENOMEM, "no memory to encode a text");
    int err = gen_normalizer_apply(e->t->normalizer, &e->piece, &e->spare_piece);
    gen_pieces_clear(&e->parts);
    if (!err) err = gen_added_cut(e->t->normalized, &e->piece, e->control, piece->first, &e->parts);
    for (size_t i = 0; i < e->parts.count && !err; i++) {
        const struct gen_piece *part = &e->parts.at[i];
        if (part->token == UINT32_MAX)
            err = encode_part(e, e->piece.text.at + part->at, part->bytes, part->first);
        else if (gen_ids_add(e->ids, part->token))
            err = gw_error(-ENOMEM, "no memory to encode a text");
    }
    return err;
}

static int encode_marked(const struct gen_tokenizer *t, const struct gen_marked *text, bool control,
                         struct gen_ids *ids)
{
    struct encode e = {.t = t, .control = control, .ids = ids};
    struct gen_pieces pieces = {0};
    int err = gen_added_cut(t->raw, text, control, true, &pieces);
    for (size_t i = 0; i < pieces.count && !err; i++) {
        if (pieces.at[i].token == UINT32_MAX)
            err = encode_piece(&e, text, &pieces.at[i]);
        else if (gen_ids_add(ids, pieces.at[i].token))
            err = gw_error(-ENOMEM, "no memory to encode a text");
    }
    encode_free(&e);
    gen_pieces_free(&pieces);
    return err;
}

/* Makes valid UTF-8 of the text. */
static int text_clean(const struct gen_mixed *in, struct gen_marked *out)
{
    if (in->bytes > GEN_MAX_TEXT)
        return gw_error(-E2BIG, "a text has %zu bytes; the limit is %u", in->bytes, GEN_MAX_TEXT);
    out->marks = in->foreign != NULL;
    size_t run = 0;
    for (size_t i = 0, n; i < in->bytes; i += n) {
        bool whole, open, foreign = in->foreign && in->foreign[i];
        n = gen_utf8_scan(in->text + i, in->bytes - i, &whole, &open);
        /* Runs of one owner go together. */
        if (whole && i + n < in->bytes && (!in->foreign || (in->foreign[i + n] != 0) == foreign)) continue;
        size_t to = whole ? i + n : i;
        gen_marked_add(out, in->text + run, to - run, foreign);
        if (!whole) gen_marked_add(out, GEN_UTF8_FAULT, 3, foreign);
        run = i + n;
    }
    return out->text.broken || out->foreign.broken ? gw_error(-ENOMEM, "no memory to encode a text") : 0;
}

static int encode_add(struct gen_ids *ids, const struct gen_ids *more)
{
    int err = 0;
    for (size_t i = 0; i < more->count && !err; i++) err = gen_ids_add(ids, more->at[i]);
    return err ? gw_error(err, "no memory to encode a text") : 0;
}

static int encode_mixed(const struct gen_tokenizer *t, const struct gen_mixed *mixed, unsigned flags,
                        struct gen_ids *ids)
{
    struct gen_marked text = {0};
    size_t before = ids->count;
    int err = text_clean(mixed, &text);
    if (!err && (flags & GEN_ENCODE_SPECIAL)) err = encode_add(ids, &t->post.before);
    if (!err) err = encode_marked(t, &text, flags & GEN_ENCODE_CONTROL, ids);
    if (!err && (flags & GEN_ENCODE_SPECIAL)) err = encode_add(ids, &t->post.after);
    if (err) ids->count = before;
    gen_marked_free(&text);
    return err;
}

int gen_tokenizer_encode(const struct gen_tokenizer *t, const char *text, size_t bytes, unsigned flags,
                         struct gen_ids *ids)
{
    struct gen_mixed mixed = {.text = text, .bytes = bytes};
    return encode_mixed(t, &mixed, flags, ids);
}

int gen_tokenizer_encode_mixed(const struct gen_tokenizer *t, const struct gen_mixed *mixed,
                               struct gen_ids *ids)
{
    return encode_mixed(t, mixed, GEN_ENCODE_CONTROL, ids);
}

/* ---- decoding, and what the tokenizer knows */

int gen_tokenizer_decode(const struct gen_tokenizer *t, const uint32_t *ids, size_t count, bool control,
                         struct gw_text *text)
{
    struct gen_ids shown = {0};
    int err = 0;
    for (size_t i = 0; i < count && !err; i++) {
        if (control || !gen_tokenizer_is_control(t, ids[i])) err = gen_ids_add(&shown, ids[i]);
    }
    if (!err) err = gen_decode_all(t->decode, shown.at, shown.count, text);
    gen_ids_free(&shown);
    return err;
}

int gen_decoder_next(const struct gen_tokenizer *t, struct gen_decoder *d, uint32_t id, bool control,
                     struct gw_text *text)
{
    return !control && gen_tokenizer_is_control(t, id) ? 0 : gen_decode_next(t->decode, d, id, text);
}

int gen_decoder_end(const struct gen_tokenizer *t, struct gen_decoder *d, struct gw_text *text)
{
    return gen_decode_end(t->decode, d, text);
}

uint32_t gen_tokenizer_size(const struct gen_tokenizer *t)
{
    return t->size;
}

const char *gen_tokenizer_token(const struct gen_tokenizer *t, uint32_t id, size_t *bytes)
{
    return gen_decode_bytes(t->decode, id, bytes);
}

bool gen_tokenizer_is_control(const struct gen_tokenizer *t, uint32_t id)
{
    return id < t->size && t->control[id];
}

uint32_t gen_tokenizer_find(const struct gen_tokenizer *t, const char *content, size_t bytes)
{
    uint32_t id = gen_vocab_find(&t->added, content, bytes);
    return id == UINT32_MAX ? gen_vocab_find(&t->bpe->vocab, content, bytes) : id;
}

uint32_t gen_tokenizer_bos(const struct gen_tokenizer *t)
{
    return t->special.bos;
}

uint32_t gen_tokenizer_pad(const struct gen_tokenizer *t)
{
    return t->special.pad;
}

size_t gen_tokenizer_eos(const struct gen_tokenizer *t, const uint32_t **ids)
{
    *ids = t->special.eos.at;
    return t->special.eos.count;
}
