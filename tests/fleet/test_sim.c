/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fleets on virtual time. A seed decides the policy, the load, the sizes and the faults; the simulator
 * asserts at each round what must hold. Each seed's first requests are simulated twice: both must have the
 * same history.
 *
 *     test_fleet_sim [--seed FIRST] [--seeds HOW-MANY] [--requests N] [--strict]
 *
 * --strict looks at the whole state after each event. A seed that fails prints the command that repeats it.
 */
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "src/fleet/sim/sim.h"
#include "tests/rnd.h"

static char replay[256];

static void aborted(int signal)
{
    (void)signal;
    ssize_t n = write(STDERR_FILENO, replay, strlen(replay));
    (void)n;
    _exit(1);
}

static double between(struct rnd *r, double least, double most)
{
    return least + (most - least) * rnd_below(r, 1 << 20) / (1 << 20);
}

/* The fleet that a seed means. */
static void make(struct sim_options *o, uint64_t seed)
{
    struct rnd r = {(seed + 1) * UINT64_C(0x9e3779b97f4a7c15)};
    for (int i = 0; i < 8; i++) rnd64(&r);
    sim_defaults(o);
    o->seed = seed;
    o->policy = seed % 4 < 2 ? SIM_LEASES : seed % 4 == 2 ? SIM_CLOCKWORK : SIM_DEFERRED;
    o->load = (enum sim_load)rnd_below(&r, 3);
    o->workers = 1 + rnd_below(&r, 24);
    o->models = 1 + rnd_below(&r, 300);
    o->rate = o->workers * between(&r, 100, 1200);
    o->deadline_ns = 5000000 + rnd_below(&r, 200) * INT64_C(1000000);
    o->exec_ns = 500000 + rnd_below(&r, 40) * INT64_C(100000);
    o->marginal = between(&r, 0.1, 0.8);
    o->tight = rnd_below(&r, 3) ? 0 : 0.3;
    o->tight_ns = 3 * o->exec_ns;
    o->slack = rnd_below(&r, 3) ? 0 : 0.4;
    o->zoo = rnd_below(&r, 2);
    o->gpu_pages = 60 + rnd_below(&r, 2000);
    o->host_pages = rnd_below(&r, 4) ? 1 << 20 : o->gpu_pages + 100;
    o->disk_page_ns = rnd_below(&r, 2) ? 0 : 5000000;
    o->jitter_ns = rnd_below(&r, 20000);
    o->defer = between(&r, 0, 1);
    o->faults = rnd_below(&r, 4) ? rnd_below(&r, 128) : 0;
    o->fault_s = between(&r, 0.1, 2);
    o->prewarm = rnd_below(&r, 2);
    o->warm_ns = 0;
}

static int run(struct sim_options *o, struct sim_result *out)
{
    int err = sim_run(o, out);
    uint64_t ended = 0;
    for (int i = 0; i < SIM_ENDS; i++) ended += out->ends[i];
    if (!err && out->requests >= o->requests && ended == out->counted && out->counted == out->requests)
        return 0;
    fprintf(stderr,
            "error %d; %" PRIu64 " of %" PRIu64 " requests ended, %" PRIu64 " of them in a known way\n", err,
            out->requests, o->requests, ended);
    return 1;
}

static int run_seed(uint64_t seed, uint64_t requests, bool strict)
{
    static struct sim_result once, twice;
    struct sim_options o;
    make(&o, seed);
    o.strict = strict;
    o.requests = requests / 10 + 1;
    snprintf(replay, sizeof replay,
             "seed %" PRIu64 " fails; to repeat it: test_fleet_sim --seed %" PRIu64 " --requests %" PRIu64
             "%s\n",
             seed, seed, requests, strict ? " --strict" : "");
    if (run(&o, &once) || run(&o, &twice)) return 1;
    if (once.hash != twice.hash || memcmp(&once, &twice, sizeof once)) {
        fprintf(stderr, "two runs of one seed differ\n");
        return 1;
    }
    o.requests = requests;
    if (run(&o, &once)) return 1;
    printf("seed %3" PRIu64
           ": policy %d load %d, %2u workers, %3u models, faults %3u: %5.1f %% in time, %.1f late, "
           "%.1f refused or shed, %.1f lost\n",
           seed, o.policy, o.load, o.workers, o.models, o.faults,
           100.0 * (double)once.ends[SIM_GOOD] / (double)once.counted,
           100.0 * (double)once.ends[SIM_LATE] / (double)once.counted,
           100.0 * (double)(once.ends[SIM_REFUSED] + once.ends[SIM_SHED] + once.ends[SIM_NOWHERE]) /
               (double)once.counted,
           100.0 * (double)once.ends[SIM_LOST] / (double)once.counted);
    return 0;
}

int main(int argc, char **argv)
{
    uint64_t first = 1, seeds = 1, requests = 100000;
    bool strict = false;
    for (int i = 1; i < argc; i++) {
        uint64_t *to = !strcmp(argv[i], "--seed") ? &first : !strcmp(argv[i], "--seeds") ? &seeds : NULL;
        if (!strcmp(argv[i], "--requests")) to = &requests;
        if (!strcmp(argv[i], "--strict"))
            strict = true;
        else if (to && i + 1 < argc)
            *to = strtoull(argv[++i], NULL, 10);
        else
            return 2;
    }
    signal(SIGABRT, aborted);
    for (uint64_t seed = first; seed < first + seeds; seed++) {
        if (run_seed(seed, requests, strict)) {
            fputs(replay, stderr);
            return 1;
        }
    }
    return 0;
}
