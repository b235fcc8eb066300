/* SPDX-License-Identifier: Apache-2.0 */
/* keep.h: which pieces of the input a rank has kept from earlier rounds (MR_KEEP), and where in its buffer.
 * */
#ifndef GW_MAPREDUCE_KEEP_H
#define GW_MAPREDUCE_KEEP_H

#include <stdbool.h>
#include <stdint.h>

struct keep_piece {
    uint64_t offset, at;
    uint32_t file, bytes;
};

/* All zero but for `size`: empty. */
struct keep {
    struct keep_piece *piece;
    uint32_t n, sure; /* pieces; those that an earlier round has copied */
    uint32_t next;    /* a round asks in the order of the last one: this piece comes next */
    uint64_t size;    /* of the buffer */
};

/* A round begins. What a round that failed has added is forgotten: its copies may be missing. */
void keep_begin(struct keep *k);
/* Where a piece has been copied to. */
bool keep_find(struct keep *k, uint32_t file, uint64_t offset, uint64_t *at);
/* A place for a piece, which this round copies there. false: there is no room. */
bool keep_add(struct keep *k, uint32_t file, uint64_t offset, uint32_t bytes, uint64_t *at);
/* The round's maps have ended: its copies are there. */
void keep_end(struct keep *k);
void keep_free(struct keep *k);

#endif
