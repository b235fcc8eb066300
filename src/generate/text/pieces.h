/* SPDX-License-Identifier: Apache-2.0 */
/* A text cut into pieces: what travels through a tokenizer's steps. A step reads one and writes another. */
#ifndef GW_GENERATE_TEXT_PIECES_H
#define GW_GENERATE_TEXT_PIECES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "src/door/text.h"

struct gen_piece {
    size_t at, bytes; /* in the pieces' text */
    uint32_t token;   /* the piece is this token already, or UINT32_MAX */
    bool first;       /* nothing of the whole text is before it */
};

/* Zeroed it is empty. */
struct gen_pieces {
    struct gw_text text;
    struct gen_piece *at;
    size_t count, room;
};

/* Forgets the pieces and the text, and keeps the memory. */
void gen_pieces_clear(struct gen_pieces *p);
void gen_pieces_free(struct gen_pieces *p);
/* Appends a piece of the text; one without bytes is left out, unless it is a token. 0 or -ENOMEM. */
int gen_pieces_add(struct gen_pieces *p, struct gen_piece piece);

/* Text whose bytes may each belong to a stranger: `foreign` has a byte for each byte of `text`, or is empty
 * when nothing is marked. */
struct gen_marked {
    struct gw_text text, foreign;
    bool marks;
};

/* Appends bytes that are all a stranger's, or none. */
void gen_marked_add(struct gen_marked *m, const char *at, size_t bytes, bool foreign);
/* Whether one of [from, to) is a stranger's. */
bool gen_marked_foreign(const struct gen_marked *m, size_t from, size_t to);
void gen_marked_clear(struct gen_marked *m);
void gen_marked_free(struct gen_marked *m);

#endif
