/* SPDX-License-Identifier: Apache-2.0 */
/* Prints how long requests spent in each stage. */
#include "src/cli/latency.h"

#include <stdlib.h>

static const char *const names[GW_LATENCY_PARTS] = {"network in", "wait",        "model",
                                                    "post",       "network out", "total"};

struct gw_latency *gw_latency_new(void)
{
    return calloc(1, sizeof(struct gw_latency));
}

void gw_latency_add(struct gw_latency *l, const struct gw_client_times *t)
{
    gw_histogram_add(&l->part[GW_NET_IN], t->net_in);
    gw_histogram_add(&l->part[GW_WAIT], t->wait);
    gw_histogram_add(&l->part[GW_MODEL], t->model);
    gw_histogram_add(&l->part[GW_POST], t->post);
    gw_histogram_add(&l->part[GW_NET_OUT], t->net_out);
    gw_histogram_add(&l->part[GW_TOTAL], t->total);
}

void gw_latency_merge(struct gw_latency *to, const struct gw_latency *from)
{
    for (uint32_t i = 0; i < GW_LATENCY_PARTS; i++) gw_histogram_merge(&to->part[i], &from->part[i]);
}

void gw_latency_print(const struct gw_latency *l, FILE *f)
{
    static const double percent[] = {50, 90, 95, 99, 99.9, 100};
    fprintf(f, "  %-12s %10s %10s %10s %10s %10s %10s\n", "latency, ms", "p50", "p90", "p95", "p99", "p99.9",
            "max");
    for (uint32_t i = 0; i < GW_LATENCY_PARTS; i++) {
        const struct gw_histogram *h = &l->part[i];
        if (!h->most && i != GW_TOTAL) continue;
        fprintf(f, "  %-12s", names[i]);
        for (int k = 0; k < 6; k++)
            fprintf(f, " %10.3f", (double)gw_histogram_percentile(h, percent[k]) / 1e6);
        fputc('\n', f);
    }
}
