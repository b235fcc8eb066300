/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The balancer's whole data path on one core, from memory to memory: parse, find or open the flow, move its
 * state on, choose, and change the packet. Beside it a loop that swaps the MACs of the same packets, as
 * DPDK's testpmd does in its macswap mode. Both touch every packet's headers; neither has a device.
 *
 *     balance_bench [ROUNDS [FLOWS]]      5 and 1000000 when not given
 *
 * There are two mixes of packets. "campus" has a mean of 951 bytes, and 3 packets in 100 open a connection.
 * "CAIDA" has a mean of 990 bytes, and 7 do.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "src/balance/balance.h"
#include "src/balance/checksum.h"

enum { MOST_ROUNDS = 99, PACKETS = 1 << 16, SLOT = 192, ROOM = 64, TURNS = 10, WORKERS = 32, BURST = 64 };
#define PACKET_NS 80.6 /* 12.4 million a second: 100 Gbit/s of packets of a thousand bytes */

struct mix {
    const char *name;
    uint32_t mean, opens; /* bytes; connections opened by 100 packets */
};

static struct {
    uint8_t *memory; /* PACKETS slots: room in front, and the headers */
    uint32_t length[PACKETS];
    uint64_t flows, next, random;
    double opened, now_ns;
    struct bal *bal;
    struct bal_core *core;
} b;

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t); /* what else runs takes none of it */
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static uint64_t random64(void)
{
    b.random ^= b.random << 13;
    b.random ^= b.random >> 7;
    b.random ^= b.random << 17;
    return b.random;
}

static uint64_t scramble(uint64_t v)
{
    v = (v ^ v >> 32) * 0xd6e8feb86659fd93u;
    v = (v ^ v >> 32) * 0xd6e8feb86659fd93u;
    return v ^ v >> 32;
}

/* A segment of connection number `flow`: headers only; the length says how long the packet would be. */
static void make_packet(uint32_t at, uint64_t flow, uint8_t flags, uint32_t length)
{
    uint8_t *p = b.memory + (size_t)at * SLOT + ROOM, *ip = p + BAL_ETH_LEN, *tcp = ip + 20;
    uint64_t h = scramble(flow);
    memset(p, 0, SLOT - ROOM);
    memcpy(p, (uint8_t[14]){2, 1, 1, 1, 1, 1, 2, 9, 9, 9, 9, 9, 8, 0}, 14);
    memcpy(ip, (uint8_t[]){0x45, 0, 0, 0, 0, 1, 0x40, 0, 64, 6}, 10);
    bal_put16(ip + 2, length - BAL_ETH_LEN);
    memcpy(ip + 12, (uint8_t[]){172, (uint8_t)h, (uint8_t)(h >> 8), (uint8_t)(h >> 16), 10, 1, 0, 1}, 8);
    bal_checksum_write(ip + 10, bal_sum(ip, 20));
    bal_put16(tcp, (uint32_t)(h >> 32));
    bal_put16(tcp + 2, 80);
    tcp[12] = 0x50;
    tcp[13] = flags;
    b.length[at] = length;
}

/* Packets of connections that are there, and of new ones, whose SYN and ACK stand for their beginning. */
static void make_packets(const struct mix *mix)
{
    for (uint32_t i = 0; i < PACKETS; i++) {
        uint32_t length = random64() % 100 < 40 ? 66 : mix->mean + (mix->mean - 66) * 2 / 3;
        if (length > 1514) length = 1514;
        b.opened += mix->opens / 100.0;
        if (b.opened >= 1) {
            b.opened -= 1;
            make_packet(i, b.next++, BAL_SYN, 66);
            continue;
        }
        make_packet(i, b.next - 1 - random64() % b.flows, BAL_ACK, length);
    }
}

static void packets_at(struct bal_packet *p, uint32_t at)
{
    for (uint32_t i = 0; i < BURST; i++)
        p[i] = (struct bal_packet){
            .data = b.memory + (size_t)(at + i) * SLOT + ROOM, .len = b.length[at + i], .headroom = ROOM};
}

/* ---- what is measured ---- */

static uint64_t sent; /* so that nothing is optimised away */

static void balance(void)
{
    struct bal_packet p[BURST];
    for (uint32_t at = 0; at < PACKETS; at += BURST) {
        packets_at(p, at);
        b.now_ns += BURST * PACKET_NS;
        gw_balance_burst(b.core, p, BURST, (uint64_t)b.now_ns);
        bal_core_keep(b.core, (uint64_t)b.now_ns);
        for (uint32_t i = 0; i < BURST; i++) sent += p[i].verdict == BAL_SEND;
    }
}

static void macswap(void)
{
    struct bal_packet p[BURST];
    for (uint32_t at = 0; at < PACKETS; at += BURST) {
        packets_at(p, at);
        for (uint32_t i = 0; i < BURST; i++) __builtin_prefetch(p[i].data, 1);
        for (uint32_t i = 0; i < BURST; i++) {
            uint8_t mac[6];
            memcpy(mac, p[i].data, 6);
            memcpy(p[i].data, p[i].data + 6, 6);
            memcpy(p[i].data + 6, mac, 6);
            sent += p[i].data[0];
        }
    }
}

static double rate(const struct mix *mix, void (*pass)(void))
{
    double seconds = 0;
    for (int turn = 0; turn < TURNS; turn++) {
        make_packets(mix); /* beforehand: making them is not what is measured */
        double start = now();
        pass();
        seconds += now() - start;
    }
    return TURNS * (double)PACKETS / seconds / 1e6;
}

static int by_size(const void *x, const void *y)
{
    double d = *(const double *)x - *(const double *)y;
    return (d > 0) - (d < 0);
}

static double median(double *v, int n)
{
    qsort(v, (size_t)n, sizeof(*v), by_size);
    return n % 2 ? v[n / 2] : (v[n / 2 - 1] + v[n / 2]) / 2;
}

static int open_balancer(enum bal_forward forward)
{
    static struct bal_config config;
    char error[256] = "no memory for the tables";
    const struct bal_attr attr = {.cores = 1, .flows = b.flows * 2, .wide_flows = 1000, .huge_pages = true};
    memset(&config, 0, sizeof(config));
    config.port[0] =
        (struct bal_port){.used = true, .mtu = 9000, .addr = {{4, {10, 0, 0, 1}}}, .prefix = {8}};
    config.service[1] = (struct bal_service){.used = true,
                                             .proto = BAL_TCP,
                                             .scheduler = BAL_WLC,
                                             .forward = (uint8_t)forward,
                                             .vip = {4, {10, 1, 0, 1}},
                                             .port = 80};
    for (uint32_t w = 0; w < WORKERS; w++)
        config.worker[w] = (struct bal_worker){.used = true,
                                               .state = BAL_UP,
                                               .mac_known = true,
                                               .mac = {2, [5] = (uint8_t)w},
                                               .service = 1,
                                               .weight = 100,
                                               .addr = {4, {10, 2, 0, (uint8_t)(w + 1)}}};
    if (bal_create(&attr, &b.bal) || bal_publish(b.bal, &config, error, sizeof(error))) {
        fprintf(stderr, "balance_bench: %s\n", error);
        return -1;
    }
    b.core = bal_core_begin(b.bal, 0);
    b.now_ns = 1e12;
    b.next = 0;
    struct bal_packet p;
    while (b.next < b.flows) { /* every connection is established before the measurement */
        static const uint8_t flags[2] = {BAL_SYN, BAL_ACK};
        for (int i = 0; i < 2; i++) {
            make_packet(0, b.next, flags[i], 66);
            p = (struct bal_packet){.data = b.memory + ROOM, .len = 66, .headroom = ROOM};
            gw_balance_burst(b.core, &p, 1, (uint64_t)(b.now_ns += 10));
        }
        b.next++;
    }
    return 0;
}

static int bench(const char *how, enum bal_forward forward, const struct mix *mix, int rounds)
{
    double ours[MOST_ROUNDS], peer[MOST_ROUNDS];
    if (open_balancer(forward)) return 1;
    for (int r = 0; r < rounds; r++) {
        peer[r] = rate(mix, macswap);
        ours[r] = rate(mix, balance);
    }
    struct bal_totals t;
    bal_totals(b.bal, 0, &t);
    double o = median(ours, rounds), p = median(peer, rounds);
    setlinebuf(stdout);
    printf("%-8s %-8s %7.1f Mpps %7.1f Gbit/s, macswap %7.1f Mpps: %.2fx; %llu flows, %llu of %llu packets "
           "lost\n",
           mix->name, how, o, o * mix->mean * 8 / 1000, p, o / p, (unsigned long long)t.live,
           (unsigned long long)(t.received - t.packets), (unsigned long long)t.received);
    bal_core_end(b.core);
    bal_destroy(b.bal);
    return 0;
}

int main(int argc, char **argv)
{
    static const struct mix mix[2] = {{"campus", 951, 3}, {"CAIDA", 990, 7}};
    int rounds = argc > 1 ? atoi(argv[1]) : 5;
    b.flows = argc > 2 ? strtoull(argv[2], NULL, 10) : 1000000;
    b.random = 0x9e3779b97f4a7c15u;
    b.memory = calloc(PACKETS, SLOT);
    if (rounds < 1 || rounds > MOST_ROUNDS || b.flows < 1000 || !b.memory) {
        fprintf(stderr, "usage: balance_bench [ROUNDS [FLOWS]]\n");
        return 2;
    }
    int failed = 0;
    for (int m = 0; m < 2 && !failed; m++) {
        failed = bench("DR", BAL_DR, &mix[m], rounds);
        if (!failed) failed = bench("NAT", BAL_NAT, &mix[m], rounds);
        if (!failed) failed = bench("IPIP", BAL_IPIP, &mix[m], rounds);
    }
    free(b.memory);
    return failed;
}
