/* SPDX-License-Identifier: Apache-2.0 */
/* A vocabulary: texts and their ids, both ways. */
#ifndef GW_GENERATE_TEXT_VOCAB_H
#define GW_GENERATE_TEXT_VOCAB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "src/door/text.h"

/* The highest id that a vocabulary may have. */
#define GEN_MAX_TOKEN_ID ((16u << 20) - 1)

struct gen_vocab_entry {
    uint32_t at, bytes; /* in the vocabulary's texts */
    uint32_t id;
};

/* Zeroed it is empty. Reading is for any thread. */
struct gen_vocab {
    struct gw_text texts;
    struct gen_vocab_entry *entries;
    uint32_t count, room;
    uint32_t *slots; /* entry + 1, by hash; 0: free. Their number is a power of two. */
    uint32_t slot_count;
    uint32_t *by_id; /* entry + 1, or 0; `ids` of them */
    uint32_t ids;
};

/* Adds a text. 0; -EEXIST (it is there already, with whatever id), -EINVAL (the id is too high), -E2BIG (4
 * GiB of texts) or -ENOMEM. */
int gen_vocab_add(struct gen_vocab *v, const char *text, size_t bytes, uint32_t id);
void gen_vocab_free(struct gen_vocab *v);
/* The id of a text, or UINT32_MAX. */
uint32_t gen_vocab_find(const struct gen_vocab *v, const char *text, size_t bytes);
/* The text of an id; NULL: it has none. Of several texts with one id, the one that was added last. */
const char *gen_vocab_text(const struct gen_vocab *v, uint32_t id, size_t *bytes);

#endif
