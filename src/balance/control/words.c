/* SPDX-License-Identifier: Apache-2.0 */
#include "src/balance/control/words.h"

#include <errno.h>
#include <string.h>

#include <gpuwire/error.h>

void gw_bal_reader_open(struct gw_bal_reader *r, const char *file, char *text)
{
    *r = (struct gw_bal_reader){.file = file, .at = text, .line = 1};
}

static char look(const struct gw_bal_reader *r)
{
    return r->held ? r->held : *r->at;
}

static void step(struct gw_bal_reader *r)
{
    if (look(r) == '\n') r->line++;
    r->held = 0;
    r->at++;
}

static void skip_blanks(struct gw_bal_reader *r)
{
    while (look(r) == ' ' || look(r) == '\t' || look(r) == '\r') step(r);
    if (look(r) != '#' && look(r) != '!') return;
    while (look(r) && look(r) != '\n') step(r);
}

/* The word that begins here, with a zero behind it. NULL: its quote does not end. */
static char *take_word(struct gw_bal_reader *r)
{
    char *begin = r->at;
    if (look(r) == '"') {
        begin++;
        step(r);
        while (look(r) && look(r) != '"' && look(r) != '\n') step(r);
        if (look(r) != '"') return NULL;
        *r->at = 0;
        r->at++;
        return begin;
    }
    while (look(r) && !strchr(" \t\r\n{}\"", look(r))) step(r);
    r->held = *r->at;
    *r->at = 0;
    return begin;
}

int gw_bal_reader_next(struct gw_bal_reader *r, struct gw_bal_statement *s)
{
    s->words = 0;
    for (;;) {
        skip_blanks(r);
        char c = look(r);
        if (!s->words) s->line = r->line;
        if (s->words && (!c || c == '\n' || c == '{' || c == '}')) break;
        if (!c) return 0;
        if (c == '\n') {
            step(r);
            continue;
        }
        if (c == '{')
            return gw_error(-EINVAL, "%s:%u: { stands alone; a name is wanted before it", r->file, r->line);
        if (c == '}') {
            step(r);
            s->ending = GW_BAL_CLOSES;
            return 1;
        }
        if (s->words == GW_BAL_WORDS - 1)
            return gw_error(-EINVAL, "%s:%u: more than %u words", r->file, r->line, GW_BAL_WORDS - 1);
        if (!(s->word[s->words] = take_word(r)))
            return gw_error(-EINVAL, "%s:%u: the quote does not end on this line", r->file, s->line);
        s->words++;
    }
    s->word[s->words] = NULL;
    s->ending = look(r) == '{' ? GW_BAL_OPENS : GW_BAL_ENDS;
    if (look(r) == '{') step(r);
    return 1;
}

unsigned gw_bal_word_distance(const char *a, const char *b)
{
    enum { MOST = 40 };
    unsigned row[MOST + 1];
    size_t n = strlen(a), m = strlen(b);
    if (n > MOST || m > MOST) return 3;
    for (unsigned j = 0; j <= m; j++) row[j] = j;
    for (size_t i = 1; i <= n; i++) {
        unsigned diagonal = row[0];
        row[0] = (unsigned)i;
        for (size_t j = 1; j <= m; j++) {
            unsigned swap = diagonal + (a[i - 1] != b[j - 1]);
            diagonal = row[j];
            if (row[j] + 1 < swap) swap = row[j] + 1;
            if (row[j - 1] + 1 < swap) swap = row[j - 1] + 1;
            row[j] = swap;
        }
    }
    return row[m] < 3 ? row[m] : 3;
}
