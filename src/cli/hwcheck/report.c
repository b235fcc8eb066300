/* SPDX-License-Identifier: Apache-2.0 */
/* The report: one JSON file, whose first member is for people. */
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <gpuwire/error.h>

#include "src/cli/hwcheck/hwcheck.h"

/* How long an IPv4 or IPv6 address at p is; 0: there is none. */
static size_t address_at(const char *p)
{
    size_t n = strspn(p, "0123456789abcdefABCDEF.:"), dots = 0, colons = 0;

    for (size_t i = 0; i < n; i++) dots += p[i] == '.', colons += p[i] == ':';
    if (colons >= 2) return n;
    if (dots < 3) return 0;
    return strspn(p, "0123456789.");
}

static void blank(char *at, size_t n)
{
    memset(at, '*', n);
}

void hwcheck_scrub(char *text, const char *const *words)
{
    for (size_t i = 0; words[i]; i++)
        for (char *at = text; *words[i] && (at = strstr(at, words[i])); at++) blank(at, strlen(words[i]));
    for (char *p = text; *p; p++) {
        size_t n = p == text || !isalnum((unsigned char)p[-1]) ? address_at(p) : 0;

        blank(p, n);
    }
}

static void add_line(json_t *lines, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void add_line(json_t *lines, const char *format, ...)
{
    char line[900];
    va_list args;

    va_start(args, format);
    vsnprintf(line, sizeof(line), format, args);
    va_end(args);
    json_array_append_new(lines, json_string(line));
}

static const char *hwcheck_report_text(const json_t *o, const char *name)
{
    const char *s = json_string_value(json_object_get(o, name));

    return s ? s : "?";
}

static void add_machine(json_t *lines, const char *which, const json_t *facts)
{
    const json_t *one;
    size_t i;

    add_line(lines, "%s: %s, %s, %s, kernel %s, gpuwire %s", which,
             hwcheck_report_text(facts, "distribution"), hwcheck_report_text(facts, "processor"),
             hwcheck_report_text(facts, "libibverbs"), hwcheck_report_text(facts, "kernel"),
             hwcheck_report_text(facts, "gpuwire"));
    json_array_foreach(json_object_get(facts, "NICs"), i, one)
        add_line(lines, "  NIC %s: %s, firmware %s, %s", hwcheck_report_text(one, "name"),
                 hwcheck_report_text(one, "model"), hwcheck_report_text(one, "firmware"),
                 hwcheck_report_text(one, "rate"));
    json_array_foreach(json_object_get(facts, "GPUs"), i, one)
        add_line(lines, "  GPU %s", json_string_value(one));
}

/* A measurement's last row in words: what matters of it. */
static void add_figure(json_t *lines, const char *name, const json_t *row)
{
    static const struct {
        const char *name, *unit;
    } all[] = {{"gbit_s", "Gbit/s"},
               {"mops_s", "Mops/s"},
               {"ns_op", "ns/op"},
               {"typical_us", "us typical"},
               {"p99_us", "us 99 %"}};
    char line[200] = "";

    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
        const json_t *v = json_object_get(row, all[i].name);
        size_t n = strlen(line);

        if (v) snprintf(line + n, sizeof(line) - n, "  %.3f %s", json_number_value(v), all[i].unit);
    }
    add_line(lines, "  %-44s %9lld bytes%s", name,
             (long long)json_integer_value(json_object_get(row, "bytes")), line);
}

json_t *hwcheck_summary(const json_t *report)
{
    const json_t *results = json_object_get(report, "results"), *r, *row;
    json_t *lines = json_array();
    size_t i, k, passed = 0, skipped = 0, fallen = 0;

    add_machine(lines, "here", json_object_get(report, "here"));
    add_machine(lines, "there", json_object_get(report, "there"));
    json_array_foreach(results, i, r)
    {
        passed += json_is_true(json_object_get(r, "ok"));
        fallen += json_object_get(r, "fell back") != NULL;
        skipped += json_object_get(r, "skipped") != NULL;
    }
    add_line(lines, "%zu of %zu checks passed, %zu skipped, %zu fell back%s", passed,
             json_array_size(results), skipped, fallen,
             json_is_true(json_object_get(report, "interrupted")) ? "; ended by Ctrl-C" : "");
    json_array_foreach(results, i, r)
    {
        if (json_is_false(json_object_get(r, "ok")))
            add_line(lines, "  FAILED %s, %s: %s", hwcheck_report_text(r, "name"),
                     hwcheck_report_text(r, "executor"), hwcheck_report_text(r, "said"));
        if (!strcmp(hwcheck_report_text(r, "kind"), "placement"))
            add_line(lines, "  %s, %s: %s%s", hwcheck_report_text(r, "name"),
                     hwcheck_report_text(r, "executor"), json_object_get(r, "fell back") ? "FELL BACK: " : "",
                     hwcheck_report_text(r, "said"));
        if (json_object_get(r, "skipped"))
            add_line(lines, "  skipped %s, %s: %s", hwcheck_report_text(r, "name"),
                     hwcheck_report_text(r, "executor"), hwcheck_report_text(r, "skipped"));
    }
    json_array_foreach(results, i, r) if (!strcmp(hwcheck_report_text(r, "kind"), "figure"))
        json_array_foreach(json_object_get(r, "rows"), k, row)
            add_figure(lines, hwcheck_report_text(r, "name"), row);
    return lines;
}

int hwcheck_write(const char *path, json_t *report)
{
    FILE *f = fopen(path, "we");
    int err = f ? json_dumpf(report, f, JSON_INDENT(1) | JSON_REAL_PRECISION(10)) : -1;

    if (f && fputc('\n', f) < 0) err = -1;
    if (f && fclose(f)) err = -1;
    return err ? gw_error_errno(-errno, "%s", path) : 0;
}
