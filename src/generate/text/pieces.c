/* SPDX-License-Identifier: Apache-2.0 */
/* A text cut into pieces, and text that knows whose its bytes are. */
#include "src/generate/text/pieces.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

void gen_pieces_clear(struct gen_pieces *p)
{
    p->text.bytes = 0;
    p->count = 0;
}

void gen_pieces_free(struct gen_pieces *p)
{
    free(p->text.at);
    free(p->at);
    memset(p, 0, sizeof(*p));
}

int gen_pieces_add(struct gen_pieces *p, struct gen_piece piece)
{
    if (!piece.bytes && piece.token == UINT32_MAX) return 0;
    if (p->count == p->room) {
        size_t room = p->room ? p->room * 2 : 64;
        struct gen_piece *at = realloc(p->at, room * sizeof(*at));
        if (!at) return -ENOMEM;
        p->at = at;
        p->room = room;
    }
    p->at[p->count++] = piece;
    return 0;
}

void gen_marked_add(struct gen_marked *m, const char *at, size_t bytes, bool foreign)
{
    gw_text_add(&m->text, at, bytes);
    if (!m->marks) return;
    char *marks = gw_text_room(&m->foreign, bytes);
    if (!marks) return;
    memset(marks, foreign, bytes);
    m->foreign.bytes += bytes;
}

bool gen_marked_foreign(const struct gen_marked *m, size_t from, size_t to)
{
    return m->marks && to > from && memchr(m->foreign.at + from, 1, to - from);
}

void gen_marked_clear(struct gen_marked *m)
{
    m->text.bytes = m->foreign.bytes = 0;
    m->marks = false;
}

void gen_marked_free(struct gen_marked *m)
{
    free(m->text.at);
    free(m->foreign.at);
    memset(m, 0, sizeof(*m));
}
