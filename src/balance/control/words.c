/* SPDX-License-Identifier: Apache-2.0 */
/* Cuts a configuration file into words, and statements into blocks. */
#include "src/balance/control/words.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

#include <gpuwire/error.h>

void gw_bal_reader_open(struct gw_bal_reader *r, const char *file, char *text)
{
    if (!strncmp(text, "\xef\xbb\xbf", 3)) text += 3; /* an editor's byte order mark */
    *r = (struct gw_bal_reader){.file = file, .at = text, .line = 1};
}

static char words_look(const struct gw_bal_reader *r)
{
    return r->held ? r->held : *r->at;
}

static void words_step(struct gw_bal_reader *r)
{
    if (words_look(r) == '\n') r->line++;
    r->held = 0;
    r->at++;
}

static void skip_blanks(struct gw_bal_reader *r)
{
    while (words_look(r) == ' ' || words_look(r) == '\t' || words_look(r) == '\r') words_step(r);
    if (words_look(r) != '#' && words_look(r) != '!') return;
    while (words_look(r) && words_look(r) != '\n') words_step(r);
}

/* The text in quotes, followed by a zero. NULL: they do not end on this line. */
static char *take_quoted(struct gw_bal_reader *r)
{
    char *begin = r->at + 1, *to = begin;
    for (words_step(r); *r->at && *r->at != '"' && *r->at != '\n'; r->at++) {
        if (*r->at == '\\' && (r->at[1] == '"' || r->at[1] == '\\')) r->at++;
        *to++ = *r->at;
    }
    if (*r->at != '"') return NULL;
    r->at++;
    *to = 0;
    return begin;
}

/* The word that begins here, followed by a zero. NULL: its quote does not end. */
static char *words_take_word(struct gw_bal_reader *r)
{
    char *begin = r->at;
    if (words_look(r) == '"') return take_quoted(r);
    while (words_look(r) && !strchr(" \t\r\n{}\"", words_look(r))) words_step(r);
    r->held = *r->at;
    *r->at = 0;
    return begin;
}

/* After the end of a line: a brace that is the next thing in the file opens the statement's block. */
static bool take_late_brace(struct gw_bal_reader *r)
{
    unsigned line = r->line;
    char *at = r->at;
    for (char c = words_look(r);; c = *++at) {
        if (c == '#' || c == '!')
            while (at[1] && at[1] != '\n') at++;
        else if (c == '\n')
            line++;
        else if (c != ' ' && c != '\t' && c != '\r') {
            if (c != '{') return false;
            *r = (struct gw_bal_reader){.file = r->file, .at = at + 1, .line = line};
            return true;
        }
    }
}

static int reader_wrong(struct gw_bal_reader *r, const char *what)
{
    while (words_look(r) && words_look(r) != '\n') words_step(r);
    return gw_error(-EINVAL, "%s", what);
}

_Static_assert(GW_BAL_WORDS == 64, "the line below says 63");

/* The words of a statement; 1: there are some, 0: the end of the file or a closing brace. */
static int words_take_words(struct gw_bal_reader *r, struct gw_bal_statement *s)
{
    for (;;) {
        skip_blanks(r);
        char c = words_look(r);
        if (!s->words) s->line = r->line;
        if (s->words && (!c || c == '\n' || c == '{' || c == '}')) return 1;
        if (!c || c == '}') return 0;
        if (c == '\n') {
            words_step(r);
            continue;
        }
        if (c == '{') {
            words_step(r);
            return reader_wrong(r, "{ stands alone; put a name before it");
        }
        if (s->words == GW_BAL_WORDS - 1) return reader_wrong(r, "a statement may have 63 words");
        if (!(s->word[s->words] = words_take_word(r)))
            return reader_wrong(r, "the quote does not end on this line");
        s->words++;
    }
}

int gw_bal_reader_next(struct gw_bal_reader *r, struct gw_bal_statement *s)
{
    *s = (struct gw_bal_statement){.file = r->file};
    int got = words_take_words(r, s);
    if (got < 0) return got;
    s->ending = words_look(r) == '{'           ? GW_BAL_OPENS
                : words_look(r) == '}' && !got ? GW_BAL_CLOSES
                                               : GW_BAL_ENDS;
    if (!got && s->ending != GW_BAL_CLOSES) return 0;
    if (s->ending != GW_BAL_ENDS)
        words_step(r);
    else if (words_look(r) != '}' && take_late_brace(r))
        s->ending = GW_BAL_OPENS;
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
