/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The software NIC's UDP wire between two processes of this host: frames per second, one way, and the round
 * trip of one small frame. Frames are sent with and without the work that every protocol has: a CRC over
 * each, and a copy of its payload at both ends. The receiver answers every 30th frame, and up to four such
 * groups are under way. A queue pair sends as many at once, and its window holds as many. So the sender stops
 * only where the receiver is slower. The engine's figures over this wire are to be compared with these.
 * Medians of 7 runs of 0.3 s. usage: wire_bench [ADDRESS] (default 127.0.0.1)
 */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "softnic/wire/udp.h"
#include "src/roce/icrc.h"

enum { RUNS = 7, RUN_MS = 300, GROUP = 30, GROUPS = 4, HEAD = 16, LONGEST = 4096, WAIT_MS = 1000 };

/* Byte 8 of a frame says what it asks for. */
enum { COUNT, COUNT_AND_ANSWER, ECHO };
/* Byte 9 says whether a CRC is reckoned and the payload copied. */
static volatile uint32_t sum;
/* This stands for a program's memory. */
static uint8_t memory[GROUP][LONGEST];

static uint64_t now_ns(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

static struct sn_udp *open_wire(const struct sn_addr *addr)
{
    struct sn_udp *udp;
    char why[256];

    if (!sn_udp_open(addr, (uint64_t)getpid(), &udp, why)) return udp;
    fprintf(stderr, "wire_bench: %s\n", why);
    exit(1);
}

static void wait_readable(struct sn_udp *udp)
{
    struct pollfd p[2] = {{.events = POLLIN}, {.events = POLLIN}};
    int fds[2], n = sn_udp_fds(udp, fds);

    for (int i = 0; i < n; i++) p[i].fd = fds[i];
    poll(p, (nfds_t)n, WAIT_MS);
}

static uint32_t payload_of(const struct sn_frame *frame)
{
    return frame->len - HEAD < LONGEST ? frame->len - HEAD : LONGEST;
}

static void answer(struct sn_udp *udp, const struct sn_frame *got)
{
    struct sn_frame frame = *got;

    memcpy(frame.dst_gid, got->src_gid, 16);
    frame.data[5] = (uint8_t)(got->sport - SN_SLOT_PORT);
    frame.len = 64;
    sn_udp_send(udp, &frame, 1);
}

static void serve(const struct sn_addr *addr, int report)
{
    struct sn_udp *udp = open_wire(addr);
    unsigned slot = sn_udp_slot(udp);
    struct sn_frame rx[SN_UDP_BATCH];
    bool more = false;

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (write(report, &slot, sizeof(slot)) != sizeof(slot)) _exit(1);
    for (;;) {
        if (!more) wait_readable(udp);
        int n = sn_udp_recv(udp, rx, SN_UDP_BATCH, &more);

        for (int i = 0; i < n; i++) {
            if (rx[i].data[9]) {
                sum ^= roce_crc32(0, rx[i].data, rx[i].len);
                memcpy(memory[i % GROUP], rx[i].data + HEAD, payload_of(&rx[i]));
            }
            if (rx[i].data[8] != COUNT) answer(udp, &rx[i]);
        }
    }
}

/* Waits for answers: how many came; 0 when one got lost. */
static int answered(struct sn_udp *udp)
{
    uint64_t deadline = now_ns() + (uint64_t)WAIT_MS * 1000000;
    struct sn_frame rx[SN_UDP_BATCH];
    bool more;

    while (now_ns() < deadline) {
        int n = sn_udp_recv(udp, rx, SN_UDP_BATCH, &more);

        if (n > 0) return n;
        if (!more) wait_readable(udp);
    }
    return 0;
}

static void send_group(struct sn_udp *udp, struct sn_frame *frames)
{
    for (int i = 0; i < GROUP; i++) {
        frames[i].data[8] = i == GROUP - 1 ? COUNT_AND_ANSWER : COUNT;
        if (!frames[i].data[9]) continue;
        memcpy(frames[i].data + HEAD, memory[i], payload_of(&frames[i]));
        sum ^= roce_crc32(0, frames[i].data, frames[i].len);
    }
    for (int done = 0; done < GROUP;) done += sn_udp_send(udp, frames + done, GROUP - done);
}

/* No more than the receiver's buffer is sure to hold. */
static int groups_at_once(const struct sn_udp *udp, uint32_t len)
{
    uint32_t fit = sn_udp_room(udp) / (GROUP * len);

    return fit < 1 ? 1 : fit < GROUPS ? (int)fit : GROUPS;
}

static double run_stream(struct sn_udp *udp, struct sn_frame *frames)
{
    int most = groups_at_once(udp, frames[0].len), under_way = 0, got;
    uint64_t start = now_ns(), sent = 0;

    while (now_ns() - start < (uint64_t)RUN_MS * 1000000) {
        for (; under_way < most; under_way++, sent += GROUP) send_group(udp, frames);
        got = answered(udp);
        if (!got) return 0;
        under_way -= got;
    }
    for (; under_way > 0; under_way -= got) {
        got = answered(udp);
        if (!got) return 0;
    }
    return (double)sent / ((double)(now_ns() - start) / 1e9);
}

static double run_ping(struct sn_udp *udp, struct sn_frame *frames)
{
    uint64_t start = now_ns(), trips = 0;

    frames[0].data[8] = ECHO;
    while (now_ns() - start < (uint64_t)RUN_MS * 1000000) {
        if (sn_udp_send(udp, frames, 1) != 1 || !answered(udp)) return 0;
        trips++;
    }
    return (double)(now_ns() - start) / 1e3 / (double)trips;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return x < y ? -1 : x > y;
}

static double median(struct sn_udp *udp, struct sn_frame *frames,
                     double (*run)(struct sn_udp *, struct sn_frame *))
{
    double results[RUNS];

    for (int i = 0; i < RUNS; i++) results[i] = run(udp, frames);
    qsort(results, RUNS, sizeof(results[0]), by_value);
    return results[RUNS / 2];
}

int main(int argc, char **argv)
{
    static const uint32_t sizes[] = {64, 1024, LONGEST};
    static uint8_t data[GROUP][HEAD + LONGEST + 16];
    struct sn_frame frames[GROUP];
    struct sn_addr addr;
    unsigned slot;
    int pipes[2];

    if (argc > 2 || sn_addr_parse(argc > 1 ? argv[1] : "127.0.0.1", &addr)) {
        fprintf(stderr, "usage: wire_bench [ADDRESS], an IP address of this host\n");
        return 2;
    }
    if (pipe(pipes)) return 1;
    pid_t pid = fork();
    if (pid == 0) serve(&addr, pipes[1]);
    if (pid < 0 || read(pipes[0], &slot, sizeof(slot)) != sizeof(slot)) return 1;
    struct sn_udp *udp = open_wire(&addr);
    for (int i = 0; i < GROUP; i++) {
        frames[i] = (struct sn_frame){.data = data[i], .len = 64};
        memcpy(frames[i].dst_gid, addr.gid, 16);
        data[i][0] = 4;
        data[i][5] = (uint8_t)slot;
        data[i][7] = 7;
    }
    printf("bench: UDP wire, round trip of 64 bytes     %8.1f us\n", median(udp, frames, run_ping));
    for (size_t s = 0; s < 2 * sizeof(sizes) / sizeof(sizes[0]); s++) {
        uint32_t size = sizes[s / 2];

        for (int i = 0; i < GROUP; i++) {
            frames[i].len = size == 64 ? 64 : HEAD + size + 4;
            data[i][9] = s % 2;
        }
        double rate = median(udp, frames, run_stream);
        printf("bench: UDP wire, %4u bytes of payload%s %10.0f frames/s, %6.2f Gbit/s\n", size,
               s % 2 ? ", CRC and copy" : "              ", rate, rate * size * 8 / 1e9);
    }
    sn_udp_close(udp);
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    return 0;
}
