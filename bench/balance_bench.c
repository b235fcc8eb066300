/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The balancer's whole data path from memory to memory: parse, find or open the flow, move its state on,
 * choose, and change the packet. Beside it a loop that swaps the MACs of the same packets, as DPDK's testpmd
 * does in its macswap mode. Both touch every packet's headers; neither has a device (plane.py has). Then the
 * same on two cores: each has the connections that a NIC would give it. Rates count the seconds that the
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

enum { MOST_ROUNDS = 15 /* more would fill the tables */, PACKETS = 1 << 16, TURNS = 10, MOST_CORES = 2 };

/* A core, its packets and its connections: those whose number is its own, modulo the number of cores. */
struct core {
    uint8_t *memory; /* PACKETS slots */
    uint32_t length[PACKETS];
    uint64_t next, flows, random, index, cores;
    double opened, now_ns, rate;
    struct bal_core *core;
    const struct side_mix *mix;
    uint64_t sent; /* so that nothing is optimised away */
};

static struct {
    struct core core[MOST_CORES];
    pthread_barrier_t barrier;
    struct bal *bal;
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

static void *run_core(void *arg)
{
    struct core *c = arg;
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(c->index, &set);
    pthread_setaffinity_np(pthread_self(), sizeof(set), &set);
    c->rate = rate(c, balance);
    return NULL;
}

/* All cores at once; the sum of their rates. */
static double rate_of_cores(uint32_t cores)
{
    pthread_t thread[MOST_CORES];
    double all = 0;
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

static int open_balancer(uint32_t cores, enum bal_forward forward, const struct side_mix *mix)
{
    if (side_open(&b.bal, cores, b.flows, forward)) return -1;
    for (uint32_t i = 0; i < cores; i++) {
        struct core *c = &b.core[i];
        c->index = i;
        c->cores = cores;
        c->mix = mix;
        c->flows = c->next = b.flows / cores;
        c->random = 0x9e3779b97f4a7c15u;
        c->now_ns = 1e12;
        c->core = bal_core_begin(b.bal, i);
        if (!c->core) return -1;
        side_establish(c->core, i, c->flows * cores, cores, &c->now_ns);
    }
    return 0;
}

static void close_balancer(uint32_t cores)
{
    for (uint32_t i = 0; i < cores; i++) bal_core_end(b.core[i].core);
    bal_destroy(b.bal);
}

/* ---- the rows ---- */

static int bench(const char *how, enum bal_forward forward, const struct side_mix *mix, int rounds)
{
    double ours[MOST_ROUNDS], peer[MOST_ROUNDS];
    if (open_balancer(1, forward, mix)) return 1;
    pthread_barrier_init(&b.barrier, NULL, 1);
    for (int r = 0; r < rounds; r++) {
        peer[r] = rate(&b.core[0], macswap);
        ours[r] = rate(&b.core[0], balance);
    }
    pthread_barrier_destroy(&b.barrier);
    struct bal_totals t;
    bal_totals(b.bal, 0, &t);
    double o = bench_median(ours, rounds), p = bench_median(peer, rounds);
    printf("%-8s %-8s %7.1f Mpps %7.1f Gbit/s, macswap %7.1f Mpps: %.2fx; %llu flows, %llu of %llu packets "
           "lost\n",
           mix->name, how, o, o * mix->mean * 8 / 1000, p, o / p, (unsigned long long)t.live,
           (unsigned long long)(t.received - t.packets), (unsigned long long)t.received);
    close_balancer(1);
    return 0;
}

/* One core and two, as many connections in all. */
static int bench_cores(const struct side_mix *mix, int rounds)
{
    double rates[MOST_CORES][MOST_ROUNDS];
    for (int r = 0; r < rounds; r++)
        for (uint32_t cores = 1; cores <= MOST_CORES; cores++) {
            if (open_balancer(cores, BAL_DR, mix)) return 1;
            rates[cores - 1][r] = rate_of_cores(cores);
            close_balancer(cores);
        }
    double one = bench_median(rates[0], rounds), two = bench_median(rates[1], rounds);
    printf("%-8s DR, one core %7.1f Mpps, two cores %7.1f Mpps: %.2fx\n", mix->name, one, two, two / one);
    return 0;
}

int main(int argc, char **argv)
{
    int rounds = argc > 1 ? atoi(argv[1]) : 5;
    b.flows = argc > 2 ? strtoull(argv[2], NULL, 10) : 1000000;
    if (rounds < 1 || rounds > MOST_ROUNDS || b.flows < 1000) {
        fprintf(stderr, "usage: balance_bench [ROUNDS [FLOWS]]\n");
        return 2;
    }
    setlinebuf(stdout);
    int failed = 0;
    for (int i = 0; i < MOST_CORES; i++)
        failed |= !(b.core[i].memory = aligned_alloc(64, (size_t)PACKETS * SIDE_SLOT));
    for (int m = 0; m < 2 && !failed; m++) {
        failed = bench("DR", BAL_DR, &side_mixes[m], rounds);
        if (!failed) failed = bench("NAT", BAL_NAT, &side_mixes[m], rounds);
        if (!failed) failed = bench("IPIP", BAL_IPIP, &side_mixes[m], rounds);
    }
    for (int m = 0; m < 2 && !failed; m++) failed = bench_cores(&side_mixes[m], rounds);
    for (int i = 0; i < MOST_CORES; i++) free(b.core[i].memory);
    return failed;
}
