/* SPDX-License-Identifier: Apache-2.0 */
/* Block b plays rank b / blocks. */
#include "tests/collective/pair_kernel.h"

#define PAIR_NS UINT64_C(60000000000)

GW_KERNEL(pair_rounds, struct pair_args, a)
{
    uint32_t rank = gw_block_idx() / a->blocks, i;
    uint64_t begin = gw_clock_ns(), deadline = begin + PAIR_NS;
    struct gw_team t;
    int err = 0;

    t.comm = a->comm[rank];
    t.block = gw_block_idx() % a->blocks;
    t.blocks = a->blocks;
    for (i = 0; i < a->rounds && !err; i++) {
        err = gw_coll_run(&t, &a->coll[rank], deadline);
        if (!err) err = gw_coll_sync(&t, deadline);
    }
    if (gw_thread_idx()) return;
    a->result[gw_block_idx()] = err;
    if (gw_block_idx() == 0) *a->ns = gw_clock_ns() - begin;
}
