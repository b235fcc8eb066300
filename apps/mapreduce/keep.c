/* SPDX-License-Identifier: Apache-2.0 */
/* The pieces that a rank keeps: the places are one after another, in the order in which they were read. */
#include "keep.h"

#include <stdlib.h>
#include <string.h>

void keep_begin(struct keep *k)
{
    k->n = k->sure;
    k->next = 0;
}

bool keep_find(struct keep *k, uint32_t file, uint64_t offset, uint64_t *at)
{
    for (uint32_t i = 0; i < k->sure; i++) {
        const struct keep_piece *p = &k->piece[k->next < k->sure ? k->next : 0];

        k->next = k->next + 1 < k->sure ? k->next + 1 : 0;
        if (p->file == file && p->offset == offset) {
            *at = p->at;
            return true;
        }
    }
    return false;
}

bool keep_add(struct keep *k, uint32_t file, uint64_t offset, uint32_t bytes, uint64_t *at)
{
    const struct keep_piece *last = k->n ? &k->piece[k->n - 1] : NULL;
    uint64_t from = last ? last->at + ((last->bytes + 63) & ~63u) : 0;

    if (k->size < from || k->size - from < bytes) return false;
    if (!(k->n & (k->n - 1))) {
        struct keep_piece *more =
            (struct keep_piece *)realloc(k->piece, (k->n ? 2 * (size_t)k->n : 1) * sizeof(*more));

        if (!more) return false;
        k->piece = more;
    }
    k->piece[k->n++] = (struct keep_piece){offset, from, file, bytes};
    *at = from;
    return true;
}

void keep_end(struct keep *k)
{
    k->sure = k->n;
}

void keep_free(struct keep *k)
{
    free(k->piece);
    memset(k, 0, sizeof(*k));
}
