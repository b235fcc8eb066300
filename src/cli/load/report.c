/* SPDX-License-Identifier: Apache-2.0 */
/* The results, for people. */
#include <inttypes.h>
#include <stdio.h>

#include "src/cli/load/load.h"

static const double percents[] = {50, 90, 95, 99, 99.9, 100};
static const char *const names[] = {"p50", "p90", "p95", "p99", "p99.9", "max"};
#define PERCENTS 6

static const struct gw_histogram *total(const struct gw_level *v)
{
    return &v->latency->part[GW_TOTAL];
}

void gw_report_begin(const struct gw_load *l)
{
    if (l->o.mode == GW_LOAD_REQUESTS) return;
    printf("%s over %s, %" PRIu64 " clients, %u %s in a request; latencies in ms\n", l->o.client.model,
           gw_client_door(l->client[0].c), l->clients, l->rows, l->rows == 1 ? "sample" : "samples");
    printf("%11s %12s", l->o.mode == GW_LOAD_RATE ? "rate" : "concurrency", "requests/s");
    for (int i = 0; i < PERCENTS; i++) printf(" %9s", names[i]);
    printf(" %9s %9s", "late", "failed");
    printf(gw_load_is_fleet(l) ? " %9s %9s %9s\n" : "\n", "refused", "lost", "kept");
    fflush(stdout);
}

/* Percent of all requests that were answered by their deadline. */
static double kept(const struct gw_level *v)
{
    uint64_t all = total(v)->count + v->late + v->failed + v->refused;
    return all ? 100.0 * (double)v->within / (double)all : 0;
}

static void print_row(const struct gw_load *l, const struct gw_level *v)
{
    printf("%11g %12.1f", v->value, v->seconds > 0 ? (double)total(v)->count / v->seconds : 0);
    for (int i = 0; i < PERCENTS; i++)
        printf(" %9.3f", (double)gw_histogram_percentile(total(v), percents[i]) / 1e6);
    printf(" %9" PRIu64 " %9" PRIu64, v->late, v->failed);
    if (gw_load_is_fleet(l)) printf(" %9" PRIu64 " %9" PRIu64 " %8.3f%%", v->refused, v->lost, kept(v));
    if (v->stable == 0) printf("  not steady");
    if (v->behind_ms > 100) printf("  %.0f ms behind the rate: the server cannot keep up", v->behind_ms);
    if (l->o.verify && v->wrong) printf("  %" PRIu64 " wrong answers", v->wrong);
    printf("\n");
    fflush(stdout);
}

static void print_kept(const struct gw_level *v)
{
    printf("deadlines kept: %.3f %%: %" PRIu64 " within, %" PRIu64 " late, %" PRIu64 " refused, %" PRIu64
           " lost\n",
           kept(v), v->within, v->late + total(v)->count - v->within, v->refused, v->lost);
}

/* The same words as ever, for scripts. */
static void print_requests(const struct gw_load *l, const struct gw_level *v)
{
    uint64_t answered = total(v)->count;
    printf("%" PRIu64 " of %" PRIu64 " requests answered, %" PRIu64 " clients, %.1f requests/s\n", answered,
           l->o.requests, l->clients, v->seconds > 0 ? (double)answered / v->seconds : 0);
    if (v->late) printf("refused as late: %" PRIu64 "\n", v->late);
    if (v->failed) printf("failed: %" PRIu64 "\n", v->failed);
    if (gw_load_is_fleet(l)) print_kept(v);
}

void gw_report_level(const struct gw_load *l, const struct gw_level *v)
{
    if (l->o.mode == GW_LOAD_REQUESTS)
        print_requests(l, v);
    else
        print_row(l, v);
}

/* Over RDMA each reply says it; else the server's statistics do. */
static void print_batches(const struct gw_level *v)
{
    int any = 0;
    for (uint32_t i = 2; i < GW_LOAD_BATCHES; i++) any |= v->batch[i] != 0;
    for (uint32_t i = 1; any && i < GW_LOAD_BATCHES; i++)
        if (v->batch[i])
            printf("%s %u: %" PRIu64, any++ == 1 ? "requests by batch size:" : ",", i, v->batch[i]);
    if (any) printf("\n");
}

static void print_server(const struct gw_client_stats *s)
{
    double n = (double)(s->success ? s->success : 1);
    printf("the server's means, ms: queue %.3f, input %.3f, model %.3f, output %.3f; %" PRIu64
           " samples in %" PRIu64 " runs\n",
           (double)s->queue_ns / n / 1e6, (double)s->input_ns / n / 1e6, (double)s->infer_ns / n / 1e6,
           (double)s->output_ns / n / 1e6, s->inferences, s->executions);
}

void gw_report_end(const struct gw_load *l)
{
    const struct gw_level *v = l->levels == 1 ? &l->level[0] : NULL;
    if (v && total(v)->count) {
        gw_latency_print(v->latency, stdout);
        print_batches(v);
        if (v->has_server && v->server.success) print_server(&v->server);
    }
    if (l->o.verify && v) printf("answers that are not their request: %" PRIu64 "\n", v->wrong);
}
