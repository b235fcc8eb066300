/* SPDX-License-Identifier: Apache-2.0 */
/* Statements of a configuration file as keepalived writes them: words, then the end of the line, or a block
 * in braces. The opening brace may stand on a line of its own. `#` and `!` begin comments, quotes hold words
 * together, and \" is a quote in quotes. */
#ifndef GW_BALANCE_CONTROL_WORDS_H
#define GW_BALANCE_CONTROL_WORDS_H

#define GW_BAL_WORDS 64u

enum gw_bal_ending { GW_BAL_ENDS, GW_BAL_OPENS, GW_BAL_CLOSES };

struct gw_bal_statement {
    char *word[GW_BAL_WORDS]; /* NULL after the last */
    unsigned words, line;
    const char *file;
    unsigned order;            /* counts the statements of all files that are read together */
    enum gw_bal_ending ending; /* CLOSES: a brace, and no words */
};

struct gw_bal_reader {
    const char *file; /* for messages */
    char *at;
    unsigned line;
    char held; /* a character that a word has been cut off at */
};

/* Reads from `text`, which it changes, and which the words point into. */
void gw_bal_reader_open(struct gw_bal_reader *r, const char *file, char *text);
/* 1: a statement; 0: the end. A negative errno: this line is none, with the reason in gw_last_error(); the
 * statement has its place, and the next call goes on after the line. */
int gw_bal_reader_next(struct gw_bal_reader *r, struct gw_bal_statement *s);

/* How far apart two words are, up to 3: for "did you mean". */
unsigned gw_bal_word_distance(const char *a, const char *b);

#endif
