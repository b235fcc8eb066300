/* SPDX-License-Identifier: Apache-2.0 */
/* Reads a BPE model of tokenizer.json: checks all of it once, so that encoding checks nothing. */
#include "src/generate/text/bpe_read.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gpuwire/error.h"
#include "src/generate/text/spec.h"
#include "src/generate/text/utf8.h"

#define NONE UINT32_MAX

static int read_vocab(struct gen_bpe *bpe, const json_t *vocab)
{
    const char *text;
    json_t *id;
    json_object_foreach((json_t *)vocab, text, id)
    {
        json_int_t value = json_is_integer(id) ? json_integer_value(id) : -1;
        if (value < 0 || value > GEN_MAX_TOKEN_ID)
            return gw_error(-EINVAL, "tokenizer.json: the id of '%.60s' is no number from 0 to %u", text,
                            GEN_MAX_TOKEN_ID);
        int err = gen_vocab_add(&bpe->vocab, text, strlen(text), (uint32_t)value);
        if (err) return gw_error(err, "tokenizer.json: no memory for %zu tokens", json_object_size(vocab));
    }
    return 0;
}

static int make_pairs(struct gen_bpe *bpe, size_t count)
{
    size_t slots = 16;
    while (slots < 2 * count) slots *= 2;
    if (slots > UINT32_MAX / 2) return gw_error(-E2BIG, "tokenizer.json: %zu merges are too many", count);
    bpe->pairs = malloc(slots * sizeof(*bpe->pairs));
    bpe->merged = malloc((count + 1) * sizeof(*bpe->merged));
    if (!bpe->pairs || !bpe->merged) return gw_error(-ENOMEM, "no memory for %zu merges", count);
    memset(bpe->pairs, 0xFF, slots * sizeof(*bpe->pairs));
    bpe->pair_mask = (uint32_t)slots - 1;
    return 0;
}

/* A later merge of the same two tokens replaces an earlier one, as in the reference. */
static void put_pair(struct gen_bpe *bpe, struct gen_bpe_pair pair)
{
    uint32_t slot = (uint32_t)gen_hash_mix((uint64_t)pair.left << 32 | pair.right) & bpe->pair_mask;
    while (bpe->pairs[slot].id != NONE &&
           (bpe->pairs[slot].left != pair.left || bpe->pairs[slot].right != pair.right))
        slot = (slot + 1) & bpe->pair_mask;
    bpe->pairs[slot] = pair;
}

/* The two texts of a merge: "a b", or ["a", "b"]. */
static bool merge_texts(const json_t *merge, const char *text[2], size_t bytes[2])
{
    if (json_is_array(merge) && json_array_size(merge) == 2) {
        for (unsigned i = 0; i < 2; i++) {
            text[i] = json_string_value(json_array_get(merge, i));
            bytes[i] = json_string_length(json_array_get(merge, i));
        }
        return text[0] && text[1];
    }
    text[0] = json_string_value(merge);
    const char *space = text[0] ? strchr(text[0], ' ') : NULL;
    if (!space || strchr(space + 1, ' ')) return false;
    bytes[0] = (size_t)(space - text[0]);
    text[1] = space + 1;
    bytes[1] = json_string_length(merge) - bytes[0] - 1;
    return true;
}

static int read_merge(struct gen_bpe *bpe, const json_t *merge, uint32_t rank, struct gw_text *joined)
{
    const char *text[2];
    size_t bytes[2];
    if (!merge_texts(merge, text, bytes))
        return gw_error(-EINVAL, "tokenizer.json: merge %u is not two texts", rank + 1);
    joined->bytes = 0;
    gw_text_add(joined, text[0], bytes[0]);
    if (bytes[1] > bpe->prefix_bytes)
        gw_text_add(joined, text[1] + bpe->prefix_bytes, bytes[1] - bpe->prefix_bytes);
    if (joined->broken) return gw_error(-ENOMEM, "no memory for the merges");
    struct gen_bpe_pair pair = {.rank = rank,
                                .left = gen_vocab_find(&bpe->vocab, text[0], bytes[0]),
                                .right = gen_vocab_find(&bpe->vocab, text[1], bytes[1]),
                                .id = gen_vocab_find(&bpe->vocab, joined->at, joined->bytes)};
    if (pair.left == NONE || pair.right == NONE || pair.id == NONE)
        return gw_error(-EINVAL,
                        "tokenizer.json: merge %u ('%.40s') has a part that is not in the vocabulary",
                        rank + 1, joined->at);
    bpe->merged[rank] = pair.id;
    put_pair(bpe, pair);
    return 0;
}

static int read_merges(struct gen_bpe *bpe, const json_t *merges)
{
    struct gw_text joined = {0};
    size_t count = json_array_size(merges), rank = 0;
    int err = make_pairs(bpe, count);
    for (size_t i = 0; i < count && !err; i++) {
        const char *line = json_string_value(json_array_get(merges, i));
        if (!line || strncmp(line, "#version", 8) != 0)
            err = read_merge(bpe, json_array_get(merges, i), (uint32_t)rank++, &joined);
    }
    free(joined.at);
    return err;
}

/* All 256 byte tokens must be there: a character of which one lacked would come out as the unknown token,
 * by the characters around it. */
static int read_bytes(struct gen_bpe *bpe)
{
    for (unsigned i = 0; i < 256 && bpe->byte_fallback; i++) {
        char text[8];
        snprintf(text, sizeof(text), "<0x%02X>", i);
        bpe->bytes[i] = gen_vocab_find(&bpe->vocab, text, 6);
        if (bpe->bytes[i] == NONE)
            return gw_error(-ENOTSUP, "tokenizer.json: byte_fallback without the token %s is not supported",
                            text);
    }
    return 0;
}

static int read_affix(const json_t *model, const char *name, char to[GEN_MAX_AFFIX], size_t *bytes)
{
    const char *text = gen_spec_text(model, name, bytes);
    if (*bytes > GEN_MAX_AFFIX)
        return gw_error(-E2BIG, "tokenizer.json: %s has %zu bytes; the limit is %d", name, *bytes,
                        GEN_MAX_AFFIX);
    if (text) memcpy(to, text, *bytes);
    return 0;
}

static int read_rules(struct gen_bpe *bpe, const json_t *model)
{
    bpe->fuse_unknown = gen_spec_flag(model, "fuse_unk", false);
    bpe->byte_fallback = gen_spec_flag(model, "byte_fallback", false);
    bpe->ignore_merges = gen_spec_flag(model, "ignore_merges", false);
    if (json_number_value(json_object_get(model, "dropout")) > 0)
        return gw_error(-ENOTSUP, "tokenizer.json: dropout is for training; it is not supported");
    size_t bytes;
    const char *unknown = gen_spec_text(model, "unk_token", &bytes);
    bpe->unknown = unknown ? gen_vocab_find(&bpe->vocab, unknown, bytes) : NONE;
    if (unknown && bpe->unknown == NONE)
        return gw_error(-EINVAL, "tokenizer.json: the unk_token '%.60s' is not in the vocabulary", unknown);
    int err = read_affix(model, "continuing_subword_prefix", bpe->prefix, &bpe->prefix_bytes);
    return err ? err : read_affix(model, "end_of_word_suffix", bpe->suffix, &bpe->suffix_bytes);
}

static void fill_chars(struct gen_bpe *bpe)
{
    for (uint32_t c = 0; c < GEN_BPE_TABLE; c++) {
        char text[4];
        bpe->chars[c] = gen_vocab_find(&bpe->vocab, text, gen_utf8_put(text, c));
    }
}

int gen_bpe_open(const json_t *model, struct gen_bpe **out)
{
    /* Files of older versions name no type. */
    const char *type = gen_spec_type(model);
    const json_t *vocab = json_object_get(model, "vocab"), *merges = json_object_get(model, "merges");
    if (type[0] && strcmp(type, "BPE") != 0) return gen_spec_unknown("model", model);
    if (!json_is_object(vocab) || !json_is_array(merges))
        return gw_error(type[0] ? -EINVAL : -ENOTSUP,
                        "tokenizer.json: the model is not BPE: it has no vocab or merges");
    *out = calloc(1, sizeof(**out));
    if (!*out) return gw_error(-ENOMEM, "no memory for a tokenizer");
    int err = read_vocab(*out, vocab);
    if (!err) err = read_rules(*out, model);
    if (!err) err = read_merges(*out, merges);
    if (!err) err = read_bytes(*out);
    if (err) {
        gen_bpe_close(*out);
        *out = NULL;
        return err;
    }
    fill_chars(*out);
    return 0;
}

void gen_bpe_close(struct gen_bpe *bpe)
{
    if (!bpe) return;
    gen_vocab_free(&bpe->vocab);
    free(bpe->pairs);
    free(bpe->merged);
    free(bpe);
}
