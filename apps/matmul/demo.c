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
static bool demo_load(const char *port, const struct demo_row *row, double *rate)
{
    struct mm_load_opts o = {.host = "127.0.0.1",
                             .port = port,
                             .type = row->type,
                             .n = row->n,
                             .connections = row->connections,
                             .threads = 2,
                             .depth = 1,
                             .verify = 1,
                             .seconds = 0.25,
                             .stop = &mm_interrupted};
    struct mm_load_result r;

    if (!mm_load_run(&o, &r)) {
        fprintf(stderr, "gpuwire app matmul: %s\n", r.why);
        return false;
    }
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
    struct mm_server *s;
    char port[8];
    int err, bad = 0;

    o.daemon = daemon;
    if (mm_server_open(&o, &s)) {
        fprintf(stderr, "gpuwire app matmul: %s\n", gw_last_error());
        return MM_EXIT_FAILURE;
    }
    printf("%s\n", mm_server_name(s));
    printf("  size  type  connections  requests/s   GFLOP/s    p50 us    p99 us  verified\n");
    fflush(stdout);
    snprintf(port, sizeof(port), "%u", mm_server_port(s));
    for (uint32_t i = 0; i < DEMO_ROWS && !mm_interrupted; i++)
        bad |= !demo_load(port, &demo_rows[i], &rates[i]);
    err = mm_server_close(s);
    if (err) fprintf(stderr, "gpuwire app matmul: %s\n", gw_last_error());
    printf("\n");
    return mm_interrupted ? MM_EXIT_INTERRUPTED : err || bad ? MM_EXIT_FAILURE : MM_EXIT_OK;
}

int mm_demo(const struct mm_server_opts *opts)
{
    double independent[DEMO_ROWS] = {0}, daemon[DEMO_ROWS] = {0};
    struct mm_server_opts o = *opts;
    int done;

    if (o.rdma == GW_RDMA_ONLY) {
        fprintf(stderr,
                "gpuwire app matmul: the demonstration's clients speak TCP: use serve --rdma and ask\n");
        return MM_EXIT_USAGE;
    }
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
    return MM_EXIT_OK;
}
