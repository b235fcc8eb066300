/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How long collectives take: one rank, of those that a launcher starts (bench/apps/collective.py, mpirun).
 *
 *     collective_bench [--exec cpu|gpu] [--lanes N] [--blocks N] [--threads N] [--sizes BYTES,…] [--ops
 *                      NAME,…] [--rounds N] [--table]
 *
 * Rank 0 prints a line for each operation and size. It has the bytes (of all-to-all: what a rank sends in
 * all), the median of the host's calls, and the mean of the same inside one kernel. From that mean comes the
 * bus bandwidth, as nccl-tests counts it. `registered` lines use registered memory. --table runs each way by
 * itself.
 */
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include <gpuwire/exec.h>
#include <gpuwire/verbs.h>

#include "bench/collective_kernels.h"
#include "bench/measure.h"

#define LIMIT      gw_deadline(UINT64_C(120000000000))
#define MAX_ROUNDS 1000
#define MAX_SIZES  32

struct side {
    struct gw_ranks *ranks;
    struct gw_exec *exec;
    struct gw_device *dev;
    struct gw_comm *comm;
    struct gw_mem send, recv, result, ns;
    uint32_t rank, size, rounds, threads;
};

static struct {
    const char *exec, *ops;
    struct gw_exec_opts opts;
    struct gw_comm_attr attr;
    uint64_t sizes[MAX_SIZES];
    uint32_t n, rounds;
    bool table;
} options = {.exec = "cpu",
             .ops = "allreduce,alltoall,allgather,reduce_scatter,broadcast",
             .opts = {.lanes = 1},
             .sizes = {8, 1 << 10, 8 << 10, 64 << 10, 1 << 20},
             .n = 5,
             .rounds = 100};

static const struct {
    const char *name;
    uint32_t kind;
} operations[] = {{"allreduce", GW_COLL_ALLREDUCE}, {"alltoall", GW_COLL_ALLTOALL},
                  {"allgather", GW_COLL_ALLGATHER}, {"reduce_scatter", GW_COLL_REDUCE_SCATTER},
                  {"broadcast", GW_COLL_BROADCAST}, {"barrier", GW_COLL_BARRIER}};

static void must(int err, const char *what)
{
    if (!err) return;
    fprintf(stderr, "collective_bench: %s: %s\n", what, gw_last_error());
    exit(1);
}

static void sizes_read(const char *text)
{
    char *end;

    for (options.n = 0; options.n < MAX_SIZES && *text; text = *end == ',' ? end + 1 : end) {
        options.sizes[options.n] = strtoull(text, &end, 10);
        if (end == text || (*end && *end != ',')) must(-EINVAL, "--sizes takes numbers with commas between");
        options.n++;
    }
}

static void options_read(int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        const char *value = i + 1 < argc ? argv[i + 1] : "";
        uint32_t number = (uint32_t)strtoul(value, NULL, 10);

        if (!strcmp(argv[i], "--table")) {
            options.table = true;
            continue;
        }
        if (!strcmp(argv[i], "--exec"))
            options.exec = value;
        else if (!strcmp(argv[i], "--lanes"))
            options.opts.lanes = number;
        else if (!strcmp(argv[i], "--blocks"))
            options.attr.blocks = number;
        else if (!strcmp(argv[i], "--threads"))
            options.attr.threads = number;
        else if (!strcmp(argv[i], "--rounds"))
            options.rounds = number && number <= MAX_ROUNDS ? number : MAX_ROUNDS;
        else if (!strcmp(argv[i], "--ops"))
            options.ops = value;
        else if (!strcmp(argv[i], "--sizes"))
            sizes_read(value);
        else
            must(-EINVAL, argv[i]);
        i++;
    }
}

static uint64_t largest(void)
{
    uint64_t most = 4096;

    for (uint32_t i = 0; i < options.n; i++)
        if (options.sizes[i] > most) most = options.sizes[i];
    return most;
}

static void side_open(struct side *s)
{
    must(gw_ranks_join(NULL, LIMIT, &s->ranks), "joining");
    s->rank = gw_ranks_rank(s->ranks);
    s->size = gw_ranks_size(s->ranks);
    s->rounds = options.rounds;
    options.opts.device = gw_ranks_local_rank(s->ranks);
    if (gw_exec_create(options.exec, &options.opts, &s->exec)) {
        printf("skipped: this takes %s GPUs: %s\n", s->size == 2 ? "two" : "more", gw_last_error());
        exit(77);
    }
    s->threads = options.attr.threads                   ? options.attr.threads
                 : gw_exec_kind(s->exec) == GW_EXEC_GPU ? 256
                                                        : gw_exec_lanes(s->exec);
    must(gw_device_open(NULL, s->exec, &s->dev), "device");
    must(gw_comm_create(s->ranks, s->dev, &options.attr, LIMIT, &s->comm), "communicator");
    must(gw_mem_alloc(s->exec, GW_MEM_DEVICE, largest() * s->size, &s->send), "memory");
    must(gw_mem_alloc(s->exec, GW_MEM_DEVICE, largest() * s->size, &s->recv), "memory");
    must(gw_mem_alloc(s->exec, GW_MEM_HOST, GW_COMM_MAX_BLOCKS * sizeof(int32_t), &s->result), "memory");
    must(gw_mem_alloc(s->exec, GW_MEM_HOST, sizeof(uint64_t), &s->ns), "memory");
}

static void side_close(struct side *s)
{
    must(gw_barrier(s->comm, LIMIT), "barrier");
    must(gw_comm_destroy(s->comm), "communicator");
    gw_mem_free(&s->send);
    gw_mem_free(&s->recv);
    gw_mem_free(&s->result);
    gw_mem_free(&s->ns);
    must(gw_device_close(s->dev), "device");
    must(gw_exec_destroy(s->exec), "executor");
    must(gw_ranks_leave(s->ranks, LIMIT), "leaving");
}

/* Microseconds of one call of the host's, in the middle. */
static double host_median(struct side *s, const struct gw_coll *c)
{
    static double us[MAX_ROUNDS];

    for (uint32_t i = 0; i < s->rounds + s->rounds / 10 + 1; i++) {
        double begin = bench_seconds();

        must(gw_coll_start(s->comm, c, LIMIT), "starting");
        must(gw_coll_wait(s->comm), "operation");
        us[i % s->rounds] = (bench_seconds() - begin) * 1e6;
    }
    return bench_median(us, (int)s->rounds);
}

/* Microseconds of one operation inside a kernel, in the mean. */
static double kernel_mean(struct side *s, const struct gw_coll *c, uint32_t blocks)
{
    struct collective_args a = {.comm = gw_comm_handle(s->comm),
                                .coll = *c,
                                .warm = s->rounds / 10 + 1,
                                .rounds = s->rounds,
                                .ns = s->ns.dev,
                                .result = s->result.dev};

    must(gw_launch(s->exec, &collective_rounds, blocks, s->threads, &a), "launching");
    must(gw_exec_sync(s->exec, LIMIT), "kernel");
    for (uint32_t b = 0; b < blocks; b++) must(((int32_t *)s->result.host)[b], "operation in a kernel");
    return (double)*(uint64_t *)s->ns.host / 1000 / s->rounds;
}

static double bus_factor(uint32_t kind, uint32_t n)
{
    if (kind == GW_COLL_ALLREDUCE) return 2.0 * (n - 1) / n;
    return kind == GW_COLL_BROADCAST ? 1 : (double)(n - 1) / n;
}

static void one_run(struct side *s, uint32_t op, uint64_t bytes, uint32_t way, const char *note)
{
    bool whole = operations[op].kind == GW_COLL_ALLREDUCE || operations[op].kind == GW_COLL_BROADCAST;
    struct gw_coll c = {.kind = operations[op].kind,
                        .dtype = GW_DTYPE_F32,
                        .way = way,
                        .send = s->send.dev,
                        .recv = s->recv.dev,
                        .count = bytes / 4 / (whole ? 1 : s->size)};
    struct gw_coll_plan plan;
    double host, kernel;

    must(gw_coll_plan(s->comm, &c, &plan), "planning");
    must(gw_barrier(s->comm, LIMIT), "barrier");
    host = host_median(s, &c);
    kernel = kernel_mean(s, &c, plan.blocks);
    if (s->rank) return;
    printf("%-14s %9llu B  way %u  %2u blocks  %9.2f us a call  %9.2f us in a kernel  %8.3f GB/s  %s\n",
           operations[op].name, (unsigned long long)bytes, plan.way, plan.blocks, host, kernel,
           (double)bytes * bus_factor(c.kind, s->size) / kernel / 1e3, note);
    fflush(stdout);
}

static void all_runs(struct side *s, const char *note)
{
    for (uint32_t op = 0; op < sizeof(operations) / sizeof(operations[0]); op++) {
        const char *at = strstr(options.ops, operations[op].name);
        char after = at ? at[strlen(operations[op].name)] : 'x';

        if (after && after != ',') continue;
        for (uint32_t i = 0; i < options.n; i++)
            for (uint32_t way = options.table ? 1 : 0; way <= (options.table ? GW_WAY_RING : GW_WAY_AUTO);
                 way++)
                one_run(s, op, options.sizes[i], way, note);
    }
}

int main(int argc, char **argv)
{
    struct side s = {0};
    uint32_t id[2];

    options_read(argc, argv);
    side_open(&s);
    if (!s.rank) printf("%u ranks, %s\n", s.size, gw_exec_name(s.exec));
    all_runs(&s, "");
    if (!options.table) {
        must(gw_comm_register(s.comm, s.send.dev, s.send.size, LIMIT, &id[0]), "registering");
        must(gw_comm_register(s.comm, s.recv.dev, s.recv.size, LIMIT, &id[1]), "registering");
        all_runs(&s, "registered");
        must(gw_barrier(s.comm, LIMIT), "barrier");
        must(gw_comm_unregister(s.comm, id[0]) || gw_comm_unregister(s.comm, id[1]), "unregistering");
    }
    side_close(&s);
    return 0;
}
