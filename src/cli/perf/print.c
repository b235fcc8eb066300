/* SPDX-License-Identifier: Apache-2.0 */
/* Rows for people, as CSV and as JSON. */
#include <errno.h>
#include <jansson.h>
#include <math.h>
#include <stdlib.h>

#include "src/cli/perf/perf.h"

struct perf_printer {
    const struct perf_opts *o;
    json_t *head, *rows;
    bool wrote_head;
};

/* Ping-pong: half of a round, which is there and back; get and atomics: all of it. In microseconds. */
struct times {
    double min, typical, mean, deviation, p99, p999, max;
};

static int by_value(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

    return x < y ? -1 : x > y;
}

static double perf_print_at(const struct perf_row *row, double part)
{
    return row->sample[(uint64_t)(part * (double)(row->samples - 1) + 0.5)];
}

static struct times times_of(const struct perf_row *row, bool there_and_back)
{
    double unit = there_and_back ? 1e-3 : 0.5e-3, total = 0, squares = 0, n = (double)row->samples;
    struct times t;

    qsort(row->sample, row->samples, sizeof(*row->sample), by_value);
    for (uint64_t i = 0; i < row->samples; i++) total += row->sample[i];
    t.mean = total / n;
    for (uint64_t i = 0; i < row->samples; i++)
        squares += (row->sample[i] - t.mean) * (row->sample[i] - t.mean);
    t.deviation = sqrt(squares / n) * unit;
    t.mean *= unit;
    t.min = perf_print_at(row, 0) * unit;
    t.typical = perf_print_at(row, 0.5) * unit;
    t.p99 = perf_print_at(row, 0.99) * unit;
    t.p999 = perf_print_at(row, 0.999) * unit;
    t.max = perf_print_at(row, 1) * unit;
    return t;
}

/* Each figure once: its name, and for people a width and decimals; 0: only in CSV and JSON. */
struct figure {
    const char *name, *title;
    int width, decimals;
    double value;
};

static int figures(const struct perf_printer *p, const struct perf_row *row, struct figure *f)
{
    double s = (double)row->ns * 1e-9, ops = (double)row->ops, bytes = ops * (double)row->size;
    int n = 0;

    if (!p->o->connects) f[n++] = (struct figure){"bytes", "bytes", 10, 0, (double)row->size};
    f[n++] = (struct figure){"operations", "operations", 12, 0, ops};
    f[n++] = (struct figure){"seconds", "", 0, 6, s};
    if (p->o->connects) {
        f[n++] = (struct figure){"connects_s", "connects/s", 12, 1, s > 0 ? ops / s : 0};
        f[n++] =
            (struct figure){"us_connect", "us/connect", 12, 2, ops > 0 ? (double)row->ns * 1e-3 / ops : 0};
    } else if (p->o->test == PERF_TEST_LAT) {
        bool whole = p->o->op == PERF_GET || p->o->op >= PERF_FETCH_ADD;
        struct times t = row->samples ? times_of(row, whole) : (struct times){0};

        f[n++] = (struct figure){"min_us", "min us", 10, 2, t.min};
        f[n++] = (struct figure){"typical_us", "typical", 10, 2, t.typical};
        f[n++] = (struct figure){"mean_us", "mean", 10, 2, t.mean};
        f[n++] = (struct figure){"deviation_us", "deviation", 10, 2, t.deviation};
        f[n++] = (struct figure){"p99_us", "99 %", 10, 2, t.p99};
        f[n++] = (struct figure){"p99.9_us", "99.9 %", 10, 2, t.p999};
        f[n++] = (struct figure){"max_us", "max", 10, 2, t.max};
    } else {
        f[n++] = (struct figure){"gbit_s", "Gbit/s", 10, 3, s > 0 ? bytes * 8e-9 / s : 0};
        f[n++] = (struct figure){"mib_s", "MiB/s", 11, 2, s > 0 ? bytes / 1048576 / s : 0};
        f[n++] = (struct figure){"mops_s", "Mops/s", 10, 4, s > 0 ? ops * 1e-6 / s : 0};
        f[n++] = (struct figure){"ns_op", "ns/op", 10, 1, ops > 0 ? (double)row->ns / ops : 0};
    }
    if (p->o->verify) {
        f[n++] = (struct figure){"checked_bytes", "checked", 14, 0, (double)row->checked};
        f[n++] = (struct figure){"wrong_bytes", "wrong", 8, 0, (double)row->wrong};
    }
    return n;
}

static void print_human_head(const struct perf_printer *p)
{
    const char *name;
    json_t *value;

    json_object_foreach(p->head, name, value)
    {
        if (json_is_string(value)) printf("# %s: %s\n", name, json_string_value(value));
        if (json_is_integer(value)) printf("# %s: %lld\n", name, (long long)json_integer_value(value));
    }
}

static json_t *sock_head(const struct perf_opts *o, const struct perf_about *a)
{
    return json_pack("{ss ss ss ss sI sI sI}", "test",
                     o->connects                ? "sock connects"
                     : o->test == PERF_TEST_LAT ? "sock lat"
                                                : "sock bw",
                     "over", o->sock, "executor", a->exec, "peer", a->peer, "connections", (json_int_t)o->qps,
                     "threads", (json_int_t)o->threads, "buffers",
                     (json_int_t)(o->buffer ? o->buffer : 128 << 10));
}

int perf_print_open(const struct perf_opts *o, const struct perf_about *a, struct perf_printer **out)
{
    struct perf_printer *p = calloc(1, sizeof(*p));

    if (!p) return gw_error_errno(-ENOMEM, "output");
    p->o = o;
    p->rows = json_array();
    p->head = o->sock ? sock_head(o, a)
                      : json_pack("{ss ss ss ss ss ss* ss ss ss* ss* ss* ss* sI sI sI sI sI sI}", "test",
                                  perf_test_name[o->test], "operation", perf_op_name[o->op], "device",
                                  a->device, "board", a->board, "executor", a->exec, "peer executor",
                                  a->peer_exec, "peer", a->peer, "buffers", a->buffers, "peer buffers",
                                  a->peer_buffers, "posting", a->posting, "posting because", a->posting_why,
                                  "peer posting", a->peer_posting, "path MTU",
                                  (json_int_t)(o->mtu ? o->mtu : a->mtu), "queue pairs", (json_int_t)o->qps,
                                  "blocks", (json_int_t)o->blocks, "threads", (json_int_t)o->threads, "depth",
                                  (json_int_t)o->depth, "posts for each doorbell", (json_int_t)o->batch);
    if (!p->rows || !p->head) {
        perf_print_close(p);
        return gw_error_errno(-ENOMEM, "output");
    }
    if (!o->sock) json_object_set_new(p->head, "posted by", json_string(perf_by_name[o->by]));
    if (o->output == PERF_HUMAN) print_human_head(p);
    fflush(stdout);
    *out = p;
    return 0;
}

static void print_human(struct perf_printer *p, const struct figure *f, int n, bool cut_short)
{
    for (int i = 0; i < n && !p->wrote_head; i++)
        if (f[i].width) printf(" %*s%s", f[i].width, f[i].title, i + 1 == n ? "\n" : "");
    p->wrote_head = true;
    for (int i = 0; i < n; i++)
        if (f[i].width) printf(" %*.*f", f[i].width, f[i].decimals, f[i].value);
    printf("%s\n", cut_short ? "  (cut short)" : "");
}

static void print_csv(struct perf_printer *p, const struct figure *f, int n, bool cut_short)
{
    for (int i = 0; i < n && !p->wrote_head; i++) printf("%s,%s", f[i].name, i + 1 == n ? "cut_short\n" : "");
    p->wrote_head = true;
    for (int i = 0; i < n; i++) printf("%.*f,", f[i].decimals, f[i].value);
    printf("%d\n", cut_short);
}

static void add_json(struct perf_printer *p, const struct figure *f, int n, bool cut_short)
{
    json_t *row = json_object();

    for (int i = 0; i < n; i++)
        json_object_set_new(row, f[i].name,
                            f[i].decimals ? json_real(f[i].value) : json_integer((json_int_t)f[i].value));
    json_object_set_new(row, "cut_short", json_boolean(cut_short));
    json_array_append_new(p->rows, row);
}

void perf_print_row(struct perf_printer *p, struct perf_row *row)
{
    struct figure f[16];
    int n = figures(p, row, f);

    if (p->o->output == PERF_HUMAN) print_human(p, f, n, row->cut_short);
    if (p->o->output == PERF_CSV) print_csv(p, f, n, row->cut_short);
    if (p->o->output == PERF_JSON) add_json(p, f, n, row->cut_short);
    fflush(stdout);
}

void perf_print_close(struct perf_printer *p)
{
    if (p->o->output == PERF_JSON && p->head) {
        json_object_set(p->head, "rows", p->rows);
        json_dumpf(p->head, stdout, JSON_INDENT(2) | JSON_REAL_PRECISION(10));
        printf("\n");
    }
    json_decref(p->head);
    json_decref(p->rows);
    free(p);
}
