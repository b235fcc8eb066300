/* SPDX-License-Identifier: Apache-2.0 */
/* Byte-pair encoding: a word begins as its characters, and the pair that was learned first merges first. */
#ifndef GW_GENERATE_TEXT_BPE_H
#define GW_GENERATE_TEXT_BPE_H

#include <stddef.h>

#include "src/generate/text/ids.h"

struct gen_bpe;

/* Memory that one thread uses from word to word. Zeroed it is empty. */
struct gen_bpe_scratch {
    struct bpe_symbol *symbols;
    size_t symbol_room;
    uint64_t *heap;
    size_t heap_room;
};
void gen_bpe_scratch_free(struct gen_bpe_scratch *s);

/* Appends the ids of a word of valid UTF-8. It takes O(n log n). 0 or -ENOMEM. Any thread, each with its
 * own scratch. */
int gen_bpe_word(const struct gen_bpe *bpe, const char *word, size_t bytes, struct gen_bpe_scratch *s,
                 struct gen_ids *ids);

#endif
