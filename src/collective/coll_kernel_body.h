/* SPDX-License-Identifier: Apache-2.0 */
/* Every block does its share, and says how that went. */
#include "src/collective/coll_kernel.h"

GW_KERNEL(gw_coll_kernel, struct gw_coll_args, a)
{
    struct gw_team team = gw_team_all(a->comm);
    int err = gw_coll_run(&team, &a->coll, gw_clock_ns() + a->limit_ns);

    if (gw_thread_idx() == 0) gw_st_relaxed_u32(&a->result[gw_block_idx()], (uint32_t)err);
}
