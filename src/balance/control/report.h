/* SPDX-License-Identifier: Apache-2.0 */
/* The report on a configuration file. It has all mistakes, in the order of the lines, and notes on statements
 * that the balancer reads in its own way. It also lists the words that have no meaning for balancing. */
#ifndef GW_BALANCE_CONTROL_REPORT_H
#define GW_BALANCE_CONTROL_REPORT_H

#include <stdio.h>

#define GW_BAL_MISTAKES 1000u /* lines of a kind; of mistakes the rest is counted */

struct gw_bal_lines {
    struct gw_bal_line {
        unsigned order;
        char *text, *file; /* file: where a line names it by itself */
    } * line;
    unsigned n;
};

struct gw_bal_report {
    struct gw_bal_lines wrong, note, ignored;
    unsigned more; /* mistakes that found no room */
};

/* A mistake in the statement `order`, on this line; line 0: of the file as a whole. */
void gw_bal_report_wrong(struct gw_bal_report *r, const char *file, unsigned line, unsigned order,
                         const char *why);
void gw_bal_report_note(struct gw_bal_report *r, const char *file, unsigned line, const char *text);
/* Each word is named once, with its first place. */
void gw_bal_report_ignored(struct gw_bal_report *r, const char *file, unsigned line, const char *word);
/* The mistakes by the order of their statements. */
void gw_bal_report_sort(struct gw_bal_report *r);
/* Each line begins with `before`. What is ignored is one line for each file. */
void gw_bal_report_print(const struct gw_bal_report *r, FILE *f, const char *before);
void gw_bal_report_free(struct gw_bal_report *r);

#endif
