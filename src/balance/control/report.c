/* SPDX-License-Identifier: Apache-2.0 */
/* Collects the mistakes in a configuration file, and prints them in the order of its lines. */
#include "src/balance/control/report.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

/* 0, or -1: there are enough, or no memory. */
__attribute__((format(printf, 3, 4))) static int lines_add(struct gw_bal_lines *l, unsigned order,
                                                           const char *format, ...)
{
    va_list args;
    char *text = NULL;
    if (l->n == GW_BAL_MISTAKES) return -1;
    if (!(l->n & (l->n - 1))) { /* the array grows at powers of two */
        void *grown = realloc(l->line, sizeof(*l->line) * (l->n ? 2u * l->n : 1u));
        if (!grown) return -1;
        l->line = grown;
    }
    va_start(args, format);
    int n = vasprintf(&text, format, args);
    va_end(args);
    if (n < 0) return -1;
    l->line[l->n++] = (struct gw_bal_line){order, text, NULL};
    return 0;
}

void gw_bal_report_wrong(struct gw_bal_report *r, const char *file, unsigned line, unsigned order,
                         const char *why)
{
    int err = line ? lines_add(&r->wrong, order, "%s:%u: %s", file, line, why)
                   : lines_add(&r->wrong, order, "%s: %s", file, why);
    if (err) r->more++;
}

void gw_bal_report_note(struct gw_bal_report *r, const char *file, unsigned line, const char *text)
{
    lines_add(&r->note, 0, "%s:%u: %s", file, line, text);
}

void gw_bal_report_ignored(struct gw_bal_report *r, const char *file, unsigned line, const char *word)
{
    size_t n = strlen(word);
    for (unsigned i = 0; i < r->ignored.n; i++)
        if (!strncmp(r->ignored.line[i].text, word, n) && r->ignored.line[i].text[n] == ' ') return;
    if (!lines_add(&r->ignored, 0, "%.40s (line %u)", word, line))
        r->ignored.line[r->ignored.n - 1].file = strdup(file);
}

static int by_order(const void *a, const void *b)
{
    const struct gw_bal_line *x = a, *y = b;
    return (x->order > y->order) - (x->order < y->order);
}

void gw_bal_report_sort(struct gw_bal_report *r)
{
    if (r->wrong.n) qsort(r->wrong.line, r->wrong.n, sizeof(*r->wrong.line), by_order);
}

static void print_ignored(const struct gw_bal_lines *l, FILE *f, const char *before)
{
    const char *last = NULL;
    for (unsigned i = 0; i < l->n; i++) {
        const char *file = l->line[i].file ? l->line[i].file : "";
        if (!last || strcmp(last, file) != 0)
            fprintf(f, "%s%s%s: without meaning for balancing, ignored: ", last ? "\n" : "", before, file);
        else
            fprintf(f, ", ");
        fprintf(f, "%s", l->line[i].text);
        last = file;
    }
    if (last) fprintf(f, "\n");
}

void gw_bal_report_print(const struct gw_bal_report *r, FILE *f, const char *before)
{
    for (unsigned i = 0; i < r->wrong.n; i++) fprintf(f, "%s%s\n", before, r->wrong.line[i].text);
    if (r->more) fprintf(f, "%sand %u more mistakes\n", before, r->more);
    for (unsigned i = 0; i < r->note.n; i++) fprintf(f, "%s%s\n", before, r->note.line[i].text);
    print_ignored(&r->ignored, f, before);
}

static void lines_free(struct gw_bal_lines *l)
{
    for (unsigned i = 0; i < l->n; i++) {
        free(l->line[i].text);
        free(l->line[i].file);
    }
    free(l->line);
}

void gw_bal_report_free(struct gw_bal_report *r)
{
    lines_free(&r->wrong);
    lines_free(&r->note);
    lines_free(&r->ignored);
    *r = (struct gw_bal_report){0};
}
