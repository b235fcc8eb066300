/* SPDX-License-Identifier: Apache-2.0 */
#include "src/cli/latency.h"

int gw_latency_add(struct gw_latency *l, const struct gw_client_times *t)
{
    int error = gw_samples_add(&l->total, t->total);
    if (!error) error = gw_samples_add(&l->net_in, t->net_in);
    if (!error) error = gw_samples_add(&l->wait, t->wait);
    if (!error) error = gw_samples_add(&l->model, t->model);
    if (!error) error = gw_samples_add(&l->post, t->post);
    if (!error) error = gw_samples_add(&l->net_out, t->net_out);
    return error;
}

static void row(FILE *f, const char *name, struct gw_samples *s)
{
    static const double percent[] = {50, 90, 99, 100};
    gw_samples_sort(s);
    fprintf(f, "  %-12s", name);
    for (int i = 0; i < 4; i++) fprintf(f, " %10.3f", (double)gw_samples_percentile(s, percent[i]) / 1e6);
    fputc('\n', f);
}

void gw_latency_print(struct gw_latency *l, FILE *f)
{
    fprintf(f, "  %-12s %10s %10s %10s %10s\n", "latency, ms", "p50", "p90", "p99", "max");
    row(f, "network in", &l->net_in);
    row(f, "wait", &l->wait);
    row(f, "model", &l->model);
    row(f, "post", &l->post);
    row(f, "network out", &l->net_out);
    row(f, "total", &l->total);
}

void gw_latency_free(struct gw_latency *l)
{
    struct gw_samples *all[] = {&l->total, &l->net_in, &l->wait, &l->model, &l->post, &l->net_out};
    for (int i = 0; i < 6; i++) gw_samples_free(all[i]);
}
