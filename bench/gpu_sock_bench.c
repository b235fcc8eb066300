/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sockets of kernels on a GPU beside what lies under them, both in one run:
 *
 *     gpu_sock_bench stream|in_place|latency|many N|tcp_latency|tcp_stream [--exec gpu|cpu] [--ring KIB]
 *
 *     stream       256 KiB sends over RDMA, kernel to kernel : puts of 256 KiB, the same memory and NIC
 *     in_place     the same, neither copied into the buffers nor out of them (gw_sock_reserve,
 *                  gw_sock_borrow)
 *     latency      64 bytes there and back over RDMA, kernel to kernel : puts of 64 bytes there and back
 *     many N       256 KiB sends on N connections in turn : on one
 *     tcp_latency  64 bytes there and back between a CPU thread's TCP socket and a kernel : and an epoll echo
 *     tcp_stream   64 KiB sends by a kernel over TCP to a CPU thread : by a CPU thread
 *
 * Buffers have 4 MiB for one connection's 256 KiB sends. They have 1 MiB for many connections (64 KiB on CPU
 * threads) and over TCP, and 64 KiB for 64 bytes. --ring gives another size.
 *
 * One line: ours, the other, the ratio and what is aimed at; medians of 5 rounds in turn. Exit code 0; 1:
 * something failed; 77: no such executor, or memory that the NIC does not reach.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/gpu_sock_side.h"

GW_KERNEL_DECLARE(send_kernel);
GW_KERNEL_DECLARE(sink_kernel);
GW_KERNEL_DECLARE(send_in_place_kernel);
GW_KERNEL_DECLARE(sink_in_place_kernel);
GW_KERNEL_DECLARE(ask_kernel);
GW_KERNEL_DECLARE(echo_kernel);
GW_KERNEL_DECLARE(raw_stream_kernel);
GW_KERNEL_DECLARE(raw_ask_kernel);
GW_KERNEL_DECLARE(raw_echo_kernel);

static void stream(int in_place)
{
    enum { COUNT = 2000 };
    const struct gw_kernel *send = in_place ? &send_in_place_kernel : &send_kernel;
    const struct gw_kernel *sink = in_place ? &sink_in_place_kernel : &sink_kernel;
    double ours[ROUNDS], other[ROUNDS], gbit = 8.0 * BIG * COUNT;
    struct side from, to;
    struct raw a, b;

    side_open(&from, 1, BIG, 1);
    side_open(&to, 1, BIG, 1);
    raw_open(&a, &from);
    raw_open(&b, &to);
    raw_connect(&a, &b);
    meet(&from, &to);
    both(&from, send, &to, sink, 1, COUNT / 10);
    for (int i = 0; i < ROUNDS; i++) {
        uint64_t since;

        ours[i] = gbit / both(&from, send, &to, sink, 1, COUNT);
        since = gw_clock_ns();
        raw_start(&from, &a, &b, &raw_stream_kernel, BIG, COUNT);
        raw_finish(&from, &a);
        other[i] = gbit / (double)(gw_clock_ns() - since);
    }
    report(in_place ? "stream in place, 256 KiB, kernel to kernel : puts"
                    : "stream, 256 KiB, kernel to kernel : puts",
           "Gbit/s", ours, other, 1, 0.9);
    raw_close(&a);
    raw_close(&b);
    side_close(&from);
    side_close(&to);
}

static void latency(void)
{
    enum { COUNT = 5000 };
    double ours[ROUNDS], other[ROUNDS];
    struct side from, to;
    struct raw a, b;

    side_open(&from, 1, SMALL, 1);
    side_open(&to, 1, SMALL, 1);
    raw_open(&a, &from);
    raw_open(&b, &to);
    raw_connect(&a, &b);
    meet(&from, &to);
    both(&from, &ask_kernel, &to, &echo_kernel, 1, COUNT / 10);
    for (int i = 0; i < ROUNDS; i++) {
        uint64_t since;

        ours[i] = both(&from, &ask_kernel, &to, &echo_kernel, 1, COUNT) / COUNT / 1e3;
        since = gw_clock_ns();
        raw_start(&to, &b, &a, &raw_echo_kernel, SMALL, COUNT);
        raw_start(&from, &a, &b, &raw_ask_kernel, SMALL, COUNT);
        raw_finish(&from, &a);
        raw_finish(&to, &b);
        other[i] = (double)(gw_clock_ns() - since) / COUNT / 1e3;
    }
    report("64 bytes there and back, kernel to kernel : puts", "us", ours, other, 0, 1.5);
    raw_close(&a);
    raw_close(&b);
    side_close(&from);
    side_close(&to);
}

static void many_of(uint32_t conns, double *gbit)
{
    uint32_t blocks = conns < BLOCKS ? conns : BLOCKS;
    uint64_t count = conns > 500 ? 4 : 2000 / conns; /* besides them a byte comes back on each connection */
    struct side from, to;

    side_open(&from, conns, BIG, 1);
    side_open(&to, conns, BIG, 1);
    if (gw_exec_kind(from.exec) == GW_EXEC_CPU && blocks > 2) blocks = 2;
    meet(&from, &to);
    for (int i = 0; i < ROUNDS; i++)
        gbit[i] =
            8.0 * BIG * (double)count * conns / both(&from, &send_kernel, &to, &sink_kernel, blocks, count);
    side_close(&from);
    side_close(&to);
}

static void many(uint32_t conns)
{
    double ours[ROUNDS], other[ROUNDS];
    char what[80];

    many_of(1, other);
    many_of(conns, ours);
    snprintf(what, sizeof(what), "256 KiB sends, %u connections : one", conns);
    report(what, "Gbit/s", ours, other, 1, 0.9);
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "";
    uint32_t conns = 0;

    for (int i = 2; i < argc; i++) {
        if (!strcmp(argv[i], "--exec") && i + 1 < argc)
            exec_name = argv[++i];
        else if (!strcmp(argv[i], "--ring") && i + 1 < argc)
            ring = (uint32_t)atoi(argv[++i]) << 10;
        else
            conns = (uint32_t)atoi(argv[i]);
    }
    if (!strcmp(what, "stream")) return stream(0), 0;
    if (!strcmp(what, "in_place")) return stream(1), 0;
    if (!strcmp(what, "latency")) return latency(), 0;
    if (!strcmp(what, "many") && conns > 0 && conns <= 8000) return many(conns), 0;
    if (!strcmp(what, "tcp_latency")) return tcp_latency(), 0;
    if (!strcmp(what, "tcp_stream")) return tcp_stream(), 0;
    fprintf(stderr, "gpu_sock_bench stream|in_place|latency|many N|tcp_latency|tcp_stream [--exec gpu|cpu] "
                    "[--ring KIB]\n");
    return 2;
}
