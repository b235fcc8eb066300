/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sockets of kernels on a GPU beside what lies under them, both in one run:
 *
 *     gpu_sock_bench stream|latency|many N|tcp_latency|tcp_stream [--exec gpu|cpu]
 *
 *     stream       256 KiB sends over RDMA, kernel to kernel : puts of 256 KiB, the same memory and NIC
 *     latency      64 bytes there and back over RDMA, kernel to kernel : puts of 64 bytes there and back
 *     many N       256 KiB sends on N connections in turn : on one
 *     tcp_latency  64 bytes there and back between a CPU thread's TCP socket and a kernel : and an epoll echo
 *     tcp_stream   64 KiB sends by a kernel over TCP to a CPU thread : by a CPU thread
 *
 * One line: ours, the other, the ratio and what is aimed at; medians of 5 rounds in turn. Exit code 0; 1: something
 * failed; 77: no such executor, or memory that the NIC does not reach.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/gpu_sock_side.h"

    GW_KERNEL_DECLARE(send_kernel);
GW_KERNEL_DECLARE(sink_kernel);
GW_KERNEL_DECLARE(ask_kernel);
GW_KERNEL_DECLARE(echo_kernel);
GW_KERNEL_DECLARE(raw_stream_kernel);
GW_KERNEL_DECLARE(raw_ask_kernel);
GW_KERNEL_DECLARE(raw_echo_kernel);

static void stream(void)
{
    enum { COUNT = 2000 };
    double ours[ROUNDS], other[ROUNDS], gbit = 8.0 * BIG * COUNT;
    struct side from, to;
    struct raw a, b;

    side_open(&from, 1, BIG, 1);
    side_open(&to, 1, BIG, 1);
    raw_open(&a, &from);
    raw_open(&b, &to);
    raw_connect(&a, &b);
    meet(&from, &to);
    both(&from, &send_kernel, &to, &sink_kernel, 1, COUNT / 10);
    for (int i = 0; i < ROUNDS; i++) {
        uint64_t since;

        ours[i] = gbit / both(&from, &send_kernel, &to, &sink_kernel, 1, COUNT);
        since = gw_clock_ns();
        raw_start(&from, &a, &b, &raw_stream_kernel, BIG, COUNT);
        raw_finish(&from, &a);
        other[i] = gbit / (double)(gw_clock_ns() - since);
    }
    report("stream, 256 KiB, kernel to kernel : puts", "Gbit/s", ours, other, 1, 0.9);
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
    uint64_t count = conns > 2000 ? 1 : 2000 / conns;
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
        else
            conns = (uint32_t)atoi(argv[i]);
    }
    if (!strcmp(what, "stream")) return stream(), 0;
    if (!strcmp(what, "latency")) return latency(), 0;
    if (!strcmp(what, "many") && conns > 0 && conns <= 8000) return many(conns), 0;
    if (!strcmp(what, "tcp_latency")) return tcp_latency(), 0;
    if (!strcmp(what, "tcp_stream")) return tcp_stream(), 0;
    fprintf(stderr, "gpu_sock_bench stream|latency|many N|tcp_latency|tcp_stream [--exec gpu|cpu]\n");
    return 2;
}
