/* SPDX-License-Identifier: Apache-2.0 */
/* The kernel of allreduce.c: it computes, reduces with the other ranks' kernels, and goes on. */
#ifndef GW_EXAMPLES_ALLREDUCE_H
#define GW_EXAMPLES_ALLREDUCE_H

#include <gpuwire/collective.h>

enum { N = 10000, ROUNDS = 50 };

struct average_args {
    struct gw_comm_handle *comm;
    float *mine, *sum;
    int *result; /* of each block */
};

/* Every rank begins with another number. Each round takes all of them half of the way to their mean. */
GW_KERNEL(average, struct average_args, a)
{
    struct gw_team team = gw_team_all(a->comm);
    uint64_t deadline = gw_clock_ns() + UINT64_C(30000000000);
    uint32_t round, i;
    int err = 0;

    for (round = 0; round < ROUNDS && !err; round++) {
        err = gw_coll_allreduce(&team, a->mine, a->sum, N, gw_coll_type(GW_DTYPE_F32, GW_AVG), deadline);
        for (i = gw_global_idx(); i < N && !err; i += gw_global_dim())
            a->mine[i] = (a->mine[i] + a->sum[i]) / 2;
    }
    if (gw_thread_idx() == 0) a->result[gw_block_idx()] = err;
}

#endif
