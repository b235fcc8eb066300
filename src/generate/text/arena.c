/* SPDX-License-Identifier: Apache-2.0 */
/* Memory that is freed all at once: small pieces share blocks, large ones have their own. */
#include "src/generate/text/arena.h"

#include <stdalign.h>
#include <stdlib.h>
#include <string.h>

#define BLOCK_BYTES 32768

struct gen_arena_block {
    struct gen_arena_block *next;
    size_t used, room;
    void *adopted;
    alignas(max_align_t) char data[];
};

static struct gen_arena_block *arena_add(struct gen_arena *a, size_t room)
{
    struct gen_arena_block *b = calloc(1, sizeof(*b) + room);
    if (!b) return NULL;
    b->room = room;
    /* A block with a piece of its own goes after the first, which still has room. */
    if (a->blocks && room != BLOCK_BYTES) {
        b->next = a->blocks->next;
        a->blocks->next = b;
    } else {
        b->next = a->blocks;
        a->blocks = b;
    }
    return b;
}

void *gen_arena_take(struct gen_arena *a, size_t bytes)
{
    if (bytes > a->limit - a->used) return NULL;
    bytes = (bytes + alignof(max_align_t) - 1) / alignof(max_align_t) * alignof(max_align_t);
    struct gen_arena_block *b = a->blocks;
    if (bytes > BLOCK_BYTES / 4)
        b = arena_add(a, bytes);
    else if (!b || b->room - b->used < bytes)
        b = arena_add(a, BLOCK_BYTES);
    if (!b) return NULL;
    void *at = b->data + b->used;
    b->used += bytes;
    a->used += bytes < a->limit - a->used ? bytes : a->limit - a->used;
    return at;
}

int gen_arena_adopt(struct gen_arena *a, void *memory, size_t bytes)
{
    if (!memory) return 0;
    struct gen_arena_block *b = bytes <= a->limit - a->used ? arena_add(a, 0) : NULL;
    if (!b) {
        free(memory);
        return -1;
    }
    b->adopted = memory;
    a->used += bytes;
    return 0;
}

void gen_arena_free(struct gen_arena *a)
{
    while (a->blocks) {
        struct gen_arena_block *next = a->blocks->next;
        free(a->blocks->adopted);
        free(a->blocks);
        a->blocks = next;
    }
    a->used = 0;
}
