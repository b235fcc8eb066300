/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The cost of a post alone on a CPU thread: our calls beside libmlx5's ibv_post_send, with no NIC at work.
 *
 *     post_bench [ROUNDS]    default 101
 *     post_bench --threads N [ROUNDS]   N threads (2 to 32) post to one queue pair at once
 *     post_bench --payload   against the payload that it announces: lines "cpu,BYTES,NANOSECONDS" and
 *                            "ibv,BYTES,NANOSECONDS", for bench/figures
 *
 * All write into queues of libmlx5's and ring libmlx5's registers. The queue pairs are stopped (SQD), so that
 * the NIC executes nothing. The posting thread does not drive a software NIC, either: the benchmark calls
 * libmlx5's own entry, and leaves out the steps of our calls that tell such a NIC. So both do what they would
 * do for a device. They take turns to post a burst into an emptied queue. Median and minimum of the bursts'
 * times are printed.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/post_ways.h"

#define ROUNDS 101u

static struct gw_device *dev;
static struct gw_mem mem;

/* Operations have no inline payload. Atomics are measured with tickets, sends without. */
static bool can(unsigned how, const struct work *w)
{
    if (w->inlined) return how == IBV || how == COMPATIBLE;
    if (how == TYPED) return w->opcode != IBV_WR_ATOMIC_FETCH_AND_ADD;
    return how != TICKETS || w->opcode != IBV_WR_SEND;
}

/* ---- measuring ----------------------------------------------------------------------------------------- */

struct figure {
    double *ns;
    double median, min;
};

static void measure(struct side *s, struct work *w, uint32_t rounds, struct figure *f)
{
    uint32_t count[WAYS];

    for (unsigned how = 0; how < WAYS; how++) {
        f[how].ns = calloc(rounds, sizeof(double));
        bench_check(f[how].ns ? 0 : -ENOMEM, "memory");
    }
    for (uint32_t i = 0; i < rounds; i++)
        for (unsigned how = 0; how < WAYS; how++)
            if (can(how, w)) {
                f[how].ns[i] = post_burst(s, w, how, &count[how]);
                bench_check(count[how] == count[IBV] ? 0 : gw_error(-5, "the number of WQEBBs differs"),
                            ways[how].name);
            }
    for (unsigned how = 0; how < WAYS; how++) {
        qsort(f[how].ns, rounds, sizeof(double), side_by_value);
        f[how].median = f[how].ns[rounds / 2];
        f[how].min = f[how].ns[0];
        free(f[how].ns);
    }
}

static void table(struct side *s, uint32_t rounds)
{
    struct work works[] = {
        {"WRITE", IBV_WR_RDMA_WRITE, 64, 0, 1, {0}, {{0}}},
        {"SEND", IBV_WR_SEND, 64, 0, 1, {0}, {{0}}},
        {"fetch and add", IBV_WR_ATOMIC_FETCH_AND_ADD, 8, 0, 1, {0}, {{0}}},
        {"WRITE, 12 bytes inline", IBV_WR_RDMA_WRITE, 12, 1, 1, {0}, {{0}}},
        {"WRITE, 64 bytes inline", IBV_WR_RDMA_WRITE, 64, 1, 1, {0}, {{0}}},
        {"SEND, 64 bytes inline", IBV_WR_SEND, 64, 1, 1, {0}, {{0}}},
        {"32 WRITEs", IBV_WR_RDMA_WRITE, 64, 0, LIST, {0}, {{0}}},
        {"32 WRITEs, 64 bytes inline", IBV_WR_RDMA_WRITE, 64, 1, LIST, {0}, {{0}}},
    };

    for (uint32_t i = 0; i < sizeof(works) / sizeof(works[0]); i++) {
        struct figure f[WAYS];

        work_prepare(&works[i], mem.host);
        measure(s, &works[i], rounds, f);
        printf("%-27s %6.1f (%5.1f)", works[i].name, f[IBV].median, f[IBV].min);
        for (unsigned how = TYPED; how < WAYS; how++)
            if (can(how, &works[i]))
                printf("  %6.1f (%5.1f) %4.2f", f[how].median, f[how].min, f[how].median / f[IBV].median);
            else
                printf("  %20s", "-");
        printf("\n");
        fflush(stdout);
    }
}

static void compare(uint32_t rounds)
{
    printf("bench: a post alone, ns per request: median (minimum) of %u bursts of %u, and ratio to "
           "ibv_post_send "
           "(aims: gw_post_op 0.8, gw_post_send 1.1)\n",
           rounds, BURST);
    for (int one_thread = 1; one_thread >= 0; one_thread--) {
        struct side s = {0};

        printf("%-27s %14s", one_thread ? "one thread's queue pair" : "a queue pair of several",
               "ibv_post_send");
        for (unsigned how = TYPED; how < WAYS; how++) printf("  %20s", ways[how].name);
        printf("\n");
        side_make(&s, dev, BURST * BBS, INLINED, one_thread);
        table(&s, rounds);
        side_free(&s);
    }
}

static void sweep(void)
{
    struct work w = {"WRITE", IBV_WR_RDMA_WRITE, 64, 0, 1, {0}, {{0}}};
    struct figure f[WAYS];
    struct side s = {0};

    side_make(&s, dev, BURST * BBS, INLINED, true);
    for (; w.length <= MOST; w.length *= 2) {
        work_prepare(&w, mem.host);
        measure(&s, &w, ROUNDS, f);
        printf("cpu,%u,%.1f\n", w.length, f[TICKETS].median);
        printf("ibv,%u,%.1f\n", w.length, f[IBV].median);
    }
    side_free(&s);
}

static uint32_t in_range(const char *text, uint32_t low, uint32_t high, uint32_t otherwise)
{
    long n = text ? atol(text) : 0;

    return n >= (long)low && n <= (long)high ? (uint32_t)n : otherwise;
}

int main(int argc, char **argv)
{

    bench_check(gw_device_open(NULL, NULL, &dev), "network device");
    bench_check(gw_mem_alloc(gw_device_exec(dev), GW_MEM_HOST, 2 * MOST, &mem), "memory");
    if (argc > 1 && !strcmp(argv[1], "--payload"))
        sweep();
    else if (argc > 2 && !strcmp(argv[1], "--threads"))
        post_several(dev, mem.host, in_range(argv[2], 2, POST_THREADS, 2),
                     in_range(argv[3], 1, 99999, ROUNDS));
    else
        compare(in_range(argv[1], 1, 99999, ROUNDS));
    gw_mem_free(&mem);
    (void)gw_device_close(dev);
    return 0;
}
