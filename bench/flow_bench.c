/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The flow table beside DPDK's rte_hash, on one core: lookups, and whole steps of connection tracking (find
 * the flow or open one, touch it, free those whose time is over). Rounds in turn, medians, and the limit: how many
 * random lines of as much memory this core can read.
 *
 *     flow_bench [ROUNDS]      5 when not given
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include "bench/flow_bench.h"

enum { MOST_ROUNDS = 99, LOOKUPS = 20000000, STEPS = 8000000 };
#define PACKET_NS 80.6 /* 12.4 million a second: 100 Gbit/s of packets of a thousand bytes */

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t); /* what else runs takes none of it */
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static uint64_t scramble(uint64_t v)
{
    v *= 0x9e3779b97f4a7c15u;
    v ^= v >> 32;
    v *= 0xd6e8feb86659fd93u;
    return v ^ v >> 32;
}

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}
static double median(double *v, int n)
{
    qsort(v, (size_t)n, sizeof(*v), by_size);
    return n % 2 ? v[n / 2] : (v[n / 2 - 1] + v[n / 2]) / 2;
}

/* ---- lookups ---- */

static volatile uint64_t sink; /* so that no result is optimised away */

static double lookups(const struct flow_table *t, const uint64_t *keys, size_t burst)
{
    double start = now();
    size_t hits = 0;
    for (size_t i = 0; i + burst <= LOOKUPS; i += burst) hits += t->lookup(keys + i, burst);
    if (hits < LOOKUPS - burst) fprintf(stderr, "flow_bench: %s lost flows: %zu hits\n", t->name, hits);
    return LOOKUPS / (now() - start) / 1e6;
}

/* Random lines of as much memory, 48 reads ahead: no table can be faster. */
static double random_lines(const uint64_t *keys, uint64_t bytes)
{
    uint64_t lines = bytes / 64, sum = 0;
    uint8_t *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED) return 0;
    madvise(p, bytes, MADV_HUGEPAGE);
    memset(p, 1, bytes);
    double start = now();
    for (size_t i = 0; i < LOOKUPS; i++) {
        __builtin_prefetch(p + (scramble(keys[(i + 48) % LOOKUPS]) >> 32) * lines / 0x100000000u * 64);
        sum += p[(scramble(keys[i]) >> 32) * lines / 0x100000000u * 64];
    }
    double rate = LOOKUPS / (now() - start) / 1e6;
    sink = sum;
    munmap(p, bytes);
    return rate;
}

static uint64_t *random_keys(uint64_t flows)
{
    uint64_t *keys = malloc(LOOKUPS * sizeof(*keys));
    for (uint64_t i = 0; keys && i < LOOKUPS; i++) keys[i] = scramble(scramble(i + 1) % flows);
    return keys;
}

static int fill(const struct flow_table *t, uint64_t flows)
{
    if (t->open(flows)) {
        fprintf(stderr, "flow_bench: %s: no table of %llu flows\n", t->name, (unsigned long long)flows);
        return -1;
    }
    uint64_t keys[FLOW_BURST];
    for (uint64_t i = 0; i < flows; i += FLOW_BURST) {
        for (uint64_t k = 0; k < FLOW_BURST; k++) keys[k] = scramble(i + k);
        t->step(keys, FLOW_BURST, 1000000000);
    }
    return 0;
}

static void row(const char *what, double ours, double peer, double limit)
{
    printf("%-44s %9.1f %9.1f %8.2fx", what, ours, peer, peer > 0 ? ours / peer : 0);
    if (limit > 0) printf("  %5.2f of the limit, %.1f", ours / limit, limit);
    printf("\n");
}

static int bench_lookups(const struct flow_table *peer, int rounds)
{
    const uint64_t flows = 8000000;
    double rate[2][2][MOST_ROUNDS] = {{{0}}}, limit[MOST_ROUNDS];
    uint64_t *keys = random_keys(flows);
    if (!keys || fill(&flow_ours, flows) || (peer && fill(peer, flows))) return 1;
    for (int r = 0; r < rounds; r++) {
        limit[r] = random_lines(keys, flow_ours.bytes());
        for (int b = 0; b < 2; b++) {
            rate[0][b][r] = lookups(&flow_ours, keys, b ? FLOW_BURST : 32);
            if (peer) rate[1][b][r] = lookups(peer, keys, b ? FLOW_BURST : 32);
        }
    }
    double most = median(limit, rounds);
    row("lookups, 8 M flows, bursts of 32 (M/s)", median(rate[0][0], rounds), median(rate[1][0], rounds),
        most);
    row("lookups, 8 M flows, bursts of 64 (M/s)", median(rate[0][1], rounds), median(rate[1][1], rounds),
        most);
    printf("%-44s %9.1f\n", "bytes of a flow, 8 M flows",
           (double)flow_ours.bytes() / (double)flow_ours.count());
    flow_ours.close();
    if (peer) peer->close();
    free(keys);
    return 0;
}

/* ---- connection tracking ---- */

/* Packets of a window of living flows, of which `churn` per cent open a new one while the oldest falls silent. */
struct trace {
    uint64_t next, window, packet;
    double churn, opened;
};

static void packets(struct trace *t, uint64_t *keys, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        t->opened += t->churn;
        t->packet++;
        if (t->opened >= 1) {
            t->opened -= 1;
            keys[i] = scramble(t->next++);
        } else {
            keys[i] = scramble(t->next - 1 - (scramble(t->packet) >> 20) % t->window);
        }
    }
}

struct run {
    struct trace trace;
    const struct flow_table *table;
    uint64_t *keys;
    double now_ns;
};

static double steps(struct run *r)
{
    packets(&r->trace, r->keys, STEPS); /* beforehand: making them is not what is measured */
    uint64_t sum = 0;
    double start = now();
    for (size_t i = 0; i < STEPS; i += FLOW_BURST) {
        r->now_ns += FLOW_BURST * PACKET_NS;
        sum += r->table->step(r->keys + i, FLOW_BURST, (uint64_t)r->now_ns);
    }
    double rate = STEPS / (now() - start) / 1e6;
    sink = sum;
    return rate;
}

/* `flows` in the table in all: those that send, and those that are silent and not yet freed. */
static int begin(struct run *r, const struct flow_table *table, uint64_t flows, double churn)
{
    double silent = churn / PACKET_NS * (double)FLOW_IDLE_NS;
    memset(r, 0, sizeof(*r));
    r->table = table;
    r->now_ns = 1e9;
    r->trace = (struct trace){.next = flows, .window = flows - (uint64_t)silent, .churn = churn};
    r->keys = malloc(STEPS * sizeof(*r->keys));
    if (!r->keys || fill(table, flows)) return -1;
    double warm = 2.0 * (double)FLOW_IDLE_NS / PACKET_NS / STEPS; /* until as many are freed as come */
    for (int i = 0; i < (int)warm + 1; i++) steps(r);
    return 0;
}

static int bench_steps(const struct flow_table *peer, int rounds, double churn)
{
    const uint64_t flows = 4000000;
    struct run ours, theirs;
    double rate[2][MOST_ROUNDS] = {{0}};
    char what[80];
    if (begin(&ours, &flow_ours, flows, churn) || (peer && begin(&theirs, peer, flows, churn))) return 1;
    for (int r = 0; r < rounds; r++) {
        rate[0][r] = steps(&ours);
        if (peer) rate[1][r] = steps(&theirs);
    }
    snprintf(what, sizeof(what), "conntrack step, 4 M flows, %.0f %% churn (M/s)", 100 * churn);
    row(what, median(rate[0], rounds), median(rate[1], rounds), 0);
    printf("  in the tables at the end: %llu and %llu flows\n", (unsigned long long)flow_ours.count(),
           peer ? (unsigned long long)peer->count() : 0);
    flow_ours.close();
    free(ours.keys);
    if (peer) {
        peer->close();
        free(theirs.keys);
    }
    return 0;
}

int main(int argc, char **argv)
{
    const struct flow_table *peer = flow_peer();
    int rounds = argc > 1 ? atoi(argv[1]) : 5;
    if (rounds < 1 || rounds > MOST_ROUNDS || argc > 2) {
        fprintf(stderr, "usage: flow_bench [ROUNDS], 1 to %d\n", MOST_ROUNDS);
        return 2;
    }
    printf("medians of %d rounds, in turn%s\n", rounds, peer ? "" : "; built without DPDK: no peer");
    printf("%-44s %9s %9s %9s\n", "", "ours", "rte_hash", "ratio");
    return bench_lookups(peer, rounds) || bench_steps(peer, rounds, 0.03) || bench_steps(peer, rounds, 0.10);
}
