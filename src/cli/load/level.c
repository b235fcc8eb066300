/* SPDX-License-Identifier: Apache-2.0 */
/* One level of load: warm-up, windows until they agree, and what they counted. */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <gpuwire/error.h>
#include <gpuwire/exec.h>

#include "src/cli/load/load.h"
#include "src/cli/options.h"
#include "src/cli/progress.h"

#define LOOK_NS 20000000u

/* ---- what clients count ---- */

/* Takes what was counted since the last time. */
static void load_level_collect(struct gw_load *l, struct gw_level *into)
{
    for (int i = 0; i < GW_LOAD_TALLIES; i++) {
        struct gw_tally *t = &l->tally[i];
        if (!t->latency) continue;
        pthread_mutex_lock(&t->lock);
        if (into) {
            gw_latency_merge(into->latency, t->latency);
            into->late += t->late;
            into->failed += t->failed;
            into->wrong += t->wrong;
            into->within += t->within;
            into->refused += t->refused;
            into->lost += t->lost;
            for (uint32_t b = 0; b < GW_LOAD_BATCHES; b++) into->batch[b] += t->batch[b];
        }
        memset(t->latency, 0, sizeof(*t->latency));
        memset(t->batch, 0, sizeof(t->batch));
        t->late = t->failed = t->wrong = 0;
        t->within = t->refused = t->lost = 0;
        pthread_mutex_unlock(&t->lock);
    }
}

static void load_level_add(struct gw_level *to, const struct gw_level *from)
{
    to->seconds += from->seconds;
    to->late += from->late;
    to->failed += from->failed;
    to->wrong += from->wrong;
    to->within += from->within;
    to->refused += from->refused;
    to->lost += from->lost;
    gw_latency_merge(to->latency, from->latency);
    for (uint32_t b = 0; b < GW_LOAD_BATCHES; b++) to->batch[b] += from->batch[b];
}

/* ---- threads ---- */

static void share_out(struct gw_load *l, double value)
{
    uint64_t start = gw_deadline(0);
    for (uint64_t i = 0; i < l->clients; i++) {
        struct gw_load_client *me = &l->client[i];
        uint64_t whole = (uint64_t)value, share = whole / l->clients + (i < whole % l->clients);
        me->max_in_flight = l->o.mode == GW_LOAD_REQUESTS ? gw_client_slots(me->c) : (uint32_t)share;
        me->arrivals.constant = l->o.constant;
        if (l->o.mode == GW_LOAD_RATE)
            gw_arrivals_begin(&me->arrivals, start, value / (double)l->clients, l->o.seed + i,
                              (double)i / (double)l->clients);
        me->error = 0;
        me->why[0] = 0;
    }
}

/* Returns how many were started. */
static uint64_t load_level_start_clients(struct gw_load *l, double value)
{
    uint64_t n = 0;
    share_out(l, value);
    l->limit = l->o.requests;
    atomic_store(&l->next, 0);
    atomic_store(&l->answered, 0);
    atomic_store(&l->stop, 0);
    atomic_store(&l->running, (int)l->clients);
    while (n < l->clients && !pthread_create(&l->client[n].thread, NULL, gw_load_run_client, &l->client[n]))
        n++;
    atomic_fetch_sub(&l->running, (int)(l->clients - n));
    return n;
}

/* Waits, and shows how it goes on. 0: the time is over, or all clients have ended. */
static int load_level_pass(struct gw_load *l, struct gw_progress *bar, double seconds)
{
    const struct timespec pause = {.tv_nsec = LOOK_NS};
    uint64_t end = gw_deadline((uint64_t)(seconds * 1e9));
    while (gw_deadline(0) < end && atomic_load(&l->running)) {
        if (gw_interrupted()) return -EINTR;
        nanosleep(&pause, NULL);
        gw_progress_at(bar, atomic_load(&l->answered));
    }
    return 0;
}

/* ---- windows ---- */

struct windows {
    struct gw_level window[GW_WINDOWS];
    struct gw_steady steady;
};

static void window_free(struct windows *w)
{
    for (int i = 0; i < GW_WINDOWS; i++) free(w->window[i].latency);
    free(w);
}

static struct windows *windows_new(void)
{
    struct windows *w = calloc(1, sizeof(*w));
    for (int i = 0; w && i < GW_WINDOWS; i++) {
        w->window[i].latency = gw_latency_new();
        if (w->window[i].latency) continue;
        window_free(w);
        return NULL;
    }
    return w;
}

static void one_window(struct gw_load *l, struct windows *w, uint64_t since)
{
    struct gw_level *v = &w->window[w->steady.windows % GW_WINDOWS];
    struct gw_latency *latency = v->latency;
    memset(latency, 0, sizeof(*latency));
    memset(v, 0, sizeof(*v));
    v->latency = latency;
    load_level_collect(l, v);
    v->seconds = (double)(gw_deadline(0) - since) / 1e9;
    const struct gw_histogram *total = &latency->part[GW_TOTAL];
    gw_steady_add(&w->steady, (double)total->count / v->seconds, gw_histogram_mean(total));
}

static int run_windows(struct gw_load *l, struct gw_progress *bar, struct gw_level *level)
{
    struct windows *w = windows_new();
    if (!w) return gw_error_errno(-ENOMEM, "load");
    int err = load_level_pass(l, bar, l->o.warmup_s);
    load_level_collect(l, NULL);
    level->stable = 0;
    while (!err && !level->stable && w->steady.windows < l->o.max_windows && atomic_load(&l->running)) {
        uint64_t since = gw_deadline(0);
        err = load_level_pass(l, bar, l->o.window_s);
        one_window(l, w, since); /* also a part of one: an interrupted run says what it has */
        level->stable = gw_steady_is(&w->steady, l->o.stability);
    }
    for (uint32_t i = 0; i < GW_WINDOWS && i < w->steady.windows; i++) load_level_add(level, &w->window[i]);
    window_free(w);
    return err;
}

static int run_requests(struct gw_load *l, struct gw_progress *bar, struct gw_level *level)
{
    uint64_t since = gw_deadline(0);
    int err = load_level_pass(l, bar, 1e9);
    uint64_t last = atomic_load(&l->last);
    level->seconds = last > since ? (double)(last - since) / 1e9 : 0;
    return err;
}

/* ---- a level ---- */

static double behind(const struct gw_load *l)
{
    double most = 0, now = (double)gw_deadline(0);
    for (uint64_t i = 0; i < l->clients; i++) most = fmax(most, now - l->client[i].arrivals.next_ns);
    return most / 1e6;
}

/* Each reason once: clients of one server mostly fail for the same. */
static int tell_errors(const struct gw_load *l, uint64_t started)
{
    const struct gw_load_client *client = l->client;
    int err = started < l->clients ? -EAGAIN : 0;
    if (err)
        fprintf(stderr, "gpuwire load: cannot start a thread for client %llu\n", (unsigned long long)started);
    for (uint64_t i = 0; i < started; i++) {
        uint64_t same = 0, first = 0;
        if (client[i].error) err = client[i].error;
        if (!client[i].why[0]) continue;
        while (strcmp(client[first].why, client[i].why)) first++;
        if (first < i) continue;
        for (uint64_t k = i; k < started; k++) same += !strcmp(client[k].why, client[i].why);
        fprintf(stderr, "gpuwire load: %llu of %llu clients: %s\n", (unsigned long long)same,
                (unsigned long long)l->clients, client[i].why);
    }
    return err;
}

/* The server's counts during the level. */
static void subtract(struct gw_client_stats *s, const struct gw_client_stats *before)
{
    s->success -= before->success;
    s->fail -= before->fail;
    s->inferences -= before->inferences;
    s->executions -= before->executions;
    s->success_ns -= before->success_ns;
    s->queue_ns -= before->queue_ns;
    s->input_ns -= before->input_ns;
    s->infer_ns -= before->infer_ns;
    s->output_ns -= before->output_ns;
    for (uint32_t i = 0; i < s->batches; i++)
        for (uint32_t k = 0; k < before->batches; k++)
            if (s->batch[i] == before->batch[k]) s->batch_count[i] -= before->batch_count[k];
}

int gw_load_run_level(struct gw_load *l, double value, struct gw_level *level)
{
    struct gw_client_stats before;
    struct gw_progress bar;
    char what[64] = "requests";
    if (l->o.mode != GW_LOAD_REQUESTS)
        snprintf(what, sizeof(what), "%g %s", value, l->o.mode == GW_LOAD_RATE ? "requests/s" : "in flight");
    level->value = value;
    level->stable = -1;
    level->has_server = !gw_client_stats(l->client[0].c, &before);
    gw_progress_begin(&bar, what, l->o.requests);
    uint64_t started = load_level_start_clients(l, value);
    int err = l->o.requests ? run_requests(l, &bar, level) : run_windows(l, &bar, level);
    if (l->o.mode == GW_LOAD_RATE) level->behind_ms = behind(l);
    atomic_store(&l->stop, 1);
    for (uint64_t i = 0; i < started; i++) pthread_join(l->client[i].thread, NULL);
    gw_progress_end(&bar);
    load_level_collect(l, l->o.requests ? level : NULL);
    int broken = gw_interrupted() ? 0 : tell_errors(l, started);
    if (level->has_server) level->has_server = !broken && !gw_client_stats(l->client[0].c, &level->server);
    if (level->has_server) subtract(&level->server, &before);
    return err ? err : broken;
}
