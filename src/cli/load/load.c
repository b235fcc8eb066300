/* SPDX-License-Identifier: Apache-2.0 */
/* gpuwire load: opens the clients, runs one level after the other, and reports. */
#include "src/cli/cli.h"

#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <gpuwire/error.h>

#include "src/cli/load/load.h"
#include "src/cli/options.h"

#define RATE_SLOTS 64 /* over HTTP: a rate says nothing of how many will be in flight */

/* ---- clients ---- */

static int load_open_one(struct gw_load *l, uint64_t i)
{
    struct gw_load_client *me = &l->client[i];
    me->load = l;
    me->tally = &l->tally[i % GW_LOAD_TALLIES];
    int err = gw_client_open(&l->o.client, &me->c);
    if (err && i)
        return gw_error(err, "client %llu of %llu: %s", (unsigned long long)i + 1,
                        (unsigned long long)l->clients, gw_last_error());
    return err;
}

/* Is every input an output, too? */
static int check_echo(const struct gw_load *l)
{
    const struct gw_client *c = l->client[0].c;
    int same = gw_client_inputs(c) == gw_client_outputs(c);
    for (uint32_t i = 0; same && i < gw_client_inputs(c); i++) {
        const struct gw_client_tensor *in = gw_client_input(c, i), *out = gw_client_output(c, i);
        same = in->bytes == out->bytes && in->dtype == out->dtype && in->batched == out->batched;
    }
    return same ? 0
                : gw_error(-EINVAL, "--verify-echo: model %s does not answer with its input",
                           l->o.client.model);
}

/* How many clients the highest level needs, now that one says how many slots each has. */
static int count_clients(struct gw_load *l)
{
    uint64_t slots = gw_client_slots(l->client[0].c), wanted = (uint64_t)l->o.sweep.to;
    if (l->o.mode != GW_LOAD_CONCURRENCY || wanted <= slots * l->clients) return 0;
    if (l->o.clients || l->o.client.slots < slots)
        return gw_error(
            -EINVAL,
            "--concurrency %llu: %llu clients with %llu requests in flight each are too few; give more "
            "--clients",
            (unsigned long long)wanted, (unsigned long long)l->clients, (unsigned long long)slots);
    l->clients = (wanted + slots - 1) / slots;
    if (l->clients > GW_LOAD_CLIENTS)
        return gw_error(-EINVAL, "--concurrency %llu: it takes %llu clients, and there may be %d",
                        (unsigned long long)wanted, (unsigned long long)l->clients, GW_LOAD_CLIENTS);
    return 0;
}

static void choose_slots(struct gw_load *l)
{
    struct gw_client_opts *c = &l->o.client;
    const char *url = c->server;
    if (c->slots) return;
    if (l->o.mode == GW_LOAD_CONCURRENCY) {
        double each = ceil(l->o.sweep.to / (double)l->clients);
        c->slots = each < GW_CLIENT_MAX_SLOTS ? (uint32_t)each : GW_CLIENT_MAX_SLOTS;
    } else if (l->o.mode == GW_LOAD_RATE && (!strncmp(url, "http://", 7) || !strncmp(url, "https://", 8))) {
        c->slots = RATE_SLOTS;
    } else if (l->o.mode == GW_LOAD_RATE && !strncmp(url, "fleet", 5)) {
        c->slots = GW_CLIENT_MAX_SLOTS;
    }
}

static int load_check_inputs(struct gw_load *l)
{
    const struct gw_client *c = l->client[0].c;
    uint32_t rows = 0;
    if (l->o.verify) return check_echo(l);
    if (!l->arrays.count) return 0;
    int err = gw_arrays_fit(&l->arrays, c, &rows);
    if (!err && l->o.door.request.rows && rows != l->o.door.request.rows)
        err = gw_error(-EINVAL, "--rows %u: the files have %u samples", l->o.door.request.rows, rows);
    l->rows = rows;
    return err;
}

static int open_clients(struct gw_load *l)
{
    struct gw_client_opts *c = &l->o.client;
    int err = gw_arrays_read(&l->arrays, &l->o.input);
    if (err) return err;
    c->shapes = l->arrays.shape;
    c->shape_count = l->arrays.count;
    l->rows = l->o.door.request.rows ? l->o.door.request.rows : 1;
    /* Files say themselves how many samples they have. */
    c->rows = l->arrays.count && !l->o.door.request.rows ? 0 : l->rows;
    l->clients = l->o.clients ? l->o.clients : 1;
    choose_slots(l);
    err = load_open_one(l, 0);
    if (!err) err = load_check_inputs(l);
    if (!err) err = count_clients(l);
    for (uint64_t i = 1; !err && i < l->clients; i++) {
        if (gw_interrupted()) return gw_error(-EINTR, "interrupted");
        err = load_open_one(l, i);
    }
    for (uint64_t i = 0; !err && i < l->clients; i++) gw_load_fill(&l->client[i]);
    return err;
}

/* ---- levels ---- */

static int make_tallies(struct gw_load *l)
{
    for (uint64_t i = 0; i < GW_LOAD_TALLIES && i < l->clients; i++) {
        pthread_mutex_init(&l->tally[i].lock, NULL);
        l->tally[i].latency = gw_latency_new();
        if (!l->tally[i].latency) return gw_error_errno(-ENOMEM, "load");
    }
    return 0;
}

static struct gw_level *new_level(struct gw_load *l)
{
    struct gw_level *more = realloc(l->level, (l->levels + 1) * sizeof(*more));
    if (!more) return NULL;
    l->level = more;
    memset(&more[l->levels], 0, sizeof(*more));
    more[l->levels].latency = gw_latency_new();
    return more[l->levels].latency ? &more[l->levels++] : NULL;
}

/* True: all were answered, and rightly. */
static bool is_good(const struct gw_load *l, const struct gw_level *v)
{
    uint64_t answered = v->latency->part[GW_TOTAL].count + v->late + v->refused;
    return !v->failed && !v->wrong && (!l->o.requests || answered == l->o.requests);
}

static int run_levels(struct gw_load *l, int *bad)
{
    double value = 0;
    gw_report_begin(l);
    do {
        value = gw_sweep_next(&l->o.sweep, value);
        struct gw_level *v = new_level(l);
        if (!v) return gw_error_errno(-ENOMEM, "load");
        int err = gw_load_run_level(l, value, v);
        if (v->latency->part[GW_TOTAL].count || v->late || v->failed || v->refused) gw_report_level(l, v);
        *bad |= err || !is_good(l, v);
        if (gw_interrupted()) fprintf(stderr, "gpuwire load: interrupted\n");
        if (err) break; /* the reason was said */
    } while (gw_sweep_next(&l->o.sweep, value) > 0);
    gw_report_end(l);
    return 0;
}

static int save(const struct gw_load *l)
{
    int err = l->o.csv ? gw_export_csv(l, l->o.csv) : 0;
    if (!err && l->o.json) err = gw_export_json(l, l->o.json);
    if (!err && l->o.plot) err = gw_plot_svg(l, l->o.plot);
    return err;
}

static int check_files(const struct gw_load_options *o)
{
    int err = o->csv ? gw_option_writable("--csv", o->csv) : 0;
    if (!err && o->json) err = gw_option_writable("--json", o->json);
    if (!err && o->plot) err = gw_option_writable("--plot", o->plot);
    if (!err && o->plot && !gw_plot_possible())
        err = gw_error(-ENOENT, "--plot: gnuplot is not installed; install it, or plot what --csv gives");
    return err;
}

static void load_release(struct gw_load *l)
{
    for (uint64_t i = 0; i < l->clients; i++) gw_client_close(l->client[i].c);
    for (uint32_t i = 0; i < l->levels; i++) free(l->level[i].latency);
    for (int i = 0; i < GW_LOAD_TALLIES; i++) free(l->tally[i].latency);
    gw_arrays_free(&l->arrays);
    free(l->level);
    free(l->client);
    free(l);
}

int gw_cli_load(int argc, char **argv)
{
    int bad = 0, done, err;
    struct gw_load *l = calloc(1, sizeof(*l));
    if (!l || !(l->client = calloc(GW_LOAD_CLIENTS, sizeof(*l->client)))) {
        free(l);
        return gw_cli_fail("load", "clients", ENOMEM);
    }
    l->o = (struct gw_load_options){.client = {.give_up = gw_interrupted},
                                    .seed = 1,
                                    .window_s = 1,
                                    .warmup_s = 0.5,
                                    .stability = 10,
                                    .max_windows = 10};
    done = gw_load_parse(argc, argv, &l->o);
    if (done < 0) {
        err = gw_door_options_use(&l->o.door, &l->o.client);
        if (!err) err = check_files(&l->o);
        gw_catch_signals();
        if (!err) err = open_clients(l);
        if (!err) err = make_tallies(l);
        if (!err) err = run_levels(l, &bad);
        if (!err && l->levels) err = save(l);
        if (err) gw_failed("load");
        done = gw_exit_code(err || bad);
    }
    load_release(l);
    return done;
}
