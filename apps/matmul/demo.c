/* SPDX-License-Identifier: Apache-2.0 */
/* The demonstration: a server of each design on this machine, and clients of several sizes and types. */
#include <stdio.h>

#include <gpuwire/error.h>

#include "load.h"
#include "main.h"

struct demo_row {
    uint32_t n, type, connections;
};

static const struct demo_row demo_rows[] = {
    {64, MM_FP32, 4},  {128, MM_FP32, 4},  {256, MM_FP32, 4}, {256, MM_TF32, 4},
    {256, MM_FP16, 4}, {256, MM_FP32, 26}, {512, MM_FP32, 8},
};
enum { DEMO_ROWS = sizeof(demo_rows) / sizeof(demo_rows[0]) };

/* One row of the table; did all answers come, and were they right? */
static bool demo_load(const struct sockaddr_in *to, const struct demo_row *row, double *rate)
{
    struct mm_load_opts o = {.addr_len = sizeof(*to),
                             .type = row->type,
                             .n = row->n,
                             .connections = row->connections,
                             .threads = 2,
                             .depth = 1,
                             .verify = 1,
                             .seconds = 0.25,
                             .stopped = gw_interrupted};
    struct mm_load_result r;

    memcpy(&o.addr, to, sizeof(*to));
    if (!mm_load_run(&o, &r)) return !gw_fail("app matmul", "%s", r.why);
    *rate = r.seconds > 0 ? (double)r.answered / r.seconds : 0;
    printf("  %4u  %-4s  %11u  %10.0f  %8.1f  %8.0f  %8.0f  %8llu", row->n, mm_type_name(row->type),
           row->connections, *rate, mm_load_gflops(&o, &r), r.p50, r.p99, (unsigned long long)r.verified);
    if (r.wrong) printf("  %llu WRONG", (unsigned long long)r.wrong);
    if (r.busy) printf("  %llu busy", (unsigned long long)r.busy);
    if (r.failed) printf("  %u connections failed: %s", r.failed, r.why);
    printf("\n");
    fflush(stdout);
    return !r.failed && !r.wrong && r.answered;
}

static int demo_design(struct mm_server_opts o, bool daemon, double *rates)
{
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct mm_server *s;
    bool good = true;

    o.daemon = daemon;
    if (mm_server_open(&o, &s)) return gw_fail("app matmul", "%s", gw_last_error());
    printf("%s\n", mm_server_name(s));
    printf("  size  type  connections  requests/s   GFLOP/s    p50 us    p99 us  verified\n");
    fflush(stdout);
    to.sin_port = htons(mm_server_port(s));
    for (uint32_t i = 0; i < DEMO_ROWS && !gw_interrupted(); i++)
        good &= demo_load(&to, &demo_rows[i], &rates[i]);
    if (mm_server_close(s)) good = !gw_fail("app matmul", "%s", gw_last_error());
    printf("\n");
    return gw_exit_code(!good);
}

int mm_demo(const struct mm_server_opts *opts)
{
    double independent[DEMO_ROWS] = {0}, daemon[DEMO_ROWS] = {0};
    struct mm_server_opts o = *opts;
    int done;

    if (o.rdma == GW_RDMA_ONLY)
        return gw_usage_error("app matmul",
                              "the demonstration's clients speak TCP: use serve --rdma and ask");
    if (!o.connections) o.connections = 64;
    if (!o.largest) o.largest = 1024;
    printf(
        "A server of matrix products: clients on CPU threads ask its kernels over TCP, on this machine, and\n"
        "check each answer.\n\n");
    done = demo_design(o, false, independent);
    if (!done) done = demo_design(o, true, daemon);
    if (done) return done;
    printf("requests/s side by side\n  size  type  connections  independent    daemon\n");
    for (uint32_t i = 0; i < DEMO_ROWS; i++)
        printf("  %4u  %-4s  %11u  %11.0f  %8.0f\n", demo_rows[i].n, mm_type_name(demo_rows[i].type),
               demo_rows[i].connections, independent[i], daemon[i]);
    return GW_EXIT_OK;
}
