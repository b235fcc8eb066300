/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a client of a fleet spends on a request.
 *
 *     client_bench [SECONDS]      2 by default, for each size of requests
 *
 * The first rows: the choice of a lease alone, its checks and its budget included. The others: whole
 * requests of one client over TCP, which a thread of workers in this process answers with their own input;
 * also what the client's thread ran on the CPU. All of it shares this machine's cores.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "src/fleet/client/impl.h"
#include "tests/fleet/client/fake.h"

enum { CHOICES = 1 << 22, MOST_LEASES = 64 };

static int64_t bench_clock(clockid_t which)
{
    struct timespec t;
    clock_gettime(which, &t);
    return t.tv_sec * INT64_C(1000000000) + t.tv_nsec;
}

/* ---- the choice alone */

static void bench_choose(uint32_t leases)
{
    static struct fleet_client c = {.random = 88172645463325252u};
    static struct fleet_peer peer[MOST_LEASES];
    static struct fleet_holding holding[MOST_LEASES], *at[MOST_LEASES];
    struct fleet_client_model m = {.client = &c};
    struct fleet_query j = {.model = &m, .r.rows = 1};
    int64_t now = bench_clock(CLOCK_MONOTONIC), when = 0;
    for (uint32_t i = 0; i < leases; i++) {
        peer[i] = (struct fleet_peer){.client = &c, .serial = i + 1, .open = true};
        holding[i] = (struct fleet_holding){.model = &m, .peer = &peer[i], .slots = 32, .at = i};
        holding[i].until_at = INT64_MAX;
        fleet_bucket_set(&holding[i].bucket, 1e9, 1e9, now);
        at[i] = &holding[i];
    }
    m.held[0] = (struct fleet_holdings){.at = at, .n = leases, .most = leases};
    struct fleet_holding *flying[16] = {0};
    int64_t began = bench_clock(CLOCK_THREAD_CPUTIME_ID);
    for (uint32_t i = 0; i < CHOICES; i++) {
        struct fleet_holding *h = fleet_lease_pick(&j, now + i, &when), **old = &flying[i % 16];
        if (*old) (*old)->flying--;
        if (h) h->flying++;
        *old = h;
    }
    printf("choice,%u leases,%.1f,ns\n", leases,
           (double)(bench_clock(CLOCK_THREAD_CPUTIME_ID) - began) / CHOICES);
}

/* ---- whole requests */

enum { FLYING = 128, MOST_BYTES = 600 << 10 };

static struct bench_run {
    struct fleet_client_model *m;
    uint32_t bytes;
    atomic_bool stop;
    atomic_uint flying;
    atomic_ullong good, bad;
    uint8_t in[MOST_BYTES];
} run;

static void bench_again(void *ctx, const struct fleet_client_reply *r)
{
    if (r) *(r->error ? &run.bad : &run.good) += 1;
    const struct fleet_client_request q = {
        .in = run.in, .bytes = run.bytes, .rows = 1, .done = bench_again, .ctx = ctx};
    if (run.stop || fleet_client_submit(run.m, &q)) run.flying--;
}

static void bench_requests(struct fleet_client *c, uint32_t bytes, double seconds)
{
    const struct timespec step = {.tv_nsec = 1000000};
    run.bytes = bytes;
    run.stop = false;
    run.good = run.bad = 0;
    run.flying = FLYING;
    clockid_t thread;
    if (pthread_getcpuclockid(c->thread, &thread)) exit(1);
    int64_t began = bench_clock(CLOCK_MONOTONIC), cpu = bench_clock(thread);
    for (int i = 0; i < FLYING; i++) bench_again(NULL, NULL);
    while ((double)(bench_clock(CLOCK_MONOTONIC) - began) < seconds * 1e9) nanosleep(&step, NULL);
    run.stop = true;
    while (run.flying) nanosleep(&step, NULL);
    double took = (double)(bench_clock(CLOCK_MONOTONIC) - began) / 1e9;
    printf("requests,%u bytes,%.0f,1/s\n", bytes, (double)run.good / took);
    printf("cpu of a request,%u bytes,%.2f,us\n", bytes,
           (double)(bench_clock(thread) - cpu) / (double)(run.good + run.bad) / 1e3);
    if (run.bad) printf("failed,%u bytes,%llu,\n", bytes, (unsigned long long)run.bad);
}

int main(int argc, char **argv)
{
    static struct fake f;
    double seconds = argc > 1 ? atof(argv[1]) : 2;
    printf("what,of,value,unit\n");
    for (uint32_t n = 1; n <= MOST_LEASES; n *= 4) bench_choose(n);
    fake_begin(&f);
    fake_grant(&f, 0, 64, 1e9f);
    fake_grant(&f, 1, 64, 1e9f);
    struct fleet_client *c;
    const struct fleet_client_opts opts = {.controllers = f.controller[0].address};
    if (fleet_client_open(&opts, &c) || fleet_client_model(c, "model", 0, &run.m)) return 1;
    static const uint32_t sizes[] = {32, 4096, MOST_BYTES};
    for (int i = 0; i < 3; i++) bench_requests(c, sizes[i], seconds);
    fleet_client_close(c);
    fake_end(&f);
    return 0;
}
