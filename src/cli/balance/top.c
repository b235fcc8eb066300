/* SPDX-License-Identifier: Apache-2.0 */
/* gpuwire balance top: rates, live. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <gpuwire/exec.h>

#include "src/cli/balance/client.h"
#include "src/cli/options.h"

static double top_number(const json_t *j, const char *name)
{
    return (double)json_integer_value(json_object_get(j, name));
}

static const char *top_text_of(const json_t *j, const char *name)
{
    const char *text = json_string_value(json_object_get(j, name));
    return text ? text : "?";
}

/* The services or workers of a look by their names; a new reference. */
static json_t *top_by_name(const json_t *all)
{
    size_t i;
    json_t *o, *names = json_object();
    json_array_foreach(all, i, o) json_object_set(names, top_text_of(o, "name"), o);
    return names;
}

static double rate(const json_t *now, const json_t *before, const char *name, double seconds)
{
    double grown = before ? top_number(now, name) - top_number(before, name) : 0;
    return grown > 0 ? grown / seconds : 0; /* a data plane that started again counts from 0 */
}

static void top_print_worker(const json_t *w, const json_t *before, double seconds)
{
    char at[80];
    const json_t *f = json_object_get(w, "flows"), *b = json_object_get(before, "flows");
    gw_balance_endpoint(w, at, sizeof(at));
    printf("  %-20s %-24s %-8s %6.0f %9.0f %8.0f %9.0f %9.1f %6.0f\n", top_text_of(w, "name"), at,
           top_text_of(w, "state"), top_number(w, "weight"), top_number(f, "live"),
           rate(f, b, "opened", seconds), rate(f, b, "packets", seconds), rate(f, b, "bytes", seconds) * 8e-6,
           top_number(json_object_get(w, "telemetry"), "queue"));
}

static void print_drops(const json_t *now, const json_t *before, double seconds)
{
    const char *key;
    json_t *value;
    const json_t *drops = json_object_get(now, "drops"), *b = json_object_get(before, "drops");
    json_object_foreach((json_t *)drops, key, value)
    {
        if (json_integer_value(value)) printf("  %s %.0f/s", key, rate(drops, b, key, seconds));
    }
}

static void top_print_all(const json_t *services, const json_t *before, const json_t *stats,
                          const json_t *stats_before, double seconds)
{
    size_t i, k;
    json_t *s, *w;
    char at[80];
    const json_t *data = json_object_get(stats, "data"), *was = json_object_get(stats_before, "data");
    const json_t *totals = json_object_get(data, "totals"), *t = json_object_get(was, "totals");
    printf("up %.0f s; %.0f connections, %.0f new/s, %.0f packets/s, %.1f Mbit/s; dropped:",
           top_number(stats, "uptime_ms") / 1000, top_number(totals, "live"),
           rate(totals, t, "opened", seconds), rate(totals, t, "packets", seconds),
           rate(totals, t, "bytes", seconds) * 8e-6);
    print_drops(data, was, seconds);
    printf("\n");
    gw_balance_print_silent(stats);
    json_t *services_before = top_by_name(before);
    json_array_foreach(services, i, s)
    {
        const json_t *old = json_object_get(services_before, top_text_of(s, "name"));
        json_t *workers_before = top_by_name(json_object_get(old, "workers"));
        gw_balance_endpoint(s, at, sizeof(at));
        printf("\n%s  %s  %s  %s\n", top_text_of(s, "name"), at, top_text_of(s, "scheduler"),
               top_text_of(s, "forward"));
        printf("  %-20s %-24s %-8s %6s %9s %8s %9s %9s %6s\n", "worker", "address", "state", "weight", "live",
               "new/s", "packets/s", "Mbit/s", "queue");
        json_array_foreach(json_object_get(s, "workers"), k, w)
            top_print_worker(w, json_object_get(workers_before, top_text_of(w, "name")), seconds);
        json_decref(workers_before);
    }
    json_decref(services_before);
    fflush(stdout);
}

struct look {
    json_t *services, *stats;
    uint64_t at;
};

static int take_look(struct gw_balance_client *c, struct look *l)
{
    *l = (struct look){.at = gw_deadline(0)};
    int code = gw_balance_ask(c, "GET", "v1/services", NULL, &l->services);
    return code ? code : gw_balance_ask(c, "GET", "v1/stats", NULL, &l->stats);
}

static void drop_look(struct look *l)
{
    json_decref(l->services);
    json_decref(l->stats);
}

int gw_balance_top(const struct gw_balance_args *a)
{
    struct gw_balance_client c;
    struct look before = {0}, now;
    int code = gw_balance_connect(a, &c), live = isatty(STDOUT_FILENO) && !a->once, stop;
    if (code) return code;
    gw_catch_signals();
    stop = gw_interrupt_fd();
    for (unsigned looks = 0; !code && !gw_interrupted(); looks++) {
        code = take_look(&c, &now);
        if (!code && (looks || !a->once)) {
            if (live) printf("\033[H\033[J");
            top_print_all(json_object_get(now.services, "services"),
                          json_object_get(before.services, "services"), now.stats, before.stats,
                          before.at ? (double)(now.at - before.at) / 1e9 : 1);
        }
        drop_look(&before);
        before = now;
        if (code || (a->once && looks)) break;
        gw_wait_fds(&stop, 1, gw_deadline(a->interval_ms * 1000000));
    }
    drop_look(&before);
    gw_balance_disconnect(&c);
    return code ? code : gw_interrupted() ? GW_EXIT_INTERRUPTED : GW_EXIT_OK;
}
