/* SPDX-License-Identifier: Apache-2.0 */
/* After each operation all blocks of the rank meet, as a program's would before they use the result. */
#include "bench/collective_kernels.h"

#define ROUNDS_NS UINT64_C(60000000000)

GW_DEV int rounds_run(const struct gw_team *t, const struct collective_args *a, uint32_t n, uint64_t deadline)
{
    uint32_t i;
    int err = 0;

    for (i = 0; i < n && !err; i++) {
        err = gw_coll_run(t, &a->coll, deadline);
        if (!err) err = gw_coll_sync(t, deadline);
    }
    return err;
}

GW_KERNEL(collective_rounds, struct collective_args, a)
{
    struct gw_team t = gw_team_all(a->comm);
    uint64_t deadline = gw_clock_ns() + ROUNDS_NS, begin;
    int err = rounds_run(&t, a, a->warm, deadline);

    begin = gw_clock_ns();
    if (!err) err = rounds_run(&t, a, a->rounds, deadline);
    if (gw_thread_idx()) return;
    a->result[gw_block_idx()] = err;
    if (gw_block_idx() == 0) *a->ns = gw_clock_ns() - begin;
}
