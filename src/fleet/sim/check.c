/* SPDX-License-Identifier: Apache-2.0 */
/* check.c: what must hold at every moment. sim_check() looks at memory, leases and sums. The other parts
 * assert the rest where it happens: sim_finish() that a request ends once, worker_lease() that a lease has
 * its model. */
#include "src/fleet/sim/world.h"

/* Memory, and the sums of leases, as they are on one worker. */
static void check_worker(const struct sim_world *w, uint32_t worker)
{
    const struct sim_worker *k = &w->workers[worker];
    const struct fleet_worker *b = &w->state->workers[worker];
    uint32_t pages = 0, slots = 0;
    float share = 0;
    if (k->dead || b->health == FLEET_GONE) return;
    for (uint32_t i = b->first; i != FLEET_NONE; i = w->state->places[i].next_of_worker) {
        const struct sim_place *p = &w->places[i];
        const struct fleet_model *m = &w->state->models[w->state->places[i].model];
        bool here = p->where == FLEET_GPU || p->where == FLEET_LOADING;
        pages += here ? m->pages : 0;
        if (p->leased_at == FLEET_NONE) continue;
        GW_ASSERT(p->where == FLEET_GPU || w->state->places[i].where == FLEET_LEAVING);
        slots += p->until_ns > w->now_ns ? p->slots : 0;
        share += p->until_ns > w->now_ns ? p->share : 0;
    }
    GW_ASSERT(pages == k->gpu_used && pages <= b->gpu_pages);
    GW_ASSERT(slots <= b->slots && share <= 1.001f);
    (void)pages, (void)slots, (void)share;
}

void sim_check(const struct sim_world *w)
{
    uint64_t ended = 0;
    fleet_state_check(w->state);
    for (uint32_t i = 0; i < w->o.workers; i++) check_worker(w, i);
    for (int i = 0; i < SIM_ENDS; i++) ended += w->result->ends[i];
    GW_ASSERT(w->result->requests == w->arrived - w->open && ended == w->result->counted);
    (void)ended;
}
