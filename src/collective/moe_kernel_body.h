/* SPDX-License-Identifier: Apache-2.0 */
/* Every block does its share, and says how that went. */
#include "src/collective/moe_kernel.h"

GW_KERNEL(gw_moe_kernel, struct gw_moe_args, a)
{
    struct gw_team team = gw_team_all(a->comm);
    uint64_t deadline = gw_clock_ns() + a->limit_ns;
    int err = a->back ? gw_moe_return(&team, a->moe, &a->io, deadline)
                      : gw_moe_send(&team, a->moe, &a->io, deadline);

    if (gw_thread_idx() == 0) gw_st_relaxed_u32(&a->result[gw_block_idx()], (uint32_t)err);
}
