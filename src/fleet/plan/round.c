/* SPDX-License-Identifier: Apache-2.0 */
/* round.c: one round of our policy, step after step. */
#include "src/fleet/plan/scratch.h"

void fleet_tuning_default(struct fleet_tuning *t)
{
    *t = (struct fleet_tuning){
        .fill = 0.75f,
        .high = 0.85f,
        .valid_ns = INT64_C(10000000000),
        .rest_ns = 20000000,
        .spills = 1,
        .tight_spills = 3,
        .worker_loads = 2,
        .round_loads = 128,
        .leases = true,
    };
}

uint32_t fleet_plan(struct fleet_state *s, const struct fleet_tuning *t, int64_t now_ns,
                    struct fleet_action *out, uint32_t max)
{
    struct fleet_round r = {.s = s, .t = t, .now_ns = now_ns, .out = out, .max = max};
    fleet_need(&r);
    fleet_move(&r);
    if (t->leases) {
        fleet_lease(&r);
        fleet_shed(&r);
    }
    return r.n;
}
