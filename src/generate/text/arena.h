/* SPDX-License-Identifier: Apache-2.0 */
/* Memory that is freed all at once, and has a limit. */
#ifndef GW_GENERATE_TEXT_ARENA_H
#define GW_GENERATE_TEXT_ARENA_H

#include <stddef.h>

struct gen_arena_block;

/* Zeroed but for `limit`, it is empty. */
struct gen_arena {
    struct gen_arena_block *blocks;
    size_t used, limit; /* bytes */
};

/* Zeroed memory, aligned for anything; NULL: beyond the limit, or no memory. */
void *gen_arena_take(struct gen_arena *a, size_t bytes);
/* Takes over what malloc gave: the arena frees it. 0; -1: it could not, and has freed it. NULL is fine. */
int gen_arena_adopt(struct gen_arena *a, void *memory, size_t bytes);
/* Frees all; it is empty then. */
void gen_arena_free(struct gen_arena *a);

#endif
