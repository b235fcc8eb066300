/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as SentencePiece's tokenizer.model: read, and what comes is a tokenizer.json that opens. */
#include <jansson.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "src/generate/text/sentence.h"
#include "src/generate/text/tokenizer.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned int seed);
size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t max_size);

/* Pieces <unk>, <s>, a, b, ab with scores; a BPE model; an identity as its normalizer. */
static const char seed_model[] = "\x0a\x0e\x0a\x05<unk>\x15\0\0\0\0\x18\x02"
                                 "\x0a\x0c\x0a\x03<s>\x15\0\0\0\0\x18\x03"
                                 "\x0a\x08\x0a\x01"
                                 "a\x15\0\0\x80\xbf"
                                 "\x0a\x08\x0a\x01"
                                 "b\x15\0\0\0\xc0"
                                 "\x0a\x09\x0a\x02"
                                 "ab\x15\0\0\0\0"
                                 "\x12\x04\x18\x02\xc8\x02"
                                 "\x1a\x06\x18\x01\x20\x01\x28\x01";

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    json_t *json;
    struct gen_tokenizer *t;
    struct gen_ids ids = {0};
    struct gen_sentence_ends ends = {.bos = size & 1, .eos = size & 2};
    if (gen_sentence_json((const char *)data, size, ends, &json)) return 0;
    char *text = json_dumps(json, JSON_COMPACT);
    json_decref(json);
    if (!text) abort();
    if (!gen_tokenizer_parse(text, strlen(text), &t)) {
        if (gen_tokenizer_encode(t, " ab  b<s>a", 10, 3, &ids)) abort();
        gen_tokenizer_close(t);
    }
    gen_ids_free(&ids);
    free(text);
    return 0;
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned int seed)
{
    if ((size < 8 || seed % 64 == 0) && sizeof(seed_model) - 1 <= max_size) {
        memcpy(data, seed_model, sizeof(seed_model) - 1);
        return sizeof(seed_model) - 1;
    }
    return LLVMFuzzerMutate(data, size, max_size);
}
