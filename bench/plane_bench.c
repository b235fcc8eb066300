/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The balancer's data plane on DPDK's drivers, from memory. The pcap driver plays a file again and again, and
 * throws away what is sent. plane.py runs this program in turns with DPDK's testpmd.
 *
 *     plane_bench write FILE MIX whole|headers    writes packets of the mix, campus or caida, with all their
 *                                                 bytes or without payload
 *     plane_bench run FILE dr|nat SECONDS         prints how many packets it took and forwarded, how many
 *                                                 connections it opened, and the nanoseconds that its thread
 *                                                 ran in that time
 *
 * FLOWS connections are there before the first packet comes. A packet of the file belongs to any of them. But
 * some SYNs open one again that a RST, far away in the file, has closed: so each turn of the file opens as
 * many.
 */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "bench/balance/side.h"
#include "bench/measure.h"
#include "src/balance/run.h"

enum { PACKETS = 1 << 18, FLOWS = 1000000 };

/* ---- the file ---- */

struct file_header {
    uint32_t magic;
    uint16_t major, minor;
    uint32_t zone, accuracy, length, link;
};
struct record_header {
    uint32_t seconds, micros, kept, whole;
};

static int write_packet(FILE *f, uint64_t flow, uint8_t flags, uint32_t length)
{
    static uint8_t frame[SIDE_LINK];
    const struct record_header r = {0, 0, length, length};
    side_packet(frame, flow, flags, length);
    return fwrite(&r, sizeof(r), 1, f) == 1 && fwrite(frame, length, 1, f) == 1 ? 0 : -1;
}

/* Packet i of 100 · k + j: j < opens is a SYN of connection FLOWS + i, which a RST ends half a file later. */
static int write_packets(FILE *f, const struct side_mix *mix, int whole)
{
    uint64_t random = 0x9e3779b97f4a7c15u;
    for (uint32_t i = 0; i < PACKETS; i++) {
        uint32_t length = whole ? side_length(mix, &random) : 66, opposite = (i + PACKETS / 2) % PACKETS;
        uint64_t flow = side_random(&random) % FLOWS;
        uint8_t flags = BAL_ACK;
        if (i % 100 < mix->opens) {
            flow = FLOWS + i;
            flags = BAL_SYN;
        } else if (opposite % 100 < mix->opens) {
            flow = FLOWS + opposite;
            flags = BAL_RST | BAL_ACK;
        }
        if (write_packet(f, flow, flags, flags == BAL_ACK ? length : 66)) return -1;
    }
    return 0;
}

static int write_file(const char *path, const char *mix, const char *what)
{
    const struct file_header h = {0xa1b2c3d4, 2, 4, 0, 0, 65535, 1};
    FILE *f = fopen(path, "w");
    int failed = !f || fwrite(&h, sizeof(h), 1, f) != 1 ||
                 write_packets(f, &side_mixes[!strcmp(mix, "caida")], !strcmp(what, "whole"));
    if (f && fclose(f)) failed = 1;
    if (failed) perror(path);
    return failed;
}

/* ---- the data plane ---- */

static struct {
    struct bal *bal;
    pthread_t plane, watcher;
    double seconds;
} w;

static void *watch(void *arg)
{
    struct bal_totals before, after;
    clockid_t clock;
    (void)arg;
    pthread_getcpuclockid(w.plane, &clock);
    usleep(500000);
    bal_totals(w.bal, -1, &before);
    double start = bench_clock(clock);
    usleep((useconds_t)(w.seconds * 1e6));
    bal_totals(w.bal, -1, &after);
    double ran = bench_clock(clock) - start;
    printf("received %llu forwarded %llu opened %llu ran_ns %.0f\n",
           (unsigned long long)(after.received - before.received),
           (unsigned long long)(after.packets - before.packets),
           (unsigned long long)(after.opened - before.opened), ran * 1e9);
    bal_stop(w.bal);
    return NULL;
}

static void started(void *arg)
{
    (void)arg;
    if (pthread_create(&w.watcher, NULL, watch, NULL)) abort();
}

static int run_plane(const char *file, const char *forward, const char *seconds)
{
    char device[600], error[256] = "";
    struct timespec t;
    if (side_open(&w.bal, 1, FLOWS, strcmp(forward, "nat") ? BAL_DR : BAL_NAT)) return 1;
    clock_gettime(CLOCK_MONOTONIC, &t);
    double now_ns = ((double)t.tv_sec - 60) * 1e9 + (double)t.tv_nsec; /* a minute ago they began */
    struct bal_core *core = bal_core_begin(w.bal, 0);
    if (!core) return 1;
    side_establish(core, 0, FLOWS, 1, &now_ns);
    bal_core_end(core);
    w.plane = pthread_self();
    w.seconds = atof(seconds);
    snprintf(device, sizeof(device), "pcap-loop:%s", file);
    /* The driver keeps the whole file in buffers of two kilobytes. */
    const struct bal_run run = {.device = {device},
                                .devices = 1,
                                .memory_mb = 512 + PACKETS / 1024 * 4,
                                .buffers = PACKETS,
                                .started = started};
    int rc = gw_balance_run(w.bal, &run, error, sizeof(error));
    if (rc) {
        fprintf(stderr, "plane_bench: %s\n", error);
        return rc == -ENOTSUP ? 77 : 1;
    }
    pthread_join(w.watcher, NULL);
    bal_destroy(w.bal);
    return 0;
}

int main(int argc, char **argv)
{
    if (argc == 5 && !strcmp(argv[1], "write")) return write_file(argv[2], argv[3], argv[4]);
    if (argc == 5 && !strcmp(argv[1], "run")) return run_plane(argv[2], argv[3], argv[4]);
    fprintf(stderr, "usage: plane_bench write FILE campus|caida whole|headers | run FILE dr|nat SECONDS\n");
    return 2;
}
