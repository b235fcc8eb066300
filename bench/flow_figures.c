/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Repeats figures of "High-Speed Connection Tracking in Modern Servers" (HPSR'21), with our table among the
 * others:
 *
 *     flow_figures sharing CORES [ROUNDS]    ways to share a table, on that many cores
 *     flow_figures tables [ROUNDS]           tables, each on one core
 *     flow_figures deletion [ROUNDS]         ways to forget flows, on one core
 *
 * CSV rows, to standard output. A step finds a packet's flow or opens one, and forgets flows whose time is
 * over; there is no packet input and output. The traces are alike to that paper's in two things: how many
 * packets in 100 open a flow, and the packets' mean size, from which `gbit` is reckoned. Rounds in turn,
 * medians of 5.
 *
 *     mpps, gbit       by the clock, all cores together
 *     cpu_mpps         by the seconds that the threads ran: where other work shares the machine
 *     open_ticks       of the time-stamp counter, to open one flow, locks included
 *     longest_us       the longest that one burst of 64 took
 */
#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/flow/table.h"
#include "bench/measure.h"

enum { MAX_ROUNDS = 99, MAX_CORES = 64, MAX_METHODS = 16, STEPS = 1 << 22 /* of all cores */ };
#define PACKET_NS 80.6 /* 12.4 million a second, all cores together */
#define FLOWS     UINT64_C(4000000)

struct mix {
    const char *name;
    double mean, churn;
};
static const struct mix mixes[2] = {{"campus", 951, 0.03}, {"caida", 990, 0.07}};

struct method;
struct core {
    struct method *m;
    unsigned index;
    void *part;
    struct flow_trace trace;
    uint64_t *keys;
    size_t n;
    double now_ns, ran;
    uint64_t longest, sum;
    pthread_t thread;
};

struct method {
    const struct flow_kind *kind;
    struct flow_how how;
    unsigned cores;
    void *table[MAX_CORES]; /* one, or each core its own */
    struct core core[MAX_CORES];
    double mpps[MAX_ROUNDS], cpu_mpps[MAX_ROUNDS], longest_us[MAX_ROUNDS];
    struct flow_cost before;
    bool open;
};

static pthread_barrier_t barrier;
static double ticks_per_us;

/* ---- a round ---- */

static void steps(struct core *c, size_t n)
{
    const struct flow_kind *kind = c->m->kind;
    for (size_t i = 0; i + FLOW_BURST <= n; i += FLOW_BURST) {
        uint64_t start = bench_ticks();
        c->now_ns += FLOW_BURST * PACKET_NS * c->m->cores;
        c->sum += kind->step(c->part, c->keys + i, FLOW_BURST, (uint64_t)c->now_ns);
        uint64_t took = bench_ticks() - start;
        if (took > c->longest) c->longest = took;
    }
}

static void *run_core(void *arg)
{
    struct core *c = arg;
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(c->index, &set);
    pthread_setaffinity_np(pthread_self(), sizeof(set), &set);
    flow_trace_keys(&c->trace, c->keys, c->n); /* beforehand: making them is not what is measured */
    c->longest = 0;
    pthread_barrier_wait(&barrier);
    double start = bench_thread_seconds();
    steps(c, c->n);
    c->ran = bench_thread_seconds() - start;
    pthread_barrier_wait(&barrier);
    return NULL;
}

/* Seconds by the clock. */
static double run_cores(struct method *m)
{
    pthread_barrier_init(&barrier, NULL, m->cores + 1);
    for (unsigned i = 0; i < m->cores; i++)
        if (pthread_create(&m->core[i].thread, NULL, run_core, &m->core[i])) abort();
    pthread_barrier_wait(&barrier);
    double start = bench_seconds();
    pthread_barrier_wait(&barrier);
    double took = bench_seconds() - start;
    for (unsigned i = 0; i < m->cores; i++) pthread_join(m->core[i].thread, NULL);
    pthread_barrier_destroy(&barrier);
    return took;
}

static void measure(struct method *m, int round)
{
    double took = run_cores(m);
    m->mpps[round] = m->cpu_mpps[round] = m->longest_us[round] = 0;
    for (unsigned i = 0; i < m->cores; i++) {
        const struct core *c = &m->core[i];
        m->mpps[round] += (double)c->n / took / 1e6;
        m->cpu_mpps[round] += (double)c->n / c->ran / 1e6;
        double longest = (double)c->longest / ticks_per_us;
        if (longest > m->longest_us[round]) m->longest_us[round] = longest;
    }
}

/* ---- a method ---- */

static struct flow_cost cost_of(const struct method *m)
{
    struct flow_cost all = {0, 0};
    for (unsigned i = 0; i < m->cores; i++) {
        struct flow_cost c = m->kind->cost(m->core[i].part);
        all.opened += c.opened;
        all.ticks += c.ticks;
    }
    return all;
}

static void close_method(struct method *m)
{
    bool own = m->how.sharing == FLOW_PER_CORE;
    for (unsigned i = 0; i < m->cores; i++) {
        if (m->core[i].part) m->kind->leave(m->core[i].part);
        free(m->core[i].keys);
    }
    for (unsigned i = 0; i < (own ? m->cores : 1); i++)
        if (m->table[i]) m->kind->close(m->table[i]);
}

/* Opens the table, fills it, and lets it run until as many flows are forgotten as come. */
static int open_method(struct method *m, unsigned cores, const struct mix *mix)
{
    bool own = m->how.sharing == FLOW_PER_CORE;
    const uint64_t each = FLOWS / cores;
    uint64_t keys[FLOW_BURST];
    memset(m->core, 0, sizeof(m->core));
    memset(m->table, 0, sizeof(m->table));
    m->cores = cores;
    m->how.flows = own ? each : FLOWS;
    for (unsigned i = 0; i < (own ? cores : 1); i++)
        if (!(m->table[i] = m->kind->open(m->kind, &m->how))) return -1;
    for (unsigned i = 0; i < cores; i++) {
        struct core *c = &m->core[i];
        *c = (struct core){.m = m, .index = i, .n = STEPS / cores, .now_ns = 1e9};
        c->part = m->kind->join(m->table[own ? i : 0]);
        c->keys = malloc(c->n * sizeof(*c->keys));
        if (!c->part || !c->keys) return -1;
        c->trace = flow_trace_of(each, mix->churn, PACKET_NS * cores, i);
        for (uint64_t f = 0; f < each; f += FLOW_BURST) {
            for (uint64_t k = 0; k < FLOW_BURST; k++) keys[k] = flow_trace_key(&c->trace, f + k);
            m->kind->step(c->part, keys, FLOW_BURST, (uint64_t)c->now_ns);
        }
    }
    if (m->how.deletion == FLOW_NEVER) return 0; /* it only grows: no state to settle into */
    double warm = 1.5 * (double)FLOW_IDLE_NS / PACKET_NS / STEPS;
    for (int i = 0; i < (int)warm + 1; i++) run_cores(m);
    return 0;
}

static void print_row(const char *figure, const struct mix *mix, struct method *m, int rounds)
{
    struct flow_cost now = cost_of(m);
    uint64_t opened = now.opened - m->before.opened;
    double mpps = bench_median(m->mpps, rounds);
    printf("%s,%s,%s,%s,%s,%u,%.2f,%.1f,%.2f,%.0f,%.1f\n", figure, mix->name, m->kind->name,
           flow_sharing_name[m->how.sharing], flow_deletion_name[m->how.deletion], m->cores, mpps,
           mpps * mix->mean * 8 / 1000, bench_median(m->cpu_mpps, rounds),
           opened ? (double)(now.ticks - m->before.ticks) / (double)opened : 0,
           bench_median(m->longest_us, rounds));
}

static int run_figure(const char *figure, struct method *m, int methods, unsigned cores, int rounds)
{
    for (int x = 0; x < 2; x++) {
        for (int i = 0; i < methods; i++) {
            m[i].open = !open_method(&m[i], cores, &mixes[x]);
            if (m[i].open) m[i].before = cost_of(&m[i]);
            if (!m[i].open)
                fprintf(stderr, "flow_figures: %s, %s: no such table\n", m[i].kind->name,
                        flow_sharing_name[m[i].how.sharing]);
        }
        for (int r = 0; r < rounds; r++)
            for (int i = 0; i < methods; i++)
                if (m[i].open) measure(&m[i], r);
        for (int i = 0; i < methods; i++) {
            if (m[i].open) print_row(figure, &mixes[x], &m[i], rounds);
            close_method(&m[i]);
        }
    }
    return 0;
}

/* ---- the figures ---- */

static int add(struct method *m, int n, const struct flow_kind *kind, enum flow_sharing sharing,
               enum flow_deletion deletion)
{
    if (!(kind->sharings >> sharing & 1) || !(kind->deletions >> deletion & 1)) return n;
    m[n].kind = kind;
    m[n].how = (struct flow_how){0, sharing, deletion};
    return n + 1;
}

static enum flow_deletion best_deletion(const struct flow_kind *kind)
{
    return kind == &flow_ours ? FLOW_EPOCHS : FLOW_WHEEL;
}

static int sharing_methods(struct method *m)
{
    int n = add(m, 0, &flow_ours, FLOW_PER_CORE, FLOW_EPOCHS);
#ifdef FLOW_RTE
    for (int s = 0; s < FLOW_SHARINGS; s++) n = add(m, n, &flow_rte, (enum flow_sharing)s, FLOW_WHEEL);
#else
    for (int s = 0; s < FLOW_SHARINGS; s++) n = add(m, n, &flow_chain, (enum flow_sharing)s, FLOW_WHEEL);
#endif
    return n;
}

static int table_methods(struct method *m)
{
    int n = 0;
    for (int k = 0; flow_kinds[k]; k++)
        n = add(m, n, flow_kinds[k], FLOW_PER_CORE, best_deletion(flow_kinds[k]));
    return n;
}

static int deletion_methods(struct method *m)
{
    int n = add(m, 0, &flow_ours, FLOW_PER_CORE, FLOW_EPOCHS);
    for (int d = 0; d < FLOW_DELETIONS; d++) {
#ifdef FLOW_RTE
        if (d != FLOW_NEVER) n = add(m, n, &flow_rte, FLOW_PER_CORE, (enum flow_deletion)d);
#endif
        if (d != FLOW_NEVER) n = add(m, n, &flow_chain, FLOW_PER_CORE, (enum flow_deletion)d);
    }
    return n;
}

static int usage(void)
{
    fprintf(stderr, "usage: flow_figures sharing CORES [ROUNDS] | tables [ROUNDS] | deletion [ROUNDS]\n");
    return 2;
}

int main(int argc, char **argv)
{
    static struct method m[MAX_METHODS];
    const char *figure = argc > 1 ? argv[1] : "";
    bool sharing = !strcmp(figure, "sharing");
    int n = sharing                       ? sharing_methods(m)
            : !strcmp(figure, "tables")   ? table_methods(m)
            : !strcmp(figure, "deletion") ? deletion_methods(m)
                                          : 0;
    int cores = sharing && argc > 2 ? atoi(argv[2]) : 1, at = sharing ? 3 : 2;
    int rounds = argc > at ? atoi(argv[at]) : 5;
    if (!n || argc > at + 1 || cores < 1 || cores > MAX_CORES || rounds < 1 || rounds > MAX_ROUNDS)
        return usage();
    setlinebuf(stdout);
    uint64_t start = bench_ticks();
    double end = bench_seconds() + 0.05;
    while (bench_seconds() < end) continue;
    ticks_per_us = (double)(bench_ticks() - start) / 50000;
    printf("figure,trace,table,sharing,deletion,cores,mpps,gbit,cpu_mpps,open_ticks,longest_us\n");
    return run_figure(figure, m, n, (unsigned)cores, rounds);
}
