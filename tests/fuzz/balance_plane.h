/* SPDX-License-Identifier: Apache-2.0 */
/* The process that forwards packets, without packets: one core, an agent, and a state with two services. */
#ifndef TESTS_FUZZ_BALANCE_PLANE_H
#define TESTS_FUZZ_BALANCE_PLANE_H

#include "src/balance/core.h"
#include "src/balance/keep.h"
#include "src/balance/control/agent.h"

struct plane {
    struct bal *bal;
    struct bal_core *core;
    struct gw_bal_global global;
    struct gw_bal_agent *agent;
    uint64_t now;
};

void require(int ok);
/* Begins it at the first call. */
struct plane *plane(void);
/* {"op": "apply", …} with the two services; the caller frees it with json_decref(). */
json_t *plane_services(void);
/* Housekeeping, N times 100 ms. */
void plane_keep(struct plane *p, unsigned times);
/* Flows that the core has. */
uint64_t plane_live(const struct plane *p);

#endif
