/* SPDX-License-Identifier: Apache-2.0 */
/* Prometheus' text format. Names are checked when they enter the model, so no label needs escapes. */
#include <stdio.h>
#include <stdlib.h>

#include <gpuwire/exec.h>

#include "src/balance/control/core.h"

enum what { UP, REFUSED, WEIGHT, LIVE, OPENED, PACKETS, BYTES, QUEUE, CHECKS, FAILURES };

static const struct {
    const char *name, *type, *help;
} of_workers[] = {
    [UP] = {"worker_up", "gauge", "1: up, 0.5: draining or drained, 0: down or refused"},
    [REFUSED] = {"worker_refused", "gauge", "1: the data plane cannot run it; `list` says why"},
    [WEIGHT] = {"worker_weight", "gauge", "Weight"},
    [LIVE] = {"worker_connections", "gauge", "Connections that the worker has"},
    [OPENED] = {"worker_connections_total", "counter", "Connections that it was given"},
    [PACKETS] = {"worker_packets_total", "counter", "Packets forwarded, both ways"},
    [BYTES] = {"worker_bytes_total", "counter", "Bytes of these"},
    [QUEUE] = {"worker_queue_depth", "gauge", "Requests that wait, as the worker says"},
    [CHECKS] = {"worker_checks_total", "counter", "Health checks"},
    [FAILURES] = {"worker_check_failures_total", "counter", "Health checks that failed"},
};

static double metrics_value_of(const struct gw_bal_worker *w, enum what what)
{
    static const double states[] = {[GW_BAL_UP] = 1,
                                    [GW_BAL_DRAINING] = 0.5,
                                    [GW_BAL_DRAINED] = 0.5,
                                    [GW_BAL_DOWN] = 0,
                                    [GW_BAL_REFUSED] = 0};
    switch (what) {
    case UP: return states[gw_bal_state_of(w)];
    case REFUSED: return gw_bal_state_of(w) == GW_BAL_REFUSED;
    case WEIGHT: return w->weight;
    case LIVE: return (double)w->counts.live;
    case OPENED: return (double)w->counts.opened;
    case PACKETS: return (double)w->counts.packets;
    case BYTES: return (double)w->counts.bytes;
    case QUEUE: return w->telemetry.queue;
    case CHECKS: return (double)w->health.checks;
    default: return (double)w->health.failures;
    }
}

static void metrics_head(FILE *f, const char *name, const char *type, const char *help)
{
    fprintf(f, "# HELP gpuwire_balance_%s %s\n# TYPE gpuwire_balance_%s %s\n", name, help, name, type);
}

static void metrics_write_workers(FILE *f, const struct gw_bal_core *c)
{
    for (size_t i = 0; i < sizeof(of_workers) / sizeof(of_workers[0]); i++) {
        metrics_head(f, of_workers[i].name, of_workers[i].type, of_workers[i].help);
        for (const struct gw_bal_service *s = c->model.services; s; s = s->next)
            for (const struct gw_bal_worker *w = s->workers; w; w = w->next)
                fprintf(f, "gpuwire_balance_%s{service=\"%s\",worker=\"%s\"} %.15g\n", of_workers[i].name,
                        s->name, w->name, metrics_value_of(w, (enum what)i));
    }
}

/* The data plane's totals have one name for each counter; those of `drops` are reasons. */
static void write_totals(FILE *f, const json_t *stats)
{
    const char *key;
    json_t *value;
    json_object_foreach(json_object_get(stats, "totals"), key, value)
    {
        int gauge = !strcmp(key, "live") || !strcmp(key, "neighbours");
        fprintf(f, "# TYPE gpuwire_balance_%s%s %s\ngpuwire_balance_%s%s %lld\n", key, gauge ? "" : "_total",
                gauge ? "gauge" : "counter", key, gauge ? "" : "_total",
                (long long)json_integer_value(value));
    }
    metrics_head(f, "drops_total", "counter", "Packets that were not forwarded");
    json_object_foreach(json_object_get(stats, "drops"), key, value) fprintf(
        f, "gpuwire_balance_drops_total{reason=\"%s\"} %lld\n", key, (long long)json_integer_value(value));
}

char *gw_bal_metrics(const struct gw_bal_core *c)
{
    char *text = NULL;
    size_t bytes;
    FILE *f = open_memstream(&text, &bytes);
    if (!f) return NULL;
    metrics_write_workers(f, c);
    write_totals(f, c->stats);
    const json_t *sync = json_object_get(c->stats, "sync");
    if (json_is_object(sync)) {
        metrics_head(f, "standby_connected", "gauge",
                     "1: every balancer that flows go to or come from has answered within seconds");
        fprintf(f, "gpuwire_balance_standby_connected %d\n",
                gw_bal_core_alive(c) && json_is_true(json_object_get(sync, "connected")));
        metrics_head(f, "standby_flows_total", "counter",
                     "Flows that were told to the standby, or learnt from the active one");
        for (int i = 0; i < 4; i++) {
            static const char *const names[] = {"sent", "received", "unknown", "lost"};
            fprintf(f, "gpuwire_balance_standby_flows_total{what=\"%s\"} %lld\n", names[i],
                    (long long)json_integer_value(json_object_get(sync, names[i])));
        }
    }
    metrics_head(f, "data_plane_up", "gauge", "1: the control plane reaches the data plane");
    fprintf(f, "gpuwire_balance_data_plane_up %d\n", gw_bal_core_alive(c));
    metrics_head(f, "data_plane_restarts_total", "counter",
                 "How often the data plane had to be started again");
    fprintf(f, "gpuwire_balance_data_plane_restarts_total %llu\n", (unsigned long long)c->restarts);
    if (fclose(f)) {
        free(text);
        return NULL;
    }
    return text;
}
