/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any bytes as a tokenizer.json, then a zero and a text: opened, the text encoded in all ways, and what
 * came decoded at once and piece by piece. Most files begin as one of the seeds, of which parts are put in
 * place of others.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "src/generate/text/tokenizer.h"
#include "src/generate/text/utf8.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned int seed);
size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t max_size);

#define BYTES "\"type\":\"ByteLevel\",\"add_prefix_space\":true,\"use_regex\":true"
#define MODEL                                                                                                \
    "\"model\":{\"type\":\"BPE\",\"unk_token\":\"<unk>\",\"fuse_unk\":true,\"vocab\":{\"<unk>\":0,\"a\":1,"  \
    "\"b\":2,\"ab\":3,"                                                                                      \
    "\"\\u0120\":4,\"\\u0120a\":5,\"\\u2581\":6,\"\\u2581a\":7,\"c\":8,\"abab\":9},\"merges\":[\"a "         \
    "b\",[\"\\u0120\",\"a\"],"                                                                               \
    "\"ab ab\",\"\\u2581 a\"]}"

static const char *const seeds[] = {
    "{\"added_tokens\":[{\"id\":10,\"content\":\"<s>\",\"special\":true},{\"id\":11,\"content\":\"ba\","
    "\"lstrip\":true,"
    "\"rstrip\":true,\"single_word\":true,\"normalized\":true}],\"pre_tokenizer\":{" BYTES
    "},\"decoder\":{" BYTES "},"
    "\"post_processor\":{\"type\":\"TemplateProcessing\",\"single\":[{\"SpecialToken\":{\"id\":\"<s>\","
    "\"type_id\":0}},"
    "{\"Sequence\":{\"id\":\"A\"}}],\"special_tokens\":{\"<s>\":{\"ids\":[10]}}}," MODEL "}\0 ab<s>ba\xFF a",
    "{\"normalizer\":{\"type\":\"Sequence\",\"normalizers\":[{\"type\":\"Prepend\",\"prepend\":\"\\u2581\"},{"
    "\"type\":"
    "\"Replace\",\"pattern\":{\"String\":\" "
    "\"},\"content\":\"\\u2581\"}]},\"decoder\":{\"type\":\"Sequence\",\"decoders\":["
    "{\"type\":\"Replace\",\"pattern\":{\"String\":\"\\u2581\"},\"content\":\" "
    "\"},{\"type\":\"ByteFallback\"},"
    "{\"type\":\"Fuse\"},{\"type\":\"Strip\",\"content\":\" \",\"start\":1,\"stop\":0}]}," MODEL
    "}\0 a b  ab\xE2\x96",
    "{\"pre_tokenizer\":{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"Split\",\"pattern\":{\"Regex\":"
    "\"\\\\p{L}+|"
    "\\\\s+(?!\\\\S)\"},\"behavior\":\"Isolated\",\"invert\":false},{\"type\":\"Digits\",\"individual_"
    "digits\":true},"
    "{\"type\":\"Punctuation\",\"behavior\":\"MergedWithNext\"}]},\"decoder\":{\"type\":\"Metaspace\","
    "\"replacement\":"
    "\"\\u2581\",\"prepend_scheme\":\"first\"}," MODEL "}\0 12 a.b,,ab",
};
static const char *const parts[] = {
    "{\"type\":\"NFC\"}",
    "{\"type\":\"NFKD\"}",
    "{\"type\":\"Lowercase\"}",
    "{\"type\":\"StripAccents\"}",
    "{\"type\":\"Nmt\"}",
    "{\"type\":\"ByteLevel\"}",
    "{\"type\":\"Strip\",\"strip_left\":true,\"strip_right\":true}",
    "{\"type\":\"WhitespaceSplit\"}",
    "{\"type\":\"Whitespace\"}",
    "{\"type\":\"CharDelimiterSplit\",\"delimiter\":\"a\"}",
    "{\"type\":\"Fuse\"}",
    "{\"type\":\"ByteFallback\"}",
    "{\"type\":\"Metaspace\",\"replacement\":\"_\",\"prepend_scheme\":\"always\",\"split\":true}",
    "{\"type\":\"Strip\",\"content\":\"a\",\"start\":2,\"stop\":1}",
    "{\"type\":\"Sequence\",\"normalizers\":[],\"decoders\":[],\"pretokenizers\":[],\"processors\":[]}",
    "null",
    "{}",
    "[]",
    "\"Contiguous\"",
    "\"MergedWithPrevious\"",
    "\"Removed\"",
    "true",
    "false",
    "4294967295",
    "-1",
    "16777215",
    "\"a\"",
    "\"\"",
    "\"ab\"",
    "\"\\u0000\"",
    "\"continuing_subword_prefix\":\"b\"",
    "\"end_of_word_suffix\":\"b\"",
    "\"byte_fallback\":true",
    "\"ignore_merges\":true",
    "{\"type\":\"RobertaProcessing\",\"cls\":[\"a\",1],\"sep\":[\"b\",2]}",
};

static void check(int yes)
{
    if (!yes) abort();
}

static void check_text(const struct gw_text *text)
{
    bool whole = true, open;
    for (size_t i = 0; i < text->bytes && whole;)
        i += gen_utf8_scan(text->at + i, text->bytes - i, &whole, &open);
    check(whole);
}

/* Decodes at once and token by token. */
static void decode(const struct gen_tokenizer *t, const struct gen_ids *ids, bool control)
{
    struct gw_text once = {0}, pieces = {0};
    struct gen_decoder d = {0};
    check(!gen_tokenizer_decode(t, ids->at, ids->count, control, &once));
    for (size_t i = 0; i < ids->count; i++) check(!gen_decoder_next(t, &d, ids->at[i], control, &pieces));
    check(!gen_decoder_end(t, &d, &pieces));
    check_text(&once);
    check_text(&pieces);
    free(once.at);
    free(pieces.at);
}

static void use(const struct gen_tokenizer *t, const char *text, size_t bytes)
{
    struct gen_ids ids = {0}, mixed = {0};
    unsigned char *foreign = malloc(bytes + 1);
    check(foreign != NULL);
    for (unsigned flags = 0; flags < 4; flags++) {
        ids.count = 0;
        if (gen_tokenizer_encode(t, text, bytes, flags, &ids)) break;
        for (size_t i = 0; i < ids.count; i++) {
            size_t n;
            check(ids.at[i] < gen_tokenizer_size(t) || (flags & GEN_ENCODE_SPECIAL));
            gen_tokenizer_token(t, ids.at[i], &n);
        }
        decode(t, &ids, flags & 1);
    }
    /* A text that is all a stranger's is encoded as one that may hold no control tokens. */
    memset(foreign, 1, bytes + 1);
    ids.count = 0;
    if (!gen_tokenizer_encode_mixed(t, &(struct gen_mixed){text, foreign, bytes}, &mixed) &&
        !gen_tokenizer_encode(t, text, bytes, 0, &ids)) {
        check(ids.count == mixed.count);
        check(!ids.count || !memcmp(ids.at, mixed.at, ids.count * sizeof(ids.at[0])));
    }
    free(foreign);
    gen_ids_free(&ids);
    gen_ids_free(&mixed);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const uint8_t *zero = size ? memchr(data, 0, size) : NULL;
    size_t json = zero ? (size_t)(zero - data) : size;
    struct gen_tokenizer *t;
    if (gen_tokenizer_parse((const char *)data, json, &t)) return 0;
    const char *text = zero ? (const char *)zero + 1 : "ab a";
    use(t, text, zero ? size - json - 1 : 4);
    gen_tokenizer_close(t);
    return 0;
}

/* Puts a part in the place of a JSON value that begins at a random place. */
static size_t put_part(uint8_t *data, size_t size, size_t max_size, unsigned int seed)
{
    const char *part = parts[seed % (sizeof(parts) / sizeof(parts[0]))];
    size_t n = strlen(part), at = (seed >> 8) % (size + 1), end = at;
    while (at < size && !strchr("{[\":", data[at])) at++;
    for (end = at; end < size && !strchr("}],", data[end]);) end++;
    end += end < size && data[end] != ',';
    if (end > size || size - (end - at) + n > max_size) return LLVMFuzzerMutate(data, size, max_size);
    memmove(data + at + n, data + end, size - end);
    memcpy(data + at, part, n);
    return size - (end - at) + n;
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned int seed)
{
    if (size < 16 || seed % 16 == 0) {
        const char *from = seeds[(seed >> 4) % 3];
        size_t json = strlen(from), text = strlen(from + json + 1), n = json + 1 + text;
        if (n > max_size) return LLVMFuzzerMutate(data, size, max_size);
        memcpy(data, from, n);
        return n;
    }
    return seed % 3 ? put_part(data, size, max_size, seed / 16) : LLVMFuzzerMutate(data, size, max_size);
}
