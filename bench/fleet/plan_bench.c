/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How long a round of the planner takes, and what a request costs the policies that plan each one.
 *
 *     plan_bench [WORKERS] [MODELS] [ROUNDS]      1,000, 10,000 and 200 by default
 *
 * Rates are Zipf's over the models. In each round of the first row a hundredth of the models changes its
 * rate by up to a half. In the second row a tenth does, and one worker in 200 drains or comes back. All
 * actions succeed at once. Times are what the thread ran. A request is 20 ms from its deadline.
 */
#include <stdio.h>
#include <stdlib.h>

#include "bench/measure.h"
#include "src/fleet/plan/central.h"

enum { MAX_ACTIONS = 1 << 17, REQUESTS = 1 << 20 };
#define MS INT64_C(1000000)

static struct fleet_action actions[MAX_ACTIONS];

static void *get(size_t bytes)
{
    void *p = aligned_alloc(64, (bytes + 63) / 64 * 64);
    if (p) return p;
    perror("plan_bench");
    exit(1);
}

static uint32_t below(uint32_t n)
{
    static uint64_t state = 1;
    state = state * UINT64_C(6364136223846793005) + 1442695040888963407;
    return (uint32_t)((state >> 32) * n >> 32);
}

static struct fleet_state *make(uint32_t workers, uint32_t models)
{
    struct fleet_limits l = {workers, models, 64 * workers + 8 * models};
    struct fleet_state *s = fleet_state_init(get(fleet_state_size(&l)), &l);
    for (uint32_t i = 0; i < workers; i++) {
        s->workers[i] =
            (struct fleet_worker){.gpu_pages = 2000, .host_pages = 30000, .slots = 8192, .first = FLEET_NONE};
        s->workers[i].health = FLEET_ACTIVE;
    }
    for (uint32_t i = 0; i < models; i++) {
        s->models[i].pages = 2 + below(39);
        s->models[i].load_ns = MS * s->models[i].pages;
        for (int k = 0; k < FLEET_SIZES; k++) s->models[i].exec_ns[k] = MS + MS / 5 * ((1 << k) - 1);
        s->demand[i].class[0].deadline_ns = 20 * MS;
        float rate = (float)workers * 2000 / 9 / (float)(i + 1);
        for (int k = 0; k < FLEET_WINDOWS; k++) s->demand[i].rate[k] = rate;
        s->demand[i].class[0].rate = rate;
    }
    return s;
}

static void obey(struct fleet_state *s, uint32_t n, int64_t now)
{
    for (uint32_t i = 0; i < n; i++) {
        const struct fleet_action *a = &actions[i];
        if (a->kind == FLEET_EVICT) fleet_place_move(s, a->place, FLEET_HOST, now);
        if (a->kind == FLEET_LOAD) fleet_loaded(s, a->place, true, now);
        if (a->kind == FLEET_DROP) fleet_place_remove(s, a->place);
    }
}

static void change(struct fleet_state *s, bool much)
{
    for (uint32_t k = 0; k < s->limits.models / (much ? 10 : 100); k++) {
        struct fleet_demand *d = &s->demand[below(s->limits.models)];
        float by = 0.5f + (float)below(1000) / 1000;
        for (int i = 0; i < FLEET_WINDOWS; i++) d->rate[i] *= by;
        d->class[0].rate *= by;
    }
    for (uint32_t k = 0; much && k < s->limits.workers / 200 + 1; k++) {
        struct fleet_worker *w = &s->workers[below(s->limits.workers)];
        w->health = w->health == FLEET_ACTIVE ? FLEET_DRAINING : FLEET_ACTIVE;
    }
}

static void rounds(struct fleet_state *s, uint32_t n, bool much)
{
    struct fleet_tuning t;
    double *took = get(n * sizeof *took), sum = 0;
    uint64_t done = 0;
    int64_t now = MS;
    fleet_tuning_default(&t);
    for (int i = 0; i < 400; i++, now += 20 * MS) obey(s, fleet_plan(s, &t, now, actions, MAX_ACTIONS), now);
    for (uint32_t i = 0; i < n; i++, now += 20 * MS) {
        change(s, much);
        double from = bench_thread_seconds();
        uint32_t k = fleet_plan(s, &t, now, actions, MAX_ACTIONS);
        sum += took[i] = 1e3 * (bench_thread_seconds() - from);
        done += k;
        obey(s, k, now);
    }
    qsort(took, n, sizeof *took, bench_by_size);
    printf("%u workers, %u models, %u places: a round takes %.2f ms (median), %.2f ms (p99), %.2f ms at "
           "most; %.0f actions\n",
           s->limits.workers, s->limits.models, s->places_used, took[n / 2], took[n * 99 / 100], took[n - 1],
           (double)done / n);
    free(took);
}

/* Requests of a steady load through a policy that plans each one: what the controller's core can do. */
static void requests(struct fleet_state *s, bool deferred)
{
    struct fleet_central_options o = {deferred ? &fleet_deferred : &fleet_clockwork,
                                      .ahead_ns = deferred ? MS / 10 : 5 * MS, .hop_ns = MS / 20};
    struct fleet_link *links = get(REQUESTS * sizeof *links);
    struct fleet_central *c =
        fleet_central_init(get(fleet_central_size(&s->limits, REQUESTS)), s, links, REQUESTS, &o);
    double total = 0, from = bench_thread_seconds(), at = 0;
    for (uint32_t i = 0; i < s->limits.models; i++) total += (double)s->demand[i].rate[0];
    uint64_t sent = 0;
    for (uint32_t i = 0; i < REQUESTS; i++) {
        /* Zipf's law without a table: the logarithm of the rank is even. */
        double rank = 1;
        for (uint32_t k = below(1 << 10); k; k >>= 1) rank *= k & 1 ? 1.9 : 1.3;
        uint32_t model = (uint32_t)rank % s->limits.models;
        int64_t now = (int64_t)at;
        at += 1e9 / total;
        links[i].deadline_ns = now + 20 * MS;
        fleet_central_request(c, i, model, now);
        uint32_t n = fleet_central_step(c, now, actions, MAX_ACTIONS);
        for (uint32_t k = 0; k < n; k++) {
            if (actions[k].kind == FLEET_INFER) {
                fleet_central_ended(c, actions[k].worker, actions[k].place,
                                    c->workers[actions[k].worker].free_ns);
            }
        }
        sent += n;
    }
    double took = bench_thread_seconds() - from;
    printf("%s: %.0f requests a second on one core, %.2f requests an action\n",
           deferred ? "deferred" : "clockwork", REQUESTS / took, REQUESTS / (double)sent);
    free(c);
    free(links);
}

int main(int argc, char **argv)
{
    uint32_t n[3] = {1000, 10000, 200};
    for (int i = 1; i < argc && i < 4; i++) n[i - 1] = (uint32_t)strtoul(argv[i], NULL, 10);
    if (!n[0] || !n[1] || !n[2] || argc > 4) {
        fprintf(stderr, "plan_bench [WORKERS] [MODELS] [ROUNDS]: each at least 1\n");
        return 2;
    }
    struct fleet_state *s = make(n[0], n[1]);
    rounds(s, n[2], false);
    rounds(s, n[2], true);
    requests(s, false);
    requests(s, true);
    printf("leases: no work for single requests\n");
    free(s);
    return 0;
}
