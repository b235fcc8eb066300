/* SPDX-License-Identifier: Apache-2.0 */
/* What a BPE model knows, as it was read: its vocabulary, its pairs, its rules. */
#ifndef GW_GENERATE_TEXT_BPE_READ_H
#define GW_GENERATE_TEXT_BPE_READ_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "src/generate/text/hash.h"
#include "src/generate/text/vocab.h"

/* The longest continuing_subword_prefix and end_of_word_suffix, in bytes. */
#define GEN_MAX_AFFIX 64
/* Characters below have a table. */
#define GEN_BPE_TABLE 0x800

/* Two tokens that merge. A slot that is free has `id` UINT32_MAX. */
struct gen_bpe_pair {
    uint32_t left, right, rank, id;
};

struct gen_bpe {
    struct gen_vocab vocab;
    struct gen_bpe_pair *pairs; /* a hash table */
    uint32_t pair_mask;         /* its slots - 1 */
    uint32_t *merged;           /* what merges of each rank become */
    uint32_t unknown;           /* UINT32_MAX: none */
    uint32_t bytes[256];        /* the tokens <0x00> to <0xFF>, for byte_fallback */
    bool fuse_unknown, byte_fallback, ignore_merges;
    char prefix[GEN_MAX_AFFIX], suffix[GEN_MAX_AFFIX];
    size_t prefix_bytes, suffix_bytes;
    uint32_t chars[GEN_BPE_TABLE]; /* the ids of characters of one or two bytes */
};

/* Makes it of tokenizer.json's "model". 0 or a negative errno with gw_error's line. */
int gen_bpe_open(const json_t *model, struct gen_bpe **out);
void gen_bpe_close(struct gen_bpe *bpe);

/* The pair's entry, or NULL. */
static inline const struct gen_bpe_pair *gen_bpe_pair(const struct gen_bpe *bpe, uint32_t left,
                                                      uint32_t right)
{
    uint32_t slot = (uint32_t)gen_hash_mix((uint64_t)left << 32 | right) & bpe->pair_mask;
    for (;; slot = (slot + 1) & bpe->pair_mask) {
        const struct gen_bpe_pair *p = &bpe->pairs[slot];
        if (p->id == UINT32_MAX) return NULL;
        if (p->left == left && p->right == right) return p;
    }
}

/* The id of one character, or UINT32_MAX. */
static inline uint32_t gen_bpe_char(const struct gen_bpe *bpe, const char *at, size_t bytes)
{
    const unsigned char *s = (const unsigned char *)at;
    if (bytes == 1) return bpe->chars[s[0]];
    if (bytes == 2) return bpe->chars[(s[0] & 0x1Fu) << 6 | (s[1] & 0x3Fu)];
    return gen_vocab_find(&bpe->vocab, at, bytes);
}

#endif
