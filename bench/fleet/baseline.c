/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A fleet whose controller is in the way of all tensors, as Clockwork's is, to be compared with ours.
 *
 *     baseline controller --controller HOST:PORT [--OPTION VALUE]...
 *     baseline workers    --controller HOST:PORT [--OPTION VALUE]...
 *     baseline load       --controller HOST:PORT | --fleet HOST:PORT [--OPTION VALUE]...
 *
 * Clients send requests with their tensors to the controller. It decides by the policy of
 * src/fleet/plan/clockwork.c, sends each batch with its tensors to a worker, and passes the answers on. The
 * workers emulate: they take the time that a profile says. An answer begins as its request does.
 *
 * `load` sends requests at a fixed rate, to all models in turn. It sends none while as many as --flying are
 * open. With --trace FILE it sends one for each line of the file instead: microseconds from the start, and
 * the model's number. When the warm-up is over it prints "counts". At the end it prints the numbers of
 * load_print().
 * bench/fleet/architecture.py runs all of this beside gpuwire's own fleet.
 */
#include "bench/fleet/baseline.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <gpuwire/error.h>

struct fleet_conn_opts baseline_conn(uint8_t role, uint32_t peers, const uint8_t *id)
{
    return (struct fleet_conn_opts){.role = role,
                                    .peers = peers,
                                    .fleet = "baseline",
                                    .name = "",
                                    .id = id,
                                    .most = FLEET_MAX_FRAME,
                                    .backlog = BASELINE_BACKLOG,
                                    .silent_ns = 30 * BASELINE_SECOND};
}

static int baseline_usage(const char *what)
{
    fprintf(stderr, "baseline: %s: see the top of bench/fleet/baseline.c\n", what);
    return 2;
}

/* Reads a whole number from 1. */
static int baseline_number(const char *text, uint32_t *out)
{
    char *end;
    unsigned long n = strtoul(text, &end, 10);
    if (*end || end == text || !n || n > UINT32_MAX / 2) return -1;
    *out = (uint32_t)n;
    return 0;
}

static int baseline_option(struct baseline_opts *o, const char *name, const char *value)
{
    const struct {
        const char *name;
        uint32_t *to;
    } numbers[] = {{"--workers", &o->workers},   {"--models", &o->models},
                   {"--pages", &o->pages},       {"--rate", &o->rate},
                   {"--flying", &o->flying},     {"--warm-ms", &o->warm_ms},
                   {"--run-ms", &o->run_ms},     {"--deadline-ms", &o->deadline_ms},
                   {"--ahead-us", &o->ahead_us}, {"--hop-us", &o->hop_us}};
    if (!strcmp(name, "--controller")) return o->controller = value, 0;
    if (!strcmp(name, "--fleet")) return o->fleet = value, 0;
    if (!strcmp(name, "--trace")) return o->trace = value, 0;
    if (!strcmp(name, "--profile")) return fleet_profile_read(value, &o->profile);
    for (size_t i = 0; i < sizeof(numbers) / sizeof(*numbers); i++)
        if (!strcmp(name, numbers[i].name)) return baseline_number(value, numbers[i].to);
    return -1;
}

int main(int argc, char **argv)
{
    struct baseline_opts o = {.workers = 4,
                              .models = 8,
                              .pages = 2000,
                              .rate = 500,
                              .flying = 512,
                              .warm_ms = 1000,
                              .run_ms = 3000,
                              .deadline_ms = 100,
                              .ahead_us = 5000,
                              .hop_us = 1000};
    if (argc < 2 || argc % 2) return baseline_usage("a mode, and options with values");
    if (fleet_profile_read("resnet50-h200", &o.profile)) return 1;
    o.mode = argv[1];
    for (int i = 2; i < argc; i += 2)
        if (baseline_option(&o, argv[i], argv[i + 1])) return baseline_usage(argv[i]);
    if (!o.controller && !o.fleet) return baseline_usage("--controller is missing");
    if (o.flying > BASELINE_REQUESTS) return baseline_usage("--flying is too large");
    if (!strcmp(o.mode, "load")) return baseline_load(&o);
    if (!o.controller) return baseline_usage("--controller is missing");
    if (!strcmp(o.mode, "controller")) return baseline_control(&o);
    if (!strcmp(o.mode, "workers")) return baseline_workers(&o);
    return baseline_usage(o.mode);
}
