/* SPDX-License-Identifier: Apache-2.0 */
/* The load of `gpuwire fleet demo`: one thread sends, the client's counts what comes of it. */
#include "src/cli/fleet/demo_load.h"

#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <gpuwire/error.h>

#include "src/fleet/client/fleet_client.h"
#include "src/fleet/worker/profile.h"

#define DEMO_SECOND INT64_C(1000000000)
#define DEMO_BIN    (DEMO_SECOND / 5)
enum { DEMO_BINS = 1024, DEMO_LAST = 5 }; /* bins that are kept; bins of the last second */

struct demo_bin {
    int64_t number;
    uint32_t kept, all;
};

struct gw_demo_load {
    struct gw_demo_load_opts o;
    struct fleet_client *client;
    struct fleet_client_model **models;
    void *input;
    uint32_t bytes;
    pthread_t thread;
    bool sends;
    _Atomic bool stop;
    _Atomic uint64_t under_way;
    pthread_mutex_t lock; /* all below */
    enum gw_demo_phase phase;
    int64_t begun_at[DEMO_PHASES];
    struct demo_bin bin[DEMO_BINS];
    struct gw_demo_count count[DEMO_PHASES];
};

struct demo_request {
    struct gw_demo_load *load;
    enum gw_demo_phase phase;
    int64_t at;
};

static int64_t load_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * DEMO_SECOND + t.tv_nsec;
}

/* ---- what comes of requests */

static void load_bin(struct gw_demo_load *l, const struct demo_request *r, bool kept)
{
    int64_t number = r->at / DEMO_BIN;
    struct demo_bin *b = &l->bin[number % DEMO_BINS];
    if (b->number != number) *b = (struct demo_bin){.number = number};
    b->all++;
    b->kept += kept;
}

static void load_count(struct gw_demo_count *c, const struct fleet_client_reply *reply, bool kept)
{
    c->requests++;
    if (kept)
        c->kept++;
    else if (!reply->error || reply->error == -ETIME)
        c->late++;
    else if (reply->error == -EAGAIN || reply->error == -ENOENT)
        c->refused++;
    else
        c->lost++;
    if (!reply->error) gw_histogram_add(&c->time, reply->seen_at - reply->begun_at);
}

static void load_done(void *ctx, const struct fleet_client_reply *reply)
{
    struct demo_request *r = ctx;
    struct gw_demo_load *l = r->load;
    bool kept = !reply->error && reply->seen_at - r->at <= l->o.deadline_ns;
    pthread_mutex_lock(&l->lock);
    load_bin(l, r, kept);
    load_count(&l->count[r->phase], reply, kept);
    pthread_mutex_unlock(&l->lock);
    free(r);
    /* The last thing done with `l`: gw_demo_load_end waits for it. */
    atomic_fetch_sub_explicit(&l->under_way, 1, memory_order_release);
}

/* ---- sending */

static void load_send(struct gw_demo_load *l, uint32_t model)
{
    struct demo_request *r = malloc(sizeof(*r));
    if (!r) return;
    pthread_mutex_lock(&l->lock);
    *r = (struct demo_request){l, l->phase, load_now()};
    pthread_mutex_unlock(&l->lock);
    struct fleet_client_request q = {.in = l->input,
                                     .bytes = l->bytes,
                                     .rows = 1,
                                     .deadline_at = r->at + l->o.deadline_ns,
                                     .done = load_done,
                                     .ctx = r};
    atomic_fetch_add_explicit(&l->under_way, 1, memory_order_relaxed);
    if (!fleet_client_submit(l->models[model], &q)) return;
    atomic_fetch_sub_explicit(&l->under_way, 1, memory_order_relaxed);
    free(r);
}

static void *load_run(void *arg)
{
    struct gw_demo_load *l = arg;
    struct drand48_data random;
    double at = (double)load_now(), dice;
    srand48_r(1, &random);
    while (!atomic_load_explicit(&l->stop, memory_order_relaxed)) {
        drand48_r(&random, &dice);
        at -= log(1 - dice) * (double)DEMO_SECOND / l->o.rate;
        int64_t next = (int64_t)at;
        struct timespec t = {next / DEMO_SECOND, next % DEMO_SECOND};
        clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL);
        drand48_r(&random, &dice);
        load_send(l, (uint32_t)(dice * l->o.models));
    }
    return NULL;
}

/* ---- beginning and end */

static int load_models(struct gw_demo_load *l, const char *name)
{
    char text[FLEET_NAME + 16];
    int err = 0;
    for (uint32_t i = 0; !err && i < l->o.models; i++) {
        snprintf(text, sizeof(text), "%s-%u", name, i);
        err = fleet_client_model(l->client, text, 0, &l->models[i]);
    }
    return err;
}

static int load_open(struct gw_demo_load *l)
{
    struct fleet_profile profile;
    struct fleet_client_opts o = {.etcd = l->o.etcd, .name = "demo"};
    int err = fleet_profile_read(l->o.profile, &profile);
    if (err) return err;
    l->bytes = profile.request_bytes;
    l->input = calloc(1, l->bytes);
    l->models = calloc(l->o.models, sizeof(*l->models));
    if (!l->input || !l->models) return gw_error(-ENOMEM, "no memory for the load");
    err = fleet_client_open(&o, &l->client);
    return err ? err : load_models(l, profile.name);
}

int gw_demo_load_begin(const struct gw_demo_load_opts *o, struct gw_demo_load **out)
{
    struct gw_demo_load *l = calloc(1, sizeof(*l));
    *out = l;
    if (!l) return gw_error(-ENOMEM, "no memory for the load");
    l->o = *o;
    pthread_mutex_init(&l->lock, NULL);
    int err = load_open(l);
    if (!err) err = -pthread_create(&l->thread, NULL, load_run, l);
    l->sends = !err;
    if (!err) return 0;
    gw_demo_load_free(l);
    *out = NULL;
    return err;
}

void gw_demo_load_phase(struct gw_demo_load *l, enum gw_demo_phase phase)
{
    pthread_mutex_lock(&l->lock);
    l->phase = phase;
    l->begun_at[phase] = load_now();
    pthread_mutex_unlock(&l->lock);
}

double gw_demo_load_kept(struct gw_demo_load *l)
{
    /* The bin of this moment has requests that may still be in time. */
    int64_t now = load_now() / DEMO_BIN;
    uint32_t kept = 0, all = 0;
    pthread_mutex_lock(&l->lock);
    for (int64_t n = now - DEMO_LAST; n < now; n++) {
        const struct demo_bin *b = &l->bin[n % DEMO_BINS];
        if (b->number != n) continue;
        kept += b->kept;
        all += b->all;
    }
    pthread_mutex_unlock(&l->lock);
    return all ? 100.0 * kept / all : -1;
}

void gw_demo_load_end(struct gw_demo_load *l)
{
    atomic_store_explicit(&l->stop, true, memory_order_relaxed);
    if (l->sends) pthread_join(l->thread, NULL);
    l->sends = false;
    struct timespec nap = {0, 1000000};
    while (atomic_load_explicit(&l->under_way, memory_order_acquire)) nanosleep(&nap, NULL);
    for (int p = DEMO_STEADY; p < DEMO_PHASES; p++) {
        int64_t begin = l->begun_at[p], end = p + 1 < DEMO_PHASES ? l->begun_at[p + 1] : load_now();
        for (int64_t n = begin / DEMO_BIN; begin && n < end / DEMO_BIN; n++) {
            const struct demo_bin *b = &l->bin[n % DEMO_BINS];
            bool bad = b->number == n && b->kept * 10 < b->all * 9;
            if (bad) l->count[p].recovery_ns = (n + 1) * DEMO_BIN - begin;
        }
    }
}

const struct gw_demo_count *gw_demo_load_count(const struct gw_demo_load *l, enum gw_demo_phase phase)
{
    return &l->count[phase];
}

void gw_demo_load_free(struct gw_demo_load *l)
{
    if (!l) return;
    atomic_store_explicit(&l->stop, true, memory_order_relaxed);
    if (l->sends) pthread_join(l->thread, NULL);
    fleet_client_close(l->client); /* what is under way ends here */
    pthread_mutex_destroy(&l->lock);
    free(l->models);
    free(l->input);
    free(l);
}
