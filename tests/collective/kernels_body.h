/* SPDX-License-Identifier: Apache-2.0 */
/* In each round all blocks add one to x, all ranks' x are summed into y, and x becomes y / ranks. Then
 * what each rank has is gathered, exchanged, scattered and broadcast. */
#include "tests/collective/kernels.h"

#define KERNEL_NS UINT64_C(60000000000)

GW_DEV int steps_round(const struct gw_team *t, const struct step_args *a, uint64_t deadline)
{
    uint32_t i;
    int err;

    for (i = gw_global_idx(); i < a->n; i += gw_global_dim()) a->x[i] += 1;
    err = gw_coll_allreduce(t, a->x, a->y, a->n, gw_coll_type(GW_DTYPE_F32, GW_SUM), deadline);
    if (err) return err;
    for (i = gw_global_idx(); i < a->n; i += gw_global_dim()) a->x[i] = a->y[i] / (float)t->comm->ranks;
    return 0;
}

GW_DEV int steps_all(const struct gw_team *t, const struct step_args *a, uint64_t deadline)
{
    uint32_t type = gw_coll_type(GW_DTYPE_F32, GW_SUM), i;
    int err = 0;

    for (i = 0; i < a->rounds && !err; i++) err = steps_round(t, a, deadline);
    if (!err) err = gw_coll_allgather(t, a->x, a->y, a->n, type, deadline);
    if (!err) err = gw_coll_alltoall(t, a->y, a->z, a->n, type, deadline);
    if (!err) err = gw_coll_reduce_scatter(t, a->z, a->x, a->n, type, deadline);
    if (!err) err = gw_coll_broadcast(t, a->x, a->n, GW_DTYPE_F32, t->comm->ranks - 1, deadline);
    return err ? err : gw_coll_barrier(t, deadline);
}

GW_KERNEL(test_steps, struct step_args, a)
{
    struct gw_team t = gw_team_all(a->comm);
    int err = steps_all(&t, a, gw_clock_ns() + KERNEL_NS);

    if (gw_thread_idx() == 0) a->result[gw_block_idx()] = err;
}
