/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The flow table beside DPDK's rte_hash, on one core: lookups, and whole steps of connection tracking. Such a
 * step finds the flow or opens one, touches it, and frees those whose time is over. The tables take turns,
 * and medians are printed. The limit is how many random lines of as much memory this core can read, one for
 * each key. A second one starts again with each burst, as a lookup must. Rates count the seconds that the
 * thread ran.
 *
 *     flow_bench [ROUNDS]      5 when not given
 */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <gpuwire/flow.h>

#include "bench/flow/table.h"
#include "bench/measure.h"

enum { MAX_ROUNDS = 99, LOOKUPS = 20000000, LONG_LOOKUPS = 78125 * 64, STEPS = 8000000 };
#define PACKET_NS 80.6 /* 12.4 million a second: 100 Gbit/s of packets of a thousand bytes */

static volatile uint64_t sink; /* so that no result is optimised away */

/* A table, and the trace that runs through it. */
struct side {
    const struct flow_kind *kind;
    void *table, *part;
    struct flow_trace trace;
    uint64_t *keys;
    double now_ns;
};

static int open_side(struct side *s, const struct flow_kind *kind, uint64_t flows)
{
    const bool ours = kind == &flow_ours;
    const struct flow_how how = {flows, FLOW_PER_CORE, ours ? FLOW_EPOCHS : FLOW_WHEEL};
    uint64_t keys[FLOW_BURST];
    *s = (struct side){.kind = kind, .now_ns = 1e9};
    s->table = kind->open(kind, &how);
    s->part = s->table ? kind->join(s->table) : NULL;
    if (!s->part) {
        fprintf(stderr, "flow_bench: %s: no table of %llu flows\n", kind->name, (unsigned long long)flows);
        return -1;
    }
    for (uint64_t i = 0; i < flows; i += FLOW_BURST) {
        for (uint64_t k = 0; k < FLOW_BURST; k++) keys[k] = flow_trace_key(&s->trace, i + k);
        kind->step(s->part, keys, FLOW_BURST, (uint64_t)s->now_ns);
    }
    return 0;
}

static void close_side(struct side *s)
{
    s->kind->leave(s->part);
    s->kind->close(s->table);
    free(s->keys);
}

/* ---- lookups ---- */

static double lookups(const struct side *s, const uint64_t *keys, size_t burst)
{
    double start = bench_thread_seconds();
    size_t hits = 0;
    for (size_t i = 0; i + burst <= LOOKUPS; i += burst) hits += s->kind->lookup(s->part, keys + i, burst);
    if (hits < LOOKUPS - burst) fprintf(stderr, "flow_bench: %s lost flows: %zu hits\n", s->kind->name, hits);
    return LOOKUPS / (bench_thread_seconds() - start) / 1e6;
}

/* Random lines of as much memory, 48 reads ahead: no table can be faster. At a burst's end none is ahead. */
static double random_lines(const uint64_t *keys, const uint8_t *p, uint64_t lines, size_t burst)
{
    uint64_t sum = 0;
    double start = bench_thread_seconds();
    for (size_t i = 0; i + burst <= LOOKUPS; i += burst) {
        for (size_t k = i; k < i + burst && k < i + 48; k++)
            __builtin_prefetch(p + (flow_scramble(keys[k]) >> 32) * lines / 0x100000000u * 64);
        for (size_t k = i; k < i + burst; k++) {
            if (k + 48 < i + burst)
                __builtin_prefetch(p + (flow_scramble(keys[k + 48]) >> 32) * lines / 0x100000000u * 64);
            sum += p[(flow_scramble(keys[k]) >> 32) * lines / 0x100000000u * 64];
        }
    }
    double rate = LOOKUPS / (bench_thread_seconds() - start) / 1e6;
    sink = sum;
    return rate;
}

static uint64_t *random_keys(const struct flow_trace *t, uint64_t flows)
{
    uint64_t *keys = malloc(LOOKUPS * sizeof(*keys));
    for (uint64_t i = 0; keys && i < LOOKUPS; i++) keys[i] = flow_trace_key(t, flow_scramble(i + 1) % flows);
    return keys;
}

static void row(const char *what, double ours, double peer)
{
    printf("%-44s %9.1f %9.1f %8.2fx\n", what, ours, peer, peer > 0 ? ours / peer : 0);
}

/* The bursts that lookups come in; rte_hash takes no more than 64 keys at once. */
static const size_t bursts[] = {32, 64, FLOW_MAX_KEYS};
enum { BURSTS = sizeof(bursts) / sizeof(bursts[0]) };

struct lookup_rates {
    double ours[BURSTS][MAX_ROUNDS], peer[BURSTS][MAX_ROUNDS], of_bursts[BURSTS][MAX_ROUNDS];
    double limit[MAX_ROUNDS];
};

static void print_lookups(struct lookup_rates *rates, int rounds)
{
    double limit = bench_median(rates->limit, rounds);
    char what[80];
    for (int b = 0; b < BURSTS; b++) {
        double ours = bench_median(rates->ours[b], rounds), same = bench_median(rates->of_bursts[b], rounds);
        snprintf(what, sizeof(what), "lookups, 8 M flows, bursts of %zu (M/s)", bursts[b]);
        row(what, ours, bench_median(rates->peer[b], rounds));
        printf("  %.2f of the limit, %.1f; %.2f of the limit of such bursts, %.1f\n", ours / limit, limit,
               ours / same, same);
    }
}

static int bench_lookups(const struct flow_kind *peer, int rounds)
{
    const uint64_t flows = 8000000;
    static struct lookup_rates rates;
    struct side ours, theirs = {0};
    if (open_side(&ours, &flow_ours, flows) || (peer && open_side(&theirs, peer, flows))) return 1;
    const uint64_t bytes = flow_ours.bytes(ours.table);
    uint64_t *keys = random_keys(&ours.trace, flows);
    uint8_t *memory = flow_memory(bytes);
    if (!keys || !memory) return 1;
    memset(memory, 1, bytes);
    for (int r = 0; r < rounds; r++) {
        rates.limit[r] = random_lines(keys, memory, bytes / 64, LOOKUPS);
        for (int b = 0; b < BURSTS; b++) {
            rates.of_bursts[b][r] = random_lines(keys, memory, bytes / 64, bursts[b]);
            rates.ours[b][r] = lookups(&ours, keys, bursts[b]);
            if (peer && bursts[b] <= FLOW_BURST) rates.peer[b][r] = lookups(&theirs, keys, bursts[b]);
        }
    }
    print_lookups(&rates, rounds);
    printf("%-44s %9.2f\n", "lines that finding a flow reads", flow_ours_lines(ours.table));
    printf("%-44s %9.1f\n", "bytes of a flow, 8 M flows",
           (double)bytes / (double)flow_ours.count(ours.table));
    flow_memory_free(memory, bytes);
    close_side(&ours);
    if (peer) close_side(&theirs);
    free(keys);
    return 0;
}

/* ---- long keys: IPv6 ---- */

static double long_lookups(struct gw_flow_table *t, const uint8_t *keys)
{
    struct gw_flow found[FLOW_BURST];
    double start = bench_thread_seconds();
    size_t hits = 0;
    for (size_t i = 0; i < LONG_LOOKUPS; i += FLOW_BURST)
        hits += gw_flow_lookup_bulk(t, keys + i * GW_FLOW_KEY_MAX, FLOW_BURST, found);
    if (hits < LONG_LOOKUPS) fprintf(stderr, "flow_bench: long keys: lost flows: %zu hits\n", hits);
    return LONG_LOOKUPS / (bench_thread_seconds() - start) / 1e6;
}

static int fill_long(struct gw_flow_table *t, uint8_t *keys, uint64_t flows)
{
    uint64_t key[GW_FLOW_KEY_MAX / 8] = {0};
    for (uint64_t i = 0; i < flows; i++) {
        key[0] = flow_scramble(i);
        if (gw_flow_insert(t, key, (uint32_t)(i % FLOW_WORKERS), 0, NULL)) return -1;
    }
    for (uint64_t i = 0; i < LONG_LOOKUPS; i++) {
        key[0] = flow_scramble(flow_scramble(i + 1) % flows);
        memcpy(keys + i * GW_FLOW_KEY_MAX, key, GW_FLOW_KEY_MAX);
    }
    return 0;
}

/* A lookup reads the bucket's line, and one or two of the key's. */
static int bench_long(int rounds)
{
    const uint64_t flows = 8000000;
    const struct gw_flow_attr attr = {.flows = flows,
                                      .key_bytes = GW_FLOW_KEY_MAX,
                                      .flags = GW_FLOW_HUGE_PAGES,
                                      .timeout_ns = {FLOW_IDLE_NS}};
    double rate[MAX_ROUNDS];
    struct gw_flow_table *t = NULL;
    uint8_t *keys = calloc(LONG_LOOKUPS, GW_FLOW_KEY_MAX);
    int failed = !keys || gw_flow_create(&attr, &t) || fill_long(t, keys, flows);
    for (int r = 0; r < rounds && !failed; r++) rate[r] = long_lookups(t, keys);
    if (!failed)
        printf("%-44s %9.1f\n", "lookups, 8 M flows, keys of 40 bytes (M/s)", bench_median(rate, rounds));
    gw_flow_destroy(t);
    free(keys);
    return failed;
}

/* ---- connection tracking ---- */

static double steps(struct side *s)
{
    flow_trace_keys(&s->trace, s->keys, STEPS); /* beforehand: making them is not what is measured */
    uint64_t sum = 0;
    double start = bench_thread_seconds();
    for (size_t i = 0; i < STEPS; i += FLOW_BURST) {
        s->now_ns += FLOW_BURST * PACKET_NS;
        sum += s->kind->step(s->part, s->keys + i, FLOW_BURST, (uint64_t)s->now_ns);
    }
    double rate = STEPS / (bench_thread_seconds() - start) / 1e6;
    sink = sum;
    return rate;
}

static int begin_steps(struct side *s, const struct flow_kind *kind, uint64_t flows, double churn)
{
    if (open_side(s, kind, flows)) return -1;
    s->trace = flow_trace_of(flows, churn, PACKET_NS, 0);
    s->keys = malloc(STEPS * sizeof(*s->keys));
    if (!s->keys) return -1;
    double warm = 2.0 * (double)FLOW_IDLE_NS / PACKET_NS / STEPS; /* until as many are freed as come */
    for (int i = 0; i < (int)warm + 1; i++) steps(s);
    return 0;
}

static int bench_steps(const struct flow_kind *peer, int rounds, double churn)
{
    const uint64_t flows = 4000000;
    struct side ours, theirs;
    double rate[2][MAX_ROUNDS] = {{0}};
    char what[80];
    if (begin_steps(&ours, &flow_ours, flows, churn) || (peer && begin_steps(&theirs, peer, flows, churn)))
        return 1;
    for (int r = 0; r < rounds; r++) {
        rate[0][r] = steps(&ours);
        if (peer) rate[1][r] = steps(&theirs);
    }
    snprintf(what, sizeof(what), "conntrack step, 4 M flows, %.0f %% churn (M/s)", 100 * churn);
    row(what, bench_median(rate[0], rounds), bench_median(rate[1], rounds));
    printf("  in the tables at the end: %llu and %llu flows\n",
           (unsigned long long)flow_ours.count(ours.table),
           peer ? (unsigned long long)peer->count(theirs.table) : 0);
    close_side(&ours);
    if (peer) close_side(&theirs);
    return 0;
}

int main(int argc, char **argv)
{
#ifdef FLOW_RTE
    const struct flow_kind *peer = &flow_rte;
#else
    const struct flow_kind *peer = NULL;
#endif
    int rounds = argc > 1 ? atoi(argv[1]) : 5;
    if (rounds < 1 || rounds > MAX_ROUNDS || argc > 2) {
        fprintf(stderr, "usage: flow_bench [ROUNDS], 1 to %d\n", MAX_ROUNDS);
        return 2;
    }
    setlinebuf(stdout);
    printf("medians of %d rounds, in turn%s\n", rounds, peer ? "" : "; built without DPDK: no peer");
    printf("%-44s %9s %9s %9s\n", "", "ours", "rte_hash", "ratio");
    return bench_lookups(peer, rounds) || bench_long(rounds) || bench_steps(peer, rounds, 0.03) ||
           bench_steps(peer, rounds, 0.10);
}
