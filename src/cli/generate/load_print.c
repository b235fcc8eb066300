/* SPDX-License-Identifier: Apache-2.0 */
/* Prints what a load of token streams has measured. */
#include <stdio.h>

#include "src/cli/generate/load.h"

static void load_print_row(const char *what, const struct gw_histogram *h)
{
    printf("%-16s %10.3f %10.3f %10.3f %10.3f %10.3f\n", what, gw_histogram_mean(h) / 1e6,
           (double)gw_histogram_percentile(h, 50) / 1e6, (double)gw_histogram_percentile(h, 95) / 1e6,
           (double)gw_histogram_percentile(h, 99) / 1e6, (double)h->most / 1e6);
}

static void load_print_json(const char *what, const struct gw_histogram *h)
{
    printf(", \"%s_ms\": {\"mean\": %.4f, \"p50\": %.4f, \"p95\": %.4f, \"p99\": %.4f, \"max\": %.4f}", what,
           gw_histogram_mean(h) / 1e6, (double)gw_histogram_percentile(h, 50) / 1e6,
           (double)gw_histogram_percentile(h, 95) / 1e6, (double)gw_histogram_percentile(h, 99) / 1e6,
           (double)h->most / 1e6);
}

static uint64_t load_print_failed(const struct gw_cli_generate_result *r)
{
    uint64_t n = r->refused;
    for (uint32_t i = GEN_CANCELLED; i <= GEN_FAILED; i++) n += r->ended[i];
    return n;
}

static void load_print_line(const struct gw_cli_generate_result *r)
{
    printf(
        "{\"streams\": %llu, \"failed\": %llu, \"tokens\": %llu, \"seconds\": %.3f, \"tokens_per_s\": %.1f",
        (unsigned long long)r->begun, (unsigned long long)load_print_failed(r), (unsigned long long)r->tokens,
        r->seconds, (double)r->tokens / r->seconds);
    load_print_json("first", &r->first);
    load_print_json("between", &r->between);
    load_print_json("whole", &r->whole);
    if (r->server_cpu_s >= 0) printf(", \"server_cpu_s\": %.3f", r->server_cpu_s);
    printf(", \"own_cpu_s\": %.3f}\n", r->own_cpu_s);
}

void gw_cli_generate_print(const struct gw_cli_generate_load *l, const char *model,
                           const struct gw_cli_generate_result *r)
{
    static const char *const status[] = {
        "", "", "", "cancelled", "too late", "refused", "server closing", "queue full", "failed"};
    if (l->json) {
        load_print_line(r);
        return;
    }
    printf("%s: %llu streams, %llu tokens in %.1f s: %.1f tokens/s\n", model, (unsigned long long)r->begun,
           (unsigned long long)r->tokens, r->seconds, (double)r->tokens / r->seconds);
    printf("%-16s %10s %10s %10s %10s %10s\n", "ms", "mean", "p50", "p95", "p99", "most");
    load_print_row("first token", &r->first);
    load_print_row("between tokens", &r->between);
    load_print_row("whole answer", &r->whole);
    for (uint32_t i = GEN_CANCELLED; i <= GEN_FAILED; i++)
        if (r->ended[i]) printf("%llu streams: %s\n", (unsigned long long)r->ended[i], status[i]);
    if (r->refused) printf("%llu streams found no free slot\n", (unsigned long long)r->refused);
    if (r->server_cpu_s >= 0 && r->tokens)
        printf("server: %.3f s of CPU time, %.2f ms for 1000 tokens\n", r->server_cpu_s,
               r->server_cpu_s * 1e6 / (double)r->tokens);
}
