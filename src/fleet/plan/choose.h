/* SPDX-License-Identifier: Apache-2.0 */
/* Which of a model's leases a request takes: the less occupied of two, by chance. Clients (src/fleet/client)
 * and the simulator's choose by these functions. */
#ifndef GW_FLEET_PLAN_CHOOSE_H
#define GW_FLEET_PLAN_CHOOSE_H

#include <stdbool.h>
#include <stdint.h>

/* What a choice looks at. */
struct fleet_use {
    uint32_t flying; /* requests of this client there */
    uint32_t slots;  /* of the lease; not 0 */
    bool avoid;      /* an answer was missed there lately */
};

/* Whether a request should go to `a` rather than to `b`. */
static inline bool fleet_choose_first(struct fleet_use a, struct fleet_use b)
{
    if (a.avoid != b.avoid) return b.avoid;
    return (uint64_t)a.flying * b.slots <= (uint64_t)b.flying * a.slots;
}

/* Another number below n (2 or more) than i; `random` is below n - 1. */
static inline uint32_t fleet_choose_other(uint32_t i, uint32_t n, uint32_t random)
{
    return (i + 1 + random) % n;
}

#endif
