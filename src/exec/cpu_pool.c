/* SPDX-License-Identifier: Apache-2.0 */
/* The threads that run kernels on the CPU. */
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <gpuwire/error.h>

#include "src/exec/cpu.h"

static uint32_t pools; /* that this process has made; atomic */

struct worker {
    struct gw_cpu_pool *pool;
    pthread_t thread;
    uint32_t team, lane;
    uint32_t go; /* futex: the number of the launch it is to take part in */
};

struct gw_cpu_pool {
    struct gw_cpu_pool_opts opts;
    char thread_name[16];
    struct gw_cpu_block *block; /* one per team */
    struct worker *worker; /* [team * opts.lanes + lane]; pool is set in those that run; 0 is the caller */

    /* The launch. Written before go, read after it. */
    const struct gw_kernel *kernel;
    const void *arg;
    uint32_t grid, run_teams, run_lanes;
    uint32_t launches;
    uint32_t left; /* futex: workers still running */
    int quit;
    uint32_t first_pin; /* so that pools, and processes, do not all begin with one processor */
};

int gw_cpu_thread_start(pthread_t *thread, const char *name, uint32_t cpu_pin, void *(*fn)(void *), void *arg)
{
    pthread_attr_t attr;
    sigset_t all, old;
    cpu_set_t cpus;
    int err;

    pthread_attr_init(&attr);
    if (cpu_pin) {
        CPU_ZERO(&cpus);
        CPU_SET(cpu_pin - 1, &cpus);
        pthread_attr_setaffinity_np(&attr, sizeof(cpus), &cpus);
    }
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old); /* inherited */
    err = pthread_create(thread, &attr, fn, arg);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    pthread_attr_destroy(&attr);
    if (err == EINVAL && cpu_pin)
        return gw_error(-EINVAL, "cannot bind thread %s to processor %u: there is none, or it is not allowed",
                        name, cpu_pin - 1);
    if (err) return gw_error_errno(-err, "cannot start thread %s", name);
    pthread_setname_np(*thread, name);
    return 0;
}

static void run_lane(struct gw_cpu_pool *p, uint32_t team, uint32_t lane)
{
    struct gw_cpu_block *b = &p->block[team];
    struct gw_cpu_thread outer = gw_cpu_self;
    uint32_t block;

    for (block = team; block < p->grid; block += p->run_teams) {
        gw_cpu_self.thread_idx = lane;
        gw_cpu_self.block_dim = p->run_lanes;
        gw_cpu_self.block_idx = block;
        gw_cpu_self.grid_dim = p->grid;
        gw_cpu_self.block = b;
        p->kernel->cpu(p->arg);
        gw_cpu_block_leave(b, lane, p->grid - block <= p->run_teams);
    }
    gw_cpu_self = outer;
}

static void *cpu_pool_worker_main(void *arg)
{
    struct worker *w = arg;
    struct gw_cpu_pool *p = w->pool;
    uint32_t seen = 0, go;

    for (;;) {
        /* Acquire: the launch was written before go. */
        while ((go = gw_ld_acquire_u32(&w->go)) == seen) gw_futex_wait(&w->go, seen);
        seen = go;
        if (p->quit) return NULL;
        run_lane(p, w->team, w->lane);
        /* Release: what this lane did is visible to the caller, which waits for left to be 0. */
        if (gw_add_acq_rel_u32(&p->left, UINT32_MAX) == 1) gw_futex_wake(&p->left);
    }
}

static struct worker *cpu_pool_worker_of(struct gw_cpu_pool *p, uint32_t team, uint32_t lane)
{
    return &p->worker[team * p->opts.lanes + lane];
}

/*
 * 1 + the processor that a team's threads are bound to; 0: none. The lanes of a warp wait for each other all
 * the time. Where a processor would have four of them or more, one processor has all: to wake a thread on
 * another one takes longer than its turn. The caller, which is lane 0 of team 0, keeps its own processors.
 */
static uint32_t team_pin(const struct gw_cpu_pool *p, uint32_t team)
{
    cpu_set_t cpus;

    if (p->opts.cpu_pin || sched_getaffinity(0, sizeof(cpus), &cpus)) return p->opts.cpu_pin;
    uint32_t n = (uint32_t)CPU_COUNT(&cpus), skip = (p->first_pin + team) % n;
    for (uint32_t cpu = 0; cpu < CPU_SETSIZE && p->opts.lanes >= 4 * n; cpu++)
        if (CPU_ISSET(cpu, &cpus) && !skip--) return cpu + 1;
    return 0;
}

static int cpu_pool_start_worker(struct gw_cpu_pool *p, uint32_t team, uint32_t lane)
{
    struct worker *w = cpu_pool_worker_of(p, team, lane);

    if ((!team && !lane) || w->pool) return 0;
    w->team = team;
    w->lane = lane;
    w->pool = p;
    int err = gw_cpu_thread_start(&w->thread, p->thread_name, team_pin(p, team), cpu_pool_worker_main, w);
    if (err) w->pool = NULL;
    return err;
}

static uint32_t cpu_pool_least(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

int gw_cpu_prepare(struct gw_cpu_pool *p, uint32_t grid, uint32_t block)
{
    uint32_t teams = cpu_pool_least(grid, p->opts.blocks), lanes = cpu_pool_least(block, p->opts.lanes), t, l;
    int err;

    for (t = 0; t < teams; t++) {
        if (!p->block[t].warp && gw_cpu_block_init(&p->block[t], p->opts.lanes))
            return gw_error(-ENOMEM, "no memory for a block of %u lanes", p->opts.lanes);
        for (l = 0; l < lanes; l++) {
            err = cpu_pool_start_worker(p, t, l);
            if (err) return err;
        }
    }
    return 0;
}

static int collect_fault(struct gw_cpu_pool *p)
{
    const char *fault = NULL;
    uint32_t t;

    for (t = 0; t < p->run_teams; t++) {
        const char *f = __atomic_exchange_n(&p->block[t].fault, NULL, __ATOMIC_RELAXED);

        if (f) fault = f;
    }
    return fault ? gw_error(-EIO, "kernel %s: %s", p->kernel->name, fault) : 0;
}

int gw_cpu_run(struct gw_cpu_pool *p, const struct gw_kernel *kernel, uint32_t grid, uint32_t block,
               const void *arg)
{
    uint32_t t, l, left;
    int err = gw_cpu_prepare(p, grid, block);

    if (err) return err;
    p->kernel = kernel;
    p->arg = arg;
    p->grid = grid;
    p->run_teams = cpu_pool_least(grid, p->opts.blocks);
    p->run_lanes = cpu_pool_least(block, p->opts.lanes);
    p->launches++;
    gw_st_relaxed_u32(&p->left, p->run_teams * p->run_lanes - 1);
    for (t = 0; t < p->run_teams; t++) gw_cpu_block_start(&p->block[t], p->run_lanes);
    for (t = 0; t < p->run_teams; t++) {
        for (l = 0; l < p->run_lanes; l++) {
            if (!t && !l) continue;
            gw_st_release_u32(&cpu_pool_worker_of(p, t, l)->go, p->launches); /* after the launch above */
            gw_futex_wake(&cpu_pool_worker_of(p, t, l)->go);
        }
    }
    run_lane(p, 0, 0);
    while ((left = gw_ld_acquire_u32(&p->left))) gw_futex_wait(&p->left, left);
    return collect_fault(p);
}

int gw_cpu_pool_create(const struct gw_cpu_pool_opts *opts, struct gw_cpu_pool **pool)
{
    struct gw_cpu_pool *p = calloc(1, sizeof(*p));

    *pool = NULL;
    if (!p) return gw_error(-ENOMEM, "no memory for a pool of threads");
    p->opts = *opts;
    p->first_pin = (uint32_t)getpid() + __atomic_fetch_add(&pools, 1, __ATOMIC_RELAXED);
    snprintf(p->thread_name, sizeof(p->thread_name), "%s", opts->thread_name);
    p->block = calloc(opts->blocks, sizeof(*p->block));
    p->worker = calloc((size_t)opts->blocks * opts->lanes, sizeof(*p->worker));
    if (!p->block || !p->worker) {
        free(p->block);
        free(p->worker);
        free(p);
        return gw_error(-ENOMEM, "no memory for %u blocks of %u lanes", opts->blocks, opts->lanes);
    }
    *pool = p;
    return 0;
}

void gw_cpu_pool_destroy(struct gw_cpu_pool *p)
{
    uint32_t i, n;

    if (!p) return;
    n = p->opts.blocks * p->opts.lanes;
    p->quit = 1;
    p->launches++;
    for (i = 1; i < n; i++) {
        if (!p->worker[i].pool) continue;
        gw_st_release_u32(&p->worker[i].go, p->launches); /* after quit */
        gw_futex_wake(&p->worker[i].go);
        pthread_join(p->worker[i].thread, NULL);
    }
    for (i = 0; i < p->opts.blocks; i++) gw_cpu_block_destroy(&p->block[i]);
    free(p->block);
    free(p->worker);
    free(p);
}
