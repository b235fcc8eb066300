/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs one simulated fleet and prints what came of it.
 *
 *     fleet_sim [--OPTION VALUE]… [--csv | --header]
 *
 * --header prints the names of the columns, --csv one row, else the same as lines. --help lists the
 * options with their values by default. Times end in a unit: 20ms, 500us, 2s. The same options and seed
 * give the same row, byte for byte.
 */
#include <errno.h>
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/fleet/sim/sim.h"

enum how { LINES, CSV, HEADER };
enum kind { K_U32, K_U64, K_REAL, K_TIME, K_BOOL, K_POLICY, K_LOAD, K_FAULTS };

static const char *const policies[] = {"leases", "clockwork", "deferred"}, *const loads[] = {
                                                                               "poisson", "onoff", "azure"};
static const char *const faults[] = {"death", "pause", "cut", "lie", "load", "clock", "drain"};

#define OPTION(name, field, kind)                                                                            \
    {                                                                                                        \
        name, offsetof(struct sim_options, field), kind                                                      \
    }
static const struct {
    const char *name;
    size_t at;
    enum kind kind;
} options[] = {
    OPTION("policy", policy, K_POLICY),
    OPTION("load", load, K_LOAD),
    OPTION("seed", seed, K_U64),
    OPTION("workers", workers, K_U32),
    OPTION("models", models, K_U32),
    OPTION("requests", requests, K_U64),
    OPTION("rate", rate, K_REAL),
    OPTION("skew", skew, K_REAL),
    OPTION("day", day_s, K_REAL),
    OPTION("deadline", deadline_ns, K_TIME),
    OPTION("factor", deadline_factor, K_REAL),
    OPTION("tight", tight, K_REAL),
    OPTION("tight-deadline", tight_ns, K_TIME),
    OPTION("slack", slack, K_REAL),
    OPTION("exec", exec_ns, K_TIME),
    OPTION("marginal", marginal, K_REAL),
    OPTION("zoo", zoo, K_BOOL),
    OPTION("replicas", replicas, K_U32),
    OPTION("pages", pages, K_U32),
    OPTION("gpu-pages", gpu_pages, K_U32),
    OPTION("host-pages", host_pages, K_U32),
    OPTION("page", page_ns, K_TIME),
    OPTION("disk-page", disk_page_ns, K_TIME),
    OPTION("hop", hop_ns, K_TIME),
    OPTION("jitter", jitter_ns, K_TIME),
    OPTION("noise", noise, K_REAL),
    OPTION("clock-error", clock_error_ns, K_TIME),
    OPTION("round", round_ns, K_TIME),
    OPTION("ahead", ahead_ns, K_TIME),
    OPTION("defer", defer, K_REAL),
    OPTION("spills", spills, K_U32),
    OPTION("faults", faults, K_FAULTS),
    OPTION("fault-every", fault_s, K_REAL),
    OPTION("warm", warm_ns, K_TIME),
    OPTION("prewarm", prewarm, K_BOOL),
    OPTION("strict", strict, K_BOOL),
};
enum { OPTIONS = sizeof options / sizeof options[0] };

static int choose(const char *text, size_t length, const char *const *names, int n)
{
    for (int i = 0; i < n; i++) {
        if (strlen(names[i]) == length && !strncmp(names[i], text, length)) return i;
    }
    return -1;
}

/* "death,cut" or "all" as bits; -1: no such fault. */
static int read_faults(const char *text)
{
    if (!strcmp(text, "all")) return 127;
    int bits = 0;
    while (*text) {
        size_t length = strcspn(text, ",");
        int i = choose(text, length, faults, 7);
        if (i < 0) return -1;
        bits |= 1 << i;
        text += length + (text[length] == ',');
    }
    return bits;
}

/* A number of at least 0 with a unit of time; -1: it is none. */
static double read_time(const char *text)
{
    static const struct {
        const char *unit;
        double ns;
    } units[] = {{"ns", 1}, {"us", 1e3}, {"ms", 1e6}, {"s", 1e9}};
    char *end;
    double v = strtod(text, &end);
    for (size_t i = 0; i < 4; i++) {
        if (end != text && v >= 0 && !strcmp(end, units[i].unit)) return v * units[i].ns;
    }
    return -1;
}

/* Whether the text was a value of this option. */
static bool set(struct sim_options *o, int option, const char *text)
{
    char *at = (char *)o + options[option].at, *end = NULL;
    double v = strtod(text, &end);
    bool number = end != text && !*end && v >= 0;
    int i = -1;
    switch (options[option].kind) {
    case K_U32: *(uint32_t *)at = v < 4e9 ? (uint32_t)v : 0; return number && v < 4e9;
    case K_U64: *(uint64_t *)at = v < 1e18 ? (uint64_t)v : 0; return number && v < 1e18;
    case K_REAL: *(double *)at = v; return number;
    case K_BOOL: *(bool *)at = v > 0; return number;
    case K_TIME:
        v = read_time(text);
        *(int64_t *)at = (int64_t)v;
        return v >= 0 && v < 1e18;
    case K_POLICY:
        i = choose(text, strlen(text), policies, 3);
        o->policy = (enum sim_policy)i;
        return i >= 0;
    case K_LOAD:
        i = choose(text, strlen(text), loads, 3);
        o->load = (enum sim_load)i;
        return i >= 0;
    case K_FAULTS:
        i = read_faults(text);
        o->faults = (uint32_t)i;
        return i >= 0;
    }
    return false;
}

static void help(const struct sim_options *o)
{
    printf("fleet_sim [--OPTION VALUE]... [--csv | --header]\n");
    for (int i = 0; i < OPTIONS; i++) {
        const char *at = (const char *)o + options[i].at;
        printf("    --%-16s", options[i].name);
        switch (options[i].kind) {
        case K_U32: printf("%" PRIu32 "\n", *(const uint32_t *)at); break;
        case K_U64: printf("%" PRIu64 "\n", *(const uint64_t *)at); break;
        case K_REAL: printf("%g\n", *(const double *)at); break;
        case K_BOOL: printf("%d\n", *(const bool *)at); break;
        case K_TIME: printf("%gus\n", (double)*(const int64_t *)at / 1e3); break;
        case K_POLICY: printf("leases, clockwork or deferred\n"); break;
        case K_LOAD: printf("poisson, onoff or azure\n"); break;
        case K_FAULTS: printf("none; death,pause,cut,lie,load,clock,drain or all\n"); break;
        }
    }
}

static void print(const struct sim_options *o, const struct sim_result *r, enum how how)
{
    double all = r->counted ? (double)r->counted : 1, s = r->seconds > 0 ? r->seconds : 1;
    const struct {
        const char *name;
        double value;
    } columns[] = {
        {"workers", o->workers},
        {"models", o->models},
        {"rate", o->rate},
        {"offered", all / s},
        {"deadline_ms", (double)o->deadline_ns / 1e6},
        {"goodput", (double)r->ends[SIM_GOOD] / s},
        {"good_pc", 100.0 * (double)r->ends[SIM_GOOD] / all},
        {"late_pc", 100.0 * (double)r->ends[SIM_LATE] / all},
        {"shed_pc", 100.0 * (double)r->ends[SIM_SHED] / all},
        {"refused_pc", 100.0 * (double)r->ends[SIM_REFUSED] / all},
        {"nowhere_pc", 100.0 * (double)r->ends[SIM_NOWHERE] / all},
        {"lost_pc", 100.0 * (double)r->ends[SIM_LOST] / all},
        {"tight_good_pc", r->tight ? 100.0 * (double)r->tight_good / (double)r->tight : 0},
        {"p50_ms", (double)sim_quantile(r->latency, 0.5) / 1e6},
        {"p99_ms", (double)sim_quantile(r->latency, 0.99) / 1e6},
        {"p999_ms", (double)sim_quantile(r->latency, 0.999) / 1e6},
        {"batch", r->batches ? (double)r->batched / (double)r->batches : 0},
        {"busy_pc", 100 * r->busy},
        {"loads", (double)r->loads},
        {"evicts", (double)r->evicts},
        {"retried", (double)r->retried},
        {"actions_s", (double)r->actions / s},
        {"messages_per_request", (double)r->messages / all},
        {"error_p99_pc", 100 * r->error_p99},
    };
    if (how == HEADER) printf("policy,seed,");
    if (how == CSV) printf("%s,%" PRIu64 ",", policies[o->policy], o->seed);
    for (size_t i = 0; i < sizeof columns / sizeof columns[0]; i++) {
        if (how == HEADER)
            printf("%s,", columns[i].name);
        else if (how == CSV)
            printf("%.6g,", columns[i].value);
        else
            printf("%-22s%.6g\n", columns[i].name, columns[i].value);
    }
    if (how == HEADER)
        printf("hash\n");
    else
        printf("%s%016" PRIx64 "\n", how == CSV ? "" : "hash                  ", r->hash);
}

int main(int argc, char **argv)
{
    struct sim_options o;
    struct sim_result r = {0};
    enum how how = LINES;
    sim_defaults(&o);
    for (int i = 1; i < argc; i++) {
        int k = 0;
        if (!strcmp(argv[i], "--help")) return help(&o), 0;
        if (!strcmp(argv[i], "--csv") || !strcmp(argv[i], "--header")) {
            how = argv[i][2] == 'c' ? CSV : HEADER;
            continue;
        }
        while (k < OPTIONS && (strncmp(argv[i], "--", 2) || strcmp(argv[i] + 2, options[k].name))) k++;
        if (k == OPTIONS || i + 1 == argc || !set(&o, k, argv[i + 1])) {
            fprintf(stderr, "fleet_sim: cannot use %s %s; --help lists the options\n", argv[i],
                    i + 1 < argc ? argv[i + 1] : "");
            return 2;
        }
        i++;
    }
    if (!o.workers || !o.models || o.rate <= 0) {
        fprintf(stderr, "fleet_sim: --workers, --models and --rate must be at least 1\n");
        return 2;
    }
    int err = how == HEADER ? 0 : sim_run(&o, &r);
    if (err) {
        fprintf(stderr, "fleet_sim: %s\n",
                err == -ENOBUFS ? "more than two seconds of requests are open" : strerror(-err));
        return 1;
    }
    print(&o, &r, how);
    return 0;
}
