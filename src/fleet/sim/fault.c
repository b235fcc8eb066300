/* SPDX-License-Identifier: Apache-2.0 */
/* fault.c: what goes wrong, and what becomes well again. */
#include "src/fleet/sim/world.h"

#define FAULT_LEASE_NS INT64_C(2000000000) /* from a worker's last word to the end of its entry in etcd */

static int64_t fault_seconds(struct sim_world *w, double least, double most)
{
    return (int64_t)((least + (most - least) * sim_unit(&w->random)) * 1e9);
}

static void fault_cut(struct sim_world *w, uint32_t worker)
{
    struct sim_worker *k = &w->workers[worker];
    k->cut = true;
    k->cut_until_ns = w->now_ns + fault_seconds(w, 0.5, 5);
    sim_at(w, w->now_ns + FAULT_LEASE_NS, EV_EXPIRE, worker, 0);
    sim_at(w, k->cut_until_ns, EV_HEAL, worker, SIM_CUT);
}

static void fault_death(struct sim_world *w, uint32_t worker)
{
    w->workers[worker].dead = true;
    sim_worker_die(w, worker);
    sim_at(w, w->now_ns + FAULT_LEASE_NS, EV_EXPIRE, worker, 0);
    sim_at(w, w->now_ns + FAULT_LEASE_NS + fault_seconds(w, 0.5, 5), EV_HEAL, worker, SIM_DEATH);
}

static void fault_on(struct sim_world *w, uint32_t what, uint32_t worker)
{
    struct sim_worker *k = &w->workers[worker];
    switch (what) {
    case SIM_DEATH: fault_death(w, worker); break;
    case SIM_CUT: fault_cut(w, worker); break;
    case SIM_PAUSE: w->paused_until_ns = w->now_ns + fault_seconds(w, 0.5, 5); break;
    case SIM_LIE:
        k->lies = true;
        sim_at(w, w->now_ns + fault_seconds(w, 2, 5), EV_HEAL, worker, SIM_LIE);
        break;
    case SIM_CLOCK:
        k->clock_ns = fault_seconds(w, -0.05, 0.05);
        sim_at(w, w->now_ns + fault_seconds(w, 1, 5), EV_HEAL, worker, SIM_CLOCK);
        break;
    case SIM_DRAIN:
        w->state->workers[worker].health = FLEET_DRAINING;
        sim_at(w, w->now_ns + fault_seconds(w, 2, 5), EV_HEAL, worker, SIM_DRAIN);
        break;
    default: break; /* SIM_LOAD is always on */
    }
}

void sim_fault(struct sim_world *w)
{
    uint32_t kinds = w->o.faults & ~(uint32_t)SIM_LOAD, worker = sim_below(&w->random, w->o.workers);
    if (w->arrived >= w->o.requests || !kinds) return;
    uint32_t what = 1U << sim_below(&w->random, 7);
    while (!(what & kinds)) what = what == SIM_DRAIN ? SIM_DEATH : what << 1;
    const struct sim_worker *k = &w->workers[worker];
    bool well = !k->dead && !k->cut && !k->lies && w->state->workers[worker].health == FLEET_ACTIVE;
    sim_note(w, what, worker);
    if (well) fault_on(w, what, worker);
    sim_at(w, w->now_ns + 1 + (int64_t)sim_exponential(&w->random, w->o.fault_s * 1e9), EV_FAULT, 0, 0);
}

void sim_heal(struct sim_world *w, uint32_t worker, uint32_t what)
{
    struct sim_worker *k = &w->workers[worker];
    struct fleet_worker *b = &w->state->workers[worker];
    if (what == SIM_DEATH) k->dead = false;
    if (what == SIM_CUT) k->cut = false;
    if (what == SIM_LIE) k->lies = false;
    if (what == SIM_CLOCK) k->clock_ns = 0;
    if (k->dead || k->cut) return; /* something else is wrong with it by now */
    GW_ASSERT(b->health != FLEET_GONE || (!b->gpu_used && b->first == FLEET_NONE));
    b->health = FLEET_ACTIVE;
    if (!k->lies) b->late = 0;
}
