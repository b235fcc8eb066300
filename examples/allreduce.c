/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ranks that find each other, and a kernel at each that reduces with the others, without the host:
 *
 *     mpirun -n 4 example_allreduce          # or by GPUWIRE_RANK, GPUWIRE_SIZE and GPUWIRE_RENDEZVOUS
 */
#include <stdio.h>
#include <stdlib.h>

#include "allreduce.h"
#include "options.h"

#include <gpuwire/verbs.h>

#define LIMIT gw_deadline(UINT64_C(60000000000))

static void must(int err, const char *what)
{
    if (!err) return;
    fprintf(stderr, "%s: %s\n", what, gw_last_error());
    exit(1);
}

/* How far the worst element is from the mean of 0, 1 … ranks - 1. */
static float run(struct gw_ranks *ranks, struct gw_exec *exec, struct gw_comm *comm)
{
    static float x[N];
    struct gw_mem mine, sum, result;
    uint32_t blocks = gw_comm_blocks(comm);
    struct average_args args = {.comm = gw_comm_handle(comm)};
    float mean = (float)(gw_ranks_size(ranks) - 1) / 2, worst = 0;

    must(gw_mem_alloc(exec, GW_MEM_DEVICE, sizeof(x), &mine) ||
             gw_mem_alloc(exec, GW_MEM_DEVICE, sizeof(x), &sum) ||
             gw_mem_alloc(exec, GW_MEM_HOST, blocks * sizeof(int), &result),
         "memory");
    for (int i = 0; i < N; i++) x[i] = (float)gw_ranks_rank(ranks);
    must(gw_copy_in(exec, mine.dev, x, sizeof(x)), "copying in");
    args.mine = (float *)mine.dev;
    args.sum = (float *)sum.dev;
    args.result = (int *)result.dev;
    must(gw_launch(exec, &average, blocks, 128, &args) || gw_exec_sync(exec, LIMIT), "kernel");
    for (uint32_t b = 0; b < blocks; b++)
        if (((int *)result.host)[b]) must(gw_error_errno(((int *)result.host)[b], "block %u", b), "reducing");
    must(gw_copy_out(exec, x, mine.dev, sizeof(x)), "copying out");
    for (int i = 0; i < N; i++) {
        float off = x[i] > mean ? x[i] - mean : mean - x[i];

        if (off > worst) worst = off;
    }
    gw_mem_free(&mine);
    gw_mem_free(&sum);
    gw_mem_free(&result);
    return worst;
}

int main(int argc, char **argv)
{
    struct gw_ranks *ranks;
    struct gw_exec *exec;
    struct gw_device *dev;
    struct gw_comm *comm;
    float worst;

    test_options(argc, argv);
    must(gw_ranks_join(NULL, LIMIT, &ranks), "joining");
    test_exec_opts.device = gw_ranks_local_rank(ranks); /* a GPU each */
    exec = test_exec();
    must(gw_device_open(NULL, exec, &dev), "network device");
    must(gw_comm_create(ranks, dev, NULL, LIMIT, &comm), "communicator");
    worst = run(ranks, exec, comm);
    printf("rank %u of %u: %s\n", gw_ranks_rank(ranks), gw_ranks_size(ranks),
           worst < 1e-5f ? "as it must be" : "WRONG");
    must(gw_barrier(comm, LIMIT), "barrier"); /* the others may still wait for this rank */
    must(gw_comm_destroy(comm), "communicator");
    must(gw_device_close(dev) || gw_exec_destroy(exec), "the end");
    must(gw_ranks_leave(ranks, LIMIT), "leaving");
    return worst >= 1e-5f;
}
