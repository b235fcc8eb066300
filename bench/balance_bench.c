/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The balancer's whole data path from memory to memory: parse, find or open the flow, move its state on,
 * choose, and change the packet. Two loops stand beside it. One swaps the MACs of the same packets, as DPDK's
 * testpmd does in its macswap mode. The other is bare: it reads each packet's header, and the line of a table
 * where its flow would be. No data path can be faster than that. Nothing here has a device (plane.py has).
 *
 * Then the same on two cores: each has the connections that a NIC would give it. Beside them run two
 * balancers that share nothing but the processor, as two processes would. Rates count the seconds that the
 * threads ran.
 *
 *     balance_bench [ROUNDS [FLOWS]]      5 and 1000000 when not given
 *
 * There are two mixes of packets. "campus" has a mean of 951 bytes, and 3 packets in 100 open a connection.
 * "CAIDA" has a mean of 990 bytes, and 7 do.
 */
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/balance/side.h"
#include "bench/measure.h"

enum { MAX_ROUNDS = 15 /* more would fill the tables */, PACKETS = 1 << 16, TURNS = 10, MAX_CORES = 2 };

/* A core, its packets and its connections: those whose number is its own, modulo the number of cores. */
struct core {
    uint8_t *memory; /* PACKETS slots */
    uint32_t length[PACKETS];
    uint64_t next, flows, random, index, cores;
    double opened, now_ns, rate;
    struct bal *bal;
    struct bal_core *core;
    const struct side_mix *mix;
    uint8_t *lines; /* as many bytes as the table has */
    uint64_t line_count;
    uint64_t sent; /* so that nothing is optimised away */
};

static struct {
    struct core core[MAX_CORES];
    pthread_barrier_t barrier;
    uint64_t flows;
} b;

/* Packets of connections that are there, and of new ones, whose SYN and ACK stand for their beginning. */
static void make_packets(struct core *c)
{
    for (uint32_t i = 0; i < PACKETS; i++) {
        uint8_t flags = BAL_ACK;
        uint64_t flow;
        c->length[i] = side_length(c->mix, &c->random);
        c->opened += c->mix->opens / 100.0;
        if (c->opened >= 1) {
            c->opened -= 1;
            flow = c->next++;
            flags = BAL_SYN;
            c->length[i] = 66;
        } else {
            flow = c->next - 1 - side_random(&c->random) % c->flows;
        }
        side_packet(c->memory + (size_t)i * SIDE_SLOT + SIDE_ROOM, flow * c->cores + c->index, flags,
                    c->length[i]);
    }
}

static void packets_at(struct core *c, struct bal_packet *p, uint32_t at)
{
    for (uint32_t i = 0; i < SIDE_BURST; i++)
        p[i] = (struct bal_packet){.data = c->memory + (size_t)(at + i) * SIDE_SLOT + SIDE_ROOM,
                                   .len = c->length[at + i],
                                   .headroom = SIDE_ROOM};
}

/* ---- what is measured ---- */

static void balance(struct core *c)
{
    struct bal_packet p[SIDE_BURST];
    for (uint32_t at = 0; at < PACKETS; at += SIDE_BURST) {
        packets_at(c, p, at);
        c->now_ns += SIDE_BURST * SIDE_PACKET_NS * (double)c->cores;
        gw_balance_burst(c->core, p, SIDE_BURST, (uint64_t)c->now_ns);
        bal_core_keep(c->core, (uint64_t)c->now_ns);
        for (uint32_t i = 0; i < SIDE_BURST; i++) c->sent += p[i].verdict == BAL_SEND;
    }
}

static void macswap(struct core *c)
{
    struct bal_packet p[SIDE_BURST];
    for (uint32_t at = 0; at < PACKETS; at += SIDE_BURST) {
        packets_at(c, p, at);
        for (uint32_t i = 0; i < SIDE_BURST; i++) __builtin_prefetch(p[i].data, 1);
        for (uint32_t i = 0; i < SIDE_BURST; i++) {
            uint8_t mac[6];
            memcpy(mac, p[i].data, 6);
            memcpy(p[i].data, p[i].data + 6, 6);
            memcpy(p[i].data + 6, mac, 6);
            c->sent += p[i].data[0];
        }
    }
}

/* A random line for each client: as far away as its flow's. */
static const uint8_t *line_of(const struct core *c, const uint8_t *packet)
{
    uint64_t client;
    memcpy(&client, packet + 26, 8);
    client = (client ^ client >> 32) * 0x9e3779b97f4a7c15u;
    return c->lines + (client >> 32) * c->line_count / 0x100000000u * 64;
}

static void bare(struct core *c)
{
    struct bal_packet p[SIDE_BURST];
    for (uint32_t at = 0; at < PACKETS; at += SIDE_BURST) {
        packets_at(c, p, at);
        for (uint32_t i = 0; i < SIDE_BURST; i++) __builtin_prefetch(p[i].data, 1);
        for (uint32_t i = 0; i < SIDE_BURST; i++) __builtin_prefetch(line_of(c, p[i].data), 1);
        for (uint32_t i = 0; i < SIDE_BURST; i++) c->sent += *line_of(c, p[i].data);
    }
}

/* Making the packets is not what is measured: all cores make theirs first. */
static double rate(struct core *c, void (*pass)(struct core *c))
{
    double seconds = 0;
    for (int turn = 0; turn < TURNS; turn++) {
        make_packets(c);
        pthread_barrier_wait(&b.barrier);
        double start = bench_thread_seconds();
        pass(c);
        seconds += bench_thread_seconds() - start;
        pthread_barrier_wait(&b.barrier);
    }
    return TURNS * (double)PACKETS / seconds / 1e6;
}

/* The work of the cores, and all of them at once: the sum of their rates. */
static void (*pass_of_cores)(struct core *c);

static void *run_core(void *arg)
{
    struct core *c = arg;
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(c->index, &set);
    pthread_setaffinity_np(pthread_self(), sizeof(set), &set);
    c->rate = rate(c, pass_of_cores);
    return NULL;
}

static double rate_of_cores(uint32_t cores, void (*pass)(struct core *c))
{
    pthread_t thread[MAX_CORES];
    double all = 0;
    pass_of_cores = pass;
    pthread_barrier_init(&b.barrier, NULL, cores);
    for (uint32_t i = 0; i < cores; i++)
        if (pthread_create(&thread[i], NULL, run_core, &b.core[i])) abort();
    for (uint32_t i = 0; i < cores; i++) {
        pthread_join(thread[i], NULL);
        all += b.core[i].rate;
    }
    pthread_barrier_destroy(&b.barrier);
    return all;
}

/* ---- a balancer with all connections established ---- */

static int begin_core(struct core *c, const struct side_mix *mix, uint32_t of_balancer)
{
    c->mix = mix;
    c->flows = c->next = b.flows / c->cores;
    c->random = 0x9e3779b97f4a7c15u;
    c->now_ns = 1e12;
    c->core = bal_core_begin(c->bal, of_balancer);
    if (!c->core) return -1;
    side_establish(c->core, c->index, c->flows * c->cores, c->cores, &c->now_ns);
    c->line_count = gw_flow_bytes(c->core->narrow) / 64;
    c->lines = side_memory(c->line_count * 64);
    return c->lines ? 0 : -1;
}

/* `apart`: each core has a balancer of its own. */
static int open_cores(uint32_t cores, bool apart, enum bal_forward forward, const struct side_mix *mix)
{
    for (uint32_t i = 0; i < cores; i++) {
        struct core *c = &b.core[i];
        c->index = i;
        c->cores = cores;
        c->bal = b.core[0].bal;
        if ((!i || apart) &&
            side_open(&c->bal, apart ? 1 : cores, apart ? b.flows / cores : b.flows, forward))
            return -1;
        if (begin_core(c, mix, apart ? 0 : i)) return -1;
    }
    return 0;
}

static void close_cores(uint32_t cores, bool apart)
{
    for (uint32_t i = 0; i < cores; i++) {
        struct core *c = &b.core[i];
        bal_core_end(c->core);
        side_memory_free(c->lines, c->line_count * 64);
        if (apart) bal_destroy(c->bal);
    }
    if (!apart) bal_destroy(b.core[0].bal);
}

/* ---- the rows ---- */

static int bench(const char *how, enum bal_forward forward, const struct side_mix *mix, int rounds)
{
    enum { OURS, PEER, BARE, LOOPS };
    double rates[LOOPS][MAX_ROUNDS];
    if (open_cores(1, false, forward, mix)) return 1;
    pthread_barrier_init(&b.barrier, NULL, 1);
    for (int r = 0; r < rounds; r++) {
        rates[PEER][r] = rate(&b.core[0], macswap);
        rates[BARE][r] = rate(&b.core[0], bare);
        rates[OURS][r] = rate(&b.core[0], balance);
    }
    pthread_barrier_destroy(&b.barrier);
    struct bal_totals t;
    bal_totals(b.core[0].bal, 0, &t);
    double o = bench_median(rates[OURS], rounds), p = bench_median(rates[PEER], rounds);
    printf("%-8s %-8s %7.1f Mpps %7.1f Gbit/s, macswap %7.1f Mpps: %.2fx, bare loop %7.1f Mpps; %llu flows, "
           "%llu of "
           "%llu packets lost\n",
           mix->name, how, o, o * mix->mean * 8 / 1000, p, o / p, bench_median(rates[BARE], rounds),
           (unsigned long long)t.live, (unsigned long long)(t.received - t.packets),
           (unsigned long long)t.received);
    close_cores(1, false);
    return 0;
}

/* One core, two, and two apart, with as many connections in all. */
static int bench_cores(const struct side_mix *mix, int rounds)
{
    enum { ONE, TWO, APART, WAYS };
    double rates[WAYS][2][MAX_ROUNDS], median[WAYS][2];
    for (int r = 0; r < rounds; r++)
        for (int w = 0; w < WAYS; w++) {
            uint32_t cores = w == ONE ? 1 : MAX_CORES;
            if (open_cores(cores, w == APART, BAL_DR, mix)) return 1;
            rates[w][0][r] = rate_of_cores(cores, balance);
            rates[w][1][r] = rate_of_cores(cores, bare);
            close_cores(cores, w == APART);
        }
    for (int w = 0; w < WAYS; w++)
        for (int i = 0; i < 2; i++) median[w][i] = bench_median(rates[w][i], rounds);
    printf("%-8s DR, one core %7.1f Mpps, two cores %7.1f Mpps: %.2fx, two apart %7.1f Mpps: %.2fx; bare "
           "loop: two cores "
           "%7.1f Mpps: %.2fx\n",
           mix->name, median[ONE][0], median[TWO][0], median[TWO][0] / median[ONE][0], median[APART][0],
           median[APART][0] / median[ONE][0], median[TWO][1], median[TWO][1] / median[ONE][1]);
    return 0;
}

int main(int argc, char **argv)
{
    int rounds = argc > 1 ? atoi(argv[1]) : 5;
    b.flows = argc > 2 ? strtoull(argv[2], NULL, 10) : 1000000;
    if (rounds < 1 || rounds > MAX_ROUNDS || b.flows < 1000) {
        fprintf(stderr, "usage: balance_bench [ROUNDS [FLOWS]]\n");
        return 2;
    }
    setlinebuf(stdout);
    int failed = 0;
    for (int i = 0; i < MAX_CORES; i++)
        failed |= !(b.core[i].memory = aligned_alloc(64, (size_t)PACKETS * SIDE_SLOT));
    for (int m = 0; m < 2 && !failed; m++) {
        failed = bench("DR", BAL_DR, &side_mixes[m], rounds);
        if (!failed) failed = bench("NAT", BAL_NAT, &side_mixes[m], rounds);
        if (!failed) failed = bench("IPIP", BAL_IPIP, &side_mixes[m], rounds);
    }
    for (int m = 0; m < 2 && !failed; m++) failed = bench_cores(&side_mixes[m], rounds);
    for (int i = 0; i < MAX_CORES; i++) free(b.core[i].memory);
    return failed;
}
